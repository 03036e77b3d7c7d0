"""The design's own example on a real control plane: cities of nodes, policies, applications, what became of them."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from threading import Thread

import urllib3

from live.api import Api, Plain, until
from live.controlplane import ControlPlane
from live.part_process import Part

DOMAIN = "groupmanagement.kubeedge.io"
REQUIRED = {f"{DOMAIN}/required-propagationpolicy": "pp"}
BOTH = {**REQUIRED, f"{DOMAIN}/required-overridepolicy": "op"}
BINDING = f"{DOMAIN}/binding-propagationpolicy"
LEASE = ("--lease-duration", "3", "--lease-renew-deadline", "2", "--lease-retry-period", "0.5")


class Controllers(Part):
    """`muster controllers`, quick to settle."""

    def __init__(self, kubeconfig: Path, namespace: str, *arguments: str) -> None:
        times = ("--settle", "1", "--rest", "0.5")
        super().__init__(
            "controllers", kubeconfig, "--no-leader-elect", "--applications", f"{namespace}/groupmanagement-config",
            *times, *arguments,
        )  # fmt: skip


class Extender(Part):
    """`muster extender` on the port that kube-scheduler knows."""

    def __init__(
        self, kubeconfig: Path, port: int, namespace: str, *arguments: str, wait: bool = True
    ) -> None:
        super().__init__("extender", kubeconfig)
        self._wait = wait
        program = [sys.executable, "-c", "from muster.cli import main; main()", "extender"]
        where = ["--kubeconfig", str(kubeconfig), "--port", str(port), "-v", "4"]
        configured = ["--applications", f"{namespace}/groupmanagement-config"]
        self._command = [*program, *where, *configured, *(arguments or ("--no-leader-elect",))]

    def start(self, wait: bool = True) -> None:
        super().start(wait and self._wait)


def thing(kind: str, name: str, namespace: str = "", **parts: object) -> Plain:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{DOMAIN}/v1alpha1", "kind": kind, "metadata": meta, **parts}


def weights(namespace: str, name: str = "pp", **cities: int) -> Plain:
    entries = [{"nodeGroupNames": [city], "weight": weight} for city, weight in cities.items()]
    spec = {"propagationStrategy": "StaticWeight", "staticWeightList": entries}
    return thing("PropagationPolicy", name, namespace, spec=spec)


def ranges(namespace: str, **cities: tuple[int, int]) -> Plain:
    entries = [{"nodeGroupNames": [city], "min": least, "max": most} for city, (least, most) in cities.items()]
    return thing("PropagationPolicy", "pp", namespace, spec={"propagationStrategy": "NumRange", "numRange": entries})


def registries(namespace: str) -> Plain:
    """The design's rules: each city has its own registry."""
    rules = []
    for city in ("Beijing", "Hangzhou"):
        change = {"component": "Registry", "operator": "replace", "value": f"{city.lower()}.registry.io"}
        rules.append({"targetNodeGroup": [city], "imageOverrider": [change]})
    return thing("OverridePolicy", "op", namespace, spec={"overrideRules": rules})


def template(app: str = "nginx", image: str = "nginx:1.14", **spec: object) -> Plain:
    containers = [{"name": "nginx", "image": image}]
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 0, **spec},
    }


def workload(
    kind: str, namespace: str, replicas: int, labels: dict[str, str], name: str = "nginx", **spec: object
) -> Plain:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name), **spec
        },
    }  # fmt: skip


def path(namespace: str, kind: str = "deployments", name: str = "nginx") -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/{kind}/{name}"


def policy_path(namespace: str, kind: str = "propagationpolicies", name: str = "pp") -> str:
    return f"/apis/{DOMAIN}/v1alpha1/namespaces/{namespace}/{kind}/{name}"


def pods(api: Api, namespace: str, app: str = "nginx") -> list[Plain]:
    found = api.list(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{app}")
    return [p for p in found if "deletionTimestamp" not in p["metadata"]]


def by_city(found: list[Plain]) -> dict[str, int]:
    """City → running pods; nodes are called after their city."""
    return dict(Counter(city_of(pod) for pod in found if pod["spec"].get("nodeName")))


def city_of(pod: Plain) -> str:
    return str(pod["spec"]["nodeName"]).rpartition("-")[0]


def divided(api: Api, namespace: str, seconds: float = 60.0, app: str = "nginx", **cities: int) -> list[Plain]:
    """The pods, once they run as many in each city; and they stay so."""
    wanted = {city: n for city, n in cities.items() if n}

    def as_wanted() -> list[Plain] | None:
        found = pods(api, namespace, app)
        running = [pod for pod in found if pod["status"]["phase"] == "Running"]
        return found if by_city(running) == wanted and len(running) == len(found) else None

    try:
        found = until(f"{wanted}", as_wanted, seconds, 0.2)
    except AssertionError as late:
        now = pods(api, namespace, app)
        waiting = [p for p in now if not p["spec"].get("nodeName")]
        message = [c.get("message") for p in waiting[:1] for c in p["status"].get("conditions", ())]
        phases = [(p["metadata"]["name"], p["status"]["phase"], p["metadata"].get("deletionTimestamp")) for p in now]
        raise AssertionError(f"{late}: {by_city(now)}, {len(waiting)} wait: {message}; {phases}") from None
    time.sleep(1)
    assert as_wanted(), f"did not stay {wanted}: {by_city(pods(api, namespace, app))}"
    return found


def all_local(api: Api, namespace: str, app: str = "nginx") -> None:
    """Every pod has its image from the registry of its own city."""

    def local(pod: Plain) -> bool:
        placed = bool(pod["spec"].get("nodeName"))
        return placed and bool(pod["spec"]["containers"][0]["image"] == f"{city_of(pod)}.registry.io/nginx:1.14")

    until("all images", lambda: all(local(pod) for pod in pods(api, namespace, app)))


def satisfied(api: Api, namespace: str, kind: str = "propagationpolicies", name: str = "pp") -> bool:
    conditions = api.get(policy_path(namespace, kind, name)).get("status", {}).get("conditions", ())
    return any(c["type"] == "Satisfied" and c["status"] == "True" for c in conditions)


def reasons(api: Api, namespace: str) -> Counter[str]:
    """How often each reason was reported in an Event."""
    found: Counter[str] = Counter()
    for event in api.list(f"/api/v1/namespaces/{namespace}/events"):
        found[event["reason"]] += event.get("count", 1)
    return found


class Watcher:
    """Counts from the API's history: `most` is the largest number of pods each city ever had at once."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.most: dict[str, int] = {}
        self._plane = plane
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._on: dict[str, str] = {}
        self._last = time.monotonic()
        self._over = False
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        until("the last event", lambda: time.monotonic() > self._last + 2, 120, 0.5)
        self._over = True

    def _watch(self) -> None:
        api = self._plane.api
        headers = {"Authorization": f"Bearer {api.token}"}
        pool = urllib3.PoolManager(ca_certs=str(api.ca), timeout=urllib3.Timeout(connect=5, read=600))
        since = api.get(self._path)["metadata"]["resourceVersion"]
        while not self._over:  # the API server ends a watch whose reader does not keep up
            query = f"?watch=1&timeoutSeconds=600&resourceVersion={since}"
            answer = pool.request("GET", api.url + self._path + query, headers=headers, preload_content=False)
            held = b""
            with suppress(urllib3.exceptions.ProtocolError):
                for part in answer.stream(1 << 16):
                    *lines, held = (held + part).split(b"\n")
                    for line in lines:
                        since = self._take(json.loads(line))

    def _take(self, event: Plain) -> str:
        pod = event["object"]
        name = pod["metadata"]["name"]
        self._last = time.monotonic()
        self._on.pop(name, None)
        goes = event["type"] == "DELETED" or "deletionTimestamp" in pod["metadata"]
        if pod["spec"].get("nodeName") and not goes:
            self._on[name] = city_of(pod)
            for city, n in Counter(self._on.values()).items():
                self.most[city] = max(n, self.most.get(city, 0))
        return str(pod["metadata"]["resourceVersion"])
