"""Every notification of random logs has a derivation tree, and every tree is true."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
from tests.provenance.checking import contradicting, untrue, untrue_triples

from motet.fuzz.case import Case
from motet.fuzz.cases import random_cases
from motet.fuzz.subscriptions import EngineCapabilities
from motet.language.printer import pattern_text
from motet.language.scope import nodes
from motet.language.syntax import Alongside, And, Context, No, Pattern, Timed
from motet.model.control import entailment_of
from motet.model.errors import UsageError
from motet.provenance.facts import Absent
from motet.provenance.text import TextStyle, why_json, why_lines
from motet.provenance.traced_log import TracedEvaluator, TracedLog, partner_choices
from motet.provenance.why import DerivationNode, Why, why
from motet.reference import BackgroundRecord, EventRecord, SettingsRecord, evaluate
from motet.reference.contexts import pair
from motet.reference.occurrences import Occurrence
from motet.reference.operators import Scope

CASES = 5


def cases(seed: int) -> list[Case]:
    return list(islice(random_cases(seed, EngineCapabilities()), CASES))


def log_of(case: Case) -> TracedLog:
    return TracedLog.from_records(case.records, ontology=case.ontology, lateness=case.lateness)


def trees(case: Case, log: TracedLog) -> Iterator[Why]:
    found = evaluate(case.records, ontology=case.ontology, lateness=case.lateness)
    yield from (why(log, notification) for notification in found)


def with_upstream(tree: Why) -> Iterator[Why]:
    """A derivation tree and those of the notifications that derived its events."""
    yield tree
    for leaf in tree.root.leaves():
        if leaf.derived_by is not None:
            yield from with_upstream(leaf.derived_by)


@pytest.mark.parametrize("seed", [11, 12])
def test_every_derivation_tree_is_true(seed: int) -> None:
    """Leaves and bindings make up the notification; each relation, bound, gap, FILTER and triple holds."""
    tree_count = 0
    for case in cases(seed):
        log = log_of(case)
        subscriptions = {subscription.name: subscription for subscription in case.subscriptions}
        changes = any(isinstance(record, BackgroundRecord) for record in case.records)
        events = {event.id: event for event in reversed(case.events)}
        for tree in trees(case, log):
            tree_count += 1
            assert tree.is_choice_known
            for one in with_upstream(tree):
                assert list(untrue(one, subscriptions[one.notification.subscription])) == []
                if not changes:
                    assert list(untrue_triples(one.root, events, case.ontology, entailment_of(case.ontology))) == []
    assert tree_count > 40


def absences(reason: DerivationNode) -> Iterator[tuple[Pattern, Absent]]:
    yield from ((reason.pattern, fact) for fact in reason.facts if isinstance(fact, Absent))
    for part in reason.operands:
        yield from absences(part)


def scopes(evaluator: TracedEvaluator, pattern: Pattern, scope: Scope) -> Iterator[tuple[Pattern, Scope]]:
    yield pattern, scope
    for operand in evaluator.operands(pattern, scope):
        yield from scopes(evaluator, *operand)


def test_absent_facts_are_true() -> None:
    """No occurrence of the absent pattern is in the window of an absence fact."""
    fact_count = 0
    for case in cases(21):
        log = log_of(case)
        for tree in trees(case, log):
            [registration, *_] = [
                one for one in log.registrations if one.subscription.name == tree.notification.subscription
            ]
            evaluator = log.evaluator(registration)
            where = list(scopes(evaluator, registration.subscription.pattern, evaluator.root_scope()))
            for _, fact in absences(tree.root):
                there = [found for found in where if pattern_text(found[0]) == fact.pattern]
                assert there
                assert all(not contradicting(fact, evaluator.occurrences(*found)) for found in there[:1])
                fact_count += 1
    assert fact_count > 5


def test_unrestricted_trees_need_only_the_events_of_the_notification() -> None:
    """Unrestricted and without NO, the tree needs no other events and differs only in what was checked."""
    found = 0
    for case in cases(31):
        log = log_of(case)
        events = {record.id: record for record in log.records if isinstance(record, EventRecord)}
        subscriptions = {one.name: one for one in case.subscriptions}  # some are registered twice
        for tree in trees(case, log):
            subscription = subscriptions[tree.notification.subscription]
            patterns = [node for node, _ in nodes(subscription.pattern)]
            own = [events[event] for event in tree.notification.events if event in events]
            if (
                subscription.context is not Context.UNRESTRICTED
                or any(isinstance(pattern, No) for pattern in patterns)
                or len(own) < len(tree.notification.events)
                or any(isinstance(record, BackgroundRecord) for record in case.records)
                or any(isinstance(record, SettingsRecord) and record.entailment for record in case.records)
            ):
                continue
            alone = TracedLog.from_events(subscription, own, ontology=case.ontology)
            other = why(alone, tree.notification, is_complete=False)
            assert list(untrue(other, subscription)) == []
            assert other.notification == tree.notification
            assert not any(fact.checked for _, fact in absences(other.root))
            found += 1
    assert found > 3


def test_partner_choices_give_the_pairs_of_the_reference_engine() -> None:
    """In every context the choices give the pairs that the reference engine computes."""
    compared = set()
    for case in cases(41):
        log = log_of(case)
        for registration in log.registrations:
            evaluator = log.evaluator(registration)
            for pattern, scope in scopes(evaluator, registration.subscription.pattern, evaluator.root_scope()):
                if isinstance(pattern, And | Timed | Alongside):
                    assert_same_pairs(evaluator, pattern, scope)
                    compared.add(evaluator.context)
    assert compared == set(Context)


def assert_same_pairs(evaluator: TracedEvaluator, pattern: And | Timed | Alongside, scope: Scope) -> None:
    left, right = (evaluator.occurrences(*operand) for operand in evaluator.operands(pattern, scope))
    shared = frozenset[str]({"room", "k"})

    def admits(a: Occurrence, b: Occurrence) -> bool:
        return a.events.isdisjoint(b.events) and a.end <= b.start

    expected = {(one.left, one.right) for one in pair(evaluator.context, left, right, shared, admits)}
    choices = partner_choices(evaluator.context, left, right, shared, admits)
    if evaluator.context is Context.CUMULATIVE:
        assert sum(bool(choice.chosen) for choice in choices) >= len(expected)
        return
    joined = set()
    for choice in choices:
        for y in choice.chosen:
            x = choice.completed.occurrence
            joined.add((y.occurrence, x) if choice.completed.is_right else (x, y.occurrence))
    assert joined == expected


def test_every_derivation_tree_has_text_and_json() -> None:
    """Every tree has lines and JSON; the first line has the subscription and the notification."""
    for case in cases(51):
        for tree in trees(case, log_of(case)):
            (branch, head, kind), *rest = why_lines(tree, TextStyle({"ex": "http://example.org/"}))
            start = f"{tree.notification.subscription} {tree.notification.id[:12]} on 2026-11-15, "
            assert (branch, head[: len(start)], kind) == ("", start, "head")
            assert len(rest) >= 1
            assert why_json(tree)["events"] == list(tree.notification.events)


def test_a_notification_of_other_events_is_an_error() -> None:
    """A notification that does not follow from the given events is a UsageError."""
    case = cases(61)[0]
    notification = evaluate(case.records, ontology=case.ontology, lateness=None)[0]
    [subscription] = [one for one in case.subscriptions if one.name == notification.subscription]
    with pytest.raises(UsageError, match="does not follow from the given events"):
        why(TracedLog.from_events(subscription, []), notification)
