"""``motet doctor``: checks that the machine has what Motet and its installed extras need, and says what to do.

It runs Java once for its version, and nothing else: no Spark, no heavy import.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement

from motet.cli import output
from motet.model.errors import JavaError
from motet.spark.java import find_java
from motet.spark.session import cores, memory

HELP = "check that this machine has what Motet needs"
EXAMPLES = """\
  motet doctor
  motet doctor --json
"""

PYTHON = (3, 11)
MIN_DISK_BYTES = 2**30  # below this a run on Spark is likely to fail
EXTRAS = {  # title in the table, and the package that tells whether the extra is installed
    "spark": ("Spark", "pyspark"),
    "connect": ("Spark Connect", "grpcio-status"),
    "nats": ("NATS", "nats-py"),
    "overlay": ("Overlay", "msgspec"),
}


@dataclass(frozen=True)
class CheckResult:
    """The result of one check; ``ok`` false makes the command fail, advice alone does not."""

    name: str
    value: str
    detail: str = ""
    ok: bool = True
    advice: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run(args: argparse.Namespace) -> int:
    results = check_machine()
    healthy = all(result.ok for result in results)
    if args.json:
        print(json.dumps({"ok": healthy, "findings": [asdict(result) for result in results]}, indent=2))
    else:
        _print_table(results, healthy)
    return 0 if healthy else 1


def check_machine() -> list[CheckResult]:
    """All checks, in the order of the table; a package that two extras need stands there once."""
    results: dict[str, CheckResult] = {}
    for result in _checks():
        results.setdefault(result.name, result)
    return list(results.values())


def _checks() -> Iterator[CheckResult]:
    spark, *spark_packages = _extra("spark")
    yield _python()
    if spark_packages:  # the extra is installed
        yield _java()
    yield spark
    yield CheckResult("cores", str(cores()))
    yield CheckResult("memory", _size(memory()))
    yield _disk()
    yield _numba_cache()
    yield from map(_package, _requirements("motet"))
    yield from spark_packages
    yield from _extra("connect")
    yield from _extra("nats")
    yield from _extra("overlay")


def _python() -> CheckResult:
    kind = "virtual environment" if sys.prefix != sys.base_prefix else "not a virtual environment"
    version = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info[:2] >= PYTHON
    advice = None if ok else "install Python 3.11 or newer"
    return CheckResult("Python", version, f"{sys.executable} ({kind})", ok, advice)


def _java() -> CheckResult:
    try:
        java = find_java()
    except JavaError as error:
        return CheckResult("Java", "missing", error.message, ok=False, advice=error.advice)
    return CheckResult("Java", java.version, f"{java.executable} ({java.reason})")


def _disk() -> CheckResult:
    directory = tempfile.gettempdir()
    free = shutil.disk_usage(directory).free
    advice = None if free >= MIN_DISK_BYTES else "Spark needs disk space: free some, or set TMPDIR to a larger disk"
    return CheckResult("free disk", _size(free), directory, advice=advice)


def _numba_cache() -> CheckResult:
    """Numba stores compiled kernels beside the source or in the user's cache, in the first directory it may write."""
    for directory in _numba_directories():
        if _is_writable(directory):
            return CheckResult("Numba cache", "writable", str(directory))
    advice = "set NUMBA_CACHE_DIR to a directory you may write to"
    return CheckResult("Numba cache", "not writable", ok=False, advice=advice)


def _numba_directories() -> Iterator[Path]:
    if configured := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(configured)
        return
    yield Path(__file__).parents[1]
    mac = Path("~/Library/Caches/numba")
    yield (
        mac if sys.platform == "darwin" else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "numba")
    ).expanduser()


def _is_writable(directory: Path) -> bool:
    existing = next(path for path in (directory.absolute(), *directory.absolute().parents) if path.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _extra(extra: str) -> Iterator[CheckResult]:
    """Whether an extra is installed; if it is, its packages are checked, too."""
    title, main = EXTRAS[extra]
    packages = {requirement.name: _package(requirement) for requirement in _requirements("motet", extra)}
    if main not in packages or packages[main].value == "missing":
        yield CheckResult(title, "not installed", f"optional: python -m pip install 'motet[{extra}]'")
        return
    yield replace(packages.pop(main), name=title)
    yield from packages.values()


def _requirements(distribution: str, extra: str = "") -> Iterator[Requirement]:
    """What a distribution requires on this machine: without extras, or what one extra adds to that."""
    try:
        declared = importlib.metadata.requires(distribution) or ()
    except importlib.metadata.PackageNotFoundError:
        return
    for requirement in map(Requirement, declared):
        marker = requirement.marker
        is_base = marker is None or marker.evaluate({"extra": ""})
        if requirement.name == distribution or is_base == bool(extra):
            continue
        if marker is None or marker.evaluate({"extra": extra}):
            yield from (inner for name in requirement.extras for inner in _requirements(requirement.name, name))
            if not requirement.extras:
                yield requirement


def _package(requirement: Requirement) -> CheckResult:
    required = str(requirement.specifier)
    advice = f"run `python -m pip install '{requirement.name}{required}'`"
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        detail = f"needs {required or 'any version'}"
        return CheckResult(requirement.name, "missing", detail, ok=False, advice=advice)
    ok = requirement.specifier.contains(version, prereleases=True)
    return CheckResult(requirement.name, version, "" if ok else f"needs {required}", ok, None if ok else advice)


def _size(count: int) -> str:
    """
    >>> _size(24 * 2**30)
    '24.0 GiB'
    """
    return f"{count / 2**30:.1f} GiB"


def _print_table(results: list[CheckResult], healthy: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    marks = [
        (Text("!", "yellow") if result.advice else Text("✓", "green")) if result.ok else Text("✗", "red")
        for result in results
    ]
    rows = [(mark, result.name, result.value, result.detail) for mark, result in zip(marks, results, strict=True)]
    console = Console(highlight=False, soft_wrap=True)
    console.print(output.make_table(rows, pad_edge=False, padding=(0, 1)))
    for result in results:
        if result.advice:
            console.print(f"{result.name}: {result.advice}", markup=False, emoji=False)
    console.print("All requirements are met." if healthy else "A requirement is not met.")
