"""`motet background`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from motet.cli.main import main

SUBCLASS = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"


def test_add_show_remove(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`add` creates the lake and adds what is new, `show` prints N-Triples, `remove` says what was not there."""
    lake = ["--lake", str(tmp_path / "lake")]
    (tmp_path / "o.ttl").write_text(f"<urn:A> {SUBCLASS} <urn:B> . <urn:C> {SUBCLASS} <urn:B> .")
    (tmp_path / "less.ttl").write_text(f"<urn:A> {SUBCLASS} <urn:B> . <urn:D> {SUBCLASS} <urn:B> .")
    for added in (2, 0):
        assert main(["background", "add", *lake, str(tmp_path / "o.ttl"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out) | {"lake": ""} == {
            "added": added,
            "unchanged": 2 - added,
            "lake": "",
        }
    assert main(["background", "show", *lake]) == 0
    assert capsys.readouterr().out == f"<urn:A> {SUBCLASS} <urn:B> .\n<urn:C> {SUBCLASS} <urn:B> .\n"
    assert main(["background", "remove", *lake, str(tmp_path / "less.ttl"), "--json"]) == 0
    read = capsys.readouterr()
    assert json.loads(read.out)["removed"] == 1
    assert "1 of the triples are not in the background" in read.err
    assert main(["background", "show", *lake, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["triples"] == [["<urn:C>", SUBCLASS, "<urn:B>"]]


@pytest.mark.parametrize("action", ["remove", "show"])
def test_only_add_creates_a_lake(action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`remove` and `show` need a lake."""
    (tmp_path / "o.ttl").write_text(f"<urn:A> {SUBCLASS} <urn:B> .")
    files = [] if action == "show" else [str(tmp_path / "o.ttl")]
    assert main(["background", action, *files, "--lake", str(tmp_path / "lake")]) == 1
    assert "is not a lake" in capsys.readouterr().err
