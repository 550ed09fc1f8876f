"""Every case of ``cases`` on every engine: an engine is admitted through this suite.

A case's ``rule.txt`` says which rule it shows. What an engine cannot do is in one table, strictly: a marked case must
fail with the error it is marked with, and one that passes fails the suite until its mark is taken away.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

from motet.cli.run import runner as run_runner
from motet.fuzz.case import Case, expected_result, pack_cases, with_scope, without_offsets, without_scope
from motet.fuzz.engines import Engine, LiveEngine, ReferenceEngine, SparkStreamEngine, embedded_files, spark_files
from motet.fuzz.files import decoding_arguments, read_case, read_lines
from motet.fuzz.processor_engines import BucketsEngine
from motet.jobs.run import load_job
from motet.language.scope import is_single_event
from motet.model.batches import Triple
from motet.model.errors import DecodeError, MotetError, UsageError

CASES = {folder.name: folder for folder in sorted((Path(__file__).parent / "cases").iterdir())}
ENGINES: dict[str, Callable[[], Engine]] = {
    "reference": ReferenceEngine,
    "embedded": embedded_files,
    "embedded-live": LiveEngine,
    "buckets": BucketsEngine,
    "spark": spark_files,
    "spark-stream": SparkStreamEngine,
}
SHARED = {"spark": "on_spark", "spark-stream": "streamed"}  # by engine, who runs all cases at once
MARKERS = ("notimpl", "notyet", "never")  # we could; upstream must first; it makes no sense


@dataclass(frozen=True)
class Mark:
    """Cases an engine cannot do, and how it says so."""

    marker: str
    engines: tuple[str, ...]
    cases: tuple[str, ...]  # patterns of names
    error: type[MotetError]
    reason: str


MARKS = (Mark("never", ("embedded", "spark"), ("log-*",), UsageError, "`motet run` reads files; a log needs a lake"),)


def mark_of(engine: str, name: str) -> Mark | None:
    """The first mark that speaks of the case."""
    matching = (mark for mark in MARKS if engine in mark.engines and any(fnmatch(name, glob) for glob in mark.cases))
    return next(matching, None)


def expected_of(name: str) -> list[str]:
    return read_lines(CASES[name] / "expected.jsonl")


@pytest.fixture(scope="session")
def on_spark() -> Iterator[dict[str, list[str]]]:
    """The lines of all cases that Spark can do, from few runs: a session and a job cost seconds."""
    pytest.importorskip("pyspark")
    from motet.spark.session import session

    running = session(master="local[2]", app_name="motet-tests")
    groups: dict[tuple[frozenset[Triple], str], dict[str, Case]] = {}
    for name, folder in CASES.items():
        if mark_of("spark", name) is None:
            case = read_case(folder)
            group = "lifted" if case.mappings else "matched" if single_events(case) else "detected"
            groups.setdefault((case.ontology, group), {})[name] = case
    kinds = {"matched": matched, "detected": detected, "lifted": lifted}
    runs = [kinds[kind](group) for (_, kind), group in groups.items()]
    yield {name: lines for run in runs for name, lines in run.items()}
    running.stop()


@pytest.fixture(scope="session")
def streamed() -> Iterator[dict[str, list[str]]]:
    """The lines of all cases from one streaming query, each case in a lake of its own."""
    pytest.importorskip("pyspark")
    from motet.spark.session import session

    running = session(master="local[2]", app_name="motet-tests")
    lines = SparkStreamEngine().run([read_case(folder) for folder in CASES.values()])
    yield dict(zip(CASES, lines, strict=True))
    running.stop()


def matched(cases: dict[str, Case]) -> dict[str, list[str]]:
    """Cases of single events in one run: what a subscription says of another case's events is left out."""
    [lines] = spark_files().run([pack_cases(list(cases.values()))])
    return {
        name: [
            line
            for line in lines
            if any(f'"subscription": "{s.name}"' in line for s in case.subscriptions)
            and any(f'"events": ["{event.id}"]' in line for event in case.events)
        ]
        for name, case in cases.items()
    }


def detected(cases: dict[str, Case]) -> dict[str, list[str]]:
    """Cases that combine events in one run: each sees no event but its own."""
    found = spark_files().run([with_scope(case, name) for name, case in cases.items()])
    return {name: list(map(without_scope, lines)) for name, lines in zip(cases, found, strict=True)}


def lifted(cases: dict[str, Case]) -> dict[str, list[str]]:
    """Cases whose derived documents are lifted, in one run: their names are all different."""
    return dict(zip(cases, spark_files().run(list(cases.values())), strict=True))


def single_events(case: Case) -> bool:
    return all(map(is_single_event, case.subscriptions))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CASES)
def test_an_engine_says_what_the_case_expects(name: str, engine: str, request: pytest.FixtureRequest) -> None:
    """Exactly the lines of expected.jsonl, in their order; or, where a mark says so, exactly that error.

    An engine that says which record made a notification final says the same as the reference engine.
    """
    mark = mark_of(engine, name)
    if mark is not None:
        with pytest.raises(mark.error):
            ENGINES[engine]().run([read_case(CASES[name])])
        return
    examined, case = ENGINES[engine](), read_case(CASES[name])
    lines = request.getfixturevalue(SHARED[engine])[name] if engine in SHARED else examined.run([case])[0]
    if examined.has_offsets:
        assert lines == expected_result(case).lines(offsets=True)
        lines = without_offsets(lines)
    assert lines == expected_of(name)


DOCUMENTS = [name for name, folder in CASES.items() if name.startswith("document-") or next(folder.glob("*.xml"), None)]


@pytest.mark.parametrize("engine", ["reference", "embedded", "spark"])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_motet_run_reads_the_documents_of_a_case(name: str, engine: str, request: pytest.FixtureRequest) -> None:
    """`motet run` gives the lines of expected.jsonl from the files as they are, and rejects what rejected.txt has.

    A line of rejected.txt is a file, a line and an event, or "-".
    """
    if engine == "spark":
        request.getfixturevalue("on_spark")
    folder = CASES[name]
    paths = [str(path) for path in sorted(folder.glob("events*"))]
    [subscriptions] = folder.glob("subscriptions.*")
    job = load_job(
        [str(subscriptions)], paths, syntax=subscriptions.suffix[1:], arrival=0, **decoding_arguments(folder)
    )
    sink, rejected = io.BytesIO(), list[DecodeError]()
    summary = run_runner(engine)(job, sink, rejected.extend)
    assert sink.getvalue().decode().splitlines() == expected_of(name)
    found = {f"{Path(error.source or '').name} {error.line} {error.event or '-'}" for error in rejected}
    expected = folder / "rejected.txt"
    assert found == (set(read_lines(expected)) if expected.exists() else set())
    assert summary.rejected == len(rejected) == len(found)


@pytest.mark.parametrize("name", CASES)
def test_a_case_names_its_rule(name: str) -> None:
    """A case whose expectation cannot be traced to a rule is worth nothing; names must not clash in a shared run."""
    rule = (CASES[name] / "rule.txt").read_text("utf-8")
    assert rule.strip() and rule.count("\n") == 1
    assert all(subscription.name.startswith(name) for subscription in read_case(CASES[name]).subscriptions)


def test_marks_are_of_a_known_kind() -> None:
    """A mark says whether it is for us, for upstream or for nobody to change, and speaks of a case there is."""
    assert {mark.marker for mark in MARKS} <= set(MARKERS)
    unused = [glob for mark in MARKS for glob in mark.cases if not any(fnmatch(name, glob) for name in CASES)]
    assert unused == []
