"""Certificates that muster issues itself, and certificates in files.

Issued certificates are not stored on disk or in a Secret: at its start a process creates its own authority and
publishes it to those who must trust it. Before a certificate expires there is a new authority, which is published first
and used afterwards. Files that somebody else renews are reloaded when they change.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=30)
MAX_OTHER_AUTHORITIES = 20  # a process that ends and starts again and again has a new authority each time
_BACKDATED = timedelta(minutes=5)  # clocks of other machines may be behind

Now = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Issued:
    """A serving certificate with its key, and the authority that issued it (all PEM)."""

    authority: bytes
    certificate: bytes
    key: bytes
    made: datetime
    ends: datetime

    def is_old(self, now: datetime) -> bool:
        """Returns whether two thirds of its validity have passed: then a new one is issued."""
        return now >= self.made + (self.ends - self.made) * 2 / 3


def issue(names: Sequence[str], now: Now = utc_now, lifetime: timedelta = LIFETIME) -> Issued:
    """Creates an authority and issues a certificate for these host names and addresses."""
    began = now()
    ends = began + lifetime
    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    # A unique subject: with several CAs in a bundle, clients choose by it.
    root_name = _name(f"muster-{began:%Y%m%d%H%M%S}-{x509.random_serial_number() % 10**8:08d}")
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    root = _unsigned(root_name, root_name, root_key.public_key(), began, ends)
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    root = root.add_extension(usage, critical=True)
    leaf = _unsigned(_name(names[0]), root_name, key.public_key(), began, ends)
    leaf = leaf.add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
    leaf = leaf.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    return Issued(
        root.sign(root_key, hashes.SHA256()).public_bytes(pem),
        leaf.sign(root_key, hashes.SHA256()).public_bytes(pem),
        key.private_bytes(pem, form, serialization.NoEncryption()),
        began,
        ends,
    )


def bundle(known: bytes, mine: Sequence[bytes], now: datetime) -> bytes:
    """Returns the authorities to trust: the latest of the others' that have not expired, and our own; each once."""
    own = [x509.load_pem_x509_certificate(one) for one in mine]
    kept = dict.fromkeys(one for one in (*_authorities(known), *own) if one.not_valid_after_utc > now)
    others = sorted((one for one in kept if one not in own), key=lambda one: one.not_valid_before_utc)
    for one in others[:-MAX_OTHER_AUTHORITIES]:
        del kept[one]
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in kept)


class Files:
    """Watched files; `changed` returns whether one has changed since the last call. In a mounted Secret the names are
    symbolic links, so their targets are compared."""

    def __init__(self, *paths: str) -> None:
        self._paths = [path for path in paths if path]
        self._seen = self._look()

    def changed(self) -> bool:
        before, self._seen = self._seen, self._look()
        return self._seen != before

    def _look(self) -> list[tuple[int, int, int]]:
        found = []
        for path in self._paths:
            try:
                stat = os.stat(path)
            except OSError:
                stat = None  # gone for a moment: it is being replaced
            found.append((0, 0, 0) if stat is None else (stat.st_ino, stat.st_mtime_ns, stat.st_size))
        return found


class ServerTls(ABC):
    """TLS of an HTTP/1.1 server: `context` serves every new connection with what the files have by then.

    Files that cannot be used, such as a certificate whose key has not come yet, change nothing.
    """

    def __init__(self, client_authority: str, report: Callable[[str], None], *files: str, required: bool) -> None:
        """With a client authority (a file) only clients with a certificate of it are accepted (without `required`, also
        clients without one). Raises OSError (ssl.SSLError is one) if the files cannot be used."""
        self._client_authority, self._required = client_authority, required
        self._report = report
        self._paths = [path for path in (*files, client_authority) if path]
        self._files = Files(*self._paths)
        self.renew()
        self.context = self._newest
        self.context.sni_callback = self._switch

    @abstractmethod
    def _load_certificate(self, context: ssl.SSLContext) -> None: ...

    def renew(self) -> None:
        """Creates a new context for new connections."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        self._load_certificate(context)
        if self._client_authority:
            context.load_verify_locations(self._client_authority)
            # A session that is resumed would not be checked against an authority that has changed since.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
            context.verify_mode = ssl.CERT_REQUIRED if self._required else ssl.CERT_OPTIONAL
        self._newest = context

    def _switch(self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Sets the current context in every handshake, after the ClientHello."""
        if self._files.changed():
            try:
                self.renew()
                self._report(f"{self._paths[0]}: read again")
            except OSError as fault:
                self._report(f"{self._paths[0]}: cannot be used, the last good one stays: {fault}")
        connection.context = self._newest


class FileTls(ServerTls):
    """Serves with a certificate in files."""

    def __init__(
        self, certificate: str, key: str = "", client_authority: str = "", *, report: Callable[[str], None],
        required: bool = True,
    ) -> None:  # fmt: skip
        self._certificate, self._key = certificate, key
        super().__init__(client_authority, report, certificate, key, required=required)

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(self._certificate, self._key or None)


class IssuedTls(ServerTls):
    """Serves with a certificate that this process issues to itself and renews."""

    def __init__(
        self, names: Sequence[str], client_authority: str = "", *, report: Callable[[str], None],
        required: bool = True, lifetime: timedelta = LIFETIME,
    ) -> None:  # fmt: skip
        """`names` are the host names and addresses of the certificate."""
        self._names, self._lifetime = names, lifetime
        self.issued = issue(names, utc_now, lifetime)
        super().__init__(client_authority, report, required=required)

    def successor(self) -> Issued | None:
        """Issues the next certificate if the current one is old. Publish its authority, then `use` it."""
        return issue(self._names, utc_now, self._lifetime) if self.issued.is_old(utc_now()) else None

    def use(self, issued: Issued) -> None:
        """Uses this certificate for new connections."""
        self.issued = issued
        self.renew()

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        # Python's TLS reads keys from files only.
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.issued.key + self.issued.certificate)
            file.flush()
            context.load_cert_chain(file.name)


def _authorities(text: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError:
        return []  # nothing there yet, or nothing that anybody could trust


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, began: datetime, ends: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(began - _BACKDATED).not_valid_after(ends)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
