"""`make mutants`: each mutant of ``seeded.py`` is made in a copy of the package and must be caught by the exam.

A copy keeps the times of its files and the code Numba has compiled from them, so that only the folder of a mutated
kernel is compiled again. The copy they are all made from is examined first: it must pass.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.seeded import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "conformance" / "cases"
PATIENCE = 900  # seconds; a mutant that goes on for longer is caught too


Failure = dict[str, object]


@dataclass(frozen=True)
class Outcome:
    mutant: Mutant
    verdict: str  # caught, survived, invalid
    why: str
    seconds: float


def main() -> int:
    args = arguments()
    chosen = [mutant for mutant in MUTANTS if any(text in str(mutant) for text in args.only)]
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="motet-mutants-") as scratch:
        folder = Path(scratch)
        for failure in (failures := prepare(folder, args.cases, args.jobs)):
            say(f"the unchanged package is caught too, by {failure['by']} {failure['raised']}")
        if failures and not args.despite:
            return 1
        say(f"{len(chosen)} mutants; exam ready after {time.perf_counter() - started:.0f} s")
        outcomes = list(shown(examined(folder, chosen, args.jobs)))
    caught = sum(outcome.verdict == "caught" for outcome in outcomes)
    say(f"{caught} of {len(outcomes)} caught in {time.perf_counter() - started:.0f} s")
    return 0 if caught == len(outcomes) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="TEXT", help="mutants whose file or description has this text"
    )
    parser.add_argument("--cases", type=int, default=300, metavar="N", help="random cases in the exam; default: 300")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="mutants at a time")
    parser.add_argument("--despite", action="store_true", help="leave out what the unchanged package fails on")
    return parser.parse_args()


def prepare(folder: Path, cases: int, jobs: int) -> list[Failure]:
    """The unchanged copy and the exam without what the copy fails on, which is returned."""
    shutil.copytree(ROOT / "src" / "motet", folder / "unchanged" / "motet")
    return examine(folder / "unchanged", folder / "exam", str(CASES), str(cases), str(jobs))


def examined(folder: Path, mutants: Iterable[Mutant], jobs: int) -> Iterator[Outcome]:
    """As they are found; first those that need no compiling."""
    quick_first = sorted(mutants, key=lambda mutant: mutant.file.endswith("_kernels.py"))
    with ThreadPoolExecutor(jobs) as pool:
        yield from (done.result() for done in as_completed(pool.submit(tried, folder, one) for one in quick_first))


def tried(folder: Path, mutant: Mutant) -> Outcome:
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=folder) as copy:
        shutil.copytree(folder / "unchanged", copy, dirs_exist_ok=True)
        path = Path(copy) / "motet" / mutant.file
        try:
            path.write_text(mutant.applied(path.read_text("utf-8")), "utf-8")
        except AssertionError as error:
            return Outcome(mutant, "invalid", str(error), 0)
        verdict, why = verdict_of(Path(copy), folder / "exam")
    return Outcome(mutant, verdict, why, time.perf_counter() - started)


def verdict_of(package: Path, exam: Path) -> tuple[str, str]:
    try:
        failures = examine(package, exam)
    except subprocess.TimeoutExpired:
        return "caught", f"does not end in {PATIENCE} s"
    except subprocess.CalledProcessError as error:
        if error.returncode < 0:
            return "caught", f"dies of signal {-error.returncode}"
        return "invalid", (error.stderr.strip().splitlines() or ["it died"])[-1]
    if not failures:
        return "survived", "passes the whole exam"
    [failure] = failures
    why = f"by {failure['by']}, question {failure['questions']} after {failure['seconds']} s {failure['raised']}"
    return ("invalid" if failure["is_invalid"] else "caught"), why.strip()


def examine(package: Path, exam: Path, *making: str) -> list[Failure]:
    """The first failure of a package in the exam; all of them when the exam is made, as it is told how."""
    command = [sys.executable, str(Path(__file__).with_name("catch.py")), str(package), str(exam), *making]
    environment = os.environ | {"PYTHONPATH": str(package)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE, cwd=package
    )
    failures: list[Failure] = json.loads(done.stdout.splitlines()[-1])
    return failures


def shown(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    for outcome in outcomes:
        say(f"{outcome.verdict:9}{outcome.seconds:5.0f} s  {outcome.mutant}\n{'':18}{outcome.why[:160]}")
        yield outcome


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  (a command prints)


if __name__ == "__main__":
    sys.exit(main())
