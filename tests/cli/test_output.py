"""Tables, fields and trees show data literally: no markup, no emoji, no control characters; output goes to files."""

import os
from pathlib import Path

import pytest
from rich.console import Console

from motet.cli import demo, output
from motet.cli.main import main

EVIL = ["urn:x:6", ":cat: [bold red]x[/bold red]", "[/]", "a\x1b[2Jb"]
SHOWN = ["urn:x:6", ":cat: [bold red]x[/bold red]", "[/]", r"a\x1b[2Jb"]


def text_of(table: object) -> str:
    console = Console(width=120, record=True, force_terminal=True)
    console.print(table)
    return console.export_text()


def test_tables_show_data_literally(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither `:x:` nor brackets in an IRI or a literal mean anything to the table."""
    output.print_table([[value, 1] for value in EVIL], headers=["id", "n"])
    lines = [line.split("  ")[0].rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["id", *SHOWN]
    assert all(shown in text_of(output.make_table([[value]])) for value, shown in zip(EVIL, SHOWN, strict=True))


def test_fields_and_trees_show_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """An escape sequence in an event cannot change the terminal."""
    output.print_fields({"event": "a\x1b[2Jb", "many": ["x", "\x9b"]})
    output.print_tree([("", "?x is \x1b[2J", "fact")])
    assert capsys.readouterr().out == "event  a\\x1b[2Jb\nmany   x, \\x9b\n?x is \\x1b[2J\n"


def test_warnings_show_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """A message keeps its lines, and nothing else that a terminal would obey."""
    output.warn("line\n  a\x1b[2Jb\x07")
    assert capsys.readouterr().err == "line\n  a\\x1b[2Jb\\x07\n"


def test_inspect_shows_the_ids_of_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`motet inspect --records` shows urn:x:6, not an emoji."""
    (tmp_path / "e.nq").write_text(
        '<urn:x:6> <http://purl.org/dc/terms/created> "2026-01-01T00:00:00Z"'
        "^^<http://www.w3.org/2001/XMLSchema#dateTime> <urn:x:6> .\n"
    )
    lake = str(tmp_path / "lake")
    assert main(["ingest", "--lake", lake, str(tmp_path / "e.nq")]) == 0
    assert main(["inspect", "--lake", lake, "--records", "5"]) == 0
    assert "urn:x:6" in capsys.readouterr().out


def test_the_demo_shows_bindings_literally() -> None:
    """The live table of `motet demo` as well."""
    board = demo.NotificationBoard(live=False)
    board.lines = ['{"end": "2026-01-01T00:00:00Z", "subscription": "s", "bindings": {"x": {"value": "urn:x:6 [b]"}}}']
    assert "x urn:x:6 [b]" in text_of(board._table())


def test_an_output_replaces_no_pipe_and_no_link(tmp_path: Path) -> None:
    """A file appears when it is complete; a named pipe, as a device, is written to, and a link keeps its target."""
    pipe, target, link = tmp_path / "pipe", tmp_path / "target", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(target)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for path in (pipe, link):
        with output.open_output(str(path)) as file:
            file.write(b"rows")
    assert (os.read(reader, 9), pipe.is_fifo()) == (b"rows", True)
    os.close(reader)
    assert (target.read_bytes(), link.is_symlink()) == (b"rows", True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe", "target"]
