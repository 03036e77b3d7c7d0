"""Writes a trace of the jobs that succeeded, from the PodGroups and pods that `kubectl get -o json` printed."""

import csv
import json
import sys

from muster.model.meta import seconds
from muster.model.quantity import milli, units

COLUMNS = ["name", "submit", "duration", "pods", "minimum", "cpu_milli", "memory", "gpus", "priority", "queue"]
GPU = "nvidia.com/gpu"


def key(obj, name):
    return obj["metadata"]["namespace"], name


def scheduled(pod):
    found = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled" and c["status"] == "True"]
    return seconds(found[0]["lastTransitionTime"])


def ended(pod):
    return max(seconds(c["state"]["terminated"]["finishedAt"]) for c in pod["status"]["containerStatuses"])


def requested(pods, resource, amount):
    containers = [c for pod in pods for c in pod["spec"]["containers"]]
    return sum(amount(c.get("resources", {}).get("requests", {}).get(resource, 0)) for c in containers)


groups, pods = {}, {}
for obj in json.load(sys.stdin)["items"]:
    if obj["kind"] == "PodGroup":
        groups[key(obj, obj["metadata"]["name"])] = obj
    else:
        group = obj["metadata"].get("annotations", {}).get("scheduling.k8s.io/group-name")
        pods.setdefault(key(obj, group), []).append(obj)
out = csv.writer(sys.stdout, lineterminator="\n")
out.writerow(COLUMNS)
for (namespace, name), group in groups.items():
    members = pods.get((namespace, name), [])
    if not members or any(pod["status"]["phase"] != "Succeeded" for pod in members):
        continue
    minimum = group["spec"].get("minMember", len(members))
    start = sorted(map(scheduled, members))[minimum - 1]
    out.writerow([
        f"{namespace}-{name}", seconds(group["metadata"]["creationTimestamp"]), max(map(ended, members)) - start,
        len(members), minimum, requested(members, "cpu", milli), requested(members, "memory", units),
        requested(members, GPU, units), members[0]["spec"].get("priority", 0), group["spec"].get("queue", "default"),
    ])  # fmt: skip
