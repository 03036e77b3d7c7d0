"""The dashboard under attack: other sites, wrong tokens, large and slow requests, too many clients."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import time
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from builders.manifests import node, pod
from fakes.dashboard_site import Site, received, source_of, until
from muster.process.certificates import FileTls, issue
from muster.process.settings import ClusterSettings, SettingError
from muster.sim.dashboard import listener as limits
from muster.sim.dashboard.access import COOKIE, HEADERS
from muster.sim.dashboard.settings import DashboardSettings

TOKEN = "a-token-with-more-than-16-characters"
PATHS = ["/", "/login", "/healthz", "/static/app.js", "/views/waiting", "/api/v1/status", "/nope"]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> object:
    file: Path = tmp_path_factory.mktemp("token") / "token"
    file.write_text(TOKEN + "\n")
    with Site(source_of([node(), pod("p")]), token_file=str(file), allowed_hosts=("dash.example",)) as site:
        yield site


@pytest.mark.parametrize("path", PATHS)
def test_every_response_has_the_security_headers(site: Site, path: str) -> None:
    response, body = site.ask("GET", path)
    for name, value in HEADERS.items():
        assert response.headers[name] == value
    policy = response.headers["Content-Security-Policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy
    if response.headers["Content-Type"].startswith("text/html"):
        assert b" style=" not in body and b"<script>" not in body and b" on" not in body.replace(b" on nodes", b"")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8088", "127.0.0.1.evil.example", "localhost.evil.example", "", "[", "a b",
             "0.0.0.0", "169.254.169.254", "user@evil.example"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/v1/status", "/static/app.js", "/healthz"])
def test_foreign_hosts_are_refused(site: Site, host: str, path: str) -> None:
    assert site.ask("GET", path, Host=host)[0].status in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "localhost:9999", "127.0.0.1:1", "[::1]:8088", "LOCALHOST"])
def test_loopback_names_are_served(site: Site, host: str) -> None:
    assert site.ask("GET", "/api/v1/status", Host=host)[0].status == 200


def test_two_hosts_or_none_are_refused(site: Site) -> None:
    assert b" 200 " not in site.raw(b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", 1)[:20]
    assert b" 200 " not in site.raw(b"GET /api/v1/status HTTP/1.1\r\n\r\n", 1)[:20]


def test_a_host_can_be_allowed(guarded: Site) -> None:
    assert guarded.ask("GET", "/login", Host="dash.example")[0].status == 200
    assert guarded.ask("GET", "/login", Host="other.example")[0].status == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:1", ""])
def test_foreign_origins_are_refused(site: Site, origin: str) -> None:
    assert site.ask("GET", "/api/v1/status", Origin=origin)[0].status == 403


def test_requests_of_other_sites_are_refused_and_links_to_the_page_work(site: Site) -> None:
    assert site.ask("GET", "/api/v1/status", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")[0].status == 403
    assert site.ask("GET", "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0].status == 200
    own = f"http://127.0.0.1:{site.listener.port}"
    assert site.ask("GET", "/api/v1/status", Origin=own, Sec_Fetch_Site="same-origin")[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ["/", "/api/v1/status", "/views/waiting"])
def test_the_dashboard_is_read_only(site: Site, method: str, path: str) -> None:
    assert site.ask(method, path, b"{}")[0].status == 405


def test_a_form_of_another_site_cannot_make_it_compute(site: Site) -> None:
    response, body = site.ask("POST", "/api/v1/redecide", b"{}", Content_Type="text/plain")
    assert (response.status, json.loads(body)["error"]) == (403, "the header X-Requested-By is missing")
    assert site.ask("POST", "/api/v1/redecide", b"{}", X_Requested_By="x", Origin="http://evil")[0].status == 403


# --- the token


@pytest.mark.parametrize("path", ["/api/v1/status", "/views/waiting", "/api/v1/events", "/api/v1/openapi.json"])
@pytest.mark.parametrize(
    "sent", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer "}, {"Authorization": f"Basic {TOKEN}"},
             {"Authorization": f"Bearer {TOKEN}x"}, {"Cookie": f"{COOKIE}=x"}, {"Cookie": f"{COOKIE}={TOKEN}"},
             {"Authorization": "Bearer \xff\xfe"}],
)  # fmt: skip
def test_without_the_token_nothing_is_shown(guarded: Site, path: str, sent: dict[str, str]) -> None:
    response, body = guarded.ask("GET", path, **sent)
    assert response.status == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert set(json.loads(body)) == {"error"}


def test_the_token_is_taken_as_a_bearer_token_and_in_the_login_form(guarded: Site) -> None:
    assert guarded.get("/api/v1/status", Authorization=f"Bearer {TOKEN}")["version"] == 1
    assert guarded.ask("GET", "/")[0].headers["Location"] == "/login"
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    assert guarded.ask("POST", "/login", b"token=wrong", **form)[0].status == 401
    response, _ = guarded.ask("POST", "/login", f"token={TOKEN}".encode(), **form)
    cookie = response.headers["Set-Cookie"]
    assert response.status == 303
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
    assert guarded.ask("GET", "/", Cookie=cookie.partition(";")[0])[0].status == 200
    assert guarded.get("/api/v1/status", Cookie=cookie.partition(";")[0])["version"] == 1
    form["Origin"] = "http://evil.example"
    assert guarded.ask("POST", "/login", f"token={TOKEN}".encode(), **form)[0].status == 403


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"host": "0.0.0.0"}, "give --token-file"),
        ({"host": "192.0.2.1"}, "give --token-file"),
        ({"host": "::"}, "give --token-file"),
        ({"host": "0.0.0.0", "token_file": "good"}, "give --tls-cert-file"),
        ({"token_file": "short"}, "at least 16"),
        ({"token_file": "none"}, "cannot be read"),
        ({"tls_private_key_file": "key"}, "needs --tls-cert-file"),
    ],
)
def test_unsafe_settings_are_refused(tmp_path: Path, given: dict[str, str], why: str) -> None:
    (tmp_path / "good").write_text(TOKEN)
    (tmp_path / "short").write_text("secret")
    if "token_file" in given:
        given = {**given, "token_file": str(tmp_path / given["token_file"])}
    with pytest.raises(SettingError, match=why):
        DashboardSettings(cluster=ClusterSettings(), **given)


def test_https_has_secure_cookies_and_only_its_own_origin(tmp_path: Path) -> None:
    made = issue(["127.0.0.1"])
    (tmp_path / "pair").write_bytes(made.key + made.certificate)
    (tmp_path / "ca").write_bytes(made.authority)
    (tmp_path / "token").write_text(TOKEN)
    tls = FileTls(str(tmp_path / "pair"), report=lambda text: None).context
    with Site(source_of([node()]), tls, token_file=str(tmp_path / "token")) as site:
        assert site.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 1) == b"", "no plain HTTP"
        trusted = ssl.create_default_context(cafile=str(tmp_path / "ca"))
        for origin, status in ((f"https://127.0.0.1:{site.listener.port}", 303), ("http://127.0.0.1", 403)):
            client = HTTPSConnection("127.0.0.1", site.listener.port, timeout=10, context=trusted)
            form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": origin}
            client.request("POST", "/login", f"token={TOKEN}", form)
            answer = client.getresponse()
            assert answer.status == status
            assert ("Secure" in answer.headers.get("Set-Cookie", "")) == (status == 303)
            client.close()


# --- limits


def test_large_requests_are_refused(site: Site) -> None:
    line = b"GET /?" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    header = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000 + b"\r\n\r\n"
    many = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: 1\r\n" % i for i in range(500)) + b"\r\n"
    for data in (line, header, many):
        assert site.raw(data, 2)[:20].split(b" ")[1:2] in ([b"400"], [b"431"], [])
    response, _ = site.ask("POST", "/api/v1/redecide", b" " * (limits.MAX_BODY_BYTES + 1), X_Requested_By="x")
    assert response.status == 413


@pytest.mark.parametrize(
    "data",
    [b"\x16\x03\x01\x02\x00", b"\x00" * 4096, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
     b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
     b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_request_is_refused_and_others_are_served(site: Site, data: bytes) -> None:
    assert b" 200 " not in site.raw(data, 0.3)[:20]
    assert site.get("/api/v1/status")["version"] == 1


def test_a_compressed_body_is_not_unpacked(site: Site) -> None:
    bomb = gzip.compress(b" " * 5_000_000)
    headers = {"Content_Encoding": "gzip", "X_Requested_By": "x"}
    assert site.ask("POST", "/api/v1/redecide", bomb, **headers)[0].status == 400


def test_silent_and_slow_clients_are_dropped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REQUEST_TIMEOUT_S", "READ_TIMEOUT_S", "IDLE_TIMEOUT_S"):
        monkeypatch.setattr(limits, name, 0.3)
    monkeypatch.setattr(limits, "SWEEP_INTERVAL_S", 0.1)
    at = ("127.0.0.1", site.listener.port)
    silent, slow, deaf = (socket.create_connection(at, 10) for _ in range(3))
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    try:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: local")
        deaf.sendall(b"GET /static/app.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
        for client in (silent, slow):
            assert received(client) == b""
        until("the deaf one to be dropped", lambda: not site.listener.guards)
    finally:
        for client in (silent, slow, deaf):
            client.close()


def test_too_many_connections_are_refused_and_the_rest_are_served(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    until("no connection", lambda: not site.listener.guards)
    monkeypatch.setattr(site.listener, "max_connections", 5)
    at = ("127.0.0.1", site.listener.port)
    clients = [socket.create_connection(at, 5) for _ in range(8)]
    try:
        until("three to be refused", lambda: site.listener.refused >= 3)
        assert len(site.listener.guards) == 5
    finally:
        for client in clients:
            client.close()
    until("all to be gone", lambda: not site.listener.guards)
    assert site.get("/api/v1/status")["version"] == 1


# --- updates


def events(site: Site) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", site.listener.port), 10)
    client.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return client


def test_only_so_many_streams_are_open(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    display = site.source.display
    monkeypatch.setattr(display.updates, "_max_clients", 2)
    streams = [events(site), events(site)]
    try:
        until("two streams", lambda: len(display.updates) == 2)
        response, body = site.ask("GET", "/api/v1/events")
        assert (response.status, json.loads(body)["error"]) == (503, "too many pages are open")
    finally:
        for stream in streams:
            stream.close()
    site.on_loop(display.changed)
    site.on_loop(display.changed)
    until("they are gone", lambda: len(display.updates) == 0)


def test_a_change_is_on_the_wire_at_once_and_a_flood_is_merged(site: Site) -> None:
    display = site.source.display
    with events(site) as stream:
        until("a stream", lambda: len(display.updates) == 1)
        time.sleep(0.15)
        stream.settimeout(5)
        while b"event: update" not in stream.recv(1 << 16):
            pass
        sent, began = display.updates.sent, time.monotonic()
        site.on_loop(display.changed)
        stream.recv(1 << 16)
        assert time.monotonic() - began < 0.1
        for _ in range(2000):
            site.on_loop(display.changed)
            time.sleep(0.0001)
        took = time.monotonic() - began
        until("the last event", lambda: display.updates.latest.changes >= 2001)
        assert display.updates.sent - sent <= took * 10 + 2
