"""Patterns that can never match, and why: times that do not fit, conditions that contradict each other.

The walk combines the constraints of every operator on its operands (see `alternatives`) and stops at the smallest
pattern without a possible alternative. It is sound: a reported pattern has no occurrence in any log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import product

from motet.language import syntax
from motet.language.check import operator_text
from motet.language.printer import pattern_text
from motet.language.scope import AnnotatedPattern, annotate, leaf_variables
from motet.language.syntax import Context, Event, Subscription
from motet.lint.alternatives import (
    Contradiction,
    PatternAlternative,
    StatedCondition,
    body_constraints,
    condition_text,
    conjuncts,
    join_alternatives,
)
from motet.lint.conditions import contradiction
from motet.lint.diagnostics import Diagnostic, Severity
from motet.lint.time_limits import Limit, RelationConstraint, comparison_limits, end, relation_limits, start
from motet.lint.value_types import RangeTypes
from motet.model.intervals import EVERY, SHARING, Relation, Relations, hull_relations
from motet.model.times import format_duration
from motet.sparql.scope import mentioned

MAX_ALTERNATIVES = 64  # alternatives of a pattern that are examined one by one
_TYPE_ADVICE = (
    "only values of one type are compared and joined: write an IRI as <…> (STR(?x) is its text), a number without "
    'quotes, a time as "2026-01-01T00:00:00Z"^^xsd:dateTime'
)
_MAX_TEXT = 80  # characters of a pattern in a message

_LEFT_STARTS = frozenset(
    {Relation.BEFORE, Relation.MEETS, Relation.OVERLAPS, Relation.INCLUDES, Relation.FINISHED_BY}
    | {Relation.STARTS, Relation.STARTED_BY, Relation.EQUALS}
)
_LEFT_ENDS = frozenset(
    {Relation.AFTER, Relation.MET_BY, Relation.OVERLAPPED_BY, Relation.INCLUDES, Relation.STARTED_BY}
    | {Relation.FINISHES, Relation.FINISHED_BY, Relation.EQUALS}
)


@dataclass
class PatternAlternatives:
    """The possible alternatives of a pattern, and the diagnostics for the impossible ones."""

    alternatives: list[PatternAlternative]
    diagnostics: list[Diagnostic] = field(default_factory=list)


def pattern_alternatives(
    subscription: Subscription, text: str = "", ranges: RangeTypes | None = None
) -> PatternAlternatives:
    """The possible alternatives of a pattern; without any it never matches, and one of the diagnostics is an error.

    ``ranges`` adds what an ontology states about the values of properties.

    >>> from motet.language.parse import parse
    >>> silence = "SUBSCRIPTION s EVENT a : <urn:C> WHEN NO a FOR 10 min WITHIN 5 min"
    >>> [diagnostic.message for diagnostic in pattern_alternatives(parse(silence)[0]).diagnostics]
    ['no times fit: NO a FOR 10 min lasts 10 min; WITHIN 5 min']
    """
    return _Walk(subscription, text, ranges).of(annotate(subscription))


class _Walk:
    """Combines the alternatives of operands, from the leaves to the root."""

    def __init__(self, subscription: Subscription, text: str, ranges: RangeTypes | None = None) -> None:
        self._subscription = subscription
        self._text = text
        self._ranges = ranges
        self._occurrences = 0

    def of(self, tree: AnnotatedPattern) -> PatternAlternatives:
        below = [self.of(child) for child in tree.children]
        diagnostics = [diagnostic for child in below for diagnostic in child.diagnostics]
        match tree.node:
            case syntax.Or() | syntax.Xor():
                combined = PatternAlternatives([alternative for child in below for alternative in child.alternatives])
            case syntax.Unless() | syntax.Without():
                combined = PatternAlternatives(below[0].alternatives, self._without_effect(tree, below))
                diagnostics = [*below[0].diagnostics, *_downgrade(below[1].diagnostics)]
            case syntax.No():
                combined = self._no(tree)
            case _ if not all(child.alternatives for child in below):
                combined = PatternAlternatives([])
            case _:
                combined = self._possible(tree, self._combine(tree, [child.alternatives for child in below]))
        diagnostics = _downgrade(diagnostics) if combined.alternatives else diagnostics
        return PatternAlternatives(combined.alternatives, [*diagnostics, *combined.diagnostics])

    def _combine(self, tree: AnnotatedPattern, below: list[list[PatternAlternative]]) -> list[PatternAlternative]:  # noqa: PLR0911  (one return for each kind)
        match tree.node:
            case syntax.Leaf():
                return self._leaf(tree)
            case syntax.And() | syntax.Timed() | syntax.Alongside():
                if len(below[0]) * len(below[1]) > MAX_ALTERNATIVES:
                    return [PatternAlternative(self._new(), possible=tree.visible)]
                return [self._pair(tree, left, right) for left, right in product(*below)]
            case syntax.Times() | syntax.Run():
                return [self._iteration(tree, alternative) for alternative in below[0]]
            case syntax.Within(bound=bound) if not tree.carried:
                return [
                    alternative.with_max_duration(bound, f"WITHIN {format_duration(bound)}") for alternative in below[0]
                ]
            case syntax.Filter(condition=condition) if not tree.carried:
                return [self._with_condition(alternative, condition) for alternative in below[0]]
        return below[0]

    def _leaf(self, tree: AnnotatedPattern) -> list[PatternAlternative]:
        event = tree.event
        assert event is not None  # a leaf has its declaration
        body, occurrence = body_constraints(event), self._new()
        instants = dict(zip(event.times, (start(occurrence), end(occurrence)), strict=True)) if event.times else {}
        alternative = PatternAlternative(
            occurrence, body.certain, leaf_variables(event), instants, (_forward(occurrence, event.name),)
        )
        if body.contradiction is not None:
            return []
        for name, instant in body.instants:
            alternative = alternative.with_conditions(instant, f"?{name} is a time")
        ranges = self._ranges.statements(event) if self._ranges is not None else ()
        stated = [StatedCondition(condition, condition_text(condition)) for condition in body.conditions]
        stated += [StatedCondition(statement.test(), statement.reason) for statement in (*body.types, *ranges)]
        return [alternative.with_stated(stated).project(tree.visible)]

    def _pair(self, tree: AnnotatedPattern, left: PatternAlternative, right: PatternAlternative) -> PatternAlternative:
        occurrence, text = self._new(), _pattern_text(tree)
        cumulative = self._subscription.context is Context.CUMULATIVE
        alternative = join_alternatives(occurrence, left, right, agreeing=cumulative)
        first, second, relations = left.occurrence, right.occurrence, _relations(tree)
        to_left, to_right = hull_relations(relations)
        alternative = replace(
            alternative,
            relations=(
                *alternative.relations,
                RelationConstraint(first, second, relations, "" if relations == EVERY else text),
                RelationConstraint(occurrence, first, to_left, ""),
                RelationConstraint(occurrence, second, to_right, ""),
            ),
        ).with_limits(*_timed(tree, first, second, text), *_hull(tree, occurrence, first, second))
        alternative = alternative.with_max_duration(
            tree.bound, f"WITHIN {format_duration(tree.bound)}" if tree.bound else ""
        )
        carried = (
            alternative if tree.condition is None else self._with_carried(alternative, left, right, tree.condition)
        )
        return carried.truncated()

    def _with_carried(
        self,
        alternative: PatternAlternative,
        left: PatternAlternative,
        right: PatternAlternative,
        condition: syntax.Expression,
    ) -> PatternAlternative:
        """A carried FILTER is evaluated on the pair, before cumulative drops variables on which members disagree."""
        if self._subscription.context is not Context.CUMULATIVE:
            return self._with_condition(alternative, condition)
        pair = join_alternatives(alternative.occurrence, left, right, agreeing=False)
        pair = replace(pair, limits=alternative.limits, relations=alternative.relations)
        return self._with_condition(pair, condition).retain_certain(alternative.certain)

    def _with_condition(self, alternative: PatternAlternative, condition: syntax.Expression) -> PatternAlternative:
        return alternative.with_conditions(conjuncts(condition.algebra))

    def _iteration(self, tree: AnnotatedPattern, member: PatternAlternative) -> PatternAlternative:
        """The witness is the member that starts first."""
        occurrence, inner = self._new(), member.occurrence
        node = tree.node
        limits = [
            *comparison_limits(start(occurrence), "=", start(inner), ""),
            *comparison_limits(end(inner), "<=", end(occurrence), ""),
        ]
        if isinstance(node, syntax.Times) and (node.gap is not None or node.count == 1):
            max_gaps = (node.count - 1) * (node.gap or 0)
            limits.append(Limit(end(occurrence), end(inner), max_gaps, _pattern_text(tree)))
        alternative = replace(member.project(tree.visible), occurrence=occurrence).with_limits(*limits)
        contains = RelationConstraint(occurrence, inner, frozenset({Relation.STARTED_BY, Relation.EQUALS}), "")
        alternative = replace(alternative, relations=(*alternative.relations, contains))
        return alternative.with_max_duration(
            tree.bound, f"WITHIN {format_duration(tree.bound)}" if tree.bound else ""
        ).truncated()

    def _no(self, tree: AnnotatedPattern) -> PatternAlternatives:
        """Also an operand that never occurs is absent, from the beginning of the subscription on."""
        assert isinstance(tree.node, syntax.No)
        occurrence, duration = self._new(), tree.node.duration
        why = f"{_pattern_text(tree)} lasts {format_duration(duration)}"
        limits = (
            Limit(end(occurrence), start(occurrence), duration, why),
            Limit(start(occurrence), end(occurrence), -duration, why),
        )
        return PatternAlternatives([PatternAlternative(occurrence, limits=limits)])

    def _without_effect(self, tree: AnnotatedPattern, below: list[PatternAlternatives]) -> list[Diagnostic]:
        """A diagnostic for an UNLESS or WITHOUT that has no effect although both sides may occur."""
        pairs = list(product(below[0].alternatives, below[1].alternatives))
        if (
            not pairs
            or len(pairs) > MAX_ALTERNATIVES
            or not all(self._never_contradicts(tree, *pair) for pair in pairs)
        ):
            return []
        message = f"{operator_text(tree.node)} has no effect: its right side can never contradict its left side"
        advice = "check the window, and the conditions on the variables that both sides share"
        return [Diagnostic("idle-guard", Severity.WARNING, tree.node.position, message, advice)]

    def _never_contradicts(
        self, tree: AnnotatedPattern, guarded: PatternAlternative, absent: PatternAlternative
    ) -> bool:
        """Whether the absent side certainly never contradicts the other side."""
        both = join_alternatives(self._new(), guarded, absent, agreeing=False)
        first, second = guarded.occurrence, absent.occurrence
        if isinstance(tree.node, syntax.Unless):
            window = Limit(end(second), end(first), tree.node.window, "")
            both = both.with_limits(*comparison_limits(end(first), "<", start(second), ""), window)
        else:
            inside = (
                *comparison_limits(start(first), "<", start(second), ""),
                *comparison_limits(end(second), "<", end(first), ""),
            )
            both = both.with_limits(*inside)
        return both.truncated().contradiction() is not None

    def _possible(self, tree: AnnotatedPattern, alternatives: list[PatternAlternative]) -> PatternAlternatives:
        """The alternatives without a contradiction; when there are none, the reasons for the first."""
        if isinstance(tree.node, syntax.Leaf) and not alternatives:
            return PatternAlternatives([], [self._impossible_body(tree)])
        reasons = [self._contradiction(tree, alternative) for alternative in alternatives]
        possible = [alternative for alternative, reason in zip(alternatives, reasons, strict=True) if reason is None]
        blamed = next((reason for reason in reasons if reason is not None), None)
        if possible or blamed is None:
            return PatternAlternatives(possible)
        return PatternAlternatives([], [self._diagnostic(tree, blamed)])

    def _contradiction(self, tree: AnnotatedPattern, alternative: PatternAlternative) -> Contradiction | None:
        condition = _condition(tree)
        if condition is not None:
            conditions = conjuncts(condition.algebra)
            hidden = frozenset().union(*map(mentioned, conditions)) - alternative.possible
            blamed = contradiction(conditions, unbound=hidden)
            if blamed:
                return Contradiction(False, (*map(condition_text, blamed), *_unbound_reasons(hidden)))
        return alternative.contradiction()

    def _diagnostic(self, tree: AnnotatedPattern, blamed: Contradiction) -> Diagnostic:
        condition = _condition(tree)
        position = condition.position if condition is not None else tree.node.position
        if tree.event is not None:
            position = self._filter_position(tree.event)
        if blamed.about_times:
            advice = "each of these is possible alone, but not all together: make a window longer, or drop one of them"
            return Diagnostic("times-never-fit", Severity.ERROR, position, f"no times fit: {blamed.text()}", advice)
        if blamed.by_ontology:
            message = f"no event that agrees with the ontology matches: {blamed.text()}"
            return Diagnostic("contradicts-ontology", Severity.ERROR, position, message, _TYPE_ADVICE)
        return _never_true(blamed, position)

    def _impossible_body(self, tree: AnnotatedPattern) -> Diagnostic:
        event = tree.event
        assert event is not None  # a leaf has its declaration
        blamed = body_constraints(event).contradiction
        if not blamed:
            message, advice = f"the VALUES of '{event.name}' have no row", "give it rows, or remove VALUES"
            return Diagnostic("conditions-never-hold", Severity.ERROR, event.position, message, advice)
        return _never_true(Contradiction(False, tuple(map(condition_text, blamed))), self._filter_position(event))

    def _filter_position(self, event: Event) -> int:
        """The position of the body's first FILTER, or of the event when it has none."""
        position = event.body.position if event.body else event.position
        match = re.compile("FILTER", re.IGNORECASE).search(self._text, position)
        return match.start() if match and event.body else event.position

    def _new(self) -> int:
        self._occurrences += 1
        return self._occurrences


def _condition(tree: AnnotatedPattern) -> syntax.Expression | None:
    return tree.node.condition if isinstance(tree.node, syntax.Filter) else tree.condition


def _never_true(blamed: Contradiction, position: int) -> Diagnostic:
    message = f"this can never be true: {blamed.text()}"
    several = "no value fulfils all of them; correct a constant, or write two subscriptions"
    if blamed.about_types:
        several = _TYPE_ADVICE
    advice = several if len(blamed.reasons) > 1 else "correct or remove it: nothing matches as it is"
    return Diagnostic("conditions-never-hold", Severity.ERROR, position, message, advice)


def _unbound_reasons(names: frozenset[str]) -> list[str]:
    return [
        f"?{name} has no value here (NO and the right side of UNLESS and WITHOUT bind none)" for name in sorted(names)
    ]


def _downgrade(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Errors as warnings, where the rest of the pattern can still match."""
    return [
        replace(
            each,
            rule="part-never-matches",
            severity=Severity.WARNING,
            message=f"this part never matches: {each.message}",
        )
        if each.severity is Severity.ERROR
        else each
        for each in diagnostics
    ]


def _relations(tree: AnnotatedPattern) -> Relations:
    match tree.node:
        case syntax.Timed(relation=relation):
            return frozenset({relation})
        case syntax.Alongside():
            return SHARING
    return EVERY


def _timed(tree: AnnotatedPattern, left: int, right: int, why: str) -> tuple[Limit, ...]:
    match tree.node:
        case syntax.Timed(relation=relation):
            return relation_limits(left, relation, right, why)
        case syntax.Alongside():
            return (
                *comparison_limits(start(left), "<=", end(right), why),
                *comparison_limits(start(right), "<=", end(left), why),
            )
    return ()


def _hull(tree: AnnotatedPattern, occurrence: int, left: int, right: int) -> list[Limit]:
    """The limits of the hull: a relation fixes the sides that start first and end last; otherwise it contains both."""
    if isinstance(tree.node, syntax.Timed):
        relation = tree.node.relation
        first, last = left if relation in _LEFT_STARTS else right, left if relation in _LEFT_ENDS else right
        return [
            *comparison_limits(start(occurrence), "=", start(first), ""),
            *comparison_limits(end(occurrence), "=", end(last), ""),
        ]
    sides = (left, right)
    starts = [limit for side in sides for limit in comparison_limits(start(occurrence), "<=", start(side), "")]
    return starts + [limit for side in sides for limit in comparison_limits(end(side), "<=", end(occurrence), "")]


def _forward(occurrence: int, name: str) -> Limit:
    return Limit(start(occurrence), end(occurrence), 0, f"{name} cannot end before it starts")


def _pattern_text(tree: AnnotatedPattern) -> str:
    text = pattern_text(tree.node)
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
