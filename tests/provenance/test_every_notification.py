"""Every notification of random logs is accounted for, and every account is true."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
from tests.provenance.checking import contradicting, untrue, untrue_triples

from motet.fuzz.case import Case
from motet.fuzz.cases import random_cases
from motet.fuzz.subscriptions import EngineCapabilities
from motet.language.printer import pattern_text
from motet.language.syntax import Alongside, And, Context, No, Pattern, Timed
from motet.language.walk import nodes
from motet.model.control import entailment_of
from motet.model.errors import UsageError
from motet.provenance.facts import Absent
from motet.provenance.text import TextStyle, why_json, why_lines
from motet.provenance.traced_log import TracedEvaluator, TracedLog, partner_choices
from motet.provenance.why import DerivationNode, Why, why
from motet.reference import BackgroundRecord, evaluate
from motet.reference.contexts import pair
from motet.reference.occurrences import Occurrence
from motet.reference.operators import Scope

CASES = 5


def some(seed: int) -> list[Case]:
    return list(islice(random_cases(seed, EngineCapabilities()), CASES))


def scene_of(case: Case) -> TracedLog:
    return TracedLog.from_records(case.records, ontology=case.ontology, lateness=case.lateness)


def accounts(case: Case, scene: TracedLog) -> Iterator[Why]:
    found = evaluate(case.records, ontology=case.ontology, lateness=case.lateness)
    yield from (why(scene, notification) for notification in found)


def behind(account: Why) -> Iterator[Why]:
    """An account and those of the derived events behind it."""
    yield account
    for leaf in account.root.leaves():
        if leaf.derived_by is not None:
            yield from behind(leaf.derived_by)


@pytest.mark.parametrize("seed", [11, 12])
def test_every_account_is_true(seed: int) -> None:
    """Leaves and bindings make up the notification; each relation, bound, gap, FILTER and triple holds."""
    told = 0
    for case in some(seed):
        scene = scene_of(case)
        subscriptions = {subscription.name: subscription for subscription in case.subscriptions}
        changes = any(isinstance(record, BackgroundRecord) for record in case.records)
        events = {event.id: event for event in reversed(case.events)}
        for account in accounts(case, scene):
            told += 1
            assert account.is_choice_known
            for one in behind(account):
                assert list(untrue(one, subscriptions[one.notification.subscription])) == []
                if not changes:
                    assert list(untrue_triples(one.root, events, case.ontology, entailment_of(case.ontology))) == []
    assert told > 40


def absences(reason: DerivationNode) -> Iterator[tuple[Pattern, Absent]]:
    yield from ((reason.pattern, fact) for fact in reason.facts if isinstance(fact, Absent))
    for part in reason.operands:
        yield from absences(part)


def places(tracer: TracedEvaluator, pattern: Pattern, place: Scope) -> Iterator[tuple[Pattern, Scope]]:
    yield pattern, place
    for operand in tracer.operands(pattern, place):
        yield from places(tracer, *operand)


def test_what_is_said_to_be_absent_is_absent() -> None:
    """No occurrence of the absent pattern, computed from the log, lies in a window said to be empty of it."""
    said = 0
    for case in some(21):
        scene = scene_of(case)
        for account in accounts(case, scene):
            [life, *_] = [
                one for one in scene.registrations if one.subscription.name == account.notification.subscription
            ]
            tracer = scene.evaluator(life)
            where = list(places(tracer, life.subscription.pattern, tracer.root_scope()))
            for _, fact in absences(account.root):
                there = [found for found in where if pattern_text(found[0]) == fact.pattern]
                assert there
                assert all(not contradicting(fact, tracer.occurrences(*found)) for found in there[:1])
                said += 1
    assert said > 5


def test_the_notifications_own_events_suffice_when_no_context_chooses() -> None:
    """Unrestricted and without NO, the account needs no other events and is the same but for what was checked."""
    found = 0
    for case in some(31):
        scene = scene_of(case)
        events = {event.id: event for event in reversed(case.events)}
        for account in accounts(case, scene):
            [subscription] = [one for one in case.subscriptions if one.name == account.notification.subscription]
            patterns = [node for node, _ in nodes(subscription.pattern)]
            own = [events[event] for event in account.notification.events if event in events]
            if (
                subscription.context is not Context.UNRESTRICTED
                or any(isinstance(pattern, No) for pattern in patterns)
                or len(own) < len(account.notification.events)
                or any(isinstance(record, BackgroundRecord) for record in case.records)
            ):
                continue
            alone = TracedLog.from_events(subscription, own, ontology=case.ontology)
            other = why(alone, account.notification, is_complete=False)
            assert list(untrue(other, subscription)) == []
            assert other.notification == account.notification
            assert not any(fact.checked for _, fact in absences(other.root))
            found += 1
    assert found > 3


def test_choices_are_those_of_the_reference_engine() -> None:
    """The pairs that choices give rise to are the pairs of the reference engine, in every context."""
    compared = set()
    for case in some(41):
        scene = scene_of(case)
        for life in scene.registrations:
            tracer = scene.evaluator(life)
            for pattern, place in places(tracer, life.subscription.pattern, tracer.root_scope()):
                if isinstance(pattern, And | Timed | Alongside):
                    assert_same_pairs(tracer, pattern, place)
                    compared.add(tracer.context)
    assert compared == set(Context)


def assert_same_pairs(tracer: TracedEvaluator, pattern: And | Timed | Alongside, place: Scope) -> None:
    left, right = (tracer.occurrences(*operand) for operand in tracer.operands(pattern, place))
    shared = frozenset[str]({"room", "k"})

    def admits(a: Occurrence, b: Occurrence) -> bool:
        return a.events.isdisjoint(b.events) and a.end <= b.start

    expected = {(one.left, one.right) for one in pair(tracer.context, left, right, shared, admits)}
    made = partner_choices(tracer.context, left, right, shared, admits)
    if tracer.context is Context.CUMULATIVE:
        assert sum(bool(choice.chosen) for choice in made) >= len(expected)
        return
    joined = set()
    for choice in made:
        for y in choice.chosen:
            x = choice.completed.occurrence
            joined.add((y.occurrence, x) if choice.completed.is_right else (x, y.occurrence))
    assert joined == expected


def test_accounts_can_be_told() -> None:
    """Every account has words and JSON; the first line names subscription and notification."""
    for case in some(51):
        for account in accounts(case, scene_of(case)):
            (branch, head, kind), *rest = why_lines(account, TextStyle({"ex": "http://example.org/"}))
            start = f"{account.notification.subscription} {account.notification.id[:12]} on 2026-11-15, "
            assert (branch, head[: len(start)], kind) == ("", start, "head")
            assert len(rest) >= 1
            assert why_json(account)["events"] == list(account.notification.events)


def test_a_notification_of_other_events_is_refused() -> None:
    """What does not follow from the given events is an error."""
    case = some(61)[0]
    notification = evaluate(case.records, ontology=case.ontology, lateness=None)[0]
    [subscription] = [one for one in case.subscriptions if one.name == notification.subscription]
    with pytest.raises(UsageError, match="does not follow from the given events"):
        why(TracedLog.from_events(subscription, []), notification)
