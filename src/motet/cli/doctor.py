"""``motet doctor``: is everything here that Motet needs, and if not, what to do?

It starts Java once to ask its version, and nothing else: no Spark, no heavy import.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from motet.model.errors import JavaError
from motet.spark.java import find_java
from motet.spark.session import cores, memory

HELP = "check that everything Motet needs is here"
EXAMPLES = """\
  motet doctor           what is here, what is missing, and what to do
  motet doctor --json    the same for programs
"""

PYTHON = (3, 11)
ROOM = 2**30  # bytes of disk below which a run on Spark is likely to fail

_REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)\s*(?:\[[^]]*\])?\s*([^;]*)")
_CLAUSE = re.compile(r"(==|>=|<)\s*(\d+(?:\.\d+)*)")


@dataclass(frozen=True)
class Finding:
    """One thing looked at; ``ok`` false makes the command fail, advice alone does not."""

    name: str
    value: str
    detail: str = ""
    ok: bool = True
    advice: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run(args: argparse.Namespace) -> int:
    findings = list(examine())
    healthy = all(finding.ok for finding in findings)
    if args.json:
        print(json.dumps({"ok": healthy, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        _print_table(findings, healthy)
    return 0 if healthy else 1


def examine() -> Iterator[Finding]:
    """Everything worth knowing, in the order of the table."""
    yield _python()
    yield _java()
    packages = list(_packages())
    yield from (package for package in packages if package.name == "Spark")
    yield Finding("cores", str(cores()))
    yield Finding("memory", _size(memory()))
    yield _disk()
    yield _numba_cache()
    yield from (package for package in packages if package.name != "Spark")


def _python() -> Finding:
    where = "virtual environment" if sys.prefix != sys.base_prefix else "not a virtual environment"
    version = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info[:2] >= PYTHON
    return Finding("Python", version, f"{sys.executable} ({where})", ok, None if ok else "install Python 3.11 or newer")


def _java() -> Finding:
    try:
        java = find_java()
    except JavaError as error:
        return Finding("Java", "missing", error.message, ok=False, advice=error.advice)
    return Finding("Java", java.version, f"{java.executable} ({java.reason})")


def _disk() -> Finding:
    directory = tempfile.gettempdir()
    free = shutil.disk_usage(directory).free
    advice = None if free >= ROOM else "Spark needs room to work: free some, or set TMPDIR to a larger disk"
    return Finding("free disk", _size(free), directory, advice=advice)


def _numba_cache() -> Finding:
    """Numba keeps compiled kernels beside the source or in the user's cache, wherever it may write."""
    for place in _numba_places():
        if _writable(place):
            return Finding("Numba cache", "writable", str(place))
    advice = "set NUMBA_CACHE_DIR to a directory you may write to"
    return Finding("Numba cache", "not writable", ok=False, advice=advice)


def _numba_places() -> Iterator[Path]:
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(given)
        return
    yield Path(__file__).parents[1]
    mac = Path("~/Library/Caches/numba")
    yield (
        mac if sys.platform == "darwin" else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "numba")
    ).expanduser()


def _writable(place: Path) -> bool:
    existing = next(directory for directory in (place.absolute(), *place.absolute().parents) if directory.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _packages() -> Iterator[Finding]:
    for requirement in importlib.metadata.requires("motet") or ():
        match = _REQUIREMENT.match(requirement)
        if match is not None and "extra ==" not in requirement:
            yield _package(match[1], match[2].strip())


def _package(name: str, wanted: str) -> Finding:
    title = "Spark" if name == "pyspark" else name
    advice = f"run `python -m pip install '{name}{wanted}'`"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(title, "missing", f"needs {wanted or 'any version'}", ok=False, advice=advice)
    ok = _satisfies(version, wanted)
    return Finding(title, version, "" if ok else f"needs {wanted}", ok, None if ok else advice)


def _satisfies(version: str, wanted: str) -> bool:
    """Whether a version fits the clauses this project's requirements are made of.

    >>> _satisfies("4.3.0", "==4.3.*"), _satisfies("3.0.1", "<3,>=2.2")
    (True, False)
    """
    have = _numbers(version)
    for operator, text in _CLAUSE.findall(wanted):
        want = _numbers(text)
        if not {"==": have[: len(want)] == want, ">=": have >= want, "<": have < want}[operator]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    leading = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, leading[0].split("."))) if leading else ()


def _size(count: int) -> str:
    """
    >>> _size(24 * 2**30)
    '24.0 GiB'
    """
    return f"{count / 2**30:.1f} GiB"


def _print_table(findings: list[Finding], healthy: bool) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        mark = ("[yellow]![/]" if finding.advice else "[green]✓[/]") if finding.ok else "[red]✗[/]"
        table.add_row(mark, finding.name, escape(finding.value), escape(finding.detail))
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    for finding in findings:
        if finding.advice:
            console.print(f"{finding.name}: {finding.advice}", markup=False)
    console.print("Everything needed is here." if healthy else "Something needed is missing.")
