"""Compiled code is cached on disk while the sources it was compiled from stay as they are."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from motet.engine.match import search_kernels
from motet.jit import compiled

SEARCH = Path(search_kernels.__file__)
PACKAGE = SEARCH.parent.parent.parent


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package whose files a test may edit."""
    shutil.copytree(PACKAGE, tmp_path / "motet", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(compiled, "_SOURCE", tmp_path)
    monkeypatch.setattr(compiled, "_digest", compiled._digest.__wrapped__)
    return tmp_path / "motet"


@pytest.mark.parametrize(
    "edited", ["engine/match/search_kernels.py", "engine/match/string_column.py", "jit/compiled.py"]
)
def test_an_edited_import_invalidates_the_cache(copied: Path, edited: str) -> None:
    """A constant of an imported module is compiled in, so editing that module changes the stamp of its importers."""
    kernel = copied / SEARCH.relative_to(PACKAGE)
    before = compiled.source_stamp(kernel)
    with (copied / edited).open("a") as file:
        file.write("MARK = 0\n")
    after = compiled.source_stamp(kernel)
    changed = [new[0] for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [Path(edited).name]


def test_a_file_that_is_not_imported_keeps_the_cache(copied: Path) -> None:
    """Only imported files are part of the stamp."""
    kernel = copied / SEARCH.relative_to(PACKAGE)
    before = compiled.source_stamp(kernel)
    (copied / "engine/runtime/processor.py").write_text("")
    assert compiled.source_stamp(kernel) == before


def test_numba_compares_the_whole_stamp() -> None:
    """The stamp that Numba compares covers all imported sources, not a function's own file alone."""
    cache_file = search_kernels.search._cache._cache_file  # type: ignore[attr-defined]
    assert cache_file._source_stamp == compiled.source_stamp(SEARCH)


def test_a_kernel_compiles_where_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a directory for Numba's cache a function is compiled in each process."""

    def refuse(dispatcher: object) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr("numba.core.dispatcher.Dispatcher.enable_caching", refuse)
    double = compiled.compiled(lambda value: 2 * value, "int64(int64)")
    assert double(21) == 42


PROGRAM = """
from typing import NamedTuple
from motet.jit.compiled import compiled

class Pair(NamedTuple):
    left: int
    right: int

@compiled
def total(pair):
    return pair.left + pair.right

print(total(Pair(1, 2)))
"""


def test_code_cached_for_a_renamed_class_is_compiled_again(tmp_path: Path) -> None:
    """Cached signatures that name a class of an earlier version are ignored; they used to stop the process."""
    program = tmp_path / "pairs.py"
    for text in (PROGRAM, PROGRAM.replace("Pair", "Couple")):
        program.write_text(text)
        arguments = [sys.executable, "-c", "import pairs"]
        run = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert run.stdout == "3\n"
    assert list(tmp_path.glob("__pycache__/*.nbi"))
