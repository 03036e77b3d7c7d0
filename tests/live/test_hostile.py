"""Hostile requests, as data in hostile/*.yaml, against every listener before a real API server.

What must hold is the same for all: no failure of the process, no more answers than requests, no Secret and no held pod
in an answer, no forged identity at the API server, no success without credentials, and the next client is served.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator

import pytest

from live.api import Api, Plain
from live.controlplane import ControlPlane
from live.gate_site import REQUIRED, deployment, made, names
from live.hostile.corpus import FILES, Words, cases
from live.hostile.listeners import LISTENERS
from live.hostile.player import Listener, Secrets, play

CANARY = "hostile-canary-7f3a"
GRANT = "hostile-grant"
NAMESPACE = "hostile"

pytestmark = pytest.mark.usefixtures("rights", "crds")


@pytest.fixture(scope="module")
def words(api: Api) -> Iterator[Words]:
    """A Secret that nobody may read, a pod that anybody sees, and one that is held."""
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    meta = {"name": "canary", "namespace": NAMESPACE}
    api.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"text": CANARY}})
    made(api, NAMESPACE, "free", 1, {})
    held = deployment(NAMESPACE, "held", 1, {REQUIRED: "pp"})
    held["spec"]["template"]["metadata"]["annotations"] = {"canary": CANARY}
    held["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "CANARY", "value": CANARY}]
    made(api, NAMESPACE, "held", 1, {}, held)
    grant = json.dumps(_grant())
    yield Words({
        "namespace": NAMESPACE,
        "secret": f"/api/v1/namespaces/{NAMESPACE}/secrets/canary",
        "free": names(api, NAMESPACE, "free")[0],
        "held": names(api, NAMESPACE, "held")[0],
        "grant": grant,
        "grant_size": str(len(grant)),
        "path": "",
    })  # fmt: skip
    api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods", {"gracePeriodSeconds": 0})
    api.delete(f"/api/v1/namespaces/{NAMESPACE}")


@pytest.fixture(scope="module", params=LISTENERS)
def listener(
    request: pytest.FixtureRequest, control_plane: ControlPlane, rights: None, crds: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Listener]:
    with LISTENERS[request.param](control_plane, tmp_path_factory.mktemp("hostile")) as one:
        yield one


def test_the_corpus_is_large() -> None:
    found = [case for file in FILES for case in cases(file)]
    assert len(found) >= 200
    assert len({case.name for case in found}) == len(found)


@pytest.mark.parametrize("file", FILES)
def test_hostile_requests_change_nothing_and_learn_nothing(
    listener: Listener, file: str, words: Words, control_plane: ControlPlane, api: Api
) -> None:
    words.texts["path"] = listener.path
    encoded = base64.b64encode(CANARY.encode())
    secrets = Secrets((CANARY.encode(), encoded), (str(words.names["held"]).encode(),))
    wrong = asyncio.run(play(listener, cases(file), words, secrets))
    if file not in ("sizes", "slow"):
        wrong += asyncio.run(play(listener, cases(file), words, secrets, sender="nobody"))
    assert not wrong, f"{len(wrong)} faults:\n" + "\n".join(wrong)
    assert control_plane.forged() == [], "the API server was asked in the name of a forged user"
    assert api.gone(f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{GRANT}")


def _grant() -> Plain:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": GRANT},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "eve"}],
    }  # fmt: skip
