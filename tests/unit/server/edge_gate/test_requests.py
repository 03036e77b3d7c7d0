"""Which requests are about pods, in which form they are asked on, and in whose name."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from muster.server.edge_gate.callers import Unknown, allowed, caller_of
from muster.server.edge_gate.targets import Target, asked_upstream, json_only, target_of

ADMIN = {"subject": ((("organizationName", "ops"),), (("organizationName", "dev"),), (("commonName", "ann"),))}


def target(url: str, method: str = "GET") -> Target | None:
    asked = URL(url)
    return target_of(method, asked.path, asked.query)


@pytest.mark.parametrize(
    ("url", "namespace", "name", "watch"),
    [
        ("/api/v1/pods", "", "", False),
        ("/api/v1/pods/", "", "", False),
        ("/api/v1//pods", "", "", False),
        ("/api/v1/%70ods", "", "", False),
        ("/api/v1/pods?watch=true", "", "", True),
        ("/api/v1/pods?watch", "", "", True),
        ("/api/v1/pods?watch=0", "", "", False),
        ("/api/v1/watch/pods", "", "", True),
        ("/api/v1/namespaces/d/pods?watch=1", "d", "", True),
        ("/api/v1/namespaces/d/pods/x", "d", "x", False),
        ("/api/v1/namespaces/d/pods/x/status", "d", "x", False),
        ("/api/v1/watch/namespaces/d/pods/x", "d", "x", True),
    ],
)
def test_pods_are_known_by_their_paths(url: str, namespace: str, name: str, watch: bool) -> None:
    found = target(url)
    assert found is not None
    assert (found.namespace, found.name, found.watch) == (namespace, name, watch)


@pytest.mark.parametrize(
    "url", ["/api/v1/nodes", "/api/v1/namespaces/d/pods/x/log", "/api/v1/namespaces/d/pods/x/exec", "/apis/x/v1/pods"]
)
def test_other_requests_are_passed_on(url: str) -> None:
    assert target(url) is None
    assert target("/api/v1/namespaces/d/pods", "POST") is None


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        ("resourceVersion=0", "40"),
        ("resourceVersion=39&resourceVersionMatch=NotOlderThan", "40"),
        ("watch=1&sendInitialEvents=true&resourceVersion=0&resourceVersionMatch=NotOlderThan", "40"),
        ("resourceVersion=41", "41"),
        ("resourceVersion=39&resourceVersionMatch=Exact", "39"),
        ("watch=1&resourceVersion=39", "39"),
        ("limit=5", None),
    ],
)
def test_what_is_listed_is_new_enough_to_be_watched_from(asked: str, version: str | None) -> None:
    found = target(f"/api/v1/pods?{asked}")
    assert found is not None
    query, _ = asked_upstream(found, 40)
    assert query.get("resourceVersion") == version
    assert version != "40" or query["resourceVersionMatch"] == "NotOlderThan"


def test_a_single_pod_is_asked_for_among_those_that_the_client_asked_for() -> None:
    found = target("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&labelSelector=a%3Db&watch=1")
    assert found is not None
    assert found.one("d/x") == {
        "labelSelector": "a=b", "fieldSelector": "spec.nodeName=n1,metadata.name=x,metadata.namespace=d",
    }  # fmt: skip
    assert found.may_have("d/x", "n1") and found.may_have("d/x", "")
    assert not found.may_have("d/x", "n2")


@pytest.mark.parametrize(
    ("accept", "asked"),
    [
        ("application/vnd.kubernetes.protobuf", "application/json"),
        ("application/vnd.kubernetes.protobuf,application/json", "application/json"),
        (
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        ),
        (
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        ),
        ("*/*", "application/json"),
        ("application/cbor;q=1, application/yaml", "application/json"),
    ],
)
def test_every_form_is_asked_for_as_json(accept: str, asked: str) -> None:
    assert json_only(CIMultiDictProxy(CIMultiDict({"Accept": accept}))) == asked


def test_a_token_goes_in_the_clients_own_name() -> None:
    assert not caller_of({"Authorization": "Bearer x"}, ADMIN, "/api", front_proxy=True).vouched
    socket = {"Sec-WebSocket-Protocol": "base64url.bearer.authorization.k8s.io.eA, v5.channel.k8s.io"}
    assert not caller_of(socket, None, "/api", front_proxy=False).vouched


def test_a_certificate_is_vouched_for_with_its_user_and_groups() -> None:
    caller = caller_of({}, ADMIN, "/api", front_proxy=True)
    assert caller.vouched
    assert caller.headers == [("X-Remote-User", "ann"), ("X-Remote-Group", "ops"), ("X-Remote-Group", "dev")]


def test_without_either_the_answer_says_what_to_do() -> None:
    with pytest.raises(Unknown, match="--front-proxy-cert"):
        caller_of({}, ADMIN, "/api", front_proxy=False)
    with pytest.raises(Unknown, match="bearer tokens only"):
        caller_of({"Authorization": "Bearer "}, None, "/api", front_proxy=False)
    caller_of({}, None, "/healthz", front_proxy=False)


def test_nobody_says_who_somebody_is_but_the_gate() -> None:
    headers = [("X-Remote-User", "root"), ("x-remote-extra-scopes", "all"), ("X-Request-Id", "1")]
    assert allowed(headers) == [("X-Request-Id", "1")]
