"""Kernels are interpreted while they have little work; compiled code is cached while its sources stay as they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from motet.engine.match import search_kernels
from motet.jit import compiled, numba_code

SEARCH = Path(search_kernels.__file__)
PACKAGE = SEARCH.parent.parent.parent


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package whose files a test may edit."""
    shutil.copytree(PACKAGE, tmp_path / "motet", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(numba_code, "_SOURCE", tmp_path)
    monkeypatch.setattr(numba_code, "_digest", numba_code._digest.__wrapped__)
    return tmp_path / "motet"


@pytest.mark.parametrize(
    "edited", ["engine/match/search_kernels.py", "engine/match/string_column.py", "jit/compiled.py"]
)
def test_an_edited_import_invalidates_the_cache(copied: Path, edited: str) -> None:
    """A constant of an imported module is compiled in, so editing that module changes the stamp of its importers."""
    kernel = copied / SEARCH.relative_to(PACKAGE)
    before = numba_code.source_stamp(kernel)
    with (copied / edited).open("a") as file:
        file.write("MARK = 0\n")
    after = numba_code.source_stamp(kernel)
    changed = [new[0] for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [Path(edited).name]


def test_a_file_that_is_not_imported_keeps_the_cache(copied: Path) -> None:
    """Only imported files are part of the stamp."""
    kernel = copied / SEARCH.relative_to(PACKAGE)
    before = numba_code.source_stamp(kernel)
    (copied / "engine/runtime/processor.py").write_text("")
    assert numba_code.source_stamp(kernel) == before


def test_numba_compares_the_whole_stamp() -> None:
    """The stamp that Numba compares covers all imported sources, not a function's own file alone."""
    cache_file = numba_code._dispatcher(search_kernels.search.function)._cache._cache_file
    assert cache_file._source_stamp == numba_code.source_stamp(SEARCH)


def test_a_kernel_compiles_where_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a directory for Numba's cache a function is compiled in each process."""

    def refuse(dispatcher: object) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr("numba.core.dispatcher.Dispatcher.enable_caching", refuse)
    assert compiled.compiled(lambda value: 2 * value).compile((21,))(21) == 42


@pytest.fixture
def tier(monkeypatch: pytest.MonkeyPatch) -> compiled._Tier:
    """A process that has interpreted nothing yet."""
    tier = compiled._Tier()
    tier.is_always_interpreted = False
    monkeypatch.setattr(compiled, "_TIER", tier)
    return tier


@compiled.inlined
def _squared(value: np.uint64) -> np.uint64:
    return value * value


@compiled.compiled
def _sum_of_squares(values: compiled.Hashes) -> np.uint64:
    total = np.uint64(0)
    for value in values:
        total += _squared(value)
    return total


@pytest.fixture
def kernel() -> compiled.Kernel:
    """A kernel without code; its sum wraps around in both forms."""
    return compiled.Kernel(_sum_of_squares.function)


WRAPS = np.array([2**63 + 1, 2**33], np.uint64)


def test_small_calls_are_interpreted(tier: compiled._Tier, kernel: compiled.Kernel) -> None:
    """They give what compiled code gives, and use up the time for interpretation."""
    remaining = tier.remaining
    assert kernel(WRAPS) == kernel.compile((WRAPS,))(WRAPS) == 1
    assert 0 < tier.remaining < remaining


def test_large_calls_are_compiled(
    tier: compiled._Tier, kernel: compiled.Kernel, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From then on interpretation ends in the whole process, because there is much work. A warning says so."""
    monkeypatch.setattr(numba_code, "_is_cached", lambda _: False)
    numba_code._announce.cache_clear()
    assert kernel(np.ones(2_000, np.uint64)) == 2_000
    assert kernel.code is not None
    assert tier.remaining < 0
    assert [record.getMessage()[:21] for record in caplog.records] == ["compiling the kernels"]


def test_a_thread_compiles_when_kernels_have_been_interpreted_long(
    tier: compiled._Tier, kernel: compiled.Kernel
) -> None:
    """Calls are interpreted meanwhile."""
    tier.remaining = -1
    assert kernel(WRAPS) == 1
    thread = compiled._COMPILER._thread
    if thread is not None:
        thread.join()
    assert kernel.code is not None
    assert kernel(WRAPS) == 1


def test_nothing_is_interpreted_in_a_process_that_has_much_work(tier: compiled._Tier, kernel: compiled.Kernel) -> None:
    """Workers of Spark load the code before the first event."""
    compiled.interpret_no_more()
    assert kernel(WRAPS) == 1
    assert kernel.code is not None


def test_numba_can_be_switched_off(monkeypatch: pytest.MonkeyPatch, kernel: compiled.Kernel) -> None:
    """With Numba's own variable, calls of any size are interpreted."""
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    monkeypatch.setattr(compiled, "_TIER", compiled._Tier())
    assert kernel(np.ones(2_000, np.uint64)) == 2_000
    assert kernel.code is None


def test_a_few_events_are_processed_without_numba(tmp_path: Path) -> None:
    """`motet run` on a few events loads neither Numba nor pandas."""
    (tmp_path / "all.motet").write_text("SUBSCRIPTION all EVENT e { ?e <urn:p> ?o } WHEN e SELECT ?o")
    (tmp_path / "events.nq").write_text("".join(f'<urn:{n}> <urn:p> "{n}" <urn:{n}> .\n' for n in range(14)))
    done = subprocess.run([sys.executable, "-c", SMALL_RUN], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.count("subscription") == 14
    assert done.stdout.splitlines()[-1] == "[]"


SMALL_RUN = """
import sys
from motet.cli.main import main
sys.argv[1:] = ["run", "--subscriptions", "all.motet", "--events", "events.nq"]
main()
print([name for name in ("numba", "pandas") if name in sys.modules])
"""


def test_interpreted_kernels_give_the_same_notifications() -> None:
    """Random cases agree with the reference engine when nothing is compiled."""
    arguments = [sys.executable, "-m", "motet.cli.main", "fuzz", "--engine", "kernel", "--runs", "30"]
    subprocess.run(arguments, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, check=True)


MIXTURE = """
import random
from itertools import islice
from motet.engine.runtime.warm_up import warm_up
from motet.fuzz.cases import random_cases
from motet.fuzz.compare import compare
from motet.fuzz.processor_engines import ProcessorEngine
from motet.fuzz.subscriptions import EngineCapabilities
from motet.jit.compiled import KERNELS, Kernel

warm_up()
choice = random.Random(3)
Kernel.__call__ = lambda kernel, *arguments: (
    kernel._interpret(arguments) if choice.random() < 0.5 else kernel.code(*arguments)
)
cases = list(islice(random_cases(7, EngineCapabilities()), 12))
print([difference for difference in compare(ProcessorEngine(), cases) if difference])
print([kernel for kernel in KERNELS if len(kernel.code.signatures) != 1])
"""


def test_interpreted_and_compiled_calls_mix() -> None:
    """Whichever calls are interpreted, the notifications are the same, and no kernel is compiled for other types."""
    done = subprocess.run([sys.executable, "-c", MIXTURE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n[]\n"


PROGRAM = """
from typing import NamedTuple
from motet.jit.compiled import compiled

class Pair(NamedTuple):
    left: int
    right: int

@compiled
def total(pair):
    return pair.left + pair.right

print(total.compile((Pair(1, 2),))(Pair(1, 2)))
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
