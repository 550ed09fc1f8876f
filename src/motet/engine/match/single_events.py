"""Single-event subscriptions: the leaf of each, and the notifications made from the solutions of these leaves."""

from __future__ import annotations

from collections.abc import Iterable

from motet.engine.match.leaf import LeafQuery
from motet.engine.match.matcher import Matcher
from motet.language import syntax
from motet.language.scope import leaf_variables
from motet.model import batches
from motet.model.errors import EngineError


def single_event_leaf(subscription: syntax.Subscription) -> LeafQuery:
    """The leaf of a single-event subscription; other subscriptions are refused.

    >>> from motet.language.parse import parse
    >>> leaf = single_event_leaf(parse("SUBSCRIPTION s EVENT a DURING ?t ?u WHEN a WITHIN 5 s")[0])
    >>> leaf.variables, leaf.max_length
    (('a', 't', 'u'), 5000000)
    """
    if isinstance(subscription.delivery, syntax.Construct):
        raise _refusal(subscription, "derives events (CONSTRUCT)")
    max_length: int | None = None
    conditions: list[syntax.Expression] = []
    pattern: syntax.Pattern = subscription.pattern
    while isinstance(pattern, syntax.Within | syntax.Filter):
        match pattern:
            case syntax.Within(_, bound):
                max_length = bound if max_length is None else min(bound, max_length)
            case syntax.Filter(_, condition):
                conditions.insert(0, condition)
        pattern = pattern.operand
    if not isinstance(pattern, syntax.Leaf):
        raise _refusal(subscription, f"combines events ({type(pattern).__name__.upper()})")
    event = subscription.event(pattern.name)
    with_triples = isinstance(subscription.delivery, syntax.Events)
    variables = _delivered(subscription, event)
    return LeafQuery(subscription.name, event, variables, max_length, tuple(conditions), with_triples)


def single_event_matcher(
    subscriptions: Iterable[syntax.Subscription],
    background: frozenset[batches.Triple] = frozenset(),
    entailment: str | None = None,
) -> Matcher:
    """The matcher of single-event subscriptions."""
    return Matcher(tuple(map(single_event_leaf, subscriptions)), background, entailment)


def _delivered(subscription: syntax.Subscription, event: syntax.Event) -> tuple[str, ...]:
    match subscription.delivery:
        case syntax.Select(None):
            return tuple(sorted(leaf_variables(event)))
        case syntax.Select(tuple(variables)):
            return tuple(sorted(leaf_variables(event) & frozenset(variables)))
    return ()


def _refusal(subscription: syntax.Subscription, problem: str) -> EngineError:
    return EngineError(
        f"subscription {subscription.name!r} {problem}",
        advice="Run it on a Processor: a matcher takes single-event subscriptions only.",
    )
