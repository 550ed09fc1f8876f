"""`-` stands for standard input and output, and a byte order mark is accepted wherever text is read."""

from __future__ import annotations

import io
import json
from codecs import BOM_UTF8
from pathlib import Path

import pytest

from motet.cli.main import main

SUBSCRIPTION = "SUBSCRIPTION hot EVENT e : <urn:Hot> WHEN e SELECT ?e"
TIME = '"2026-11-15T10:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
EVENT = f"<urn:e:1> a <urn:Hot> ; <http://www.w3.org/ns/sosa/resultTime> {TIME} ."
NQUADS = (
    "<urn:e:1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <urn:Hot> <urn:e:1> .\n"
    f"<urn:e:1> <http://www.w3.org/ns/sosa/resultTime> {TIME} <urn:e:1> .\n"
)
ONTOLOGY = "<urn:Burning> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <urn:Hot> ."
FILES = {"s.motet": SUBSCRIPTION, "e.nq": NQUADS, "e.ttl": EVENT, "o.ttl": ONTOLOGY}


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
        Path(f"bom-{name}").write_bytes(BOM_UTF8 + text.encode())


def with_input(data: str | bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    body = data.encode() if isinstance(data, str) else data
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(body)))


@pytest.mark.parametrize("mark", [b"", BOM_UTF8])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("s.motet", ["run", "--subscriptions", "-", "--events", "e.nq"]),
        ("e.nq", ["run", "--subscriptions", "s.motet", "--events", "-"]),
        ("e.ttl", ["run", "--subscriptions", "s.motet", "--events", "-"]),
        ("o.ttl", ["run", "--subscriptions", "s.motet", "--events", "e.nq", "--ontology", "-", "--output", "-"]),
    ],
)
def test_standard_input_of_run(
    name: str,
    arguments: list[str],
    mark: bytes,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Any one input of `motet run` can be standard input, with a byte order mark or without."""
    with_input(mark + FILES[name].encode(), monkeypatch)
    assert main(arguments) == 0
    assert json.loads(capsysbinary.readouterr().out)["events"] == ["urn:e:1"]


@pytest.mark.parametrize("name", ["e.nq", "e.ttl"])
def test_byte_order_marks_of_files(name: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Files of events, subscriptions and ontologies may begin with a byte order mark."""
    files = ["--subscriptions", "bom-s.motet", "--events", f"bom-{name}", "--ontology", "bom-o.ttl"]
    assert main(["run", *files]) == 0
    assert json.loads(capsysbinary.readouterr().out)["events"] == ["urn:e:1"]
    assert main(["ingest", "--lake", "lake", f"bom-{name}", "--json"]) == 0


def test_standard_input_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Two inputs cannot both be standard input."""
    assert main(["run", "--subscriptions", "-", "--events", "-"]) == 2
    assert "standard input can be read only once" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["lint", "-"], ["explain", "-"], ["translate", "-", "--to", "motet"]])
def test_standard_input_of_subscription_tools(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """lint, explain and translate read `-`."""
    with_input(SUBSCRIPTION, monkeypatch)
    assert main(command) == 0
    assert "hot" in capsys.readouterr().out or command[0] == "lint"


def test_ontology_from_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`motet ontology check -` reads Turtle; `--svg -` prints the drawing."""
    with_input(ONTOLOGY, monkeypatch)
    assert main(["ontology", "show", "-", "--svg", "-"]) == 0
    assert "<svg" in capsys.readouterr().out


def test_dead_letters_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    """`--dead-letter -` prints them; notifications must then go elsewhere."""
    Path("bad.nq").write_text("no quad\n")
    files = ["--subscriptions", "s.motet", "--events", "bad.nq", "--dead-letter", "-"]
    assert main(["run", *files]) == 2
    assert main(["run", *files, "--output", "out.jsonl"]) == 1
    assert json.loads(capsys.readouterr().out)["source"] == "bad.nq"


def test_queries_and_catalogues_with_a_byte_order_mark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Queries and catalogues as well; `-` is the query or the data."""
    Path("q.rq").write_bytes(BOM_UTF8 + b"ASK { ?e a <urn:Hot> }")
    Path("catalogue.json").write_bytes(BOM_UTF8 + b"{}")
    assert main(["query", "--data", "bom-e.ttl", "--file", "q.rq", "--output", "-"]) == 0
    assert capsys.readouterr().out == "true\n"
    with_input(BOM_UTF8 + b"ASK { ?e a <urn:Hot> }", monkeypatch)
    assert main(["query", "--data", "e.ttl", "--file", "-"]) == 0
    with_input(BOM_UTF8 + EVENT.encode(), monkeypatch)
    assert main(["query", "ASK { ?e a <urn:Hot> }", "--data", "-"]) == 0
    assert capsys.readouterr().out == "true\ntrue\n"
    files = ["--subscriptions", "s.motet", "--events", "e.nq", "--ontology", "o.ttl", "--catalogue", "catalogue.json"]
    assert main(["run", *files, "--output", "out.jsonl"]) == 0


def test_a_content_type_is_that_of_standard_input(capsys: pytest.CaptureFixture[str]) -> None:
    """The format of a file is that of its name: a content type beside it would be ignored."""
    call = ["run", "--subscriptions", "s.motet", "--events", "e.nq", "--content-type", "text/turtle"]
    assert main(call) == 2
    assert "--content-type is the format of standard input" in capsys.readouterr().err
