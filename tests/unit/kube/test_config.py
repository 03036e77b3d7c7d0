"""Access: what the official client makes of a kubeconfig is what is used."""

from __future__ import annotations

import asyncio
import ssl
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from fakes.faulty_api import FaultyApi, refuse, reply, run
from muster.kube import Client, NoAccess, load
from muster.kube.config import Access
from muster.store import errors


def kubeconfig(folder: Path, user: str, cluster: str = "") -> str:
    path = folder / "config"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: one\n"
        "clusters:\n"
        f"- {{name: c, cluster: {{server: 'https://127.0.0.1:6443/', insecure-skip-tls-verify: true{cluster}}}}}\n"
        f"users: [{{name: u, user: {{{user}}}}}]\n"
        "contexts:\n- {name: one, context: {cluster: c, user: u}}\n"
        "- {name: two, context: {cluster: c, user: nobody}}\n",
        encoding="utf-8",
    )
    return str(path)


def header(access: Access) -> str | None:
    return asyncio.run(access.header())


def test_a_token_is_the_authorization(tmp_path: Path) -> None:
    access = load(kubeconfig(tmp_path, "token: abc"))
    assert (access.host, header(access)) == ("https://127.0.0.1:6443", "Bearer abc")
    assert access.tls is not None and access.tls.check_hostname is False


def test_a_password_is_the_authorization(tmp_path: Path) -> None:
    assert header(load(kubeconfig(tmp_path, "username: me, password: secret"))) == "Basic bWU6c2VjcmV0"


def test_a_context_can_be_chosen(tmp_path: Path) -> None:
    assert header(load(kubeconfig(tmp_path, "token: abc"), "two")) is None


def test_an_exec_plugin_is_run(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    credential = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"made"}}'
    plugin.write_text(f"#!{sys.executable}\nprint('{credential}')\n", encoding="utf-8")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = f"exec: {{apiVersion: client.authentication.k8s.io/v1, command: {plugin}, interactiveMode: Never}}"
    assert header(load(kubeconfig(tmp_path, user))) == "Bearer made"


def test_a_server_name_and_a_proxy_are_taken(tmp_path: Path) -> None:
    cluster = ", tls-server-name: api.example, proxy-url: 'http://proxy.example:3128'"
    access = load(kubeconfig(tmp_path, "token: abc", cluster))
    assert (access.server_name, access.proxy) == ("api.example", "http://proxy.example:3128")


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "empty"), ("just text", "cannot be used"), ("a: [", "not YAML"), ("kind: Config\n", "current-context")],
)
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "config"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NoAccess, match=says) as caught:
        load(str(path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("user", "cluster", "says"),
    [
        ("token: a, as: root", "", "user 'u': as: impersonation is not supported"),
        ("token: a, as-groups: [admins]", "", "as-groups: impersonation"),
        ("auth-provider: {name: azure, config: {}}", "", "auth-provider 'azure' is not supported"),
        ("token: a", ", proxy-url: 'socks5://127.0.0.1:1080'", "proxy-url 'socks5://127.0.0.1:1080' is not supported"),
        ("exec: {apiVersion: client.authentication.k8s.io/v1, command: ./not-there}", "", "not-there"),
        ("exec: {command: 'true'}", "", "missing key 'apiVersion'"),
        ("exec: {apiVersion: client.authentication.k8s.io/v1, command: 'false'}", "", "exec: process returned 1"),
        ("exec: {apiVersion: client.authentication.k8s.io/v1, command: 'true'}", "", "failed to decode process output"),
        ("tokenFile: not-there", "", "not-there"),
        ("client-certificate: not-there, client-key: not-there", "", "not-there"),
        ("client-certificate-data: bm9uZQ==, client-key-data: bm9uZQ==", "", "certificates of the kubeconfig"),
    ],
)
def test_what_would_be_ignored_or_fails_is_reported(tmp_path: Path, user: str, cluster: str, says: str) -> None:
    path = kubeconfig(tmp_path, user, cluster)
    with pytest.raises(NoAccess) as caught:
        load(path)
    assert says in str(caught.value)


def test_what_stands_in_a_broken_file_is_not_repeated(tmp_path: Path) -> None:
    path = Path(kubeconfig(tmp_path, "token: secret"))
    path.write_text(path.read_text().replace("user: {token", "usr: {token"))
    with pytest.raises(NoAccess, match="user") as caught:
        load(str(path))
    assert "secret" not in str(caught.value)


def test_a_server_says_how_it_is_spoken_to(tmp_path: Path) -> None:
    path = Path(kubeconfig(tmp_path, "token: a"))
    path.write_text(path.read_text().replace("https://127.0.0.1:6443/", "127.0.0.1:6443"))
    with pytest.raises(NoAccess, match="should begin with https://"):
        load(str(path))


def test_a_key_with_a_password_asks_nobody(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    from live.certificates import Authority

    certificate, _ = Authority(tmp_path / "pki").client("me", "us")
    secret = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    (tmp_path / "key").write_bytes(secret)
    with pytest.raises(NoAccess, match="client key is encrypted"):
        load(kubeconfig(tmp_path, f"client-certificate: {certificate}, client-key: key"))


def test_the_authority_of_a_client_certificate_is_not_sent(tmp_path: Path) -> None:
    from live.certificates import Authority

    authority = Authority(tmp_path / "pki")
    authority.server("server")
    certificate, key = authority.client("me", "us")
    trusted = tmp_path / "pki" / "ca.crt"
    user = f"client-certificate: {certificate}, client-key: {key}"
    access = load(kubeconfig(tmp_path, user, f", certificate-authority: {trusted}"))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=trusted)
    server.load_cert_chain(tmp_path / "pki" / "server.crt", tmp_path / "pki" / "server.key")
    server.verify_mode = ssl.CERT_REQUIRED
    assert access.tls is not None
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        access.tls.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for end in ends * 3:
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    sent = ends[1]._sslobj.get_unverified_chain()  # type: ignore[attr-defined]  # public since Python 3.13
    assert {dict(pair[0] for pair in one.get_info()["subject"])["commonName"] for one in sent} == {"me"}


@pytest.mark.parametrize("before", ["friendlyName: Jürgen\n".encode("latin-1"), b"\xff\xfe\x00\n"])
def test_text_of_any_encoding_may_stand_before_a_client_certificate(tmp_path: Path, before: bytes) -> None:
    from live.certificates import Authority

    certificate, key = Authority(tmp_path / "pki").client("me", "us")
    Path(certificate).write_bytes(before + Path(certificate).read_bytes())
    assert load(kubeconfig(tmp_path, f"client-certificate: {certificate}, client-key: {key}")).tls is not None


class FullDevice:
    """A temporary file on a full disk: a part of the text is written."""

    name = "not to be read"

    def __enter__(self) -> FullDevice:
        return self

    def __exit__(self, *_: object) -> None: ...

    def write(self, data: bytes) -> int:
        return len(data) // 2


def no_space(*_: object, **__: object) -> FullDevice:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("temporary", [no_space, lambda *_, **__: FullDevice()], ids=["no file", "half of it"])
def test_a_client_certificate_is_loaded_without_space_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: object
) -> None:
    from live.certificates import Authority

    certificate, key = Authority(tmp_path / "pki").client("me", "us")
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", temporary)
    assert load(kubeconfig(tmp_path, f"client-certificate: {certificate}, client-key: {key}")).tls is not None


def test_of_several_files_the_first_context_and_the_first_of_a_name_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubernetes import config

    paths = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        paths.append(kubeconfig(tmp_path / name, f"token: {name}"))
    other = Path(paths[1]).read_text()
    for old, new in (("name: u,", "name: v,"), ("user: u}", "user: v}"), (" one", " three")):
        other = other.replace(old, new)
    Path(paths[1]).write_text(other)
    for given in (":".join(paths), f"{tmp_path / 'none'}:{paths[0]}:{paths[1]}"):
        assert header(load(given)) == "Bearer first"
        assert header(load(given, "three")) == "Bearer second"
        monkeypatch.setattr(config, "KUBE_CONFIG_DEFAULT_LOCATION", given)
        monkeypatch.setattr(config.kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", given)
        assert header(load()) == "Bearer first"


def test_without_access_the_error_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes import config

    monkeypatch.setattr(config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "nothing"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(NoAccess, match="--kubeconfig"):
        load()


def test_a_new_token_in_the_file_is_found_when_the_old_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from muster.kube import config

    monkeypatch.setattr(config, "MIN_RELOAD_PERIOD_S", 0.0)

    async def story(api: FaultyApi) -> list[str]:
        path = Path(kubeconfig(tmp_path, "token: old"))
        path.write_text(path.read_text().replace("https://127.0.0.1:6443/", api.host))
        access = load(str(path))
        path.write_text(path.read_text().replace("old", "new"))
        api.plan("POST", "/x", refuse(401, "Unauthorized", "Unauthorized"), reply({}))
        async with Client(access) as client:
            await client.request("POST", "/x", body={})
        return [one.headers["Authorization"] for one in api.asked]

    assert run(story) == ["Bearer old", "Bearer new"]


def test_a_server_that_refuses_everything_is_not_asked_for_ever(tmp_path: Path) -> None:
    async def story(api: FaultyApi) -> int:
        path = Path(kubeconfig(tmp_path, "token: old"))
        path.write_text(path.read_text().replace("https://127.0.0.1:6443/", api.host))
        api.plan("GET", "/x", refuse(401, "Unauthorized", "Unauthorized"))
        async with Client(load(str(path))) as client:
            with pytest.raises(errors.Unauthorized):
                await client.request("GET", "/x")
        return len(api.asked)

    assert run(story) <= 2
