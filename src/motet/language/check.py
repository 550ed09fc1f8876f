"""Checks the rules of a subscription beyond its grammar (language page, sections 3 and 7)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from motet.language import syntax
from motet.language.motet_lexer import is_subscription_name
from motet.language.scope import PAIRING, Bounded, bounds, children, iterated_names, leaf_variables, leaves, nodes
from motet.sparql.tokens import MAX_DEPTH, Document

DERIVED_EVENT = "this"  # in a CONSTRUCT template: the new event itself


def check(subscription: syntax.Subscription, text: str, source: str | None = None) -> None:
    """Raise a SubscriptionError unless the subscription may be registered; ``text`` is what its positions refer to."""
    document = Document(text, source)
    check_depth(subscription.pattern, document)
    _check_names(subscription, document)
    _check_operands(subscription.pattern, document)
    _check_variables(subscription, document)
    _check_bounds(subscription, document)


def check_names(subscriptions: Iterable[syntax.Subscription], text: str, source: str | None = None) -> None:
    """Raise a SubscriptionError when two subscriptions of one document have the same name."""
    names: set[str] = set()
    for subscription in subscriptions:
        if subscription.name in names:
            message = f"the subscription '{subscription.name}' is already in this document"
            raise Document(text, source).refusal(message, subscription.position, "give it another name")
        names.add(subscription.name)


def check_depth(pattern: syntax.Pattern, document: Document) -> None:
    """Raise a SubscriptionError for a pattern that other functions cannot walk safely."""
    for node, depth in nodes(pattern):
        if depth > MAX_DEPTH:
            message = f"the pattern is more than {MAX_DEPTH} operators deep"
            raise document.refusal(message, node.position, "split it into several subscriptions")


def _check_names(subscription: syntax.Subscription, document: Document) -> None:
    if not is_subscription_name(subscription.name):  # a surface may have other keywords than the language
        message = f"'{subscription.name}' cannot be a subscription's name"
        raise document.refusal(message, subscription.position, "use letters, digits, _ and -, and no keyword")
    declared: set[str] = set()
    for event in subscription.events:
        if event.name in declared:
            raise document.refusal(f"the event '{event.name}' is declared twice", event.position, "rename one of them")
        declared.add(event.name)
        _check_times(event, document)
        if event.xml is not None and event.name in event.xml.variables:
            message = f"${event.name} is the event itself and cannot be bound in its block"
            position = _variable_position(document, event.name, event.xml.position)
            raise document.refusal(message, position, "take another variable")
    used = {leaf.name: leaf for leaf in leaves(subscription.pattern)}
    for name, leaf in used.items():
        if name not in declared:
            raise document.refusal(f"no event is called '{name}'", leaf.position, f"declare it: EVENT {name}")
    for event in subscription.events:
        if event.name not in used:
            message = f"the event '{event.name}' is declared and not used"
            raise document.refusal(message, event.position, "use it in WHEN or remove its declaration")


def _check_times(event: syntax.Event, document: Document) -> None:
    if event.times is None:
        return
    group = event.body or event.xml
    body = group.text if group else ""
    for name in event.times:
        if name == event.name or event.times[0] == event.times[1] or _variable(name).search(body):
            message = f"?{name} cannot stand for a time of '{event.name}': it is already bound there"
            variable_position = _variable_position(document, name, event.position)
            raise document.refusal(message, variable_position, "take a variable that the event does not use")


def _check_operands(pattern: syntax.Pattern, document: Document) -> None:
    for node, _ in nodes(pattern):
        if isinstance(node, syntax.Without) and not isinstance(_without_filters(node.operand), PAIRING):
            message = "WITHOUT needs a pair to its left: AND, ALONGSIDE or a time relation"
            raise document.refusal(message, node.position, "write (a BEFORE b) WITHOUT c")
        below = children(node)
        if isinstance(node, syntax.Or) or len(below) < 2:
            continue
        both = {leaf.name for leaf in leaves(below[0])} & {leaf.name for leaf in leaves(below[1])}
        if both:
            message = f"'{min(both)}' is on both sides of {operator_text(node)}"
            advice = "an event never pairs with itself; declare a second EVENT with the same pattern"
            raise document.refusal(message, node.position, advice)


def _without_filters(node: syntax.Pattern) -> syntax.Pattern:
    while isinstance(node, syntax.Unless | syntax.Without | syntax.Within) or (
        isinstance(node, syntax.Filter) and isinstance(node.operand, PAIRING)
    ):
        node = node.operand
    return node


def _check_variables(subscription: syntax.Subscription, document: Document) -> None:
    bound = frozenset(name for event in subscription.events for name in leaf_variables(event))
    for node, _ in nodes(subscription.pattern):
        if isinstance(node, syntax.Filter):
            _refuse_unbound(node.condition.variables, bound, node.condition.position, "FILTER", document)
    delivery = subscription.delivery
    if isinstance(delivery, syntax.Construct):
        for template in delivery.templates:
            variables = template.variables - ({DERIVED_EVENT} if isinstance(template, syntax.Template) else set())
            _refuse_unbound(variables, bound, template.position, "CONSTRUCT", document)
    elif isinstance(delivery, syntax.Select):
        _refuse_unbound(delivery.variables or (), bound, delivery.position, "SELECT", document)
        _refuse_iterated(delivery, iterated_names(subscription.pattern), document)


def _refuse_unbound(
    variables: Iterable[str], bound: frozenset[str], position: int, clause: str, document: Document
) -> None:
    for name in sorted(set(variables) - bound):
        message = f"?{name} in {clause} is in no EVENT"
        variable_position = _variable_position(document, name, position)
        raise document.refusal(
            message, variable_position, f"the events bind {', '.join(f'?{variable}' for variable in sorted(bound))}"
        )


def _refuse_iterated(select: syntax.Select, iterated: frozenset[str], document: Document) -> None:
    for name in select.variables or ():
        if name in iterated:
            message = f"?{name} is repeated, so it names no single event and cannot be selected"
            advice = "deliver EVENTS, or select the variables the members share"
            raise document.refusal(message, _variable_position(document, name, select.position), advice)


def _variable_position(document: Document, name: str, position: int) -> int:
    match = _variable(name).search(document.text, position)
    return match.start() if match else position


def _variable(name: str) -> re.Pattern[str]:
    return re.compile(rf"[?$]{re.escape(name)}(?!\w)")


def _check_bounds(subscription: syntax.Subscription, document: Document) -> None:
    if subscription.unbounded:
        return
    stack = [bounds(subscription.pattern)]
    while stack:
        bounded = stack.pop()
        _refuse_unbounded(bounded, subscription.context, document)
        stack.extend(reversed(bounded.children))


def _refuse_unbounded(bounded: Bounded, context: syntax.Context, document: Document) -> None:
    node = bounded.node
    if bounded.bound is not None:
        return
    if isinstance(node, syntax.Run):
        message = f"{operator_text(node)} has no bound, so a run may never end"
    elif isinstance(node, PAIRING) and context is not syntax.Context.RECENT:
        message = f"{operator_text(node)} has no bound in the {context.value} context"
    else:
        return
    advice = "add WITHIN and a duration, or UNBOUNDED after the context to accept growing state"
    raise document.refusal(message, node.position, advice)


def operator_text(node: syntax.Pattern) -> str:
    """The operator as written in a subscription.

    >>> from motet.language.syntax import Leaf, And
    >>> operator_text(And(Leaf("a"), Leaf("b")))
    'AND'
    """
    if isinstance(node, syntax.Timed):
        return node.relation.value
    return "the iteration '+'" if isinstance(node, syntax.Run) else type(node).__name__.upper()
