"""Certificates of the overlay: an authority of one network, and a certificate for each member and operator.

A member's certificate vouches for one address (`motet://HOST:PORT` as its alternative name), an operator's for the role
(`motet:operator`). Both sides of a connection show theirs; TLS 1.3. Keys are files that only their owner can read.

    DIR/authority.pem, authority.key            the certificate authority of the network
    DIR/members/HOST_PORT/{certificate,authority}.pem, member.key
    DIR/operator/{certificate,authority}.pem, member.key
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motet.model.errors import OverlayError, UsageError, require_extra
from motet.overlay.net.node_directory import write_atomically

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, CertificateBuilder

OPERATOR = "operator"
AUTHORITY_DAYS = 3650
MEMBER_DAYS = 365
CLOCK_SKEW = timedelta(minutes=5)

_MEMBER_SCHEME = "motet://"
_UNKNOWN_AUTHORITY = (7, 18, 19, 20, 21)  # a wrong signature, self-signed, or no issuer that is known here
_OPERATOR_NAME = "motet:operator"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What one party shows, and what it trusts: contexts for the connections it accepts and for those it opens."""

    name: str
    server: ssl.SSLContext
    client: ssl.SSLContext


def split_address(address: str) -> tuple[str, int]:
    """Host and port of an address.

    >>> split_address("127.0.0.1:4711"), split_address("[::1]:4711")
    (('127.0.0.1', 4711), ('::1', 4711))
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 <= int(port) < 65536:
        raise UsageError(f"{address[:80]!r} is not an address", advice="Write HOST:PORT, as 127.0.0.1:4711.")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UsageError(f"{address[:80]!r} is not an address", advice="Write an IPv6 address in brackets: [::1]:4711.")
    return host, int(port)


class CertificateAuthority:
    """The authority of one network, in a directory; it is made when the directory has none."""

    def __init__(self, directory: Path) -> None:
        require_extra("overlay", "a certificate authority", alternative="use a plain network on this machine (--plain)")
        self.directory = directory
        self._certificate, self._key = self._load() if self._path.exists() else self._create()

    @property
    def _path(self) -> Path:
        return self.directory / "authority.pem"

    def issue_member(self, address: str, directory: Path | None = None, *, days: int = MEMBER_DAYS) -> Path:
        """Make the key and the certificate of a member, and return their directory."""
        split_address(address)
        directory = directory or self.directory / "members" / address.replace(":", "_")
        return self._issue(address, _MEMBER_SCHEME + address, directory, days)

    def issue_operator(self, directory: Path | None = None, *, days: int = MEMBER_DAYS) -> Path:
        """Make the key and the certificate of an operator, and return their directory."""
        return self._issue(OPERATOR, _OPERATOR_NAME, directory or self.directory / OPERATOR, days)

    def _create(self) -> tuple[Certificate, EllipticCurvePrivateKey]:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("Motet overlay authority")
        builder = _builder(name, name, key, AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(is_authority=True), critical=True)
        certificate = builder.sign(key, hashes.SHA256())
        _make_private(self.directory)
        write_atomically(self.directory / "authority.key", _key_bytes(key), mode=0o600)
        write_atomically(self._path, _certificate_bytes(certificate))
        return certificate, key

    def _load(self) -> tuple[Certificate, EllipticCurvePrivateKey]:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            certificate = x509.load_pem_x509_certificate(self._path.read_bytes())
            key = load_pem_private_key((self.directory / "authority.key").read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise OverlayError(
                f"the authority in {self.directory} cannot be read: {error}",
                advice="Restore authority.pem and authority.key, or make a new authority in another directory.",
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise OverlayError(
                f"authority.key in {self.directory} is not the key of authority.pem",
                advice="Restore both files of the same authority.",
            )
        return certificate, key

    def _issue(self, name: str, vouched: str, directory: Path, days: int) -> Path:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name), self._certificate.subject, key, days)
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        extensions: tuple[tuple[Any, bool], ...] = (
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_key_usage(is_authority=False), True),
            (x509.ExtendedKeyUsage(uses), False),
            (x509.SubjectAlternativeName([x509.UniformResourceIdentifier(vouched)]), False),
        )
        for extension, is_critical in extensions:
            builder = builder.add_extension(extension, critical=is_critical)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = builder.add_extension(authority, critical=False).sign(self._key, hashes.SHA256())
        _make_private(directory)
        write_atomically(directory / "member.key", _key_bytes(key), mode=0o600)
        write_atomically(directory / "authority.pem", _certificate_bytes(self._certificate))
        write_atomically(directory / "certificate.pem", _certificate_bytes(certificate))
        return directory


def load_credentials(directory: Path) -> Credentials:
    """The credentials in a directory that `issue_member` or `issue_operator` has written."""
    certificate, key, authority = (directory / name for name in ("certificate.pem", "member.key", "authority.pem"))
    for path in (certificate, key, authority):
        if not path.is_file():
            raise OverlayError(f"{path} is missing", advice="Make the member's files with `motet overlay keys`.")
    if key.stat().st_mode & 0o077:
        raise OverlayError(f"{key} can be read by others", advice=f"Run: chmod 600 {key}")
    contexts = []
    for purpose in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
        context = ssl.SSLContext(purpose)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the alternative name is compared in `vouched_name`: it has the port, too
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(certificate, key)
            context.load_verify_locations(authority)
        except ssl.SSLError as error:
            raise OverlayError(
                f"the certificate in {directory} cannot be used: {_reason(error)}",
                advice="Make the member's files again with `motet overlay keys`.",
            ) from None
        contexts.append(context)
    if hasattr(contexts[0], "num_tickets"):
        contexts[0].num_tickets = 0  # every connection proves itself by its certificate; sessions are not resumed
    return Credentials(_name_in_file(certificate), *contexts)


def vouched_name(certificate: Mapping[str, Any] | None) -> str:
    """The member's address, or `operator`, that a verified certificate vouches for; OverlayError if it does not."""
    names = (certificate or {}).get("subjectAltName", ())
    for kind, value in names:
        if kind == "URI" and value.startswith(_MEMBER_SCHEME):
            return str(value.removeprefix(_MEMBER_SCHEME))
        if kind == "URI" and value == _OPERATOR_NAME:
            return OPERATOR
    raise OverlayError("the certificate names no member of an overlay", advice="Make it with `motet overlay keys`.")


def explain_tls_error(error: ssl.SSLError) -> str:
    """A TLS error in one plain sentence."""
    reason = _reason(error).upper().replace(" ", "_")
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _UNKNOWN_AUTHORITY:
            return "another authority signed its certificate"
        return f"its certificate is not accepted here: {error.verify_message}"
    sentences = {
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate",
        "UNKNOWN_CA": "it does not accept our certificate: another authority signed it",
        "TLSV1_ALERT_UNKNOWN_CA": "it does not accept our certificate: another authority signed it",
        "CERTIFICATE_REQUIRED": "it requires a certificate",
        "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it requires a certificate",
        "CERTIFICATE_EXPIRED": "it does not accept our certificate: it has expired",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it does not accept our certificate: it has expired",
        "BAD_CERTIFICATE": "it does not accept our certificate",
        "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept our certificate",
        "WRONG_VERSION_NUMBER": "it does not speak TLS",
        "RECORD_LAYER_FAILURE": "it does not speak TLS",
        "HTTP_REQUEST": "it speaks HTTP, not TLS",
    }
    return sentences.get(reason, f"TLS failed: {_reason(error)}")


def _reason(error: ssl.SSLError) -> str:
    return (getattr(error, "reason", None) or str(error)).lower().replace("_", " ")


def _name_in_file(path: Path) -> str:
    """The name that a certificate file vouches for."""
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound) as error:
        raise OverlayError(f"{path} is no certificate of a member: {error}") from None
    return vouched_name({"subjectAltName": [("URI", name.value) for name in names if hasattr(name, "value")]})


def _name(text: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _builder(subject: Any, issuer: Any, key: EllipticCurvePrivateKey, days: int) -> CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(identifier, critical=False)
    )


def _key_usage(*, is_authority: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_bytes(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _certificate_bytes(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _make_private(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
