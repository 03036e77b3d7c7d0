"""The keys and certificates of a control plane that lives as long as a test run."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


class Authority:
    """A certificate authority in a folder: its certificate (ca.crt, or another name), and what it signs."""

    def __init__(self, folder: Path, file: str = "ca", name: str = "muster-live-tests") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        own = self._certificate(self._name, self._key.public_key())
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        own = own.add_extension(usage, critical=True)
        self.certificate = self._write(f"{file}.crt", own)

    def server(self, file: str, *addresses: str) -> tuple[Path, Path]:
        """A serving certificate for loopback, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in _NAMES]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", *addresses)]
        signed = self._certificate(_name(file), key.public_key())
        signed = signed.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = signed.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        return self._write(f"{file}.crt", signed), self.private(f"{file}.key", key)

    def client(
        self, file: str, group: str, lives: timedelta = timedelta(days=30), name: str = ""
    ) -> tuple[Path, Path]:
        """A client certificate of a user in a group, and its key. The user has the file's name, or another one."""
        key = ec.generate_private_key(ec.SECP256R1())
        signed = self._certificate(_name(name or file, group), key.public_key(), lives)
        signed = signed.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        return self._write(f"{file}.crt", signed), self.private(f"{file}.key", key)

    def signing_pair(self, file: str) -> tuple[Path, Path]:
        """A bare key for service account tokens: public, private."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = self.folder / f"{file}.pub"
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))
        return public, self.private(f"{file}.key", key)

    def private(self, file: str, key: ec.EllipticCurvePrivateKey) -> Path:
        path = self.folder / file
        path.touch(mode=0o600)
        form = serialization.PrivateFormat.TraditionalOpenSSL
        path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        return path

    def _certificate(
        self, subject: x509.Name, public: ec.EllipticCurvePublicKey, lives: timedelta = timedelta(days=30)
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(public)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + lives)

    def _write(self, file: str, unsigned: x509.CertificateBuilder) -> Path:
        path = self.folder / file
        path.write_bytes(unsigned.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return path


def _name(common: str, organisation: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organisation:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation))
    return x509.Name(parts)
