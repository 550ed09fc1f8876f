"""The public API: what `import motet` offers, what it costs, and its types in a program outside the repository."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import motet
from motet import testing
from motet.model import errors

ROOT = Path(__file__).parents[1]

PROGRAM = ROOT / "examples" / "whole_api.py"


def test_all_is_complete() -> None:
    """Every public name can be imported; every error is one of them."""
    assert len(motet.__all__) == len(set(motet.__all__))  # ruff sorts them
    assert all(getattr(motet, name) is not None for name in motet.__all__)
    classes = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    assert {name for name, value in classes.items() if issubclass(value, Exception)} <= set(motet.__all__)
    assert set(motet.__all__) <= set(dir(motet))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = motet.nothing  # type: ignore[attr-defined]


def test_importing_motet_is_cheap() -> None:
    """Heavy libraries are imported when a name that needs them is used."""
    code = "import sys, motet; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"lark", "numba", "numpy", "pandas", "pyarrow", "pyoxigraph", "pyspark", "rdflib", "rich"}
    assert heavy.isdisjoint(loaded)


def test_there_is_one_version() -> None:
    """The package's metadata are made from `motet.__version__`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/motet/__init__.py"
    assert importlib.metadata.version("motet").split(".dev")[0] == motet.__version__.split(".dev")[0]


def test_a_program_outside_the_repository_passes_strict_mypy_and_runs(tmp_path: Path) -> None:
    """The types of the public API are complete, mistakes in their use are found, and the program does what it says."""
    (tmp_path / "program.py").write_text(PROGRAM.read_text())
    (tmp_path / "mistakes.py").write_text(
        'import motet\n\nmotet.open("lake", engine="sparc")\nmotet.nothing\nmotet.open("lake").tick(5)\n'
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}  # as if this source were installed
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache" / "user-program")]
    checked = subprocess.run(
        [*command, "program.py", "mistakes.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in checked.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[0:2] for line in lines] == [["mistakes.py", str(line)] for line in (3, 4, 5)], (
        checked.stdout
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "program.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "hot: lab has 35.5 degrees\n" in ran.stdout
    assert "rising: room lab (10:00 to 10:01)\n" in ran.stdout


def test_the_program_uses_the_whole_api() -> None:
    """Every exported name but the errors, every method of both clouds, and every tool for tests."""
    text = PROGRAM.read_text()
    names = set(motet.__all__) - {name for name, value in vars(errors).items() if isinstance(value, type)}
    members = {f".{name}" for cloud in (motet.Cloud, motet.AsyncCloud) for name in vars(cloud) if name[0] != "_"}
    tools = set(testing.__all__) - {"ExpectedNotification"}
    wanted = {*(f"motet.{name}" for name in names), *members - {".close"}, *tools}
    assert {name for name in wanted if not re.search(rf"{re.escape(name)}\b", text)} == set()
