"""Splitting files for parallel decoding."""

import pickle
import random
from pathlib import Path

import pyarrow as pa
import pytest

from motet.codec.decode import decode_file
from motet.codec.events import Decoded
from motet.codec.formats import Format
from motet.codec.options import Limits
from motet.codec.splits import FileSplit, decode_split, split_file

SMALL = Limits(max_document_bytes=1000)


def content(batches: list[Decoded]) -> tuple[list[object], list[object]]:
    events = pa.Table.from_batches([decoded.events for decoded in batches]).to_pylist()
    return events, [error.to_json() for decoded in batches for error in decoded.rejected]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("seed", range(4))
def test_splits_cover_the_file(tmp_path: Path, seed: int, end: str) -> None:
    """The splits give the events, lines and rejections of the whole file, in its order."""
    rng = random.Random(seed)
    lines = []
    for event in range(300):
        lines += [f'<urn:s> <urn:p> "{i}" <urn:e{event}> .' for i in range(rng.randint(1, 20))]
        lines += ["garbage"] if rng.random() < 0.02 else []
    path = tmp_path / "events.nq"
    path.write_bytes((end.join(lines) + end).encode())
    splits = split_file(str(path), target_bytes=5000, limits=SMALL)
    assert len(splits) > 10
    decoded = [batch for split in pickle.loads(pickle.dumps(splits)) for batch in decode_split(split, limits=SMALL)]  # noqa: S301  (just written)
    assert content(decoded) == content(list(decode_file(str(path), limits=SMALL)))


def test_an_event_is_never_split(tmp_path: Path) -> None:
    """A file that is one event is one split, however small the target."""
    path = tmp_path / "events.nq"
    path.write_text("".join(f'<urn:s> <urn:p> "{i}" <urn:e> .\n' for i in range(1000)))
    assert split_file(str(path), target_bytes=100, limits=SMALL) == [
        FileSplit(str(path), Format.N_QUADS, 0, path.stat().st_size, 1)
    ]


@pytest.mark.parametrize("name", ["small.nq", "events.trig"])
def test_other_files_are_one_split(tmp_path: Path, name: str) -> None:
    """A small file, or one in another format, is one split."""
    path = tmp_path / name
    path.write_text(
        "<urn:e> { <urn:s> <urn:p> <urn:o> }" if name.endswith("trig") else "<urn:s> <urn:p> <urn:o> <urn:e> ."
    )
    [split] = split_file(str(path), target_bytes=10)
    assert (split.start, split.stop) == (0, None)
    assert [decoded.events.column("id").to_pylist() for decoded in decode_split(split)] == [["urn:e"]]
