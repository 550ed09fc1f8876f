"""Examines the package on the path: the first case on which its processor, or a lake, does not compute what it should.

Started by ``run.py`` in a process of its own for each mutant; speaks JSON.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import motet
from motet.fuzz.case import Case, expected_result
from motet.fuzz.cases import nth_case
from motet.fuzz.compare import actual_lines, map_in_processes
from motet.fuzz.engines import LakeEngine
from motet.fuzz.files import read_case
from motet.fuzz.processor_engines import CUT_PROBABILITIES, ProcessorEngine
from motet.fuzz.subscriptions import EngineCapabilities
from motet.reference import SettingsRecord

SEED = 5
INVALID = ("ImportError", "NameError", "SyntaxError", "TypingError", "LoweringError", "AttributeError")


class Question(NamedTuple):
    """A case, and the lines the processor should return."""

    name: str
    case: Case
    expected: list[str]
    odds: tuple[float, ...] = CUT_PROBABILITIES  # of cuts


def written(folder: Path) -> Iterator[Question]:
    """A case of the conformance suite, whole and cut after every record."""
    case = read_case(folder)
    expected = expected_result(case).lines(offsets=True)
    yield Question(f"{folder.name}, whole", case, expected, (0.0,))
    yield Question(f"{folder.name}, in pieces", case, expected, (1.0,))


def drawn(number: int) -> Question:
    """A random case."""
    case = nth_case(SEED, number, EngineCapabilities())
    return Question(f"random case {number}", case, expected_result(case).lines(offsets=True))


def exam(cases: Path, count: int, jobs: int) -> list[Question]:
    """The conformance suite, then random cases. What is expected comes from the reference engine, once for all."""
    return [*chain.from_iterable(map(written, sorted(cases.iterdir()))), *map_in_processes(drawn, range(count), jobs)]


def engine_for(question: Question) -> ProcessorEngine:
    """A lake for logs with settings or clocks, which its writers decide about; otherwise only the processor."""
    records = question.case.records
    has_writers = any(isinstance(record, SettingsRecord) or record.clock is not None for record in records)
    return (LakeEngine if has_writers else ProcessorEngine)(cut_probabilities=question.odds)


def failures(questions: list[Question]) -> Iterator[dict[str, object]]:
    """The questions that are answered wrongly, as they are found."""
    started = time.perf_counter()
    for number, question in enumerate(questions, 1):
        [actual] = actual_lines(engine_for(question), [question.case])
        if actual != question.expected:
            raised = actual[0] if actual and not actual[0].startswith("{") else ""
            yield {
                "by": question.name,
                "questions": number,
                "seconds": round(time.perf_counter() - started, 1),
                "raised": raised,
                "is_invalid": raised.startswith(INVALID),
            }


def main() -> None:
    """Make the exam, and say all that the package fails on; or take it, and say the first."""
    package, exam_file, *making = sys.argv[1:]
    assert motet.__file__ and Path(motet.__file__).is_relative_to(package), "the package under examination is another"
    if making:
        cases, count, jobs = making
        questions = exam(Path(cases), int(count), int(jobs))
        found = list(failures(questions))
        wrong = {failure["by"] for failure in found}
        Path(exam_file).write_bytes(pickle.dumps([one for one in questions if one.name not in wrong]))
    else:
        questions = pickle.loads(Path(exam_file).read_bytes())  # noqa: S301  (written by ourselves a moment ago)
        found = list(islice(failures(questions), 1))
    print(json.dumps(found))  # noqa: T201  (this is how it answers)


if __name__ == "__main__":
    main()
