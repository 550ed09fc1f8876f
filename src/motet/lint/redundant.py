"""Subscriptions beside others: equal to another one, contained in one, or in a cycle of CONSTRUCT clauses.

A subscription contains another one if it notifies at least of the same events.

Containment is sound but not complete. Pairs in every context but unrestricted depend on the other events, so there only
an equal pattern contains another, possibly with one more filter on top. Unrestricted pairs are all pairs: wider leaves,
longer windows and fewer conditions give more of them. ``A UNLESS B`` beside ``A`` is not reported, although ``A``
contains it: its notifications cannot be distinguished from those of ``A``. One exception is not covered: a background
graph with triples about the events themselves may add more to the narrower leaf than to the wider leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from motet.language import syntax
from motet.language.scope import AnnotatedPattern, annotate
from motet.language.syntax import Construct, Context, Event, Expression, Select, Subscription
from motet.lint.alternatives import body_constraints, conjuncts
from motet.lint.conditions import implied
from motet.lint.diagnostics import Diagnostic, Severity
from motet.lint.value_types import required_triples
from motet.model.intervals import SHARING
from motet.model.terms import RDF_TYPE, is_iri
from motet.ontology.entailment import Reasoner
from motet.plan.builder import build_plan
from motet.plan.derivation_edges import cyclic_names
from motet.plan.graph import Kind, Root
from motet.plan.leaves import LeafPredicates, as_filter, normalise
from motet.sparql.algebra import EMPTY, Expr, Triple, variable_name
from motet.sparql.scope import mentioned, renamed

MAX_PAIRS = 40_000  # beyond this only equal subscriptions are reported, not containment

VariableMapping = Mapping[str, str]  # the wider pattern's variables to terms of the narrower one, ``?name`` or constant
Subsumes = Callable[[str, str], bool]  # of two classes, the wider first

_FILTERS = frozenset({Kind.WITHIN, Kind.FILTER})  # notifications cannot be filtered by UNLESS or WITHOUT


def same_class(wider: str, narrower: str) -> bool:
    return wider == narrower


def redundant(
    subscriptions: Sequence[Subscription], subsumes: Subsumes = same_class
) -> Iterator[tuple[Subscription, Diagnostic]]:
    """Each subscription that equals an earlier one or is contained in another one, with its diagnostic.

    >>> from motet.language.parse import parse
    >>> text = "SUBSCRIPTION one EVENT a : <urn:C> WHEN a SUBSCRIPTION two EVENT b : <urn:C> WHEN b"
    >>> [(subscription.name, diagnostic.rule) for subscription, diagnostic in redundant(parse(text))]
    [('two', 'same-as-another')]
    """
    equal = dict(_equal(subscriptions))
    for subscription in subscriptions:
        if subscription.name in equal:
            yield subscription, equal[subscription.name]
    rest = [subscription for subscription in subscriptions if subscription.name not in equal]
    if len(rest) ** 2 <= MAX_PAIRS:
        yield from _contained(rest, subsumes)


def _equal(subscriptions: Sequence[Subscription]) -> Iterator[tuple[str, Diagnostic]]:
    first: dict[tuple[object, ...], Root] = {}
    for root in build_plan(subscriptions).roots:
        subscription = root.subscription
        earlier = first.setdefault((root.node, subscription.since, _delivered(root)), root)
        if earlier is not root:
            message = f"this is the same as '{earlier.subscription.name}', up to names and order"
            advice = "remove one of them: both give the same notifications"
            yield (
                subscription.name,
                Diagnostic("same-as-another", Severity.WARNING, subscription.position, message, advice),
            )


def _delivered(root: Root) -> object:
    """The delivery in the plan's variables; a template as it is written."""
    delivery, variables = root.subscription.delivery, {name: variable for variable, name in root.renaming}
    if isinstance(delivery, Select):
        return frozenset(
            variables.get(name) for name in (variables if delivery.variables is None else delivery.variables)
        )
    return delivery if isinstance(delivery, Construct) else type(delivery).__name__


def _contained(subscriptions: Sequence[Subscription], subsumes: Subsumes) -> Iterator[tuple[Subscription, Diagnostic]]:
    containment = Containment(subscriptions, subsumes)
    for index, narrower in enumerate(subscriptions):
        for wider_index, wider in enumerate(subscriptions):
            reason = containment.reason(wider_index, index) if wider_index != index else None
            if reason is None or (wider_index > index and containment.reason(index, wider_index)):
                continue  # of two that contain each other, the later one is reported
            message = f"whenever this notifies, '{wider.name}' notifies of the same events: {reason}"
            advice = f"one of them may be enough; filter the notifications of '{wider.name}' to separate this part"
            yield narrower, Diagnostic("covered-by-another", Severity.HINT, narrower.position, message, advice)
            break


def construct_cycles(
    subscriptions: Sequence[Subscription], reasoner: Reasoner | None = None
) -> Iterator[tuple[Subscription, Diagnostic]]:
    """The subscriptions whose CONSTRUCT clauses feed each other: they cannot be active together.

    >>> from motet.language.parse import parse
    >>> text = "SUBSCRIPTION {0} EVENT a : <urn:{0}> WHEN a CONSTRUCT {{ ?this a <urn:{1}> }} "
    >>> both = parse(text.format("A", "B") + text.format("B", "A"))
    >>> [subscription.name for subscription, _ in construct_cycles(both)]
    ['A', 'B']
    """
    if not any(isinstance(subscription.delivery, Construct) for subscription in subscriptions):
        return
    names = cyclic_names(build_plan(subscriptions), reasoner)
    for subscription in subscriptions:
        if subscription.name in names:
            others = ", ".join(f"'{name}'" for name in names if name != subscription.name)
            message = f"its CONSTRUCT clauses and those of {others} feed each other in a cycle, which is refused"
            advice = "give the derived events a class that no EVENT of these subscriptions matches"
            yield subscription, Diagnostic("construct-cycle", Severity.ERROR, subscription.position, message, advice)


def containment_reason(wider: Subscription, narrower: Subscription, subsumes: Subsumes = same_class) -> str | None:
    """Why the events of every notification of the narrower subscription are those of one of the wider subscription.

    >>> from motet.language.parse import parse
    >>> text = "SUBSCRIPTION {} EVENT a : <urn:C> {{ ?a <urn:level> ?l FILTER(?l > {}) }} WHEN a "
    >>> low, high = parse(text.format("low", 3) + text.format("high", 5))
    >>> containment_reason(low, high), containment_reason(high, low)
    ('its events, windows and conditions are as wide or wider', None)
    """
    return Containment((wider, narrower), subsumes).reason(0, 1)


class Containment:
    """Subscriptions prepared for comparison in pairs."""

    def __init__(self, subscriptions: Sequence[Subscription], subsumes: Subsumes = same_class) -> None:
        self._subscriptions = subscriptions
        self._subsumes = subsumes
        self._trees = [annotate(subscription) for subscription in subscriptions]
        self._plan = build_plan(subscriptions)

    def reason(self, wider: int, narrower: int) -> str | None:
        """Why one subscription contains another, by index; None if that is not certain."""
        first, second = self._subscriptions[wider], self._subscriptions[narrower]
        if first.since != second.since:
            return None
        if self._contains(wider, narrower):
            return "it is the same pattern, or a wider OR, without the last conditions"
        free = first.context is Context.UNRESTRICTED and second.context is not Context.CUMULATIVE
        wide = _ContainmentSearch(self._subsumes, free).contains(self._trees[wider], self._trees[narrower])
        return "its events, windows and conditions are as wide or wider" if wide else None

    def _contains(self, wider: int, narrower: int) -> bool:
        """Whether the narrower pattern is the wider one, or one side of its OR, with filters on top."""
        nodes = self._plan.nodes
        alternatives, stack = set(), [nodes[self._plan.roots[wider].node]]
        while stack:
            node = stack.pop()
            alternatives.add(node.id)
            stack += [nodes[edge.child] for edge in node.children if node.kind is Kind.OR]
        node = nodes[self._plan.roots[narrower].node]
        while node.id not in alternatives and node.kind in _FILTERS:
            node = nodes[node.children[0].child]
        return node.id in alternatives


class _ContainmentSearch:
    """Searches mappings of the wider pattern's variables under which it contains the narrower pattern."""

    def __init__(self, subsumes: Subsumes, free: bool) -> None:
        self._subsumes = subsumes
        self._free = free  # unrestricted: wider operands give more pairs

    def contains(self, wider: AnnotatedPattern, narrower: AnnotatedPattern) -> bool:
        """Whether the wider pattern contains the narrower one; the sides of an OR may need different mappings."""
        if isinstance(narrower.node, syntax.Or):
            return all(self.contains(wider, side) for side in narrower.children)
        return next(self.mappings(wider, narrower, {}), None) is not None

    def mappings(
        self, wider: AnnotatedPattern, narrower: AnnotatedPattern, partial: VariableMapping
    ) -> Iterator[VariableMapping]:
        """The mappings of the wider pattern's variables under which it contains the narrower one."""
        match narrower.node:
            case syntax.Or():
                left, right = narrower.children
                both = list(self.mappings(wider, right, partial))
                yield from (mapping for mapping in self.mappings(wider, left, partial) if mapping in both)
                return
        yield from self._of_wider(wider, narrower, partial)
        match narrower.node:
            case syntax.Within() | syntax.Filter():
                yield from self.mappings(wider, narrower.children[0], partial)

    def _of_wider(
        self, wider: AnnotatedPattern, narrower: AnnotatedPattern, partial: VariableMapping
    ) -> Iterator[VariableMapping]:
        below = wider.children
        match wider.node:
            case syntax.Leaf() if narrower.event is not None and wider.event is not None:
                yield from self._leaf(wider.event, narrower.event, partial)
            case syntax.Or():
                yield from self.mappings(below[0], narrower, partial)
                yield from self.mappings(below[1], narrower, partial)
            case syntax.Within() | syntax.Filter() if wider.carried:
                yield from self.mappings(below[0], narrower, partial)
            case syntax.Within(bound=bound) if (_max_duration(narrower) or bound + 1) <= bound:
                yield from self.mappings(below[0], narrower, partial)
            case syntax.Filter(condition=condition) if (
                isinstance(narrower.node, syntax.Filter) and not narrower.carried
            ):
                for mapping in self.mappings(below[0], narrower.children[0], partial):
                    yield from [mapping] if _states(condition, narrower.node.condition, mapping) else []
            case syntax.Unless() if isinstance(narrower.node, syntax.Unless):
                yield from self._guarded(wider, narrower, partial)
            case syntax.And() | syntax.Timed() | syntax.Alongside() if self._free:
                yield from self._paired(wider, narrower, partial)

    def _paired(
        self, wider: AnnotatedPattern, narrower: AnnotatedPattern, partial: VariableMapping
    ) -> Iterator[VariableMapping]:
        if not isinstance(narrower.node, syntax.And | syntax.Timed | syntax.Alongside):
            return
        if wider.bound is not None and (narrower.bound is None or narrower.bound > wider.bound):
            return
        for left, right in _orders(wider, narrower):
            for first in self.mappings(wider.children[0], left, partial):
                for mapping in self.mappings(wider.children[1], right, first):
                    if wider.condition is None or _states(wider.condition, narrower.condition, mapping):
                        yield mapping

    def _guarded(
        self, wider: AnnotatedPattern, narrower: AnnotatedPattern, partial: VariableMapping
    ) -> Iterator[VariableMapping]:
        """The mappings for UNLESS with the same single event and a window that is not longer."""
        assert isinstance(wider.node, syntax.Unless)
        assert isinstance(narrower.node, syntax.Unless)
        absent, narrower_absent = wider.children[1].event, narrower.children[1].event
        if absent is None or narrower_absent is None or wider.node.window > narrower.node.window:
            return
        for mapping in self.mappings(wider.children[0], narrower.children[0], partial):
            same = _renaming(absent, narrower_absent)
            if same is not None and _is_as_strict(mapping, same, narrower.children[0].visible):
                yield mapping

    def _leaf(self, wider: Event, narrower: Event, partial: VariableMapping) -> Iterator[VariableMapping]:
        same = _renaming(wider, narrower)
        joined = _joined(partial, same) if same is not None else None
        if joined is not None:
            yield joined
        leaf, names = _normalised(wider)
        times = dict(zip(wider.times or (), (f"?{name}" for name in narrower.times or ()), strict=False))
        has_block = wider.xml is not None or narrower.xml is not None  # only equal ones are compared
        if has_block or leaf.residue != EMPTY or len(times) < len(wider.times or ()):
            return
        begin = _joined(partial, {wider.name: f"?{narrower.name}", **times})
        tests = [renamed(as_filter(test), names.__getitem__) for test in leaf.tests()]
        required, available, body = required_triples(wider), required_triples(narrower), body_constraints(narrower)
        if begin is None or (required and not any(f"?{wider.name}" in (t.subject, t.object) for t in required)):
            return
        for mapping in self._matched(required, available, begin):
            if all(_implied(test, mapping, body.conditions, body.certain) for test in tests):
                yield mapping

    def _matched(
        self, required: Sequence[Triple], available: Sequence[Triple], partial: VariableMapping
    ) -> Iterator[VariableMapping]:
        """The mappings under which each required triple is one of the available triples."""
        if not required:
            yield partial
            return
        for triple in available:
            mapping = self._triple(required[0], triple, partial)
            if mapping is not None:
                yield from self._matched(required[1:], available, mapping)

    def _triple(self, required: Triple, available: Triple, partial: VariableMapping) -> VariableMapping | None:
        if not isinstance(required.predicate, str) or not isinstance(available.predicate, str):
            return None
        bound: dict[str, str] = {}
        for pattern_term, term in zip(_terms(required), _terms(available), strict=True):
            name = variable_name(pattern_term)
            if (
                name is None
                and pattern_term != term
                and not self._is_wider_class(required, available, pattern_term, term)
            ):
                return None
            if name is not None and bound.setdefault(name, term) != term:
                return None
        return _joined(partial, bound)

    def _is_wider_class(self, required: Triple, available: Triple, wider: str, narrower: str) -> bool:
        typed = required.predicate == available.predicate == RDF_TYPE and wider == required.object
        return typed and is_iri(wider) and is_iri(narrower) and self._subsumes(wider, narrower)


def _orders(wider: AnnotatedPattern, narrower: AnnotatedPattern) -> Iterator[tuple[AnnotatedPattern, AnnotatedPattern]]:
    """The narrower operands in the orders in which the wider operator relates them."""
    left, right = narrower.children
    match wider.node, narrower.node:
        case (syntax.Timed(relation=first), syntax.Timed(relation=second)):
            yield from [(left, right)] if first is second else []
            yield from [(right, left)] if first is second.inverse else []
        case (syntax.Alongside(), syntax.Timed(relation=relation)) if relation not in SHARING:
            return
        case (syntax.Alongside(), syntax.And()) | (syntax.Timed(), _):
            return
        case _:
            yield from ((left, right), (right, left))


def _max_duration(tree: AnnotatedPattern) -> int | None:
    """The maximum duration of an occurrence; None when it is not bounded."""
    match tree.node:
        case syntax.And() | syntax.Timed() | syntax.Alongside() | syntax.Times() | syntax.Run():
            return tree.bound
        case syntax.Within(bound=bound):
            return bound
        case syntax.Filter() | syntax.Unless() | syntax.Without():
            return _max_duration(tree.children[0])
    return None


def _states(required: Expression, available: Expression | None, mapping: VariableMapping) -> bool:
    """Whether all conjuncts of a condition are, in the other's variables, conjuncts of the other."""
    conditions = conjuncts(available.algebra) if available is not None else ()
    translated = [_translated(condition, mapping) for condition in conjuncts(required.algebra)]
    return all(condition is not None and condition in conditions for condition in translated)


def _implied(test: Expr, mapping: VariableMapping, conditions: tuple[Expr, ...], bound: frozenset[str]) -> bool:
    translated = _translated(test, mapping)
    return translated is not None and implied(conditions, translated, bound=bound)


def _translated(condition: Expr, mapping: VariableMapping) -> Expr | None:
    """The condition in the narrower pattern's variables; None when a variable maps to a constant or to nothing."""
    names = {name: variable_name(mapping.get(name, "")) for name in mentioned(condition)}
    if None in names.values():
        return None
    return renamed(condition, lambda name: str(names.get(name, name)))


@lru_cache(maxsize=4096)
def _normalised(event: Event) -> tuple[LeafPredicates, dict[str, str]]:
    return normalise(event)


def _renaming(wider: Event, narrower: Event) -> VariableMapping | None:
    """The mapping of variables of two events that are equal up to names; None for other events."""
    (leaf, names), (narrower_leaf, narrower_names) = _normalised(wider), _normalised(narrower)
    if leaf != narrower_leaf:
        return None
    return {name: f"?{narrower_names[canonical]}" for canonical, name in names.items()}


def _joined(partial: VariableMapping, extension: VariableMapping) -> VariableMapping | None:
    if any(partial.get(name, term) != term for name, term in extension.items()):
        return None
    return {**partial, **extension}


def _is_as_strict(mapping: VariableMapping, absent: VariableMapping, visible: frozenset[str]) -> bool:
    """Whether every occurrence that contradicts the wider UNLESS also contradicts the narrower one.

    Every variable that the narrower pattern shares with its absent side must be shared in the wider one as well.
    """
    shared = {name: term for name, term in absent.items() if variable_name(term) in visible}
    return all(mapping.get(name) == term for name, term in shared.items()) and all(
        mapping.get(name, term) == term for name, term in absent.items()
    )


def _terms(triple: Triple) -> tuple[str, str, str]:
    return triple.subject, str(triple.predicate), triple.object
