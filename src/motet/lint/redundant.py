"""Subscriptions that are equal to another subscription or contained in one: it notifies at least of the same events.

Containment is sound but not complete. Pairs in every context but unrestricted depend on the other events, so there only
an equal pattern contains another, possibly with one more filter on top. Unrestricted pairs are all pairs: wider leaves,
longer windows and fewer conditions give more of them. One exception is not covered: a background graph with triples
about the events themselves may add more to the narrower leaf than to the wider leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from motet.language import syntax
from motet.language.annotate import Node, annotate
from motet.language.syntax import Construct, Context, Event, Expression, Select, Subscription
from motet.lint.alternatives import body_of, conjuncts
from motet.lint.conditions import implied
from motet.lint.diagnostics import Found, Severity
from motet.lint.ontology_rules import required_triples
from motet.model.intervals import SHARING
from motet.model.terms import RDF_TYPE, is_iri
from motet.plan.builder import build_plan
from motet.plan.graph import Kind, Root
from motet.plan.leaves import LeafPredicates, as_filter, normalise
from motet.sparql.algebra import EMPTY, Expr, Triple, variable_name
from motet.sparql.scope import mentioned, renamed

MAX_PAIRS = 40_000  # subscriptions are compared two by two; beyond this only equal ones are found

Meaning = Mapping[str, str]
Subsumes = Callable[[str, str], bool]  # of two classes, the wider first

_FILTERS = frozenset({Kind.WITHIN, Kind.FILTER, Kind.UNLESS, Kind.WITHOUT})


def same_class(wider: str, narrower: str) -> bool:
    return wider == narrower


def rivals(
    subscriptions: Sequence[Subscription], subsumes: Subsumes = same_class
) -> Iterator[tuple[Subscription, Found]]:
    """Each subscription that repeats an earlier one or is covered by another one, with what was found.

    >>> from motet.language.parse import parse
    >>> text = "SUBSCRIPTION one EVENT a : <urn:C> WHEN a SUBSCRIPTION two EVENT b : <urn:C> WHEN b"
    >>> [(subscription.name, found.rule) for subscription, found in rivals(parse(text))]
    [('two', 'same-as-another')]
    """
    repeated = dict(_repeated(subscriptions))
    for subscription in subscriptions:
        if subscription.name in repeated:
            yield subscription, repeated[subscription.name]
    rest = [one for one in subscriptions if one.name not in repeated]
    if len(rest) ** 2 <= MAX_PAIRS:
        yield from _covered(rest, subsumes)


def _repeated(subscriptions: Sequence[Subscription]) -> Iterator[tuple[str, Found]]:
    first: dict[tuple[object, ...], Root] = {}
    for root in build_plan(subscriptions).roots:
        subscription = root.subscription
        earlier = first.setdefault((root.node, subscription.since, _delivered(root)), root)
        if earlier is not root:
            message = f"this is the same as '{earlier.subscription.name}', up to names and order"
            advice = "remove one of them; both would tell the same things twice"
            yield subscription.name, Found("same-as-another", Severity.WARNING, subscription.position, message, advice)


def _delivered(root: Root) -> object:
    """What is delivered, in the plan's own variables; a template counts as it is written."""
    delivery, own = root.subscription.delivery, {name: variable for variable, name in root.renaming}
    if isinstance(delivery, Select):
        return frozenset(own.get(name) for name in (own if delivery.variables is None else delivery.variables))
    return delivery if isinstance(delivery, Construct) else type(delivery).__name__


def _covered(subscriptions: Sequence[Subscription], subsumes: Subsumes) -> Iterator[tuple[Subscription, Found]]:
    coverage = Coverage(subscriptions, subsumes)
    for place, narrower in enumerate(subscriptions):
        for other, wider in enumerate(subscriptions):
            why = coverage.reason(other, place) if other != place else None
            if why is None or (other > place and coverage.reason(place, other)):
                continue  # two that find the same are told at the later one
            message = f"whenever this tells something, '{wider.name}' tells of the same events: {why}"
            advice = f"one of them may be enough; filter what '{wider.name}' delivers if you need this part apart"
            yield narrower, Found("covered-by-another", Severity.HINT, narrower.position, message, advice)
            break


#: What the wider pattern's variables are in the narrower one: a variable with its sign, or a term.
def covered(wider: Subscription, narrower: Subscription, subsumes: Subsumes = same_class) -> str | None:
    """Why the events of every notification of the narrower one are those of a notification of the wider one.

    >>> from motet.language.parse import parse
    >>> text = "SUBSCRIPTION {} EVENT a : <urn:C> {{ ?a <urn:level> ?l FILTER(?l > {}) }} WHEN a "
    >>> low, high = parse(text.format("low", 3) + text.format("high", 5))
    >>> covered(low, high), covered(high, low)
    ('its events, windows and conditions are as wide or wider', None)
    """
    return Coverage((wider, narrower), subsumes).reason(0, 1)


class Coverage:
    """Some subscriptions, prepared for being compared two by two."""

    def __init__(self, subscriptions: Sequence[Subscription], subsumes: Subsumes = same_class) -> None:
        self._subscriptions = subscriptions
        self._subsumes = subsumes
        self._trees = [annotate(subscription) for subscription in subscriptions]
        self._plan = build_plan(subscriptions)

    def reason(self, wider: int, narrower: int) -> str | None:
        """Why one of them covers another, by their places; None if it is not known to."""
        one, other = self._subscriptions[wider], self._subscriptions[narrower]
        if one.since != other.since:
            return None
        if self._contains(wider, narrower):
            return "it is the same pattern, or a wider OR, without the last conditions"
        free = one.context is Context.UNRESTRICTED and other.context is not Context.CUMULATIVE
        wide = _Cover(self._subsumes, free).everywhere(self._trees[wider], self._trees[narrower])
        return "its events, windows and conditions are as wide or wider" if wide else None

    def _contains(self, wider: int, narrower: int) -> bool:
        """Whether the narrower pattern is the wider one, or one side of its OR, with filters on top."""
        nodes = self._plan.nodes
        offered, waiting = set(), [nodes[self._plan.roots[wider].node]]
        while waiting:
            node = waiting.pop()
            offered.add(node.id)
            waiting += [nodes[edge.child] for edge in node.children if node.kind is Kind.OR]
        node = nodes[self._plan.roots[narrower].node]
        while node.id not in offered and node.kind in _FILTERS:
            node = nodes[node.children[0].child]
        return node.id in offered


class _Cover:
    def __init__(self, subsumes: Subsumes, free: bool) -> None:
        self._subsumes = subsumes
        self._free = free  # all pairs are made, so that wider operands make more of them

    def everywhere(self, wider: Node, narrower: Node) -> bool:
        """Each side of an OR on top may be covered in its own way."""
        if isinstance(narrower.node, syntax.Or):
            return all(self.everywhere(wider, side) for side in narrower.children)
        return next(self.meanings(wider, narrower, {}), None) is not None

    def meanings(self, wider: Node, narrower: Node, known: Meaning) -> Iterator[Meaning]:
        """How the wider pattern's variables can be read so that it covers the narrower one."""
        match narrower.node:
            case syntax.Or():
                left, right = narrower.children
                both = list(self.meanings(wider, right, known))
                yield from (meaning for meaning in self.meanings(wider, left, known) if meaning in both)
                return
        yield from self._of_wider(wider, narrower, known)
        match narrower.node:
            case syntax.Within() | syntax.Filter() | syntax.Unless() | syntax.Without():
                yield from self.meanings(wider, narrower.children[0], known)

    def _of_wider(self, wider: Node, narrower: Node, known: Meaning) -> Iterator[Meaning]:
        below = wider.children
        match wider.node:
            case syntax.Leaf() if narrower.event is not None and wider.event is not None:
                yield from self._leaf(wider.event, narrower.event, known)
            case syntax.Or():
                yield from self.meanings(below[0], narrower, known)
                yield from self.meanings(below[1], narrower, known)
            case syntax.Within() | syntax.Filter() if wider.carried:
                yield from self.meanings(below[0], narrower, known)
            case syntax.Within(bound=bound) if (_longest(narrower) or bound + 1) <= bound:
                yield from self.meanings(below[0], narrower, known)
            case syntax.Filter(condition=condition) if (
                isinstance(narrower.node, syntax.Filter) and not narrower.carried
            ):
                for meaning in self.meanings(below[0], narrower.children[0], known):
                    yield from [meaning] if _states(condition, narrower.node.condition, meaning) else []
            case syntax.Unless() if isinstance(narrower.node, syntax.Unless):
                yield from self._guarded(wider, narrower, known)
            case syntax.And() | syntax.Timed() | syntax.Alongside() if self._free:
                yield from self._paired(wider, narrower, known)

    def _paired(self, wider: Node, narrower: Node, known: Meaning) -> Iterator[Meaning]:
        if not isinstance(narrower.node, syntax.And | syntax.Timed | syntax.Alongside):
            return
        if wider.bound is not None and (narrower.bound is None or narrower.bound > wider.bound):
            return
        for left, right in _orders(wider, narrower):
            for first in self.meanings(wider.children[0], left, known):
                for meaning in self.meanings(wider.children[1], right, first):
                    if wider.condition is None or _states(wider.condition, narrower.condition, meaning):
                        yield meaning

    def _guarded(self, wider: Node, narrower: Node, known: Meaning) -> Iterator[Meaning]:
        """UNLESS with the same single event and a window that is not longer."""
        assert isinstance(wider.node, syntax.Unless)
        assert isinstance(narrower.node, syntax.Unless)
        absent, other = wider.children[1].event, narrower.children[1].event
        if absent is None or other is None or wider.node.window > narrower.node.window:
            return
        for meaning in self.meanings(wider.children[0], narrower.children[0], known):
            same = _renaming(absent, other)
            if same is not None and _is_as_strict(meaning, same, narrower.children[0].visible):
                yield meaning

    def _leaf(self, wider: Event, narrower: Event, known: Meaning) -> Iterator[Meaning]:
        same = _renaming(wider, narrower)
        joined = _joined(known, same) if same is not None else None
        if joined is not None:
            yield joined
        leaf, names = _normalised(wider)
        times = dict(zip(wider.times or (), (f"?{name}" for name in narrower.times or ()), strict=False))
        if leaf.residue != EMPTY or len(times) < len(wider.times or ()):
            return
        begin = _joined(known, {wider.name: f"?{narrower.name}", **times})
        tests = [renamed(as_filter(test), names.__getitem__) for test in leaf.tests()]
        wanted, offered, body = required_triples(wider), required_triples(narrower), body_of(narrower)
        if begin is None or (wanted and not any(f"?{wider.name}" in (t.subject, t.object) for t in wanted)):
            return
        for meaning in self._matched(wanted, offered, begin):
            if all(_implied(test, meaning, body.conditions, body.certain) for test in tests):
                yield meaning

    def _matched(self, wanted: Sequence[Triple], offered: Sequence[Triple], known: Meaning) -> Iterator[Meaning]:
        """All ways to find each wanted triple among the offered ones."""
        if not wanted:
            yield known
            return
        for triple in offered:
            meaning = self._triple(wanted[0], triple, known)
            if meaning is not None:
                yield from self._matched(wanted[1:], offered, meaning)

    def _triple(self, wanted: Triple, offered: Triple, known: Meaning) -> Meaning | None:
        if not isinstance(wanted.predicate, str) or not isinstance(offered.predicate, str):
            return None
        read: dict[str, str] = {}
        for place, term in zip(_places(wanted), _places(offered), strict=True):
            name = variable_name(place)
            if name is None and place != term and not self._is_wider_class(wanted, offered, place, term):
                return None
            if name is not None and read.setdefault(name, term) != term:
                return None
        return _joined(known, read)

    def _is_wider_class(self, wanted: Triple, offered: Triple, wider: str, narrower: str) -> bool:
        typed = wanted.predicate == offered.predicate == RDF_TYPE and wider == wanted.object
        return typed and is_iri(wider) and is_iri(narrower) and self._subsumes(wider, narrower)


def _orders(wider: Node, narrower: Node) -> Iterator[tuple[Node, Node]]:
    """The narrower operands in the orders in which the wider operator relates them."""
    left, right = narrower.children
    match wider.node, narrower.node:
        case (syntax.Timed(relation=one), syntax.Timed(relation=other)):
            yield from [(left, right)] if one is other else []
            yield from [(right, left)] if one is other.inverse else []
        case (syntax.Alongside(), syntax.Timed(relation=other)) if other not in SHARING:
            return
        case (syntax.Alongside(), syntax.And()) | (syntax.Timed(), _):
            return
        case _:
            yield from ((left, right), (right, left))


def _longest(tree: Node) -> int | None:
    """How long an occurrence lasts at most."""
    match tree.node:
        case syntax.And() | syntax.Timed() | syntax.Alongside() | syntax.Times() | syntax.Run():
            return tree.bound
        case syntax.Within(bound=bound):
            return bound
        case syntax.Filter() | syntax.Unless() | syntax.Without():
            return _longest(tree.children[0])
    return None


def _states(wanted: Expression, offered: Expression | None, meaning: Meaning) -> bool:
    """Whether all parts of a condition are, in the other's variables, parts of the other."""
    given = conjuncts(offered.algebra) if offered is not None else ()
    translated = [_translated(one, meaning) for one in conjuncts(wanted.algebra)]
    return all(one is not None and one in given for one in translated)


def _implied(test: Expr, meaning: Meaning, conditions: tuple[Expr, ...], bound: frozenset[str]) -> bool:
    translated = _translated(test, meaning)
    return translated is not None and implied(conditions, translated, bound=bound)


def _translated(condition: Expr, meaning: Meaning) -> Expr | None:
    """The condition in the narrower pattern's variables; None where it would speak of a constant or of nothing."""
    names = {name: variable_name(meaning.get(name, "")) for name in mentioned(condition)}
    if None in names.values():
        return None
    return renamed(condition, lambda name: str(names.get(name, name)))


@lru_cache(maxsize=4096)
def _normalised(event: Event) -> tuple[LeafPredicates, dict[str, str]]:
    return normalise(event)


def _renaming(wider: Event, narrower: Event) -> Meaning | None:
    """The variables of two events that are equal up to their names."""
    (leaf, names), (other, others) = _normalised(wider), _normalised(narrower)
    if leaf != other:
        return None
    return {own: f"?{others[canonical]}" for canonical, own in names.items()}


def _joined(known: Meaning, more: Meaning) -> Meaning | None:
    if any(known.get(name, term) != term for name, term in more.items()):
        return None
    return {**known, **more}


def _is_as_strict(meaning: Meaning, guard: Meaning, visible: frozenset[str]) -> bool:
    """Whether what stands in the way of the wider pattern also stands in the way of the narrower one.

    Every variable that the narrower one shares with its guard must be shared in the wider one as well.
    """
    shared = {name: term for name, term in guard.items() if variable_name(term) in visible}
    return all(meaning.get(name) == term for name, term in shared.items()) and all(
        meaning.get(name, term) == term for name, term in guard.items()
    )


def _places(triple: Triple) -> tuple[str, str, str]:
    return triple.subject, str(triple.predicate), triple.object
