"""What tests of `muster webhook` share: the part itself, the design's two cities, policies, and a Service before it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from builders.manifests import manifest
from live.api import Api, Plain, place, until
from live.conftest import MakeNodes
from live.node_groups import template, workload
from live.part_process import Part

DOMAIN = "groupmanagement.kubeedge.io"
ASSIGNED, EDITION, ADMITTED = f"{DOMAIN}/nodegroup", f"{DOMAIN}/edition", f"{DOMAIN}/admission"
REGISTERED = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/muster-webhook"
BOUND = {
    f"{DOMAIN}/{word}-{kind}policy": name
    for word in ("required", "binding")
    for kind, name in (("propagation", "pp"), ("override", "op"))
}
DIVIDED = {label: value for label, value in BOUND.items() if "propagation" in label}


def webhook_part(kubeconfig: Path, namespace: str, port: int, *arguments: str, at: int = 0) -> Part:
    """The part on a port; with `at` the API server reaches it by another one."""
    return Part(
        "webhook", kubeconfig, "--url", f"https://127.0.0.1:{at or port}", "--webhook-host", "127.0.0.1",
        "--webhook-port", str(port), "--check-period", "0.5", "--applications", f"{namespace}/groupmanagement-config",
        *(arguments or ("--no-leader-elect",)),
    )  # fmt: skip


def unregister(api: Api) -> None:
    for kind in ("mutating", "validating"):
        api.delete(f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/muster-webhook")


def thing(kind: str, name: str, namespace: str = "", **parts: object) -> Plain:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{DOMAIN}/v1alpha1", "kind": kind, "metadata": meta, **parts}


def weights(namespace: str, beijing: int = 2, hangzhou: int = 3) -> Plain:
    entries = [{"nodeGroupNames": ["Beijing"], "weight": beijing}, {"nodeGroupNames": ["Hangzhou"], "weight": hangzhou}]
    spec = {"propagationStrategy": "StaticWeight", "staticWeightList": entries}
    return thing("PropagationPolicy", "pp", namespace, spec=spec)


def ranges(namespace: str, beijing: tuple[int, int], hangzhou: tuple[int, int]) -> Plain:
    entries = [
        {"nodeGroupNames": [city], "min": least, "max": most}
        for city, (least, most) in (("Beijing", beijing), ("Hangzhou", hangzhou))
    ]
    return thing("PropagationPolicy", "pp", namespace, spec={"propagationStrategy": "NumRange", "numRange": entries})


def editions(namespace: str, *, args: bool = True) -> Plain:
    """The design's registries, and a flag that no running pod could be given."""
    rules: list[Plain] = [
        {
            "targetNodeGroup": [city],
            "imageOverrider": [{"component": "Registry", "operator": "replace", "value": registry}],
        }
        for city, registry in (("Beijing", "beijing.registry.io"), ("Hangzhou", "hangzhou.registry.io"))
    ]
    for rule in rules if args else ():
        rule["argsOverrider"] = [{"containerName": "nginx", "operator": "add", "value": ["--city={{nodegroup}}"]}]
    return thing("OverridePolicy", "op", namespace, spec={"overrideRules": rules})


def deployment(namespace: str, replicas: int, labels: dict[str, str], name: str = "nginx", **spec: object) -> Plain:
    return workload("Deployment", namespace, replicas, labels, name, template=template(name, **spec))


def alone(namespace: str, name: str, labels: dict[str, str]) -> Plain:
    """A pod by itself, which is its own application."""
    return manifest("v1", "Pod", name, namespace=namespace, labels=labels, spec=template()["spec"])


def pods(api: Api, namespace: str, app: str = "") -> list[Plain]:
    found = api.list(f"/api/v1/namespaces/{namespace}/pods")
    return [pod for pod in found if app in ("", pod["metadata"]["labels"].get("app"))]


def made(api: Api, namespace: str, count: int, app: str = "") -> list[Plain]:
    """The pods, once there are so many."""
    return until(f"{count} pods", lambda: found if len(found := pods(api, namespace, app)) == count else None, 60)


def running(api: Api, namespace: str, count: int, app: str = "") -> list[Plain]:
    def all_run() -> list[Plain] | None:
        found = [p for p in pods(api, namespace, app) if p["status"]["phase"] == "Running"]
        return found if len(found) == count else None

    return until(f"{count} pods running", all_run, 40)


def groups(found: list[Plain]) -> dict[str | None, int]:
    """How many pods were made for each group."""
    return dict(Counter(pod["metadata"]["labels"].get(ASSIGNED) for pod in found))


def by_city(found: list[Plain]) -> dict[str, int]:
    return dict(Counter(pod["spec"]["nodeName"].rpartition("-")[0] for pod in found))


class Follower:
    """What a Service does: connections to its port go to the part that is ready, if there is one."""

    def __init__(self, port: int, parts: Sequence[tuple[Part, int]]) -> None:
        """`parts`: each with the port it serves on."""
        self._only: Part | None = None
        self._open: set[socket.socket] = set()
        self._parts = parts
        self._listening = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()
        self.send_to(None)

    def send_to(self, only: Part | None) -> None:
        """Whether it is ready or not (None: the one that is); connections that are open are cut."""
        self._only = only
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                threading.Thread(target=self._join, args=(near,), daemon=True).start()

    def _is_ready(self, part: Part) -> bool:
        if self._only is not None:
            return part is self._only
        return bool(part.started) and part.probe("/readyz")[0] == 200

    def _join(self, near: socket.socket) -> None:
        ready = [port for part, port in self._parts if self._is_ready(part)]
        self._open.add(near)
        with near:
            for port in ready[:1]:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as far:
                    back = threading.Thread(target=_copy, args=(far, near), daemon=True)
                    back.start()
                    _copy(near, far)
                    back.join(5)
        self._open.discard(near)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def two_cities(api: Api, namespace: str, make_nodes: MakeNodes, **nodes: int) -> Iterator[str]:
    """The design's two groups with so many nodes each, and a namespace whose pods are admitted by muster."""
    api.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {f"{DOMAIN}/webhook": "enabled"}}})
    there = []
    for city, count in nodes.items():
        make_nodes(count, prefix=f"{city}-", labels={"location": city, f"nodegroup.{DOMAIN}/{city}": ""})
        there.append(api.create(thing("NodeGroup", city, spec={"matchLabels": {"location": city}})))
    time.sleep(0.5)
    yield namespace
    for group in there:
        api.delete(place(group))
