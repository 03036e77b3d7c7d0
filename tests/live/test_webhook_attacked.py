"""`muster webhook` under attack: forged admission requests, many connections; and with the API server's certificate."""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import urllib3

from fakes.flood import Flood, Memory
from live.accounts import account_in
from live.api import Api, Plain, until
from live.conftest import MakeNodes, OwnPlane, served
from live.controlplane import ControlPlane
from live.node_groups import LEASE
from live.part_process import Part, free_port
from live.webhook_site import (
    ASSIGNED,
    BOUND,
    DIVIDED,
    EDITION,
    Follower,
    deployment,
    editions,
    groups,
    made,
    pods,
    running,
    two_cities,
    unregister,
    webhook_part,
    weights,
)
from muster.model.crd import OURS, PEERS

PAGE = (Path(__file__).parents[2] / "docs/tasks/webhook-and-gate.md").read_text(encoding="utf-8")
LIMIT_MIB = 1024  # what `muster manifests` allows the webhook


@pytest.fixture
def cities(api: Api, namespace: str, make_nodes: MakeNodes) -> Iterator[str]:
    with two_cities(api, namespace, make_nodes, hangzhou=2, beijing=3) as there:
        api.create(weights(namespace, 1, 1))
        api.create(editions(namespace))
        time.sleep(0.3)
        yield there


def forged(pod: Plain) -> bytes:
    """What the API server would send for another pod like this one."""
    meta = {**pod["metadata"], "name": f"forged-{uuid.uuid4().hex[:8]}"}
    for name in ("uid", "annotations", "labels", "resourceVersion"):
        meta.pop(name, None)
    request = {
        "uid": str(uuid.uuid4()), "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE",
        "namespace": meta["namespace"], "object": {**pod, "metadata": {**meta, "labels": {"app": "nginx"}}},
    }  # fmt: skip
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review).encode()


class Forger:
    """Sends forged requests all the while; `answered` counts those that were."""

    def __init__(self, port: int, pod: Plain) -> None:
        self.answered = 0
        self._url = f"https://127.0.0.1:{port}/mutate"
        self._pod = pod
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(3)]

    def __enter__(self) -> Forger:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for one in self._threads:
            one.join(10)

    def _run(self) -> None:
        with urllib3.PoolManager(cert_reqs="CERT_NONE", assert_hostname=False, retries=False) as pool:
            while not self._over.wait(0.02):
                with suppress(urllib3.exceptions.HTTPError):
                    self.answered += pool.request("POST", self._url, body=forged(self._pod), timeout=5).status == 200


@pytest.mark.usefixtures("crds")
class TestAnonymousRequests:
    """The API server shows no certificate, as it is by default."""

    @pytest.fixture
    def webhook(self, control_plane: ControlPlane, api: Api, namespace: str) -> Iterator[Part]:
        with webhook_part(account_in(control_plane, namespace, "webhook"), namespace, free_port()) as part:
            yield part
        unregister(api)

    @pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
    def test_forged_requests_use_up_no_places_and_every_pod_has_its_edition(
        self, webhook: Part, cities: str, api: Api
    ) -> None:
        """They begin before the pods are made, and go on: by requests alone every group is full all the time."""
        api.create(deployment(cities, 0, BOUND))
        replica_set = until("the ReplicaSet", lambda: api.list(f"/apis/apps/v1/namespaces/{cities}/replicasets"))[0]
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True, "blockOwnerDeletion": True}
        owner |= {"name": replica_set["metadata"]["name"], "uid": replica_set["metadata"]["uid"]}
        template = replica_set["spec"]["template"]
        pod = {**template, "metadata": {"namespace": cities, "ownerReferences": [owner]}}
        with Forger(int(webhook.started["port"]), pod) as forger:
            api.merge(f"/apis/apps/v1/namespaces/{cities}/deployments/nginx", {"spec": {"replicas": 10}})
            until("forged requests", lambda: forger.answered > 50)
            found = running(api, cities, 10)
            before = forger.answered
            until("more of them", lambda: forger.answered > before)
        for one in found:
            city = one["spec"]["nodeName"].rpartition("-")[0]
            assert one["metadata"]["labels"][ASSIGNED] == city
            assert one["spec"]["containers"][0]["args"] == [f"--city={city}"]
            assert one["metadata"]["annotations"][EDITION].startswith(f"op@1/{city}/")
        until("no reservations left", lambda: webhook.metric("muster_webhook_reservations") == 0, 40)

    @pytest.mark.parametrize("connections", [40, 200])
    def test_many_connections_take_no_memory_and_pods_are_admitted_all_the_while(
        self, webhook: Part, cities: str, api: Api, connections: int
    ) -> None:
        anyone = ssl.create_default_context()
        anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
        large = 8 << 20
        head = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"x","object":{"spec":['
        hostile = head + b"{}," * 2_500_000 + b"{}]}}}"
        port = int(webhook.started["port"])
        with (
            Memory(webhook.pid) as memory,
            Flood(port, connections // 2, announced=large, size=large - 100, path="/mutate", tls=anyone) as fast,
            Flood(port, connections // 2, announced=len(hostile), size=0, first=hostile, path="/mutate", tls=anyone)
            as slow,
        ):
            until("the attack", lambda: fast.opened + slow.opened > connections, 60)
            for i in range(5):
                # Retried as a controller does it: under load the API server may give up on a webhook.
                api.create(deployment(cities, 1, DIVIDED, f"app-{i}"))
            found = made(api, cities, 5)
        assert webhook.running and webhook.metric("muster_webhook_connections") <= 64
        admitted = [pod for pod in found if ASSIGNED in pod["metadata"]["labels"]]
        assert len(admitted) == 5, groups(found)
        assert memory.peak < LIMIT_MIB * 0.75, f"{memory.peak:.0f} MiB"


class TestApiServerWithCertificate(OwnPlane):
    """By the AdmissionConfiguration that the page shows."""

    at: int

    @pytest.fixture(scope="class")
    @classmethod
    def control_plane(cls) -> Iterator[ControlPlane]:
        cls.at = free_port()
        plane = ControlPlane(flags={"kube-apiserver": ["--admission-control-config-file=admission.yaml"]})
        for text in re.findall(r"```yaml\n(# /etc/kubernetes/muster/.*?)```", PAGE, re.DOTALL):
            name = text.splitlines()[0].rpartition("/")[2]
            for message, here in {
                "/etc/kubernetes/muster/webhook-client.crt": str(plane.folder / "pki/admin.crt"),
                "/etc/kubernetes/muster/webhook-client.key": str(plane.folder / "pki/admin.key"),
                "/etc/kubernetes/muster": str(plane.folder),
                "muster-webhook.muster-system.svc": f"127.0.0.1:{cls.at}",
            }.items():
                text = text.replace(message, here)
            (plane.folder / name).write_text(text, encoding="utf-8")
        with plane:
            for definition in (*OURS, *PEERS):
                plane.api.apply(definition.plain())
                path = f"/apis/{definition.api_version}/{definition.plural}"
                until(f"{path} to be served", lambda path=path: served(plane.api, path))
            time.sleep(2)
            yield plane

    def test_two_replicas_answer_the_api_server_and_nobody_else(
        self, control_plane: ControlPlane, api: Api, cities: str
    ) -> None:
        ports = (free_port(), free_port())
        own = account_in(control_plane, cities, "webhook")
        given = ("--client-ca-file", str(control_plane.ca), "--lease-name", f"{cities}/muster-webhook", *LEASE)
        both = [webhook_part(own, cities, port, *given, at=self.at) for port in ports]
        service = Follower(self.at, list(zip(both, ports, strict=True)))
        try:
            for part in both:
                part.start(wait=False)
            first = until("one to be active", lambda: next((p for p in both if p.probe("/readyz")[0] == 200), None))
            until("both to be known", lambda: all(p.metric("muster_webhook_registrations_total") for p in both))
            api.create(deployment(cities, 10, BOUND))
            assert groups(running(api, cities, 10)) == {"beijing": 5, "hangzhou": 5}
            with urllib3.PoolManager(cert_reqs="CERT_NONE", retries=False) as pool:
                for port in ports:
                    with pytest.raises(urllib3.exceptions.HTTPError):
                        pool.request("POST", f"https://127.0.0.1:{port}/mutate", body=forged(pods(api, cities)[0]))
            first.kill()
            until("the other one", lambda: [p for p in both if p.running and p.probe("/readyz")[0] == 200], 60)
            api.create(deployment(cities, 10, BOUND, "later"))
            assert groups(made(api, cities, 10, "later")) == {"beijing": 5, "hangzhou": 5}
        finally:
            for part in both:
                part.stop()
            service.close()
            unregister(api)


