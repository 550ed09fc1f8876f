"""Certificates: who they vouch for, and what is refused."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from motet.model.errors import OverlayError, UsageError
from motet.overlay.net.certificates import (
    CertificateAuthority,
    explain_tls_error,
    load_credentials,
    split_address,
    vouched_name,
)


def test_a_certificate_vouches_for_one_name(tmp_path: Path) -> None:
    """A member's certificate is for its address, an operator's for the role."""
    authority = CertificateAuthority(tmp_path)
    made = [authority.issue_member("127.0.0.1:4711"), authority.issue_member("[::1]:1"), authority.issue_operator()]
    assert [load_credentials(path).name for path in made] == ["127.0.0.1:4711", "[::1]:1", "operator"]


def test_keys_are_for_their_owner_only(tmp_path: Path) -> None:
    """No key can be read by others, not even for a moment; no other file holds one."""
    directory = CertificateAuthority(tmp_path / "a").issue_member("127.0.0.1:4711")
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert modes == {
        "authority.key": "0o600",
        "authority.pem": "0o644",
        "certificate.pem": "0o644",
        "member.key": "0o600",
    }
    assert [oct(path.stat().st_mode & 0o777) for path in (tmp_path / "a", directory)] == ["0o700", "0o700"]
    assert [
        path.name for path in (tmp_path / "a").rglob("*") if path.is_file() and b"PRIVATE" in path.read_bytes()
    ] == [path.name for path in (tmp_path / "a").rglob("*.key")]


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """The error says how to close it."""
    directory = CertificateAuthority(tmp_path).issue_operator()
    (directory / "member.key").chmod(0o640)
    with pytest.raises(OverlayError, match=r"member\.key can be read by others") as raised:
        load_credentials(directory)
    assert raised.value.advice == f"Run: chmod 600 {directory / 'member.key'}"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("certificate.pem", None, r"certificate\.pem is missing"),
        ("certificate.pem", "nothing", "cannot be used"),
        ("member.key", "nothing", "cannot be used"),
        ("authority.pem", "nothing", "cannot be used"),
    ],
)
def test_files_that_are_missing_or_damaged_are_named(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    """Each file of a member is checked when it is loaded."""
    directory = CertificateAuthority(tmp_path).issue_operator()
    if content is None:
        (directory / name).unlink()
    else:
        (directory / name).write_text(content)
    with pytest.raises(OverlayError, match=message) as raised:
        load_credentials(directory)
    assert "PRIVATE" not in str(raised.value)


def test_an_authority_with_the_key_of_another_is_refused(tmp_path: Path) -> None:
    """A mix of two authorities would sign certificates that nobody accepts."""
    for name in ("a", "b"):
        CertificateAuthority(tmp_path / name)
    (tmp_path / "a" / "authority.key").write_bytes((tmp_path / "b" / "authority.key").read_bytes())
    with pytest.raises(OverlayError, match=r"is not the key of authority\.pem"):
        CertificateAuthority(tmp_path / "a")
    (tmp_path / "a" / "authority.key").unlink()
    with pytest.raises(OverlayError, match="cannot be read"):
        CertificateAuthority(tmp_path / "a")


def test_a_certificate_of_something_else_is_no_members() -> None:
    """A certificate that the same authority made for a web server opens nothing here."""
    with pytest.raises(OverlayError, match="names no member"):
        vouched_name({"subjectAltName": (("DNS", "example.org"), ("URI", "https://example.org"))})
    with pytest.raises(OverlayError, match="names no member"):
        vouched_name(None)


@pytest.mark.parametrize("address", ["", "a", "a:", ":1", "a:b", "a:99999", "::1:4", "a:١"])
def test_what_is_no_address_is_refused(address: str) -> None:
    """An address is a host and a port."""
    with pytest.raises(UsageError, match="is not an address"):
        split_address(address)


def test_an_unknown_tls_error_is_passed_on() -> None:
    """What has no sentence of its own is shown as OpenSSL says it."""
    assert explain_tls_error(ssl.SSLError(1, "[SSL: NEW_THING] new thing (_ssl.c:1)")).startswith("TLS failed")
