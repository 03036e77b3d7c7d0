"""The control plane that is measured on: definitions, a namespace, nodes that KWOK keeps ready; and cleaning up."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from urllib3.exceptions import HTTPError

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from live.api import Api, Plain, live_node, until  # noqa: E402
from live.controlplane import ControlPlane  # noqa: E402
from live.muster_process import create_all  # noqa: E402
from live.part_process import cpu_seconds  # noqa: E402
from muster.model.crd import OURS, PEERS  # noqa: E402

NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
GROUPS = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
_WITHOUT_SCHEDULER = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok")


def as_json(record: Plain) -> str:
    return json.dumps(record, indent=1)


def save_record(record: Plain, file: Path | None) -> None:
    """Writes the record of a benchmark into the file of `--save`, if there is one."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(as_json(record) + "\n", encoding="utf-8")


def node(i: int) -> Plain:
    return live_node(node_name(i), cpu=32, memory="256Gi")


def node_name(i: int) -> str:
    return f"n{i:04d}"


@contextmanager
def scene(
    nodes: int, make: Callable[[int], Plain] = node, flags: Mapping[str, Sequence[str]] | None = None,
    pods_at_once: int = 64,
) -> Iterator[ControlPlane]:  # fmt: skip
    """Everything is there and ready but pods and a scheduler. `flags` and `pods_at_once`: see `ControlPlane`."""
    with ControlPlane(parts=_WITHOUT_SCHEDULER, flags=flags, pods_at_once=pods_at_once) as plane:
        api = plane.api
        for definition in (*OURS, *PEERS):
            api.apply(definition.plain())
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        create_all(api, map(make, range(nodes)))
        until("the account", lambda: not api.gone(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"), 60)
        until("the nodes", lambda: _ready(api) == nodes, 600, 1)
        yield plane


def clean(plane: ControlPlane, *more: str) -> None:
    """No pods, groups and events (and what else is named), and a control plane that has nothing left to do."""
    api = plane.api
    for path in (PODS, GROUPS, EVENTS, *more):
        until(f"{path} is empty", lambda path=path: _emptied(api, path), 600, 0.5)  # type: ignore[misc]
    rests(plane)


def _emptied(api: Api, path: str) -> bool:
    # The API server cuts a call after a minute, which 10,000 pods can take: the next call deletes the rest.
    with suppress(HTTPError):
        api.delete(path + "?gracePeriodSeconds=0")
    return not counted(api, path)


def rests(plane: ControlPlane, seconds: float = 120.0) -> None:
    """Until the API server and KWOK are idle: what one run left to be done is not the next one's."""
    pids = [plane.pid("kube-apiserver"), plane.pid("kwok")]
    end = time.monotonic() + seconds
    while True:
        before = sum(map(cpu_seconds, pids))
        time.sleep(2.0)
        if sum(map(cpu_seconds, pids)) - before < 0.8 or time.monotonic() > end:
            return


def counted(api: Api, path: str) -> int:
    """How many objects are there, without reading them."""
    answer = api.get(f"{path}?limit=1")
    return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount", 0))


def unbound(api: Api) -> int:
    return len(api.get(f"{PODS}?fieldSelector=spec.nodeName=&limit=1")["items"])


def peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return round(int(peak.split()[1]) / 1024, 1)


def _ready(api: Api) -> int:
    return sum(
        any(c["type"] == "Ready" and c["status"] == "True" for c in n["status"].get("conditions", ()))
        and not n["spec"].get("taints")
        for n in api.list("/api/v1/nodes?resourceVersion=0")
    )
