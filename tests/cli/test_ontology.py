"""`motet ontology`, as a person types it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from motet.cli import ontology
from motet.cli.main import main

ROOT = Path(__file__).parents[2]
PREFIXES = """
@prefix : <urn:x:> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""
FILMS = ":Film rdfs:subClassOf :Video . :Movie owl:equivalentClass :Film . :Video rdfs:label 'Filmaufnahme'@de ."


def write(path: Path, text: str, prologue: str = PREFIXES) -> str:
    path.write_text(prologue + text)
    return str(path)


def printed(capsys: pytest.CaptureFixture[str]) -> object:
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("example", ontology.EXAMPLES.splitlines())
def test_every_example_of_the_help_works(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The help shows calls that run as they are from the project's directory."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(example)[1:]) == 0
    assert capsys.readouterr().err == ""


def test_check_finds_nothing_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A consistent ontology is summarised with status 0."""
    path = write(tmp_path / "films.ttl", FILMS)
    assert main(["ontology", "check", path, "--json"]) == 0
    assert printed(capsys) == {
        "files": [path], "triples": 3, "classes": 3, "ok": True,
        "missing_imports": [], "contradictions": [], "unsatisfiable": [],
    }  # fmt: skip


def test_check_names_the_axioms_of_each_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing import, an inconsistency and an unsatisfiable class are reported with their axioms; status 1."""
    path = write(
        tmp_path / "odd.ttl",
        """<urn:o> a owl:Ontology ; owl:imports <urn:units> . :Cat owl:disjointWith :Dog .
        :Imp rdfs:subClassOf :Cat , :Dog , :Being . :tom a :Cat , :Dog .""",
    )
    assert main(["ontology", "check", path, "--json"]) == 1
    found = printed(capsys)
    assert isinstance(found, dict)
    assert found["missing_imports"] == [
        {"about": "urn:units", "message": f"{path} imports <urn:units>, which is missing", "axioms": []}
    ]
    apart = "<urn:x:Cat> owl:disjointWith <urn:x:Dog>"
    assert [problem["axioms"] for problem in found["contradictions"]] == [
        [apart, "<urn:x:tom> rdf:type <urn:x:Cat>", "<urn:x:tom> rdf:type <urn:x:Dog>"]
    ]
    assert [(problem["about"], problem["axioms"]) for problem in found["unsatisfiable"]] == [
        ("urn:x:Imp", [apart, *(f"<urn:x:Imp> rdfs:subClassOf <urn:x:{name}>" for name in ("Cat", "Dog"))])
    ]
    assert main(["ontology", "check", path]) == 1
    people = capsys.readouterr()
    assert "<urn:x:Imp> can have no member\n      <urn:x:Cat> owl:disjointWith" in people.err
    assert "unsatisfiable    1" in people.out


def test_imports_come_from_the_catalogue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An imported file is found by its IRI, beside the catalogue; without it a strict command refuses."""
    (tmp_path / "vendor").mkdir()
    write(tmp_path / "vendor" / "units.ttl", "<urn:units> a owl:Ontology . :Metre rdfs:subClassOf :Unit .")
    (tmp_path / "catalogue.json").write_text('{"urn:units": "vendor/units.ttl"}')
    path = write(tmp_path / "a.ttl", "<urn:a> a owl:Ontology ; owl:imports <urn:units> .")
    catalogue = ["--catalogue", str(tmp_path / "catalogue.json")]
    assert main(["ontology", "show", path, *catalogue]) == 0
    assert capsys.readouterr().out == "Unit\n└── Metre\n"
    assert main(["ontology", "check", path, *catalogue]) == 0
    for action in ("check", "show"):
        assert main(["ontology", action, path]) == 0
        assert main(["ontology", action, path, "--imports", "strict"]) == 2
        assert "imports <urn:units>" in capsys.readouterr().err


def test_every_command_takes_an_ontology_with_missing_imports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Brick imports five ontologies that nobody has at hand: a warning names them, --imports strict refuses."""
    ontology = write(tmp_path / "brick.ttl", "<urn:a> a owl:Ontology ; owl:imports <urn:units>, <urn:tags> . :C a :D .")
    subscriptions = write(tmp_path / "s.motet", "SUBSCRIPTION s EVENT e : <urn:x:C> WHEN e", prologue="")
    events = write(tmp_path / "e.nq", "<urn:e> <urn:p> <urn:o> <urn:e> .", prologue="")
    commands = {
        "run": ["--subscriptions", subscriptions, "--events", events],
        "why-not": ["--subscription", "s", "--event", "urn:e", "--subscriptions", subscriptions, "--events", events],
        "lint": [subscriptions],
        "explain": [subscriptions],
    }
    for command, arguments in commands.items():
        caplog.clear()
        assert main([command, *arguments, "--ontology", ontology]) == 0
        warnings = [message for message in caplog.messages if f"{ontology} imports <urn:tags>, <urn:units>" in message]
        assert len(warnings) == 1
        assert main([command, *arguments, "--ontology", ontology, "--imports", "strict"]) == 2
        assert "imports <urn:tags>" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["[]", '{"urn:a": 5}', "{", None])
def test_a_bad_catalogue_is_refused(content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The problem of the catalogue is named, and nothing is done."""
    if content is not None:
        (tmp_path / "catalogue.json").write_text(content)
    path = write(tmp_path / "films.ttl", FILMS)
    assert main(["ontology", "show", path, "--catalogue", str(tmp_path / "catalogue.json")]) == 2
    assert "catalogue.json" in capsys.readouterr().err


def test_show_draws_the_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As text, with labels on request, as JSON, and as a drawing."""
    path = write(tmp_path / "films.ttl", FILMS)
    assert main(["ontology", "show", path]) == 0
    assert capsys.readouterr().out == "Video\n└── Film = Movie\n"
    assert main(["ontology", "show", path, "--labels", "de"]) == 0
    assert capsys.readouterr().out == "Filmaufnahme\n└── Film = Movie\n"
    assert main(["ontology", "show", path, "--json"]) == 0
    assert printed(capsys) == {"roots": ["urn:x:Video"], "children": {"urn:x:Video": ["urn:x:Film"], "urn:x:Film": []}}
    assert main(["ontology", "show", path, "--svg", str(tmp_path / "films.svg")]) == 0
    names = re.findall(r"<text[^>]*>([^<]*)<", (tmp_path / "films.svg").read_text())
    assert names == ["Video", "Film = Movie"]


def test_classify_lists_parents_and_equivalents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One entry for each class; JSON has whole IRIs."""
    assert main(["ontology", "classify", write(tmp_path / "films.ttl", FILMS), "--json"]) == 0
    film, movie, video = "urn:x:Film", "urn:x:Movie", "urn:x:Video"
    assert printed(capsys) == [
        {"class": film, "parents": [video], "equivalents": [movie], "satisfiable": True},
        {"class": movie, "parents": [video], "equivalents": [film], "satisfiable": True},
        {"class": video, "parents": [], "equivalents": [], "satisfiable": True},
    ]


CODES: dict[str, dict[str, dict[str, object]]] = {
    "prime": {"Film": {"prime": 3, "code": "0x6"}, "Video": {"prime": 2, "code": "0x2"}},
    "digit": {"Film": {"digits": "1.1.0.0.0.0.0.0"}, "Video": {"digits": "1.0.0.0.0.0.0.0"}},
}


@pytest.mark.parametrize("code", CODES)
def test_codes_are_listed(code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Equivalent classes have one code."""
    assert main(["ontology", "codes", write(tmp_path / "films.ttl", FILMS), "--code", code, "--json"]) == 0
    found = printed(capsys)
    assert isinstance(found, dict)
    wanted = CODES[code]
    assert found["classes"] == {
        f"urn:x:{name}": wanted.get(name, wanted["Film"]) for name in ("Film", "Movie", "Video")
    }


def test_interval_codes_contain_those_of_subclasses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Interval codes are the default; the code of a class lies in the interval of its superclass."""
    assert main(["ontology", "codes", write(tmp_path / "films.ttl", FILMS), "--json"]) == 0
    found = printed(capsys)
    assert isinstance(found, dict)
    first, last = map(int, found["classes"]["urn:x:Video"]["intervals"][0].split(".."))
    assert first <= int(found["classes"]["urn:x:Film"]["number"]) <= last
    assert found["most_intervals"] == 1


def test_topics_for_subscribers_and_publishers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A subscriber gets a subscription, a publisher an event; both get the classes."""
    films = write(tmp_path / "films.ttl", FILMS)
    mine = write(tmp_path / "mine.ttl", ":mine a :Film ; :by :me . :me :likes :me .")
    arguments = ["ontology", "topics", films, "--description", mine, "--json"]
    common = {
        "individual": "urn:x:mine",
        "topics": ["urn:x:Film", "urn:x:Movie", "urn:x:Video"],
        "most_specific": ["urn:x:Film"],
    }
    assert main(arguments) == 0
    assert printed(capsys) == common | {"offer": "SUBSCRIPTION topic-Film\n  EVENT item : <urn:x:Film>\n  WHEN item"}
    assert main([*arguments, "--as", "publisher"]) == 0
    rdf_type = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    lines = [
        "<urn:x:me> <urn:x:likes> <urn:x:me>",
        f"<urn:x:mine> {rdf_type} <urn:x:Film>",
        "<urn:x:mine> <urn:x:by> <urn:x:me>",
    ]
    assert printed(capsys) == common | {"offer": "\n".join(f"{line} <urn:x:mine> ." for line in lines)}


def test_the_described_individual_must_be_unique(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several individuals need --individual, an unknown one is refused, one without a class gives status 1."""
    films = write(tmp_path / "films.ttl", FILMS)
    two = write(tmp_path / "two.ttl", ":a a :Film . :b :by :me .")
    arguments = ["ontology", "topics", films, "--description", two]
    assert main(arguments) == 2
    assert "describes 2 individuals" in capsys.readouterr().err
    assert main([*arguments, "--individual", "urn:x:c"]) == 2
    assert "does not describe <urn:x:c>" in capsys.readouterr().err
    assert main([*arguments, "--individual", "urn:x:b"]) == 1
    assert main([*arguments, "--individual", "urn:x:a"]) == 0
