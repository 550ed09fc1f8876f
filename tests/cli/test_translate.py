"""`motet translate`: from every syntax to the motet language and to RDF, and back."""

from pathlib import Path

import pytest

from motet.cli.main import main
from motet.language.parse import parse

TEXT = """\
PREFIX ex: <http://example.org/>

SUBSCRIPTION fire SINCE "2026-01-01T00:00:00.000000Z"
  EVENT smoke : ex:Smoke { ?smoke ex:room ?room . FILTER ( ?room != ex:attic ) }
  EVENT heat : ex:Heat DURING ?from ?to { ?heat ex:room ?room }
  WHEN smoke BEFORE heat WITHIN 5 min
  CONTEXT chronicle
  SELECT ?room

SUBSCRIPTION quiet
  EVENT a : ex:Smoke
  WHEN NO a FOR 10 min
"""


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def translated(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["translate", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("syntax", "text", "expected"),
    [
        ("jtang", "<urn:A> & <urn:B>", "SUBSCRIPTION query EVENT A : <urn:A> EVENT B : <urn:B> WHEN A AND B"),
        (
            "sparql",
            "SELECT ?g ?x WHERE { GRAPH ?g { ?g <urn:p> ?x } }",
            "EVENT g { ?g <urn:p> ?x } WHEN g SELECT ?g ?x",
        ),
        ("cecube", "[and(<urn:A>/*, <urn:B>/*)]", "AND"),
    ],
)
def test_other_syntaxes_become_motet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], syntax: str, text: str, expected: str
) -> None:
    """The output is the same subscription in the motet language."""
    path = written(tmp_path, "in", text)
    output = translated(capsys, "--from", syntax, "--to", "motet", path)
    assert parse(output) == parse(text, syntax=syntax)
    assert set(expected.split()) <= set(output.split())


@pytest.mark.parametrize(("target", "suffix"), [("turtle", "ttl"), ("ntriples", "nt"), ("rdf", "ttl")])
def test_rdf_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, suffix: str) -> None:
    """Several subscriptions are written to one RDF file and read back, with their prefixes."""
    rdf = translated(capsys, "--to", target, written(tmp_path, "in.motet", TEXT))
    path = written(tmp_path, f"out.{suffix}", rdf)
    assert translated(capsys, "--from", "rdf", path, "--prefix", "ex=http://example.org/") == TEXT


def test_turtle_uses_prefixes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The vocabulary and the user's own prefixes shorten it."""
    path = written(tmp_path, "in.motet", TEXT)
    turtle = translated(capsys, "--to", "turtle", path, "--prefix", "ex=http://example.org/")
    assert "a m:Subscription" in turtle
    assert "m:class ex:Smoke" in turtle


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--prefix", "ex"], "'ex' is not NAME=IRI"),
        (["--to", "turtle", "--prefix", "ex=not an iri"], "--prefix"),
        (["--from", "jtang"], "line 3, column 25"),
    ],
)
def test_wrong_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    """Status 2 and a word about what is wrong."""
    assert main(["translate", written(tmp_path, "in.motet", TEXT), *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_other_syntaxes_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """jtang and cecube are targets, too; what they cannot express is refused by name."""
    prefix = ["--prefix", "ex=http://example.org/"]
    path = written(tmp_path, "in.jtang", "PREFIX ex: <http://example.org/> SUBSCRIPTION s (ex:A & (-ex:S)_5min)_1h")
    output = translated(capsys, "--from", "jtang", "--to", "jtang", path, *prefix)
    assert output == "PREFIX ex: <http://example.org/>\n\nSUBSCRIPTION s\n  ((ex:A - ex:S)_5 min)_1 h\n"
    text = "SUBSCRIPTION s EVENT A : <urn:A> EVENT S : <urn:S> WHEN A AND NO S FOR 5 min"
    assert main(["translate", "--to", "cecube", written(tmp_path, "in.motet", text)]) == 2
    assert "`A AND NO S FOR 5 min` has no form" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["motet", "jtang", "cecube", "turtle"])
def test_prefixes_and_comments_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str) -> None:
    """The prefixes of the files shorten the output, and their comments are in it; --prefix comes first."""
    source = "jtang" if target == "jtang" else "cecube"
    expression = "(:A & ex:B)_5min" if target == "jtang" else "[and(:A, ex:B)]/5 min"
    text = f"# all\nPREFIX : <urn:x:> # colon\nPREFIX ex: <http://example.org/>\n\nSUBSCRIPTION s\n  {expression}\n"
    path = written(tmp_path, "in.txt", text)
    output = translated(capsys, "--from", source, "--to", target, path)
    assert all(part in output for part in ("# all", "# colon", ":A", "ex:B", ": <urn:x:>", "<http://example.org/>"))
    if target != "turtle":
        assert parse(output, syntax=target)[0].pattern == parse(text, syntax=source)[0].pattern
    assert "e:B" in translated(capsys, "--from", source, "--to", target, path, "--prefix", "e=http://example.org/")


def test_the_prefixes_of_turtle_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Back from RDF, the prefixes that the file declares shorten IRIs."""
    turtle = translated(capsys, "--to", "turtle", written(tmp_path, "in.motet", TEXT))
    assert translated(capsys, "--from", "rdf", written(tmp_path, "out.ttl", turtle)) == TEXT


def test_rdf_without_a_subscription(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A graph without a subscription is refused; the error names the file."""
    path = written(tmp_path, "cats.ttl", "<urn:Tom> a <urn:Cat> .")
    assert main(["translate", "--from", "rdf", path]) == 2
    assert f"{path} describes no subscription" in capsys.readouterr().err


def test_a_name_belongs_to_one_subscription(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same subscription in two RDF files is refused."""
    rdf = translated(capsys, "--to", "ntriples", written(tmp_path, "in.motet", TEXT))
    paths = [written(tmp_path, name, rdf) for name in ("one.nt", "two.nt")]
    assert main(["translate", "--from", "rdf", *paths]) == 2
    assert "another subscription" in capsys.readouterr().err
