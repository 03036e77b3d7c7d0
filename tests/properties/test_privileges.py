"""Whatever an OverridePolicy does, an edition satisfies every "restricted" control that its template satisfies."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

import msgspec
import pytest

from muster.groups.override import OverrideError, edition
from muster.model.groups import OverridePolicySpec
from oracles.pod_security import every_control, for_container, names, satisfied
from strategies.profiles import times

Plain = dict[str, Any]
ROUNDS = times(1000)
OWN = ("groupmanagement.kubeedge.io/", "nodegroup.groupmanagement.kubeedge.io/", "muster.io/")

SAFE: Plain = {
    "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip
CONTEXT: dict[str, list[Any]] = {  # what a value may become; None: it goes
    "allowPrivilegeEscalation": [None, False, True],
    "privileged": [None, False, True],
    "procMount": [None, "Default", "Unmasked"],
    "runAsNonRoot": [None, True, False],
    "runAsUser": [None, 0, 1000],
    "seccompProfile": [None, {"type": "RuntimeDefault"}, {"type": "Unconfined"}, {"type": "Localhost"}],
    "appArmorProfile": [None, {"type": "RuntimeDefault"}, {"type": "Unconfined"}],
    "seLinuxOptions": [None, {"type": "container_t"}, {"type": "spc_t"}, {"user": "u"}, {"role": "r"}, {"level": "s0"}],
    "windowsOptions": [None, {"hostProcess": False}, {"hostProcess": True}],
    "capabilities": [
        None, {"drop": ["ALL"]}, {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}, {"drop": ["NET_RAW"]},
        {"drop": ["ALL"], "add": ["SYS_ADMIN"]}, {"add": ["ALL"]},
    ],
}  # fmt: skip
CONTAINER: dict[str, list[Any]] = {
    "ports": [None, [{"containerPort": 1}], [{"containerPort": 1, "hostPort": 2}], [{"hostPort": 0}]],
    "livenessProbe": [None, {"httpGet": {"port": 1}}, {"httpGet": {"host": "h"}}, {"tcpSocket": {"host": "h"}}],
    "lifecycle": [None, {"preStop": {"httpGet": {"host": "h"}}}, {"postStart": {"exec": {"command": ["a"]}}}],
    "envFrom": [None, [{"secretRef": {"name": "s"}}], [{"configMapRef": {"name": "c"}}]],
}
SPEC: dict[str, list[Any]] = {
    "hostNetwork": [None, False, True],
    "hostPID": [None, True],
    "hostIPC": [None, True],
    "os": [None, {"name": "linux"}, {"name": "windows"}],
    "serviceAccountName": [None, "default", "admin"],
    "nodeName": [None, "n"],
    "runtimeClassName": [None, "gvisor"],
    "volumes": [
        None, [{"name": "v"}], [{"name": "v", "emptyDir": {}}], [{"name": "v", "hostPath": {"path": "/"}}],
        [{"name": "v", "nfs": {"server": "s"}}], [{"name": "v", "secret": {"secretName": "s"}}],
        [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}], [{"name": "v", "csi": {"driver": "d"}}],
    ],
}  # fmt: skip
SYSCTLS = [None, [{"name": "kernel.shm_rmid_forced", "value": "1"}], [{"name": "kernel.msgmax", "value": "1"}]]
ANNOTATIONS: list[Any] = [
    None, {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}, {"muster.io/x": "y"}, {"a": "b"},
    {"container.apparmor.security.beta.kubernetes.io/a": "localhost/p"},
]  # fmt: skip
FREE: dict[str, list[Any]] = {
    "tolerations": [[{"operator": "Exists"}]],
    "nodeSelector": [{"a": "b"}],
    "terminationGracePeriodSeconds": [0, 5],
    "dnsPolicy": ["Default"],
    "imagePullSecrets": [[{"name": "s"}]],
    "shareProcessNamespace": [True],
    "topologySpreadConstraints": [[]],
}


def changed(random: Random, value: Plain, choices: dict[str, list[Any]], odds: float) -> None:
    for field, values in choices.items():
        if random.random() < odds:
            new = deepcopy(random.choice(values))
            if new is None:
                value.pop(field, None)
            else:
                value[field] = new


def changed_pod(random: Random, pod: Plain, odds: float) -> None:
    spec = pod["spec"]
    changed(random, spec, SPEC, odds)
    changed(random, spec.setdefault("securityContext", {}), {**CONTEXT, "sysctls": SYSCTLS}, odds / 3)
    for field in ("allowPrivilegeEscalation", "privileged", "procMount", "capabilities"):
        spec["securityContext"].pop(field, None)  # a pod's context has none of them
    changed(random, pod["metadata"], {"annotations": ANNOTATIONS}, odds)
    for container in (*spec["containers"], *spec["initContainers"]):
        changed(random, container, CONTAINER, odds)
        changed(random, container.setdefault("securityContext", {}), CONTEXT, odds)
        if random.random() < odds / 4:
            container["name"] += "x"


def template(random: Random) -> Plain:
    named = [{"name": name, "image": "i", "securityContext": deepcopy(SAFE)} for name in ("a", "b", "init")]
    pod: Plain = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": named[:2], "initContainers": named[2:]}}
    changed_pod(random, pod, random.choice([0.0, 0.05, 0.3]))
    return pod


def rules(before: Plain, after: Plain) -> OverridePolicySpec:
    """Overrides that make the one of the other."""
    entries: list[Plain] = []
    for top in ("metadata", "spec"):
        for field in {**before[top], **after[top]}:
            if field not in after[top]:
                entries.append({"path": f"/{top}/{field}", "operator": "remove"})
            elif after[top][field] != before[top].get(field):
                entries.append({"path": f"/{top}/{field}", "operator": "add", "value": after[top][field]})
    return msgspec.convert({"overrideRules": [{"plaintext": entries}]}, OverridePolicySpec)


def referred(pod: Plain) -> Iterator[tuple[str, Any]]:
    spec = pod["spec"]
    yield "account", spec.get("serviceAccountName") or "default"
    yield "runtime", spec.get("runtimeClassName")
    for volume in spec.get("volumes") or []:
        for kind in ("secret", "persistentVolumeClaim", "hostPath", "csi"):
            if kind in volume:
                yield kind, str(volume[kind])
    for container in (*spec["containers"], *spec["initContainers"]):
        for source in container.get("envFrom") or []:
            if "secretRef" in source:
                yield "secret", str({"secretName": source["secretRef"]["name"]})
    for sysctl in (spec.get("securityContext") or {}).get("sysctls") or []:
        yield "sysctl", sysctl["name"]
    if "nodeName" in spec:
        yield "node", spec["nodeName"]
    for name, value in (pod["metadata"].get("annotations") or {}).items():
        if name.startswith(OWN):
            yield name, value


@pytest.mark.parametrize("seed", range(4))
def test_an_edition_satisfies_what_its_template_satisfies_and_refers_to_nothing_new(seed: int) -> None:
    random = Random(seed)
    made = refused = 0
    for _ in range(ROUNDS):
        before = template(random)
        after = deepcopy(before)
        changed_pod(random, after, random.choice([0.02, 0.05, 0.2]))
        try:
            got = edition(rules(before, after), ["g"], before).template
        except OverrideError as fault:
            assert "must not gain privileges" in str(fault)
            refused += 1
            continue
        made += got != before
        assert got == after
        assert satisfied(before) <= satisfied(after), (before, after)
        for name in names(after):
            had = for_container(before, name) if name in names(before) else every_control()
            assert had <= for_container(after, name), (name, before, after)
        assert set(referred(after)) <= set(referred(before)), (before, after)
    # Both happen often, or nothing is tested.
    assert made > ROUNDS / 20 and refused > ROUNDS / 20, (made, refused)


@pytest.mark.parametrize("seed", range(2))
def test_free_fields_and_fewer_privileges_are_never_refused(seed: int) -> None:
    random = Random(seed)
    for _ in range(ROUNDS // 3):
        before = template(random)
        after = deepcopy(before)
        changed(random, after["spec"], FREE, 0.5)
        for container in (*after["spec"]["containers"], *after["spec"]["initContainers"]):
            if random.random() < 0.3 and (before["spec"].get("os") or {}).get("name") != "windows":
                container["securityContext"] |= {**deepcopy(SAFE), "runAsUser": 1000}
            container["args"] = ["x"]
        assert edition(rules(before, after), ["g"], before).template == after
