"""`muster extender` under attack, asked by a real kube-scheduler: clients without a certificate, forged requests."""

from __future__ import annotations

import ssl
import time
from itertools import count
from pathlib import Path

import pytest
import urllib3

from builders.manifests import pod
from fakes.flood import Flood, Memory
from live.api import Api, Plain, Refused, until
from live.conftest import HOME
from live.controlplane import ControlPlane
from live.group_site import Site, Sited
from live.node_groups import BINDING, LEASE, REQUIRED, Extender, Watcher, divided, pods, weights, workload
from live.part_process import free_port
from live.webhook_site import Follower
from muster.cli.install import PARTS, Settings, part_objects
from muster.config.loader import DEFAULT

BOUND = {**REQUIRED, BINDING: "pp"}
LIMIT_MIB = 1024  # what `muster manifests` allows the extender
GATE = "example.com/later"
HEAD = b'{"Pod":{"spec":{"containers":['
HOSTILE = HEAD + b"{}," * 600_000 + b'{}]}},"NodeNames":[]}'


def secured(plane: ControlPlane) -> tuple[str, ...]:
    """As `muster manifests` starts it."""
    certificate, key = plane.authority.server("extender")
    return (
        "--host", "0.0.0.0", "--tls-cert-file", str(certificate), "--tls-private-key-file", str(key),
        "--client-ca-file", str(plane.ca), "--metrics-port", "0",
    )  # fmt: skip


class OverTls(Sited):
    """A control plane whose kube-scheduler shows a certificate."""

    scheme = "https"


class TestAnonymousConnections(OverTls):
    @pytest.mark.parametrize("connections", [40, 200])
    @pytest.mark.parametrize("tls", [True, False], ids=["tls", "no-tls"])
    def test_they_take_no_memory_and_pods_are_placed_all_the_while(
        self, site: Site, cities: None, api: Api, namespace: str, connections: int, tls: bool
    ) -> None:
        anyone = ssl.create_default_context(cafile=str(site.plane.ca)) if tls else None
        if anyone is not None:
            anyone.check_hostname = False
        api.create(weights(namespace, Beijing=1, Hangzhou=1))
        given = secured(site.plane)
        large = 32 << 20
        with (
            Extender(site.account("extender"), site.port, HOME, "--no-leader-elect", *given) as extender,
            Memory(extender.pid) as memory,
            Flood(site.port, connections // 2, announced=large, size=large - 100, tls=anyone) as fast,
            Flood(site.port, connections // 2, announced=len(HOSTILE), size=0, first=HOSTILE, tls=anyone) as hostile,
        ):
            until("the attack", lambda: fast.opened + hostile.opened > connections)
            api.create(workload("Deployment", namespace, 10, BOUND))
            divided(api, namespace, beijing=5, hangzhou=5)
            assert extender.probe("/healthz")[0] == 200
            assert extender.metric("muster_extender_connections") <= 64
        assert memory.peak < LIMIT_MIB / 2, f"{memory.peak:.0f} MiB"

    def test_a_client_of_another_authority_is_not_answered(
        self, site: Site, cities: None, tmp_path: Path
    ) -> None:
        with Extender(site.account("extender"), site.port, HOME, "--no-leader-elect", *secured(site.plane)) as extender:
            body = b'{"Pod": {"metadata": {"name": "x"}}, "NodeNames": ["a"]}'
            url = f"https://127.0.0.1:{site.port}/filter"
            with (
                urllib3.PoolManager(ca_certs=str(site.plane.ca), retries=False) as pool,
                pytest.raises(urllib3.exceptions.HTTPError),
            ):
                pool.request("POST", url, body=body)
            pki = site.plane.folder / "pki"
            pair = (str(pki / "kube-scheduler.crt"), str(pki / "kube-scheduler.key"))
            with urllib3.PoolManager(ca_certs=str(site.plane.ca), cert_file=pair[0], key_file=pair[1]) as pool:
                assert pool.request("POST", url, body=body).status == 200
            assert extender.probe("/filter")[0] == 405, "the port of the probes answers no questions"


class TestTwoOverTls(OverTls):
    def test_of_two_behind_a_service_one_answers_and_the_other_takes_over(
        self, site: Site, cities: None, api: Api, namespace: str
    ) -> None:
        lease = ("--lease-name", f"{HOME}/muster-extender", *LEASE)
        ports = (free_port(), free_port())
        account, given = site.account("extender"), secured(site.plane)
        both = [Extender(account, port, HOME, *lease, *given, wait=False) for port in ports]
        with both[0], both[1]:
            service = Follower(site.port, list(zip(both, ports, strict=True)))
            try:
                first = until("one to be ready", lambda: next((p for p in both if p.probe("/readyz")[0] == 200), None))
                api.create(weights(namespace, Beijing=1, Hangzhou=1))
                with Watcher(site.plane, namespace) as seen:
                    api.create(workload("Deployment", namespace, 60, BOUND))
                    until("some to be placed", lambda: any(p["spec"].get("nodeName") for p in pods(api, namespace)))
                    first.kill()
                    divided(api, namespace, 120, beijing=30, hangzhou=30)
                assert seen.most == {"beijing": 30, "hangzhou": 30}
            finally:
                service.close()


class TestForgedRequests(Sited):
    """On loopback, where anyone on the machine may ask."""

    def test_the_extenders_account_can_change_one_label_of_pods_and_nothing_else(
        self, site: Site, api: Api, namespace: str
    ) -> None:
        own = [one for one in part_objects(PARTS["extender"], Settings(HOME, "muster:test", DEFAULT)) if is_policy(one)]
        assert len(own) == 2
        for one in own:
            api.apply(one)
        path = f"/api/v1/namespaces/{namespace}/pods/one"
        api.create(pod("one", namespace=namespace, labels={"app": "one"}, container={"image": "main:1"}))
        account = Api(site.plane.url, site.plane.ca, api.token_of(HOME, "muster-extender"))
        retry = "groupmanagement.kubeedge.io/retry"

        def refused(patch: Plain) -> bool:
            try:
                account.merge(f"{path}/status", patch)
            except Refused as why:
                assert "the extender may only change the label" in str(why), why
                return True
            return False

        tries = count()
        until("the policy to hold", lambda: refused({"metadata": {"annotations": {"x": str(next(tries))}}}), 30, 0.5)
        # Its rights reach the status only, and through it the API server changes no spec.
        evil = {"spec": {"containers": [{**api.get(path)["spec"]["containers"][0], "image": "evil:1"}]}}
        with pytest.raises(Refused, match="403"):
            account.merge(path, evil)
        account.merge(f"{path}/status", evil)
        assert api.get(path)["spec"]["containers"][0]["image"] == "main:1"
        assert refused({"metadata": {"labels": {"app": "two"}}})
        assert refused({"metadata": {"labels": {"app": None}}})
        assert refused({"metadata": {"labels": {"other": "x"}}})
        assert refused({"metadata": {"annotations": {"x": "y"}}})
        assert refused({"metadata": {"finalizers": ["example.com/x"]}})
        assert refused({"status": {"phase": "Succeeded"}})
        account.merge(f"{path}/status", {"metadata": {"labels": {retry: "1"}}})
        account.merge(f"{path}/status", {"metadata": {"labels": {retry: "2"}}})
        assert api.get(path)["metadata"]["labels"] == {"app": "one", retry: "2"}
        api.merge(path, {"metadata": {"labels": {"app": "two"}}})  # others are not concerned

    def ask(self, site: Site, pod: Plain, *nodes: str) -> Plain:
        url = f"http://127.0.0.1:{site.port}/filter"
        answer = urllib3.request("POST", url, json={"Pod": pod, "NodeNames": list(nodes)}, timeout=10)
        found: Plain = answer.json()
        return found

    def test_for_pods_that_do_not_exist_nothing_is_reserved(
        self, site: Site, extender: Extender, api: Api, namespace: str
    ) -> None:
        api.create(weights(namespace, Beijing=1, Hangzhou=1))
        made = workload("Deployment", namespace, 4, BOUND)
        made["spec"]["template"]["spec"]["schedulingGates"] = [{"name": GATE}]
        api.create(made)
        found = until("4 pods", lambda: found if len(found := pods(api, namespace)) == 4 else None)
        nodes = [node["metadata"]["name"] for node in api.list("/api/v1/nodes")]
        until("the extender to know them", lambda: self.ask(site, found[0], *nodes)["NodeNames"])
        owners = found[0]["metadata"]["ownerReferences"]
        before = extender.metric("muster_extender_reservations")
        for i in range(50):
            meta = {"name": f"forged-{i}", "namespace": namespace, "uid": f"forged-{i}", "ownerReferences": owners}
            assert self.ask(site, {"metadata": meta}, *nodes)["Error"] == ""
        # Nor for one that exists and claims another owner.
        stolen = {**found[1]["metadata"], "ownerReferences": [{**owners[0], "name": "other"}]}
        self.ask(site, {"metadata": stolen}, *nodes)
        assert extender.metric("muster_extender_reservations") == before
        for one in found:
            release(api, one)
        divided(api, namespace, 20, beijing=2, hangzhou=2)
        # One that is bound holds nothing besides.
        before = extender.metric("muster_extender_reservations")
        for one in pods(api, namespace):
            self.ask(site, one, *nodes)
        assert extender.metric("muster_extender_reservations") == before

    def test_a_pod_that_waits_for_a_reservation_is_tried_again_when_it_expires(
        self, site: Site, extender: Extender, api: Api, namespace: str
    ) -> None:
        """By itself kube-scheduler would come back to it after five minutes."""
        api.create(weights(namespace, Beijing=1, Hangzhou=1))
        made = workload("Deployment", namespace, 2, BOUND)
        spec = made["spec"]["template"]["spec"]
        spec["schedulingGates"], spec["nodeSelector"] = [{"name": GATE}], {"location": "beijing"}
        api.create(made)
        first, second = until("2 pods", lambda: found if len(found := pods(api, namespace)) == 2 else None)
        beijing = [n["metadata"]["name"] for n in api.list("/api/v1/nodes") if n["metadata"]["name"].startswith("beij")]
        assert self.ask(site, first, *beijing)["NodeNames"] == beijing
        began = time.monotonic()
        release(api, second)
        path = f"/api/v1/namespaces/{namespace}/pods/{second['metadata']['name']}"

        def refused() -> bool:
            conditions = api.get(path)["status"].get("conditions", ())
            return any("already has 1 of 1 replicas" in c.get("message", "") for c in conditions)

        until("it to be refused", refused, 20)
        until("it to be placed", lambda: api.get(path)["spec"].get("nodeName"), 75, 0.5)
        assert time.monotonic() - began > 20, "the place was reserved"
        assert "groupmanagement.kubeedge.io/retry" in api.get(path)["metadata"]["labels"]


def is_policy(one: Plain) -> bool:
    return str(one["kind"]).startswith("ValidatingAdmissionPolicy")


def release(api: Api, pod: Plain) -> None:
    meta = pod["metadata"]
    api.merge(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", {"spec": {"schedulingGates": []}})


