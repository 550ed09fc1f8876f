"""Dead letters of rejected events."""

import json
from pathlib import Path

from motet.codec.decode import decode_bytes
from motet.codec.rejections import write_dead_letters


def test_dead_letters_are_appended_and_can_be_corrected(tmp_path: Path) -> None:
    """Each rejection is one JSON line, appended; its content, corrected, decodes to the event."""
    lines = '<urn:s> <urn:p> "é" <urn:e> .\n<urn:s> <urn:p> <urn:o w> <urn:e> .\n'
    [decoded] = decode_bytes(lines.encode(), "application/n-quads", name="events.nq")
    for _ in range(2):
        write_dead_letters(tmp_path / "dead.jsonl", decoded.rejected)
    letters = [json.loads(line) for line in (tmp_path / "dead.jsonl").read_text(encoding="utf-8").splitlines()]
    assert letters == [error.to_json() for error in decoded.rejected] * 2
    assert (letters[0]["source"], letters[0]["event"], letters[0]["line"]) == ("events.nq", "urn:e", 2)
    [mended] = decode_bytes(letters[0]["content"].replace("o w", "ow").encode(), "application/n-quads")
    assert (mended.events.column("id").to_pylist(), mended.rejected) == (["urn:e"], [])


def test_nothing_rejected_writes_nothing(tmp_path: Path) -> None:
    """Without rejections no file is written."""
    write_dead_letters(tmp_path / "dead.jsonl", [])
    assert not (tmp_path / "dead.jsonl").exists()
