"""The extender over the wire."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from muster.server.extender.deciding import GroupScheduling
from muster.server.extender.http import ExtenderServer, tls
from node_groups import bound, deployment, groups, nodes, owner, store_of, weights

POD = {"metadata": {"name": "p", "namespace": "default", "uid": "u", **owner("ReplicaSet", "nginx-1")}}


def serve(**options: Any) -> ExtenderServer:
    store = store_of(*nodes(), *groups(), weights(), *deployment(bound()))
    server = ExtenderServer(("127.0.0.1", 0), GroupScheduling(store), **options)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    return server


@pytest.fixture
def server() -> Iterator[ExtenderServer]:
    server = serve(largest_body=100_000)
    yield server
    server.shutdown()
    server.server_close()


def connected(server: ExtenderServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)


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
    assert 'muster_extender_requests_total{verb="filter",code="200"} 1' in text
    assert 'muster_extender_requests_total{verb="filter",code="400"} 1' in text
    assert 'muster_extender_request_seconds_count{verb="filter"} 2' in text
    assert "muster_extender_reservations 1" in text


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


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that is its own authority, with its key, for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "muster")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    file.write_bytes(private + made.public_bytes(pem))
    return file


def test_https_lets_in_only_clients_with_a_certificate_if_told_so(certificate: Path) -> None:
    server = serve(context=tls(str(certificate), "", str(certificate)))
    try:
        trusting = ssl.create_default_context(cafile=str(certificate))
        address = ("127.0.0.1", server.server_address[1])
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(http.client.HTTPSConnection(*address, timeout=10, context=trusting), "/healthz")
        trusting.load_cert_chain(str(certificate))
        assert ask(http.client.HTTPSConnection(*address, timeout=10, context=trusting), "/healthz") == (200, "ok\n")
    finally:
        server.shutdown()
        server.server_close()
