"""One control plane for the whole run; a namespace of its own for every test, and nodes that go when it ends."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from live.api import Api, Plain, Refused, live_node, until
from live.binary import Missing
from live.controlplane import ControlPlane
from live.part_process import Part
from muster.cli.install import PARTS, Settings, installation
from muster.config.loader import DEFAULT
from muster.model.crd import OURS, PEERS

if TYPE_CHECKING:
    from live.gate_site import Gate

MakeNodes = Callable[..., list[Plain]]
Labels = dict[str, str]
_numbers = itertools.count(1)
MAX_TEST_S = 240  # a test that waits longer waits for something that does not come


@pytest.fixture(autouse=True)
def in_time(control_plane: ControlPlane) -> Iterator[None]:
    """No test hangs: it fails where it waits."""

    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"not done after {MAX_TEST_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(MAX_TEST_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK."""
    try:
        plane = ControlPlane()
        with plane:
            yield plane
    except Missing as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def api(control_plane: ControlPlane) -> Api:
    """The API server, as one who may do anything."""
    return control_plane.api


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    """A namespace that pods can be made in."""
    name = f"live-{next(_numbers)}"
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    until("its ServiceAccount", lambda: not api.gone(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    queues = _queues(api)
    yield name
    # A queue that a failed test left behind would be the next one's: where there is any, `default` must be made.
    for left in _queues(api) - queues:
        api.delete(f"{QUEUES}/{left}")
    # Pods first and at once: a namespace goes only after the pods' grace.
    api.delete(f"/api/v1/namespaces/{name}/pods", {"gracePeriodSeconds": 0})
    api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def namespaces_deleted(api: Api) -> None:
    """Waits until the namespaces of earlier tests are gone, for tests that read the whole cluster."""

    def gone() -> bool:
        return not any("deletionTimestamp" in one["metadata"] for one in api.list("/api/v1/namespaces"))

    until("the namespaces of earlier tests to be deleted", gone, 120)


def _queues(api: Api) -> set[str]:
    return {one["metadata"]["name"] for one in api.list(QUEUES)} if served(api, QUEUES) else set()


def _nodes(api: Api) -> Iterator[MakeNodes]:
    """make_nodes(3, labels={…}, resources={…}): Ready nodes n1, n2 … that are deleted at the end."""
    made: list[str] = []

    def make(
        count: int, *, prefix: str = "n", labels: Labels | None = None, resources: Labels | None = None
    ) -> list[Plain]:
        names = [f"{prefix}{len(made) + i + 1}" for i in range(count)]
        for name in names:
            api.create(live_node(name, labels, resources=resources))
            made.append(name)
        return [until(f"node {name} Ready", lambda name=name: _ready(api, name), 30) for name in names]

    yield make
    for name in made:
        try:
            api.delete(f"/api/v1/nodes/{name}")
        except Refused as refused:
            if refused.status != 404:
                raise


make_nodes = pytest.fixture(_nodes, name="make_nodes")
module_nodes = pytest.fixture(_nodes, scope="module", name="module_nodes")


def _ready(api: Api, name: str) -> Plain | None:
    """The node, once a pod may come to it."""
    node = api.get(f"/api/v1/nodes/{name}")
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
    return node if ready and not node["spec"].get("taints") else None


@pytest.fixture(scope="session")
def crds(api: Api) -> None:
    """All custom resources, ours and the peers', ready to be used."""
    for definition in (*OURS, *PEERS):
        made = api.apply(definition.plain())
        path = f"/apis/{definition.api_version}/{definition.plural}"
        until(f"{made['metadata']['name']} to be served", lambda path=path: served(api, path))
    # The API server holds back creates for two seconds after a definition is established.
    time.sleep(2)


HOME = "muster-system"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
RIGHTS = (
    "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
    "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
)  # fmt: skip
REGISTRATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


@pytest.fixture(scope="session")
def rights(api: Api) -> None:
    """The accounts of muster's parts, with what `muster manifests` lets them do."""
    for one in installation(Settings(HOME, "muster:test", DEFAULT), list(PARTS.values())):
        if one["kind"] in RIGHTS:
            api.apply(one)


@pytest.fixture(scope="session")
def scheduler_kubeconfig(control_plane: ControlPlane, rights: None) -> Path:
    """How the scheduler reaches the cluster: by the token of its own account."""
    return control_plane.kubeconfig_of(HOME, "muster-scheduler")


def served(api: Api, path: str) -> bool:
    """Whether a new kind can be listed: 404 before the API server knows it, 429 while its storage is made."""
    try:
        api.get(path)
    except Refused as refused:
        if refused.status in (404, 429):
            return False
        raise
    return True


@pytest.fixture
def pod_groups(control_plane: ControlPlane, rights: None) -> Iterator[Part]:
    with Part("pod-groups", control_plane.kubeconfig_of(HOME, "muster-pod-groups"), "--no-leader-elect") as part:
        yield part


@pytest.fixture
def start_gate(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Callable[..., Gate]]:
    """start_gate("--hold-strict"): an edge gate with these flags, until the test ends."""
    from live.gate_site import started

    with ExitStack() as running:

        def start(*arguments: str) -> Gate:
            gate = started(control_plane, tmp_path, *arguments)
            running.enter_context(gate.part)
            return gate

        yield start


@pytest.fixture
def gate(start_gate: Callable[..., Gate]) -> Gate:
    return start_gate()


@pytest.fixture
def strict_gate(start_gate: Callable[..., Gate]) -> Gate:
    return start_gate("--hold-strict")


class OwnPlane:
    """Tests of a class that starts a control plane of its own: `api` speaks to that one."""

    @pytest.fixture(scope="class")
    @classmethod
    def api(cls, control_plane: ControlPlane) -> Api:
        return control_plane.api
