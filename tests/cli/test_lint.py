"""`motet lint` on files."""

import json
from pathlib import Path

import pytest

from motet.cli.main import main

GOOD = "SUBSCRIPTION fine EVENT a : <urn:Cat> WHEN a"
NEVER = "SUBSCRIPTION quiet EVENT a : <urn:Cat>\nWHEN NO a FOR 10 min WITHIN 5 min"
ODD = "SUBSCRIPTION counted EVENT a : <urn:Catt> WHEN a{3}"


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_no_diagnostics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 0 and one line."""
    assert main(["lint", written(tmp_path, "good.motet", GOOD)]) == 0
    assert capsys.readouterr().out == "1 subscription: no diagnostics\n"


def test_unsatisfiable_subscriptions_are_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The position in the file is shown with a caret."""
    path = written(tmp_path, "never.motet", NEVER)
    assert main(["lint", path]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{path}: line 2, column 22: error[times-never-fit] quiet: ")
    assert lines[1:3] == ["  WHEN NO a FOR 10 min WITHIN 5 min", " " * 23 + "^"]
    assert lines[-1] == "1 subscription: 1 error, 0 warnings, 0 hints"


def test_warnings_are_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only subscriptions that can never match are errors."""
    assert main(["lint", written(tmp_path, "odd.motet", ODD)]) == 0
    assert "warning[unbounded-count]" in capsys.readouterr().out


def test_json_names_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each diagnostic is an object; files are compared with each other and with the ontology."""
    ontology = written(tmp_path, "cats.ttl", "<urn:Cat> a <http://www.w3.org/2002/07/owl#Class> .")
    paths = [written(tmp_path, "good.motet", GOOD), written(tmp_path, "odd.motet", ODD)]
    paths += [written(tmp_path, "again.motet", GOOD.replace("fine", "again"))]
    assert main(["lint", *paths, "--ontology", ontology, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["subscription"], one["rule"], one["severity"]) for one in found] == [
        ("counted", "unknown-class", "warning"),
        ("counted", "unbounded-count", "warning"),
        ("again", "same-as-another", "warning"),
    ]
    assert found[0] == {
        "subscription": "counted",
        "rule": "unknown-class",
        "severity": "warning",
        "source": paths[1],
        "line": 1,
        "column": 37,
        "message": "the ontology has no class Catt",
        "advice": "did you mean Cat, <urn:Cat>?",
    }


def test_other_syntaxes_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A jtang file without a T is unbounded, which is worth a warning."""
    assert main(["lint", written(tmp_path, "a.jtang", "<urn:A> & <urn:B>"), "--syntax", "jtang"]) == 0
    assert "warning[unbounded-state]" in capsys.readouterr().out


def test_a_wrong_file_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that cannot be parsed is a usage error."""
    assert main(["lint", written(tmp_path, "bad.motet", "SUBSCRIPTION")]) == 2
    assert "line 1" in capsys.readouterr().err
