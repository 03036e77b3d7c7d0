"""Certificates that muster makes for itself."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from muster.process.certificates import MAX_OTHER_AUTHORITIES, IssuedTls, bundle, issue

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def at(moment: datetime) -> Callable[[], datetime]:
    return lambda: moment


def test_a_certificate_is_for_its_names_and_of_its_authority() -> None:
    made = issue(["muster-webhook.home.svc", "127.0.0.1"], at(NOW))
    leaf, root = x509.load_pem_x509_certificate(made.certificate), x509.load_pem_x509_certificate(made.authority)
    leaf.verify_directly_issued_by(root)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["muster-webhook.home.svc"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_a_certificate_is_old_when_a_third_of_its_life_is_left() -> None:
    made = issue(["x"], at(NOW), timedelta(days=30))
    assert not made.is_old(NOW + timedelta(days=19))
    assert made.is_old(NOW + timedelta(days=20))


def test_a_bundle_keeps_others_that_have_not_ended_and_each_once() -> None:
    old, new = issue(["x"], at(NOW), timedelta(days=1)), issue(["x"], at(NOW), timedelta(days=30))
    both = bundle(old.authority, [new.authority], NOW)
    assert both == old.authority + new.authority
    assert bundle(both, [new.authority], NOW) == both
    assert bundle(both, [new.authority], NOW + timedelta(days=2)) == new.authority


def test_a_bundle_does_not_grow_for_ever() -> None:
    """One that is started again and again: the latest of what it left behind is kept, and its own of today."""
    known, made = b"", []
    for hour in range(25):
        made.append(issue(["x"], at(NOW + timedelta(hours=hour))).authority)
        known = bundle(known, [made[-1]], NOW)
    assert known == b"".join(made[-1 - MAX_OTHER_AUTHORITIES :])
    assert bundle(known, [made[-3]], NOW) == known


def test_a_bundle_that_nobody_could_read_is_begun_anew() -> None:
    made = issue(["x"], at(NOW))
    assert bundle(b"Cg==", [made.authority], NOW) == made.authority


def test_the_successor_of_an_old_certificate_is_served_once_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [NOW]
    monkeypatch.setattr("muster.process.certificates.utc_now", lambda: now[0])
    tls = IssuedTls(["localhost"], report=print, lifetime=timedelta(days=30))
    first = tls.issued
    assert tls.successor() is None
    now[0] += timedelta(days=20)
    fresh = tls.successor()
    assert fresh is not None and served(tls) == first.certificate  # its authority is published first
    tls.use(fresh)
    assert served(tls) == tls.issued.certificate == fresh.certificate != first.certificate
    assert tls.successor() is None


def served(tls: IssuedTls) -> bytes:
    """The certificate that a new client is shown."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = tls.context.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    for end in (theirs, ours, theirs):
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    shown = theirs.getpeercert(binary_form=True)
    assert shown is not None
    return ssl.DER_cert_to_PEM_cert(shown).encode()
