"""Patterns that can never match, and why: times that do not fit, conditions that contradict each other.

The walk combines the constraints of every operator on its operands (see `alternatives`) and stops at the smallest
pattern without a possible alternative. It is sound: a reported pattern has no occurrence in any log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import product

from motet.language import syntax
from motet.language.annotate import Node, annotate
from motet.language.check import spoken
from motet.language.printer import pattern_text
from motet.language.syntax import Context, Event, Subscription
from motet.language.visibility import leaf_variables
from motet.lint.alternatives import Contradiction, Part, body_of, condition_text, conjuncts, together
from motet.lint.conditions import contradiction
from motet.lint.diagnostics import Found, Severity
from motet.lint.time_limits import Limit, Related, compared, end, related, start
from motet.model.intervals import EVERY, SHARING, Relation, Relations, hull_relations
from motet.model.times import format_duration
from motet.sparql.scope import mentioned

MAX_PARTS = 64  # alternatives of a pattern that are looked at one by one
_SHOWN = 80  # characters of a pattern in a message

_LEFT_STARTS = frozenset(
    {Relation.BEFORE, Relation.MEETS, Relation.OVERLAPS, Relation.INCLUDES, Relation.FINISHED_BY}
    | {Relation.STARTS, Relation.STARTED_BY, Relation.EQUALS}
)
_LEFT_ENDS = frozenset(
    {Relation.AFTER, Relation.MET_BY, Relation.OVERLAPPED_BY, Relation.INCLUDES, Relation.STARTED_BY}
    | {Relation.FINISHES, Relation.FINISHED_BY, Relation.EQUALS}
)


@dataclass
class Ways:
    """The ways a subscription's whole pattern may occur, and what was found on the way."""

    parts: list[Part]
    found: list[Found] = field(default_factory=list)


def ways(subscription: Subscription, text: str = "") -> Ways:
    """How the pattern may occur. Without any part it never does, and some of what was found is an error.

    >>> from motet.language.parse import parse
    >>> silence = "SUBSCRIPTION s EVENT a : <urn:C> WHEN NO a FOR 10 min WITHIN 5 min"
    >>> [found.message for found in ways(parse(silence)[0]).found]
    ['no times fit: NO a FOR 10 min lasts 10 min; WITHIN 5 min']
    """
    return _Walk(subscription, text).of(annotate(subscription))


class _Walk:
    def __init__(self, subscription: Subscription, text: str) -> None:
        self._subscription = subscription
        self._text = text
        self._occurrences = 0

    def of(self, tree: Node) -> Ways:
        below = [self.of(child) for child in tree.children]
        found = [one for child in below for one in child.found]
        match tree.node:
            case syntax.Or() | syntax.Xor():
                made = Ways([part for child in below for part in child.parts])
            case syntax.Unless() | syntax.Without():
                made = Ways(below[0].parts, self._idle(tree, below))
                found = [*below[0].found, *_lowered(below[1].found)]
            case syntax.No():
                made = self._silence(tree, below[0])
            case _ if not all(child.parts for child in below):
                made = Ways([])
            case _:
                made = self._surviving(tree, self._made(tree, [child.parts for child in below]))
        found = _lowered(found) if made.parts else found
        return Ways(made.parts, [*found, *made.found])

    def _made(self, tree: Node, below: list[list[Part]]) -> list[Part]:  # noqa: PLR0911  (one return for each kind)
        match tree.node:
            case syntax.Leaf():
                return self._leaf(tree)
            case syntax.And() | syntax.Timed() | syntax.Alongside():
                if len(below[0]) * len(below[1]) > MAX_PARTS:
                    return [Part(self._new(), possible=tree.visible)]
                return [self._paired(tree, left, right) for left, right in product(*below)]
            case syntax.Times() | syntax.Run():
                return [self._repeated(tree, part) for part in below[0]]
            case syntax.Within(bound=bound) if not tree.carried:
                return [part.lasting(bound, f"WITHIN {format_duration(bound)}") for part in below[0]]
            case syntax.Filter(condition=condition) if not tree.carried:
                return [self._stating(part, condition) for part in below[0]]
        return below[0]

    def _leaf(self, tree: Node) -> list[Part]:
        event = tree.event
        assert event is not None  # a leaf has its declaration
        body, own = body_of(event), self._new()
        instants = dict(zip(event.times, (start(own), end(own)), strict=True)) if event.times else {}
        part = Part(own, body.certain, leaf_variables(event), instants, (_forward(own, event.name),))
        if body.impossible is not None:
            return []
        for name, instant in body.instants:
            part = part.stating(instant, f"?{name} is a time")
        return [part.stating(body.conditions).restricted(tree.visible)]

    def _paired(self, tree: Node, left: Part, right: Part) -> Part:
        own, words = self._new(), _words(tree)
        cumulative = self._subscription.context is Context.CUMULATIVE
        part = together(own, left, right, agreeing=cumulative)
        one, other, asked = left.occurrence, right.occurrence, _asked(tree)
        to_left, to_right = hull_relations(asked)
        part = replace(
            part,
            relations=(
                *part.relations,
                Related(one, other, asked, "" if asked == EVERY else words),
                Related(own, one, to_left, ""),
                Related(own, other, to_right, ""),
            ),
        ).limited(*_timed(tree, one, other, words), *_hull(tree, own, one, other))
        part = part.lasting(tree.bound, f"WITHIN {format_duration(tree.bound)}" if tree.bound else "")
        carried = part if tree.condition is None else self._carrying(part, left, right, tree.condition)
        return carried.modest()

    def _carrying(self, part: Part, left: Part, right: Part, condition: syntax.Expression) -> Part:
        """A carried FILTER sees the pair, before cumulative forgets what its members do not agree on."""
        if self._subscription.context is not Context.CUMULATIVE:
            return self._stating(part, condition)
        pair = together(part.occurrence, left, right, agreeing=False)
        pair = replace(pair, limits=part.limits, relations=part.relations)
        return self._stating(pair, condition).forgetting(part.certain)

    def _stating(self, part: Part, condition: syntax.Expression) -> Part:
        return part.stating(conjuncts(condition.algebra))

    def _repeated(self, tree: Node, member: Part) -> Part:
        """The witness is the member that starts first."""
        own, inner = self._new(), member.occurrence
        node = tree.node
        limits = [*compared(start(own), "=", start(inner), ""), *compared(end(inner), "<=", end(own), "")]
        if isinstance(node, syntax.Times) and (node.gap is not None or node.count == 1):
            longest = (node.count - 1) * (node.gap or 0)
            limits.append(Limit(end(own), end(inner), longest, _words(tree)))
        part = replace(member.restricted(tree.visible), occurrence=own).limited(*limits)
        contains = Related(own, inner, frozenset({Relation.STARTED_BY, Relation.EQUALS}), "")
        part = replace(part, relations=(*part.relations, contains))
        return part.lasting(tree.bound, f"WITHIN {format_duration(tree.bound)}" if tree.bound else "").modest()

    def _silence(self, tree: Node, below: Ways) -> Ways:
        assert isinstance(tree.node, syntax.No)
        if not below.parts and self._subscription.since is None:
            return Ways([])  # without an occurrence of the operand there is no point to start from
        own, duration = self._new(), tree.node.duration
        why = f"{_words(tree)} lasts {format_duration(duration)}"
        limits = Limit(end(own), start(own), duration, why), Limit(start(own), end(own), -duration, why)
        return Ways([Part(own, limits=limits)])

    def _idle(self, tree: Node, below: list[Ways]) -> list[Found]:
        """A guard that can never strike, although both sides may occur."""
        pairs = list(product(below[0].parts, below[1].parts))
        if not pairs or len(pairs) > MAX_PARTS or not all(self._misses(tree, *pair) for pair in pairs):
            return []
        message = f"nothing that {spoken(tree.node)} looks for can ever stand in the way of what is before it"
        advice = "look at the window, and at the conditions on the variables that both sides share"
        return [Found("idle-guard", Severity.WARNING, tree.node.position, message, advice)]

    def _misses(self, tree: Node, guarded: Part, absent: Part) -> bool:
        """Whether it is certain that this pair is never in the other's way."""
        both = together(self._new(), guarded, absent, agreeing=False)
        one, other = guarded.occurrence, absent.occurrence
        if isinstance(tree.node, syntax.Unless):
            window = Limit(end(other), end(one), tree.node.window, "")
            both = both.limited(*compared(end(one), "<", start(other), ""), window)
        else:
            inside = (*compared(start(one), "<", start(other), ""), *compared(end(other), "<", end(one), ""))
            both = both.limited(*inside)
        return both.modest().contradiction() is not None

    def _surviving(self, tree: Node, parts: list[Part]) -> Ways:
        """The parts without contradiction; when none is left, the reasons for the first one."""
        if isinstance(tree.node, syntax.Leaf) and not parts:
            return Ways([], [self._impossible_body(tree)])
        reasons = [self._contradiction(tree, part) for part in parts]
        kept = [part for part, reason in zip(parts, reasons, strict=True) if reason is None]
        blamed = next((reason for reason in reasons if reason is not None), None)
        return Ways(kept) if kept or blamed is None else Ways([], [self._found(tree, blamed)])

    def _contradiction(self, tree: Node, part: Part) -> Contradiction | None:
        condition = _condition(tree)
        if condition is not None:
            conditions = conjuncts(condition.algebra)
            hidden = frozenset().union(*map(mentioned, conditions)) - part.possible
            blamed = contradiction(conditions, unbound=hidden)
            if blamed:
                return Contradiction(False, (*map(condition_text, blamed), *_unseen(hidden)))
        return part.contradiction()

    def _found(self, tree: Node, blamed: Contradiction) -> Found:
        condition = _condition(tree)
        place = condition.position if condition is not None else tree.node.position
        if tree.event is not None:
            place = self._filter_place(tree.event)
        if blamed.about_times:
            advice = "each of these can be kept alone, not all together: make a window longer, or drop one of them"
            return Found("times-never-fit", Severity.ERROR, place, f"no times fit: {blamed.words()}", advice)
        return _never_true(blamed, place)

    def _impossible_body(self, tree: Node) -> Found:
        event = tree.event
        assert event is not None  # a leaf has its declaration
        blamed = body_of(event).impossible
        if not blamed:
            message, advice = f"the VALUES of '{event.name}' have no row", "give it rows, or remove VALUES"
            return Found("conditions-never-hold", Severity.ERROR, event.position, message, advice)
        return _never_true(Contradiction(False, tuple(map(condition_text, blamed))), self._filter_place(event))

    def _filter_place(self, event: Event) -> int:
        """Where the body's first FILTER is written; the event's own place if that cannot be told."""
        position = event.body.position if event.body else event.position
        match = re.compile("FILTER", re.IGNORECASE).search(self._text, position)
        return match.start() if match and event.body else event.position

    def _new(self) -> int:
        self._occurrences += 1
        return self._occurrences


def _condition(tree: Node) -> syntax.Expression | None:
    return tree.node.condition if isinstance(tree.node, syntax.Filter) else tree.condition


def _never_true(blamed: Contradiction, place: int) -> Found:
    message = f"this can never be true: {blamed.words()}"
    several = "what fulfils one of them does not fulfil the others; correct a constant, or write two subscriptions"
    advice = several if len(blamed.reasons) > 1 else "correct or remove it: as it stands, nothing gets through"
    return Found("conditions-never-hold", Severity.ERROR, place, message, advice)


def _unseen(names: frozenset[str]) -> list[str]:
    return [
        f"?{name} has no value here (NO and the right side of UNLESS and WITHOUT show none)" for name in sorted(names)
    ]


def _lowered(found: list[Found]) -> list[Found]:
    """What is an error by itself, where the rest of the pattern can still match."""
    return [
        replace(
            one, rule="part-never-matches", severity=Severity.WARNING, message=f"this part never matches: {one.message}"
        )
        if one.severity is Severity.ERROR
        else one
        for one in found
    ]


def _asked(tree: Node) -> Relations:
    match tree.node:
        case syntax.Timed(relation=relation):
            return frozenset({relation})
        case syntax.Alongside():
            return SHARING
    return EVERY


def _timed(tree: Node, left: int, right: int, why: str) -> tuple[Limit, ...]:
    match tree.node:
        case syntax.Timed(relation=relation):
            return related(left, relation, right, why)
        case syntax.Alongside():
            return (
                *compared(start(left), "<=", end(right), why),
                *compared(start(right), "<=", end(left), why),
            )
    return ()


def _hull(tree: Node, own: int, left: int, right: int) -> list[Limit]:
    """A relation tells which side starts first and which ends last; otherwise the hull contains both."""
    if isinstance(tree.node, syntax.Timed):
        relation = tree.node.relation
        first, last = left if relation in _LEFT_STARTS else right, left if relation in _LEFT_ENDS else right
        return [*compared(start(own), "=", start(first), ""), *compared(end(own), "=", end(last), "")]
    sides = (left, right)
    starts = [limit for side in sides for limit in compared(start(own), "<=", start(side), "")]
    return starts + [limit for side in sides for limit in compared(end(side), "<=", end(own), "")]


def _forward(occurrence: int, name: str) -> Limit:
    return Limit(start(occurrence), end(occurrence), 0, f"{name} cannot end before it starts")


def _words(tree: Node) -> str:
    text = pattern_text(tree.node)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
