"""Patterns that are allowed but often mistakes: misspelt variables, pairs of unrelated events, unbound variables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches

from motet.language import syntax
from motet.language.scope import AnnotatedPattern, annotate, delivered_names, leaf_variables, nodes
from motet.language.syntax import Context, Event, Subscription
from motet.lint.alternatives import PatternAlternative
from motet.lint.diagnostics import Diagnostic, Severity
from motet.sparql.tokens import Document, tokenise

_SIMILAR = 0.75


def suspicious_diagnostics(
    subscription: Subscription, alternatives: list[PatternAlternative], text: str
) -> Iterator[Diagnostic]:
    """The diagnostics about probable mistakes in a subscription with these alternatives."""
    yield from _unrelated_pairs(annotate(subscription))
    yield from _single_uses(subscription, text)
    if alternatives:
        yield from _unbound_deliveries(subscription, alternatives, text)


def _unrelated_pairs(root: AnnotatedPattern) -> Iterator[Diagnostic]:
    stack = [root]
    while stack:
        tree = stack.pop()
        stack.extend(reversed(tree.children))
        if isinstance(tree.node, syntax.And) and not tree.shared and all(map(_binds_values, tree.children)):
            message = "the two sides of AND share no variable, so every left occurrence pairs with every right one"
            advice = "use one variable in both, such as ?room, if they belong together"
            yield Diagnostic("unrelated-pair", Severity.WARNING, tree.node.position, message, advice)


def _binds_values(tree: AnnotatedPattern) -> bool:
    """Whether the pattern has variables that could have been shared."""
    if tree.event is not None:
        return bool(leaf_variables(tree.event) - {tree.event.name, *(tree.event.times or ())})
    return any(map(_binds_values, tree.children))


def _single_uses(subscription: Subscription, text: str) -> Iterator[Diagnostic]:
    """Variables that are written once: perhaps misspelt, perhaps unused."""
    written = _written(subscription)
    names = frozenset(event.name for event in subscription.events)
    delivers_all = subscription.delivery == syntax.Select()
    reported: set[str] = set()  # variables reported as misspelt
    for event in subscription.events:
        times = frozenset(event.times or ())
        variables = sorted(leaf_variables(event) - names - delivered_names(subscription) - times)
        for name in variables:
            if written[name] > 1:
                continue
            close = _misspelt(name, [variable for variable in written if variable not in names])
            position = _variable_position(event, name, text)
            if close and close not in reported:
                reported.add(name)
                message = f"?{name} is written only once, and there is a ?{close} too"
                yield Diagnostic("similar-variables", Severity.WARNING, position, message, f"did you mean ?{close}?")
            elif not close and not delivers_all:
                message = f"?{name} is used nowhere else, so it only requires that there is a value"
                advice = "deliver it, compare it, or leave it if that is intended"
                yield Diagnostic("used-once", Severity.HINT, position, message, advice)


def _misspelt(name: str, variables: list[str]) -> str | None:
    """Another variable with nearly this name; names that differ in digits or a suffix are intended to differ."""
    stem = _stem(name)
    candidates = {_stem(variable): variable for variable in variables if variable != name and _stem(variable) != stem}
    same = next((each for each in variables if each != name and each.lower() == name.lower()), None)
    close = get_close_matches(stem, [text for text in candidates if len(text) > 2], n=1, cutoff=_SIMILAR)
    return same or (candidates[close[0]] if close and len(stem) > 2 else None)


def _stem(name: str) -> str:
    return re.sub(r"(?:_?[0-9]+|_[A-Za-z0-9]*)$", "", name)


def _written(subscription: Subscription) -> Counter[str]:
    """The number of uses of each variable in bodies, conditions and the delivery clause."""
    texts = [event.body.text for event in subscription.events if event.body]
    texts += [node.condition.text for node, _ in nodes(subscription.pattern) if isinstance(node, syntax.Filter)]
    counted = Counter(token.text[1:] for text in texts for token in tokenise(Document(text)) if token.kind == "VAR")
    counted.update(delivered_names(subscription))
    counted.update(name for event in subscription.events for name in event.times or ())
    return counted


def _unbound_deliveries(
    subscription: Subscription, alternatives: list[PatternAlternative], text: str
) -> Iterator[Diagnostic]:
    """Delivered variables that are unbound in some notifications."""
    certain = frozenset.intersection(*(alternative.certain for alternative in alternatives))
    possible = frozenset().union(*(alternative.possible for alternative in alternatives))
    position = getattr(subscription.delivery, "position", subscription.position)
    for name in sorted(delivered_names(subscription) - certain - {"this"}):
        match = re.compile(rf"[?$]{re.escape(name)}(?!\w)").search(text, position)
        position = match.start() if match else position
        if name not in possible:
            message = f"?{name} never has a value outside the part it is in"
            advice = "NO, iterations and the right sides of UNLESS and WITHOUT do not pass on their values"
            yield Diagnostic("never-bound", Severity.WARNING, position, message, advice)
        else:
            yield Diagnostic("may-be-unbound", Severity.HINT, position, *_may_be_unbound(name, subscription.context))


def _may_be_unbound(name: str, context: Context) -> tuple[str, str]:
    message = f"?{name} may be missing from some notifications"
    if context is Context.CUMULATIVE:
        return message, "cumulative delivers a value only when all members agree on it"
    return message, "OR and OPTIONAL leave variables without a value; that may be intended"


def _variable_position(event: Event, name: str, text: str) -> int:
    match = re.compile(rf"[?$]{re.escape(name)}(?!\w)").search(text, event.position)
    return match.start() if match else event.position
