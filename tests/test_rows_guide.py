"""docs/rows.md does what it says."""

import json
import re
from pathlib import Path

import pytest

from motet.cli.main import main
from motet.codec.row_mapping import RowMapping

PAGE = (Path(__file__).parent.parent / "docs" / "rows.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands, one after the other, print the lines that the page shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    Path("readings.csv").write_text(blocks("csv")[0])
    Path("hot.motet").write_text(blocks("motet")[0])
    Path("alert.xml").write_text(blocks("xml")[0])
    Path("alert.yaml").write_text(blocks("yml")[0])
    statuses = []
    for block in blocks("console"):
        command, *shown = block.splitlines()
        statuses.append(main(command.removeprefix("$ motet ").split()))
        printed = capsys.readouterr()
        if "--map new" in command:
            Path("readings.yaml").write_text(printed.out)
        lines = [line.split() for line in (printed.err + printed.out).splitlines()]
        assert [line for line in shown if line != "…" and line.split() not in lines] == []
    assert statuses == [0, 1, 1, 0, 0, 0, 0, 0]


def test_the_mapping_of_the_guide_is_one() -> None:
    """The reference example is a mapping."""
    (text,) = blocks("yaml")
    assert RowMapping.parse(text).columns == ("n", "kind", "time", "celsius", "room", "floor", "comment", "sensor.id")


def test_the_dry_run_shows_columns_and_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As JSON: each property with its column and the number of values by type; nothing is written."""
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("t,x\n2026-11-15T10:00:00Z,5\n2026-11-15T10:00:00Z,y\n")
    Path("m.yaml").write_text("event: {time: t}\nproperties: {x: urn:x}\n")
    assert main(["ingest", "--map", "m.yaml", "--dry-run", "--json", "a.csv"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["events"], summary["stamped"], summary["rejected"]) == (2, 0, 0)
    assert summary["properties"] == [
        {
            "column": "t",
            "example": '"2026-11-15T10:00:00Z"',
            "property": "http://www.w3.org/ns/sosa/resultTime",
            "types": {"dateTime": 2},
        },
        {"column": "x", "example": '"5"', "property": "urn:x", "types": {"integer": 1, "string": 1}},
    ]
    assert main(["ingest", "--map", "m.yaml", "--dry-run", "a.csv"]) == 0
    assert "nothing was written" in capsys.readouterr().err
    assert main(["ingest", "--map", "new", "--json", "a.csv"]) == 0
    assert "time: t" in json.loads(capsys.readouterr().out)["mapping"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "m.yaml"]


def test_a_wrong_mapping_creates_no_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mapping that cannot be read, a file without one, and a missing --lake are errors with advice."""
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("x\n5\n")
    Path("a.nq").write_text("")
    Path("m.yaml").write_text("properties: {x: ex:x}\n")
    Path("good.yaml").write_text("properties: {x: urn:x}\n")
    for arguments, message in (
        (["--lake", "l", "--map", "m.yaml", "a.csv"], "the prefix of 'ex:x' is not declared"),
        (["--map", "m.yaml", "a.csv"], "the lake is missing"),
        (["--lake", "l", "--map", "none.yaml", "a.csv"], "'none.yaml' cannot be read"),
        (["--map", "new"], "exactly one source"),
        (["--map", "new", "a.csv", "a.csv"], "of one file"),
        (["--lake", "l", "--map", "good.yaml", "a.nq"], "no input has rows"),
        (["--lake", "l", "--map", "good.yaml", "-"], "no input has rows"),
    ):
        assert main(["ingest", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert not Path("l").exists()
