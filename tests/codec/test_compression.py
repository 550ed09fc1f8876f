"""Compressed sources."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from motet.codec.decode import decode_bytes, decode_file
from motet.codec.options import Limits
from motet.model.errors import DecodeError, UsageError

LINES = [f'<urn:s> <urn:p> "{i * 7919}" <urn:e{i // 2}> .\n' for i in range(400_000)]
TEXT = "".join(LINES).encode()


def decode(path: Path, limits: Limits | None = None) -> tuple[list[str], list[DecodeError]]:
    batches = list(decode_file(str(path), limits=limits))
    ids = [event for decoded in batches for event in decoded.events.column("id").to_pylist()]
    return ids, [error for decoded in batches for error in decoded.rejected]


@pytest.mark.parametrize("name", ["a.nq", "a.nq.gz", "a.nq.zst"])
@pytest.mark.parametrize("codec", ["gzip", "zstd", None])
def test_compression_is_recognised_by_magic_number(tmp_path: Path, name: str, codec: str | None) -> None:
    """gzip and zstd are recognised by their first bytes, not by the file name."""
    text = b"<urn:s> <urn:p> <urn:o> <urn:e> .\n"
    packed = {"gzip": gzip.compress(text), "zstd": pa.Codec("zstd").compress(text).to_pybytes(), None: text}[codec]
    (tmp_path / name).write_bytes(packed)
    assert decode(tmp_path / name) == (["urn:e"], [])


def test_gzip_members_are_concatenated() -> None:
    """A gzip file made of several members is read to its end."""
    members = [gzip.compress(f"<urn:s> <urn:p> <urn:o> <urn:e{i}> .\n".encode()) for i in range(3)]
    [decoded] = decode_bytes(b"".join(members), "application/n-quads")
    assert decoded.events.column("id").to_pylist() == ["urn:e0", "urn:e1", "urn:e2"]


@pytest.mark.parametrize("limits", [Limits(), Limits(max_document_bytes=1_000_000)])
def test_events_before_the_damage_are_accepted(tmp_path: Path, limits: Limits) -> None:
    """Of a truncated file the events before the damage are accepted, except the last."""
    packed = gzip.compress(TEXT, compresslevel=1)
    (tmp_path / "a.nq.gz").write_bytes(packed[: len(packed) * 3 // 4])
    ids, rejected = decode(tmp_path / "a.nq.gz", limits)
    assert len(ids) > 50_000
    assert ids == [f"urn:e{i}" for i in range(len(ids))]
    assert [error.event for error in rejected] == [f"urn:e{len(ids)}", None]
    assert "damaged" in rejected[-1].reason
    assert "fetch the file again" in str(rejected[-1].advice)


def test_damaged_trig(tmp_path: Path) -> None:
    """Of a truncated TriG document the graphs before the last one read are accepted."""
    text = "".join(f"<urn:e{i}> {{ <urn:s> <urn:p> {i * 7919} }}\n" for i in range(150_000)).encode()
    packed = gzip.compress(text, compresslevel=1)
    (tmp_path / "a.trig.gz").write_bytes(packed[: len(packed) * 3 // 4])
    ids, [error] = decode(tmp_path / "a.trig.gz")
    assert len(ids) > 10_000
    assert (ids, error.event) == ([f"urn:e{i}" for i in range(len(ids))], f"urn:e{len(ids)}")
    assert "damaged" in error.reason


def test_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    """A file that cannot be opened is a usage error that names it."""
    with pytest.raises(UsageError, match=r"nowhere\.nq"):
        decode(tmp_path / "nowhere.nq")
