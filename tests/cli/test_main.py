"""The commands, as a person types them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from motet.cli.main import COMMANDS, main
from motet.demo import building

XSD = "http://www.w3.org/2001/XMLSchema#"
PROV = "http://www.w3.org/ns/prov#"
GOOD = '<urn:e:{0}> <urn:p> "x" <urn:e:{0}> .\n'
ANY = "SUBSCRIPTION any EVENT e WHEN e"


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` describes a command and shows examples."""
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert f"motet {command}" in capsys.readouterr().out.partition("examples:")[2]


def test_help_imports_nothing_heavy() -> None:
    """Heavy libraries are imported only by the commands that need them, so help is printed at once."""
    heavy = {"numba", "pandas", "pyarrow", "pyoxigraph", "pyspark", "rdflib", "rich", "lark"}
    parse = "import sys; from motet.cli.main import make_parser; make_parser([])"
    code = f"{parse}; print(*{{module.split('.')[0] for module in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert heavy.isdisjoint(loaded)


def test_a_run_loads_no_reference_engine(tmp_path: Path) -> None:
    """The oracle is loaded by `--engine reference` only."""
    subscriptions = write(tmp_path / "any.motet", ANY + " SIGNAL")
    events = write(tmp_path / "e.nq", GOOD.format(1))
    code = (
        "import sys; from motet.cli.main import main;"
        f"main(['run', '--subscriptions', {subscriptions!r}, '--events', {events!r}]);"
        "print(*(name for name in sys.modules if name.startswith(('motet.reference', 'motet.provenance'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    notification, modules = done.stdout.splitlines()
    assert json.loads(notification)["events"] == ["urn:e:1"]
    assert modules == ""


def test_run_prints_notifications_and_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Notifications go to standard output, the summary to standard error."""
    subscriptions = write(tmp_path / "any.motet", ANY + " SIGNAL")
    events = write(tmp_path / "e.nq", GOOD.format(1) + GOOD.format(2))
    status = main(
        ["run", "--subscriptions", subscriptions, "--events", events, "--json", "--arrival", "2026-11-15T10:00:00Z"]
    )
    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.out.splitlines()]
    assert status == 0
    assert [(line["events"], line["end"]) for line in lines] == [
        (["urn:e:1"], "2026-11-15T10:00:00.000000Z"),
        (["urn:e:2"], "2026-11-15T10:00:00.000000Z"),
    ]
    assert json.loads(printed.err) | {"seconds": 0} == {
        "derived": 0, "dropped": 0, "engine": "embedded", "events": 2, "notifications": 2, "rejected": 0, "repeated": 0,
        "seconds": 0, "tasks": 1, "unknown_names": [],
        "unmatched_leaves": [],
    }  # fmt: skip


def test_engines_agree_on_the_demo(tmp_path: Path) -> None:
    """`motet run` on the demo's events gives the same bytes on the embedded and the reference engine."""
    events = [str(path) for path in building.write_events(tmp_path, events=250, files=2)]
    subscriptions = [str(building.subscriptions_path()), str(building.composite_path())]
    common = ["run", "--subscriptions", *subscriptions, "--ontology", str(building.ontology_path())]
    outputs = []
    for engine in ("embedded", "reference"):
        output = tmp_path / f"{engine}.jsonl"
        assert main([*common, "--events", *events, "--engine", engine, "--output", str(output)]) == 0
        outputs.append(output.read_bytes())
    assert outputs[0] == outputs[1]
    assert outputs[0].count(b"\n") > 7


BAD_EVENTS: dict[str, tuple[str | bytes, str, str]] = {
    "truncated": (GOOD.format(2) + '<urn:e:2> <urn:q> "half', "line 3, column", "<urn:e:2>"),
    "invalid UTF-8": (b'<urn:e:2> <urn:p> "\xff" <urn:e:2> .\n', "line 2, column", "<urn:e:2>"),
    "a huge literal": ('<urn:e:2> <urn:p> "' + "x" * (17 << 20) + '" <urn:e:2> .\n', "line 2", "<urn:e:2>"),
    "end before start": (
        f'<urn:e:2> <{PROV}startedAtTime> "2026-11-15T11:00:00Z"^^<{XSD}dateTime> <urn:e:2> .\n'
        f'<urn:e:2> <{PROV}endedAtTime> "2026-11-15T10:00:00Z"^^<{XSD}dateTime> <urn:e:2> .\n',
        "line 2",
        "<urn:e:2>",
    ),
}


@pytest.mark.parametrize("bad", BAD_EVENTS)
def test_a_rejected_event_does_not_stop_others(bad: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error has file, line, event and advice; the status is 1; the lake is sound and holds the good event."""
    content, place, event = BAD_EVENTS[bad]
    raw = content if isinstance(content, bytes) else content.encode()
    path = write(tmp_path / "bad.nq", GOOD.format(1).encode() + raw)
    lake = str(tmp_path / "lake")
    assert main(["ingest", "--lake", lake, path]) == 1
    printed = capsys.readouterr()
    rejected = next(line for line in printed.err.splitlines() if line.startswith("rejected"))
    assert f"bad.nq, {place}" in rejected
    assert event in rejected
    assert printed.err.splitlines()[1].startswith("  "), "advice follows"
    letters = [json.loads(line) for line in (tmp_path / "lake/dead-letter/rejected.jsonl").read_text().splitlines()]
    assert [(letter["event"], letter["source"]) for letter in letters] == [("urn:e:2", path)]
    assert main(["inspect", "--lake", lake, "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["events"] == 1


def test_ingest_twice_accepts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Publishing the same IRI again is the same event."""
    path = write(tmp_path / "e.nq", GOOD.format(1) + GOOD.format(2))
    facts = []
    for _ in range(2):
        assert main(["ingest", "--lake", str(tmp_path / "lake"), "--json", path]) == 0
        facts.append(json.loads(capsys.readouterr().out))
    assert [(fact["accepted"], fact["repeated"]) for fact in facts] == [(2, 0), (0, 2)]


def test_tick_compact_and_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tick is a record; compaction merges files and keeps every record."""
    lake = str(tmp_path / "lake")
    for number in (1, 2):
        main(["ingest", "--lake", lake, write(tmp_path / f"{number}.nq", GOOD.format(number))])
    capsys.readouterr()
    assert main(["tick", "--lake", lake, "--json", "--force", "end"]) == 0
    assert json.loads(capsys.readouterr().out) == {"instant": "9999-12-31T23:59:59.999999Z", "offset": 3}
    assert main(["compact", "--lake", lake, "--vacuum", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["after"] == 1
    assert main(["inspect", "--lake", lake, "--records", "9", "--json"]) == 0
    assert [row["kind"] for row in json.loads(capsys.readouterr().out)] == ["settings", "event", "event", "tick"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--subscriptions", "{any}", "--events", "missing.nq"], "missing.nq"),
        (["run", "--subscriptions", "missing.motet", "--events", "{events}"], "missing.motet"),
        (["run", "--subscriptions", "{any}", "{any}", "--events", "{events}"], "also in"),
        (["run", "--subscriptions", "{prefix}", "--events", "{events}"], "line 1, column 26"),
        (["run", "--subscriptions", "{any}", "--events", "{events}", "--arrival", "noon"], "noon"),
        (["ingest", "--lake", "{lake}", "missing.nq"], "missing.nq"),
        (["ingest", "--lake", "{lake}", "--lateness", "soon", "{events}"], "soon"),
        (["tick", "--lake", "{lake}", "yesterday"], "yesterday"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong arguments are named, nothing is done, and the status is 2."""
    files = {
        "any": write(tmp_path / "any.motet", ANY),
        "prefix": write(tmp_path / "prefix.motet", "SUBSCRIPTION a EVENT e : ex:Alarm WHEN e"),
        "events": write(tmp_path / "e.nq", GOOD.format(1)),
        "lake": str(tmp_path / "lake"),
    }
    assert main([argument.format(**files) for argument in arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert not (tmp_path / "lake").exists()


def test_an_output_file_appears_only_when_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that fails keeps the earlier output file and leaves no other file."""
    output = tmp_path / "out.jsonl"
    output.write_text("earlier\n")
    circle = (
        "SUBSCRIPTION one EVENT a : <urn:A> WHEN a CONSTRUCT { ?this a <urn:B> } "
        "SUBSCRIPTION two EVENT b : <urn:B> WHEN b CONSTRUCT { ?this a <urn:A> }"
    )
    pair = write(tmp_path / "pair.motet", circle)
    events = write(tmp_path / "e.nq", GOOD.format(1))
    assert main(["run", "--subscriptions", pair, "--events", events, "--output", str(output)]) == 2
    assert "one, two feed each other in a cycle" in capsys.readouterr().err
    assert output.read_text() == "earlier\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.nq", "out.jsonl", "pair.motet"]


def test_the_demo_replaces_only_its_own_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second demo replaces the first; a directory with other files is refused."""
    home = tmp_path / "demo"
    for _ in range(2):
        arguments = ["demo", "--engine", "embedded", "--events", "100", "--directory", str(home), "--json"]
        assert main(arguments) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["by_subscription"]["any-alarm"] == 9
        assert facts["by_subscription"]["fire"] == facts["by_subscription"]["fire-spreads"] == 1
    (tmp_path / "other").mkdir()
    write(tmp_path / "other" / "thesis.tex", "mine")
    assert main(["demo", "--engine", "embedded", "--directory", str(tmp_path / "other")]) == 2
    assert (tmp_path / "other" / "thesis.tex").read_text() == "mine"
