"""`muster scheduler` as a process of its own, and the objects that its tests make and look at."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from builders.manifests import GROUP_ANNOTATION, Manifest, group, pod, typed
from builders.scheduler_objects import open_journals
from live.api import Api, Plain, until
from live.part_process import Part
from muster.model.quantity import milli, units

ON_NODE = ("Pending", "Running")


class Scheduler(Part):
    """One replica of `muster scheduler`."""

    def __init__(
        self, kubeconfig: Path | str, *arguments: str, config: str = "", elect: bool = False, lease: str = "",
        quick: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__("scheduler", kubeconfig, environment=environment)
        self.folder = Path(self._folder.name)
        self.config = self.folder / "scheduler.yaml"
        if config:
            self.config.write_text(config, encoding="utf-8")
            self._command += ["-c", str(self.config)]
        if elect:
            self._command += ["--lease-name", lease]
            if quick:
                self._command += ["--lease-duration", "3", "--lease-renew-deadline", "2", "--lease-retry-period", "0.5"]
        else:
            self._command += ["--no-leader-elect"]
        self._command += arguments

    def pause(self) -> None:
        """SIGSTOP: no thread of it runs until `go_on`."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    @property
    def paused(self) -> bool:
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8")
        return stat.rpartition(")")[2].split()[0] == "T"

    def leads(self) -> bool:
        return self.metric("muster_leader") == 1

    def api_calls(self) -> Counter[str]:
        """Method and resource → answered calls so far."""
        found: Counter[str] = Counter()
        for line in self.probe("/metrics")[1].splitlines():
            name, _, rest = line.partition("{")
            if name == "muster_api_requests_total":
                labels = dict(pair.split("=") for pair in rest.partition("}")[0].replace('"', "").split(","))
                found[f"{labels['method']} {labels['resource']}"] += int(float(line.rpartition(" ")[2]))
        return found


def muster_pod(
    namespace: str, name: str, group: str = "", cpu: str = "1", *, labels: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None, **more: Any,
) -> Manifest:  # fmt: skip
    """A pod for muster, as the API server accepts it; `limits` are requested, too."""
    return pod(
        name, group, namespace=namespace, requests={"cpu": cpu, "memory": "64Mi", **(limits or {})}, limits=limits,
        labels={"app": name} if labels is None else labels, container={"image": "app:1"},
        **{"schedulerName": "muster", "terminationGracePeriodSeconds": 1, **more},
    )  # fmt: skip


def volume_of(claim: str) -> Plain:
    """A volume of a pod, by its claim."""
    return {"name": "data", "persistentVolumeClaim": {"claimName": claim}}


def create_all(api: Api, objects: Iterable[Plain], threads: int = 16) -> None:
    """Many at once, in no particular order."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(api.create, objects))


def gang(api: Api, namespace: str, name: str, size: int, members: int | None = None, **of_pod: Any) -> list[str]:
    """A group and its pods; their names."""
    queue_name = str(of_pod.pop("queue", "default"))
    minimum = size if members is None else members
    api.create(group(name, queue_name, namespace=namespace, minMember=minimum))
    names = [f"{name}-{i}" for i in range(size)]
    create_all(api, [muster_pod(namespace, n, name, **of_pod) for n in names], 8)
    return names


def node_full_of_low(api: Api, namespace: str, make_nodes: Callable[..., object], scheduler: Scheduler) -> None:
    """A node that the gang `low` fills, whose two pods may be evicted one by one; the scheduler has ended."""
    make_nodes(1, prefix="full", resources={"cpu": "4"})
    names = gang(api, namespace, "low", 2, 0, cpu="2")
    with scheduler as ahead:
        all_placed(api, namespace, names)
        assert ahead.stop() == 0


def placed(api: Api, namespace: str) -> dict[str, str]:
    """Pod → its node, of those that have one."""
    pods = api.list(f"/api/v1/namespaces/{namespace}/pods")
    return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods if p["spec"].get("nodeName")}


def all_placed(api: Api, namespace: str, names: Sequence[str], seconds: float = 20.0) -> dict[str, str]:
    wanted = set(names)
    try:
        return until(
            f"{len(names)} pods placed",
            lambda: found if wanted <= (found := placed(api, namespace)).keys() else None,
            seconds, 0.1,
        )  # fmt: skip
    except AssertionError as late:
        waiting = sorted(wanted - placed(api, namespace).keys())
        message = condition(api, namespace, waiting[0]).get("message") if waiting else "all are there now"
        raise AssertionError(f"{late}: {len(waiting)} of them wait; {waiting[:1]}: {message}") from None


def stays_unplaced(api: Api, namespace: str, names: Sequence[str], seconds: float = 1.5) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert not set(names) & placed(api, namespace).keys()
        time.sleep(0.2)


def condition(api: Api, namespace: str, name: str) -> Plain:
    """The pod's PodScheduled condition; empty if it has none."""
    status = api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["status"]
    return next((c for c in status.get("conditions", ()) if c["type"] == "PodScheduled"), {})


def read_group(api: Api, namespace: str, name: str) -> Plain:
    return api.get(f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups/{name}")


def read_groups(api: Api, namespace: str) -> list[Plain]:
    return api.list(f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups")


def names_of(objects: list[Plain]) -> list[str]:
    return [one["metadata"]["name"] for one in objects]


def events(api: Api, namespace: str, name: str, reason: str) -> list[Plain]:
    found = api.list(f"/api/v1/namespaces/{namespace}/events")
    return [e for e in found if e["involvedObject"]["name"] == name and e["reason"] == reason]


def assert_sound(api: Api, namespace: str = "") -> None:
    """No node holds more than it offers; every gang is whole or absent; no journal is open."""
    nodes = {n["metadata"]["name"]: n["status"]["allocatable"] for n in api.list("/api/v1/nodes")}
    used: dict[str, Counter[str]] = {name: Counter() for name in nodes}
    bound: Counter[tuple[str, str]] = Counter()
    for one in api.list("/api/v1/pods"):
        node = one["spec"].get("nodeName")
        if not node or one["status"]["phase"] not in ON_NODE:
            continue
        bound[one["metadata"]["namespace"], one["metadata"].get("annotations", {}).get(GROUP_ANNOTATION, "")] += 1
        if node in used:
            used[node]["pods"] += 1
            for container in one["spec"]["containers"]:
                for name, value in container.get("resources", {}).get("requests", {}).items():
                    used[node][name] += units(value) if name == "memory" else milli(value)
    for name, amounts in used.items():
        for resource, amount in amounts.items():
            offered = nodes[name][resource]
            most = units(offered) if resource in ("memory", "pods") else milli(offered)
            assert amount <= most, f"{name} holds {amount} of {resource}, it offers {most}"
    for one in api.list("/apis/scheduling.volcano.sh/v1beta1/podgroups"):
        meta = one["metadata"]
        if namespace and meta["namespace"] != namespace:
            continue
        count = bound[meta["namespace"], meta["name"]]
        assert count == 0 or count >= one["spec"]["minMember"], f"{meta['name']} has {count} of its pods"
    assert not journals(api, namespace)


def journals(api: Api, namespace: str) -> list[str]:
    """The pods of the namespace (of all: "") with a journal of a commit that was not finished."""
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    return open_journals(typed({"apiVersion": "v1", "kind": "Pod", **one}) for one in api.list(path))
