"""The public API: what `import motet` offers, what it costs, and its types in a program outside the repository."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import motet
from motet.model import errors

ROOT = Path(__file__).parents[1]

PROGRAM = """\
import motet
from motet import Cloud, Lake, Listener, Notification, Receipt, Subscription

received: list[Notification] = []


def keep(notification: Notification) -> None:
    received.append(notification)


listener: Listener = keep
smoke = motet.event("smoke", "urn:b#SmokeAlarm", "?smoke b:room ?room")
heat = motet.event("heat", "urn:b#HeatAlarm", "?heat b:room ?room")
fire: Subscription = motet.subscription(
    "fire", smoke.before(heat).within("5 min"), select=["room"], prefixes={"b": "urn:b#"}
)
texts: str = motet.to_text(motet.parse("SUBSCRIPTION s EVENT e WHEN e"))


def run(cloud: Cloud) -> int:
    try:
        names: tuple[str, ...] = cloud.subscribe(fire, listener)
        receipt: Receipt = cloud.publish('<urn:s> <urn:p> "o" <urn:e:1> .')
        cloud.flush()
        return receipt.accepted + receipt.late + len(names)
    except motet.DecodeError as error:
        print(error.source, error.advice)
        return 0


with motet.open("lake", engine="embedded", ontology=["building.ttl"]) as cloud:
    run(cloud)
lake = Lake.open("lake", create=False)
print(lake.cursor("c"), lake.snapshot().next_offset, [(n.subscription, n.events) for n in received])
"""


def test_all_is_sorted_and_complete() -> None:
    """Every public name can be imported; every error is one of them."""
    assert motet.__all__ == sorted(motet.__all__)
    assert all(getattr(motet, name) is not None for name in motet.__all__)
    assert {name for name, value in vars(errors).items() if isinstance(value, type)} <= set(motet.__all__)
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


def test_a_program_outside_the_repository_passes_strict_mypy(tmp_path: Path) -> None:
    """The types of the public API are complete, and mistakes in their use are found."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "mistakes.py").write_text('import motet\n\nmotet.open("lake", engine="sparc")\nmotet.nothing\n')
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache" / "user-program")]
    checked = subprocess.run(
        [*command, "program.py", "mistakes.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},  # as if this source were installed
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in checked.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[0:2] for line in lines] == [["mistakes.py", "3"], ["mistakes.py", "4"]], checked.stdout
