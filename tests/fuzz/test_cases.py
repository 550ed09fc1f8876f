"""Random cases: determined by the seed, and of all kinds."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random

from motet.fuzz.case import Case, as_run
from motet.fuzz.cases import random_cases
from motet.fuzz.compare import LOG_KINDS, OPERATORS, log_kinds, operators
from motet.fuzz.documents import documents
from motet.fuzz.subscriptions import EngineCapabilities
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.language.syntax import Construct, Context


def first_cases(seed: int, capabilities: EngineCapabilities, count: int, cases_per_run: int = 1) -> list[Case]:
    return list(islice(random_cases(seed, capabilities, cases_per_run), count))


def test_the_seed_determines_the_cases() -> None:
    """The same seed gives the same cases, another seed gives other cases."""
    assert first_cases(1, EngineCapabilities(), 5) == first_cases(1, EngineCapabilities(), 5)
    assert first_cases(1, EngineCapabilities(), 5) != first_cases(2, EngineCapabilities(), 5)


def test_subscriptions_can_be_printed_and_parsed() -> None:
    """Every subscription is equal after printing and parsing, so that a case can be saved as files."""
    for case in first_cases(3, EngineCapabilities(), 5):
        for subscription in case.subscriptions:
            assert parse(to_text(subscription)) == (subscription,)


def test_every_operator_and_context_occurs() -> None:
    """A few hundred subscriptions have every operator, every context, derived events, runs and logs."""
    cases = first_cases(4, EngineCapabilities(), 150)
    subscriptions = [subscription for case in cases for subscription in case.subscriptions]
    assert {name for subscription in subscriptions for name, _ in operators(subscription.pattern)} == set(OPERATORS)
    assert {subscription.context for subscription in subscriptions} == set(Context)
    assert any(isinstance(subscription.delivery, Construct) for subscription in subscriptions)
    assert {case.is_run for case in cases} == {True, False}
    assert any(case.ontology for case in cases)


def test_every_kind_of_log_occurs() -> None:
    """Late, stamped, repeated and future events, clocks, settings, upgrades and every beginning of NO occur, often."""
    counts = Counter(kind for case in first_cases(7, EngineCapabilities(), 400) for kind in log_kinds(case))
    assert counts.keys() == set(LOG_KINDS)
    assert min(counts.values()) >= 4


def test_documents_mean_their_events() -> None:
    """The events of a log can be published as documents in several forms, most of them without named graphs."""
    forms = Counter[tuple[str, bool, bool]]()
    for case in first_cases(8, EngineCapabilities(), 60):
        events = list({event.id: event for event in case.events}.values())
        for document in documents(events, Random(case.seed)):
            forms[document.content_type, document.id is not None, document.input_id is not None] += 1
    assert len(forms) == 14 and min(forms.values()) > 5


def test_cases_respect_the_capabilities() -> None:
    """Cases for an engine of files are runs."""
    for case in first_cases(5, EngineCapabilities(logs=False), 20):
        assert case == as_run(case)


def test_cases_of_one_run_do_not_mix() -> None:
    """Cases of one run have one ontology, distinct names and ids, and a scope in every event and leaf: a triple, or the
    namespace of elements.
    """
    cases = first_cases(6, EngineCapabilities(logs=False, shares_runs=True), 4, cases_per_run=4)
    assert len({case.ontology for case in cases}) == 1
    assert len({subscription.name for case in cases for subscription in case.subscriptions}) == 24
    for number, case in enumerate(cases):
        scope = f"urn:fuzz:case:c{number}"
        assert all(
            any(f"<{scope}>" in triple for triple in event.triples) or f'"{scope}"'.encode() in (event.payload or b"")
            for event in case.events
        )
        leaves = [leaf.xml or leaf.body for subscription in case.subscriptions for leaf in subscription.events]
        assert all(leaf is not None and scope in leaf.text for leaf in leaves)
