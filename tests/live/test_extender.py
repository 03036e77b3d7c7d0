"""`muster extender` asked by a real kube-scheduler: preemption, TLS, override policies that are waited for, scores."""

from __future__ import annotations

import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builders.manifests import pod, queue
from live.api import Api, Plain, place, until
from live.conftest import HOME, MakeNodes, OwnPlane, served
from live.controlplane import ControlPlane
from live.group_site import Site, Sited, install
from live.node_groups import (
    BINDING,
    DOMAIN,
    REQUIRED,
    Controllers,
    Extender,
    by_city,
    city_of,
    divided,
    path,
    pods,
    registries,
    weights,
    workload,
)
from live.part_process import free_port
from muster.model.crd import PEERS

BOUND = {**REQUIRED, BINDING: "pp"}
CHIPS = "huawei.com/Ascend910"


def asking(made: Plain, **requests: str) -> Plain:
    """The workload, with requests and limits."""
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": dict(requests), "limits": dict(requests)}
    return made


@contextmanager
def plugin(site: Site, text: str) -> Iterator[Extender]:
    """An extender that asks one plugin of muster's about pods without a policy."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        config.write(f"actions: allocate\ntiers:\n- plugins:\n  - {{name: {text}}}\n")
        config.flush()
        with Extender(site.account("extender"), site.port, HOME, "--no-leader-elect", "--plugins", config.name) as part:
            yield part


def placed(api: Api, namespace: str, app: str, count: int = 1) -> list[str]:
    """The nodes of the application's pods."""

    def nodes() -> list[str] | None:
        found = [pod["spec"].get("nodeName", "") for pod in pods(api, namespace, app)]
        return found if len(found) == count and all(found) else None

    return until(f"{app} to be placed", nodes, 30)


class TestExtender(Sited):
    @pytest.fixture(scope="class")
    @classmethod
    def queues(cls, api: Api) -> None:
        """Volcano's definitions."""
        for definition in PEERS:
            api.apply(definition.plain())
            where = f"/apis/{definition.api_version}/{definition.plural}"
            until(f"{where} to be served", lambda where=where: served(api, where))
        time.sleep(2)

    @pytest.fixture
    def priorities(self, api: Api) -> Iterator[None]:
        made = [
            api.create({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": n,
            })
            for name, n in (("low", 1), ("high", 1000))
        ]  # fmt: skip
        time.sleep(0.5)
        yield
        for one in made:
            api.delete(place(one))

    def test_an_application_preempts_in_its_group_and_nowhere_else(
        self, extender: Extender, api: Api, namespace: str, priorities: None
    ) -> None:
        filler = asking(workload("Deployment", namespace, 5, {}, "filler"), cpu="60")
        filler["spec"]["template"]["spec"]["priorityClassName"] = "low"
        api.create(filler)
        fillers = divided(api, namespace, app="filler", beijing=3, hangzhou=2)
        before = {pod["metadata"]["uid"]: city_of(pod) for pod in fillers}
        api.create(weights(namespace, Beijing=1))
        urgent = asking(workload("Deployment", namespace, 2, BOUND), cpu="60")
        urgent["spec"]["template"]["spec"]["priorityClassName"] = "high"
        api.create(urgent)
        until("both to be placed", lambda: by_city(pods(api, namespace)) == {"beijing": 2}, 60)
        left = [before[p["metadata"]["uid"]] for p in pods(api, namespace, "filler") if p["metadata"]["uid"] in before]
        assert sorted(left) == ["beijing", "hangzhou", "hangzhou"]
        assert extender.metric("muster_extender_requests_total", 'code="200",verb="preempt"') >= 2

    def test_a_group_that_has_its_number_is_not_preempted_for_one_more(
        self, extender: Extender, api: Api, namespace: str, priorities: None
    ) -> None:
        """Beijing has capacity for nobody and lacks nobody: hangzhou, which lacks one, is where victims are."""
        api.create(weights(namespace, Beijing=1, Hangzhou=1))
        urgent = asking(workload("Deployment", namespace, 1, BOUND), cpu="60")
        urgent["spec"]["template"]["spec"]["priorityClassName"] = "high"
        api.create(urgent)
        first = placed(api, namespace, "nginx")[0].rpartition("-")[0]
        filler = asking(workload("Deployment", namespace, 4, {}, "filler"), cpu="60")
        filler["spec"]["template"]["spec"]["priorityClassName"] = "low"
        api.create(filler)
        until("fillers", lambda: sum(by_city(pods(api, namespace, "filler")).values()) == 4)
        api.merge(path(namespace), {"spec": {"replicas": 2}})
        until("one in each", lambda: by_city(pods(api, namespace)) == {"beijing": 1, "hangzhou": 1}, 60)
        assert first in ("beijing", "hangzhou")

    def test_pods_also_wait_for_their_override_policy_if_the_extender_is_configured_so(
        self, site: Site, controllers: Controllers, api: Api, namespace: str
    ) -> None:
        labels = {f"{DOMAIN}/required-overridepolicy": "op"}
        with Extender(site.account("extender"), site.port, HOME, "--no-leader-elect", "--gate-override-pair"):
            api.create(workload("Deployment", namespace, 2, labels))
            until("2 pods", lambda: len(pods(api, namespace)) == 2)
            time.sleep(1)
            assert by_city(pods(api, namespace)) == {}
            message = [c["message"] for p in pods(api, namespace) for c in p["status"].get("conditions", ())]
            assert any("OverridePolicy op is required and not bound yet" in text for text in message), message
            api.create(registries(namespace))
            until("both to be placed", lambda: sum(by_city(pods(api, namespace)).values()) == 2, 30)

    def test_resource_strategy_fit_is_a_source_of_scores(
        self, site: Site, cities: None, api: Api, namespace: str
    ) -> None:
        arguments = "{resourceStrategyFitWeight: 10, resources: {cpu: {type: MostAllocated}}}"
        with plugin(site, f"resource-strategy-fit, arguments: {arguments}"):
            api.create(asking(workload("Deployment", namespace, 1, {}, "first"), cpu="20"))
            first = placed(api, namespace, "first")
            time.sleep(0.5)
            api.create(asking(workload("Deployment", namespace, 3, {}, "more"), cpu="2"))
            assert placed(api, namespace, "more", 3) == first * 3

    def test_nodegroup_is_a_source_of_refusals_and_scores(
        self, site: Site, cities: None, queues: None, api: Api, namespace: str
    ) -> None:
        """Queues say where their pods must and would rather go."""
        wish = "DuringSchedulingIgnoredDuringExecution"
        affinity = {"nodeGroupAffinity": {f"required{wish}": ["beijing", "hangzhou"], f"preferred{wish}": ["hangzhou"]}}
        made = [
            api.create(queue("rather", affinity=affinity)),
            api.create(queue("only", affinity={"nodeGroupAffinity": {f"required{wish}": ["beijing"]}})),
        ]
        for node in api.list("/api/v1/nodes"):
            name = node["metadata"]["name"]
            label = {"volcano.sh/nodegroup-name": name.rpartition("-")[0]}
            api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": label}})
        try:
            with plugin(site, "nodegroup"):
                for name in ("rather", "only"):
                    one = workload("Deployment", namespace, 4, {}, name)
                    one["spec"]["template"]["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": name}
                    api.create(one)
                rather = {node.rpartition("-")[0] for node in placed(api, namespace, "rather", 4)}
                only = {node.rpartition("-")[0] for node in placed(api, namespace, "only", 4)}
                assert (rather, only) == ({"hangzhou"}, {"beijing"})
        finally:
            for one in made:
                api.delete(place(one))

    def test_topology910_is_a_source_of_refusals_and_scores_and_hands_out_no_chips(
        self, site: Site, api: Api, namespace: str, make_nodes: MakeNodes
    ) -> None:
        """A ring that is just filled is worth more than a free board; four chips in two rings are not four."""
        held: dict[str, list[str]] = {"whole": [], "pair": ["2,3", "4,5,6,7"], "split": ["2,3", "6,7"]}
        for name, pods_of in held.items():
            node = make_nodes(1, prefix=f"{name}-", resources={CHIPS: "8"})[0]["metadata"]["name"]
            for i, chips in enumerate(pods_of):
                api.create(holder(namespace, f"{name}-{i}", node, chips.split(",")))
            free = set("01234567") - set(",".join(pods_of).split(","))
            note = ",".join(f"Ascend910-{chip}" for chip in sorted(free))
            api.merge(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {CHIPS: note}}})
        with plugin(site, "topology910"):
            api.create(asking(workload("Deployment", namespace, 1, {}, "two"), **{CHIPS: "2"}))
            assert placed(api, namespace, "two")[0].startswith("pair-")
            api.create(asking(workload("Deployment", namespace, 1, {}, "four"), **{CHIPS: "4"}))
            assert placed(api, namespace, "four")[0].startswith("whole-")
            for app in ("two", "four"):
                assert CHIPS not in pods(api, namespace, app)[0]["metadata"].get("annotations", {})


def holder(namespace: str, name: str, node: str, chips: list[str]) -> Plain:
    """A pod that has these chips of the node."""
    listed = ",".join(f"Ascend910-{chip}" for chip in chips)
    return pod(
        name, on=node, namespace=namespace, annotations={CHIPS: listed}, requests={}, limits={CHIPS: len(chips)},
        container={"image": "m"},
    )  # fmt: skip


class TestExtenderOverTls(OwnPlane):
    """kube-scheduler shows a certificate, and the extender's own is renewed while it runs."""

    @pytest.fixture(scope="class")
    @classmethod
    def control_plane(cls) -> Iterator[ControlPlane]:
        cls.port = free_port()
        with ControlPlane(extender=f"https://127.0.0.1:{cls.port}") as plane:
            install(plane.api)
            yield plane

    port: int

    def test_a_rotated_certificate_is_used_without_a_restart(
        self, control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes, tmp_path: Path
    ) -> None:
        make_nodes(1, prefix="beijing-")
        files = [tmp_path / "tls.crt", tmp_path / "tls.key"]
        rotate(control_plane, files)
        account = control_plane.kubeconfig_of(HOME, "muster-extender")
        given = ("--tls-cert-file", str(files[0]), "--tls-private-key-file", str(files[1]))
        clients = ("--client-ca-file", str(control_plane.ca))
        anywhere = ("--host", "0.0.0.0", "--metrics-port", "0")
        with Extender(account, self.port, HOME, "--no-leader-elect", *given, *clients, *anywhere) as extender:
            api.create(workload("Deployment", namespace, 1, {}, "first"))
            placed(api, namespace, "first")
            before = self.shown(control_plane)
            rotate(control_plane, files)
            assert self.shown(control_plane) != before
            with pytest.raises((ssl.SSLError, ConnectionError)):
                self.shown(control_plane, client=False)
            control_plane.kill("kube-scheduler")  # its connection stays open otherwise
            control_plane.run("kube-scheduler")
            api.create(workload("Deployment", namespace, 1, {}, "second"))
            placed(api, namespace, "second")
            assert any("read again" in str(entry["msg"]) for entry in extender.log())

    def shown(self, plane: ControlPlane, *, client: bool = True) -> bytes | None:
        """The certificate that the extender shows."""
        tls = ssl.create_default_context(cafile=str(plane.ca))
        if client:
            tls.load_cert_chain(plane.folder / "pki" / "admin.crt", plane.folder / "pki" / "admin.key")
        with socket.create_connection(("127.0.0.1", self.port), 10) as plain, tls.wrap_socket(
            plain, server_hostname="127.0.0.1"
        ) as stream:
            stream.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            if not stream.recv(1024):
                raise ConnectionError("no answer")
            return stream.getpeercert(binary_form=True)


def rotate(plane: ControlPlane, files: list[Path]) -> None:
    """Another certificate of the control plane's own authority, with its key."""
    for made, file in zip(plane.authority.server("extender"), files, strict=True):
        file.write_bytes(made.read_bytes())
