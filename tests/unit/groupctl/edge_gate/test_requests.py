"""Which requests are about pods, in which form they are asked on, and in whose name."""

from __future__ import annotations

import h11
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from muster.groupctl.edge_gate.authentication import TrustedHeaders, UnknownCaller, caller_of
from muster.groupctl.edge_gate.request_head import Head, RefusedRequest, parse
from muster.groupctl.edge_gate.targets import RequestedPods, json_only, route_of, upstream_query

TRUSTED = TrustedHeaders("X-User", "X-Group", frozenset({"x-user", "x-group"}), ("x-remote-", "x-extra-"))
ADMIN = {"subject": ((("organizationName", "ops"),), (("organizationName", "dev"),), (("commonName", "ann"),))}


def head(line: str, *lines: str) -> Head:
    return parse(h11.Connection(h11.SERVER), "\r\n".join([f"{line} HTTP/1.1", "Host: x", *lines]).encode())


def target(url: str, method: str = "GET") -> RequestedPods | None:
    return route_of(head(f"{method} {url}")).target


@pytest.mark.parametrize(
    ("url", "namespace", "name", "watch"),
    [
        ("/api/v1/pods", "", "", False),
        ("/api/v1/pods/", "", "", False),
        ("/api/v1/%70ods", "", "", False),
        ("/api/v1/pods?watch=true", "", "", True),
        ("/api/v1/pods?watch", "", "", True),
        ("/api/v1/pods?watch=0", "", "", False),
        ("/api/v1/watch/pods", "", "", True),
        ("/api/v1/namespaces/d/pods?watch=1", "d", "", True),
        ("/api/v1/namespaces/d/pods/x", "d", "x", False),
        ("/api/v1/namespaces/d/pods/x/status", "d", "x", False),
        ("/api/v1/namespaces/d/pods/x/ephemeralcontainers", "d", "x", False),
        ("/api/v1/namespaces/d/pods/x/resize/", "d", "x", False),
        ("/api/v1/namespaces/d/pods/x?watch=1", "d", "x", False),
        ("/api/v1/namespaces/pods/pods", "pods", "", False),
        ("/api/v1/watch/namespaces/d/pods/x", "d", "x", True),
    ],
)
def test_pods_are_known_by_their_paths(url: str, namespace: str, name: str, watch: bool) -> None:
    found = target(url)
    assert found is not None
    assert (found.namespace, found.name, found.watch) == (namespace, name, watch)


@pytest.mark.parametrize("url", ["/", "/api/v1/nodes", "/apis/x/v1/pods", "/api/v1/namespaces/pods", "/version"])
def test_other_requests_are_passed_on(url: str) -> None:
    assert target(url) is None


@pytest.mark.parametrize("sub", ["log", "exec", "binding", "proxy/a%2Fb"])
def test_some_subresources_return_no_pods(sub: str) -> None:
    found = target(f"/api/v1/namespaces/d/pods/http:x:80/{sub}")
    assert found is not None and not found.returns_pods
    assert found.key == ("d/x" if sub.startswith("proxy") else "d/http:x:80")


@pytest.mark.parametrize(
    ("url", "upgradable"),
    [
        ("/api/v1/namespaces/d/pods/x/exec", True), ("/api/v1/namespaces/d/pods/x/proxy/a", True),
        ("/api/v1/namespaces/d/services/x/proxy", True), ("/api/v1/nodes/x/proxy/logs", True),
        ("/api/v1/namespaces/d/pods/exec", False), ("/api/v1/namespaces/exec", False), ("/api/v1/pods", False),
        ("/api/v1/services/x/proxy", False), ("/apis/a/v1/namespaces/d/things/x/exec", False),
    ],
)  # fmt: skip
def test_only_some_paths_may_be_upgraded(url: str, upgradable: bool) -> None:
    assert route_of(head(f"GET {url}")).upgradable == upgradable


@pytest.mark.parametrize(
    "url",
    [
        "/api/v1//pods", "/api/v1/namespaces//pods", "//api/v1/pods", "/api/v1/pods//", "/api/v1/namespaces/%2Fpods",
        "/api/v1/namespaces/d%2Fpods", "/api/v1/x/../pods", "/api/v1/%2e%2e/v1/pods", "/api/v1/%252fpods",
        "/api/v1/pods;a", "/api/v1/watch/watch/pods", "/api/v1/proxy/namespaces/d/pods", "/api/v1/pods/x",
        "/api/v1/namespaces/d/pods/x/new", "/api/v1/namespaces/d/pods/x/status/y", "/api/v1/nodes/n/proxy/pods",
        "/api/v1/watch/namespaces/d/pods/x/status",
    ],
)  # fmt: skip
def test_paths_that_are_not_understood_are_refused(url: str) -> None:
    with pytest.raises(RefusedRequest):
        target(url)


@pytest.mark.parametrize(
    "lines",
    [
        "GET /a HTTP/1.1\nHost: x", "GET /a HTTP/1.1\r\nHost: x\r\nA: b\nC: d",
        "GET /a HTTP/1.1\r\nHost: x\r\nA: b\rC: d",
        "GET /a HTTP/1.1\r\nHost: x\r\nA: \0", "GET /a HTTP/1.1\r\nHost: x\r\nA: b\r\n c", "GET /a HTTP/1.1\r\nA: b",
        "GET /a HTTP/1.1\r\nHost: x\r\nhost: x", "GET https://x/a HTTP/1.1\r\nHost: x", "GET * HTTP/1.1\r\nHost: x",
        "GET /a HTTP/1.0\r\nHost: x", "TRACE /a HTTP/1.1\r\nHost: x", "GET /a%zz HTTP/1.1\r\nHost: x",
        "GET /a#b HTTP/1.1\r\nHost: x", "GET /%ff HTTP/1.1\r\nHost: x", "GET /%0a HTTP/1.1\r\nHost: x",
        "GET /a?b;c HTTP/1.1\r\nHost: x", "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1",
        "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
        "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: +1", "GET /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip",
        "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length : 1", "GET /a HTTP/1.1\r\nHost: x\r\n\r\nA: b",
    ],
)  # fmt: skip
def test_heads_with_several_readings_are_refused(lines: str) -> None:
    with pytest.raises(RefusedRequest):
        parse(h11.Connection(h11.SERVER), lines.encode())


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
    query, _ = upstream_query(found, 40)
    assert query.get("resourceVersion") == version
    assert version != "40" or query["resourceVersionMatch"] == "NotOlderThan"


def test_a_single_pod_is_asked_for_among_those_that_the_client_asked_for() -> None:
    found = target("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&labelSelector=a%3Db&watch=1")
    assert found is not None
    assert found.pod_selectors("d/x") == {
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
    assert not caller_of({"Authorization": "Bearer x"}, ADMIN, "/api", TRUSTED).by_front_proxy
    socket = {"Sec-WebSocket-Protocol": "base64url.bearer.authorization.k8s.io.eA, v5.channel.k8s.io"}
    assert not caller_of(socket, None, "/api", None).by_front_proxy


def test_a_certificate_is_vouched_for_with_its_user_and_groups() -> None:
    caller = caller_of({}, ADMIN, "/api", TRUSTED)
    assert caller.by_front_proxy
    assert caller.headers == [("X-User", "ann"), ("X-Group", "ops"), ("X-Group", "dev")]


def test_without_either_the_answer_names_the_remedy() -> None:
    with pytest.raises(UnknownCaller, match="--front-proxy-cert"):
        caller_of({}, ADMIN, "/api", None)
    with pytest.raises(UnknownCaller, match="bearer tokens only"):
        caller_of({"Authorization": "Bearer "}, None, "/api", None)
    with pytest.raises(UnknownCaller, match="characters"):
        caller_of({}, {"subject": ((("commonName", "ann\r\nX-Group: root"),),)}, "/api", TRUSTED)
    assert caller_of({}, None, "/healthz", None).anonymous


def test_nobody_says_who_somebody_is_but_the_gate() -> None:
    headers = [("X-Remote-User", "root"), ("x-remote-extra-scopes", "all"), ("X-Request-Id", "1"), ("x-user", "root")]
    assert TrustedHeaders().without(headers) == [("X-Request-Id", "1"), ("x-user", "root")]
    assert TRUSTED.without([*headers, ("X-Extra-A", "b")]) == [("X-Request-Id", "1")]
    later = TrustedHeaders(names=frozenset({"x-new"})).merged_with(TRUSTED)
    assert later.without([("X-New", "root"), ("X-User", "root"), ("X-Extra-A", "b")]) == []
