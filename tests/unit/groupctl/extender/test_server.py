"""The extender over the wire."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.node_groups import bound, deployment, groups, nodes, owner, store_of, weights
from live.certificates import Authority
from muster.groupctl.extender.group_scheduling import GroupScheduling
from muster.groupctl.extender.server import ExtenderServer
from muster.process.certificates import FileTls

POD = {"metadata": {"name": "p", "namespace": "default", "uid": "u", **owner("ReplicaSet", "nginx-1")}}


def serve(**options: Any) -> ExtenderServer:
    store = store_of(*nodes(), *groups(), weights(), *deployment(bound()))
    server = ExtenderServer(("127.0.0.1", 0), GroupScheduling(store), **options)
    server.start()
    return server


@pytest.fixture
def server() -> Iterator[ExtenderServer]:
    server = serve(max_body_bytes=100_000)
    yield server
    server.stop()


def connected(server: ExtenderServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)


def ask(connection: http.client.HTTPConnection, path: str, body: object = None) -> tuple[int, Any]:
    if body is None:
        connection.request("GET", path)
    else:
        connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode())
    response = connection.getresponse()
    text = response.read().decode()
    return response.status, json.loads(text) if text.startswith(("{", "[")) else text


def test_one_connection_serves_many_questions_in_gos_spelling(server: ExtenderServer) -> None:
    connection = connected(server)
    status, answer = ask(connection, "/filter", {"Pod": POD, "Nodes": None, "NodeNames": ["node-a", "x"]})
    assert status == 200
    assert answer == {
        "Nodes": None,
        "NodeNames": ["node-a"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"x": "node is in no node group of PropagationPolicy pp"},
        "Error": "",
    }
    assert ask(connection, "/prioritize", {"pod": POD, "nodenames": ["node-a", "node-c"]}) == (
        200,
        [{"Host": "node-a", "Score": 10}, {"Host": "node-c", "Score": 6}],
    )
    nothing: dict[str, Any] = {"NodeNameToMetaVictims": {}}
    assert ask(connection, "/preempt", {"Pod": POD, **nothing}) == (200, nothing)


def test_health_and_metrics(server: ExtenderServer) -> None:
    connection = connected(server)
    assert ask(connection, "/healthz") == ask(connection, "/readyz") == (200, "ok\n")
    ask(connection, "/filter", {"Pod": POD, "NodeNames": ["node-a"]})
    ask(connection, "/filter", b"{")
    text = ask(connection, "/metrics")[1]
    assert 'muster_extender_requests_total{code="200",verb="filter"} 1' in text
    assert 'muster_extender_requests_total{code="400",verb="filter"} 1' in text
    assert 'muster_extender_request_seconds_count{verb="filter"} 2' in text
    assert "muster_extender_reservations 1.0" in text
    assert "muster_extender_waits_total 0.0" in text
    assert "muster_extender_connections_closed_total 0.0" in text


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/filter", b"", 400),
        ("/filter", b"[]", 400),
        ("/filter", b'{"Pod": 3, "NodeNames": []}', 400),
        ("/filter", b'{"NodeNames": []}', 400),
        ("/filter", b'{"Pod": {}}', 400),
        ("/filter", b'{"Pod": {"metadata": {"labels": []}}, "NodeNames": []}', 400),
        ("/filter", b'{"Pod": {}, "NodeNames": [1]}', 400),
        ("/filter", b"[" * 90_000, 400),
        ("/preempt", b'{"Pod": {}, "NodeNameToMetaVictims": {"a": []}}', 400),
        ("/bind", b"{}", 404),
        ("/filter", b" " * 100_001, 413),
    ],
)
def test_a_bad_question_is_refused_with_a_reason_and_the_next_is_answered(
    server: ExtenderServer, path: str, body: bytes, status: int
) -> None:
    got, answer = ask(connected(server), path, body)
    assert got == status
    assert answer["Error"]
    assert ask(connected(server), "/filter", {"Pod": POD, "NodeNames": ["node-a"]})[0] == 200


def test_what_is_not_there_is_not_found(server: ExtenderServer) -> None:
    connection = connected(server)
    assert ask(connection, "/nothing")[0] == 404
    assert ask(connection, "/filter")[0] == 405


def test_a_body_must_say_its_length(server: ExtenderServer) -> None:
    connection = connected(server)
    connection.putrequest("POST", "/filter")
    connection.endheaders()
    assert connection.getresponse().status == 411


def test_a_body_of_fifty_megabytes_is_refused_with_a_reason() -> None:
    server = serve()
    status, answer = ask(connected(server), "/filter", b"x" * 50_000_000)
    assert (status, answer["Error"]) == (413, "a body of 50000000 bytes is above the limit of 33554432")
    server.stop()


def secured(server: ExtenderServer, trusting: ssl.SSLContext) -> http.client.HTTPSConnection:
    return http.client.HTTPSConnection("127.0.0.1", server.port, timeout=10, context=trusting)


def test_https_accepts_only_clients_with_a_certificate_if_configured(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "one"), Authority(tmp_path / "other")
    served = map(str, authority.server("extender"))
    known = tmp_path / "clients.crt"
    known.write_bytes(other.certificate.read_bytes())
    reported: list[str] = []
    server = serve(tls=FileTls(*served, str(known), report=reported.append).context)
    try:
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(secured(server, trusting), "/healthz")
        trusting.load_cert_chain(*authority.client("scheduler", "nobody"))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(secured(server, trusting), "/healthz")
        known.write_bytes(authority.certificate.read_bytes())  # the authority of clients is another one now
        assert ask(secured(server, trusting), "/healthz") == (200, "ok\n")
    finally:
        server.stop()


def test_a_rotated_certificate_is_taken_up_and_a_bad_one_is_not(tmp_path: Path) -> None:
    first, second = Authority(tmp_path / "first"), Authority(tmp_path / "second")
    (old, old_key), (new, new_key) = first.server("extender"), second.server("extender")
    reported: list[str] = []
    server = serve(tls=FileTls(str(old), str(old_key), report=reported.append).context)
    trusting = [ssl.create_default_context(cafile=str(one.certificate)) for one in (first, second)]
    try:
        assert ask(secured(server, trusting[0]), "/healthz")[0] == 200
        old.write_bytes(new.read_bytes())  # its key has not come yet
        assert ask(secured(server, trusting[0]), "/healthz")[0] == 200
        assert "the last good one stays" in reported[0]
        old_key.write_bytes(new_key.read_bytes())
        assert ask(secured(server, trusting[1]), "/healthz")[0] == 200
        with pytest.raises(ssl.SSLError):
            ask(secured(server, trusting[0]), "/healthz")
        assert reported[1:] == [f"{old}: read again"]
    finally:
        server.stop()
