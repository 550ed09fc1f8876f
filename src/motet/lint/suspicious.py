"""Patterns that are allowed but often mistakes: misspelt variables, pairs of unrelated events, unbound variables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches

from motet.language import syntax
from motet.language.annotate import Node, annotate
from motet.language.syntax import Context, Event, Subscription
from motet.language.visibility import delivered_names, leaf_variables
from motet.language.walk import nodes
from motet.lint.alternatives import Part
from motet.lint.diagnostics import Found, Severity
from motet.sparql.tokens import Document, tokenise

_SIMILAR = 0.75


def found(subscription: Subscription, parts: list[Part], text: str) -> Iterator[Found]:
    """Slips in a subscription whose pattern may occur in these ways."""
    yield from _crossed(annotate(subscription))
    yield from _lonely(subscription, text)
    if parts:
        yield from _missing(subscription, parts, text)


def _crossed(root: Node) -> Iterator[Found]:
    waiting = [root]
    while waiting:
        tree = waiting.pop()
        waiting.extend(reversed(tree.children))
        if isinstance(tree.node, syntax.And) and not tree.shared and all(map(_binds_values, tree.children)):
            message = "the two sides of AND share no variable, so anything on the left goes with anything on the right"
            advice = "use one variable in both, such as ?room, if they should belong together"
            yield Found("unrelated-pair", Severity.WARNING, tree.node.position, message, advice)


def _binds_values(tree: Node) -> bool:
    """Whether the pattern has variables that could have been shared."""
    if tree.event is not None:
        return bool(leaf_variables(tree.event) - {tree.event.name, *(tree.event.times or ())})
    return any(map(_binds_values, tree.children))


def _lonely(subscription: Subscription, text: str) -> Iterator[Found]:
    """Variables that are written once: perhaps misspelt, perhaps of no use."""
    written = _written(subscription)
    names = frozenset(event.name for event in subscription.events)
    delivers_all = subscription.delivery == syntax.Select()
    told: set[str] = set()  # variables that were named as the misspelling or the meant one
    for event in subscription.events:
        times = frozenset(event.times or ())
        own = sorted(leaf_variables(event) - names - delivered_names(subscription) - times)
        for name in own:
            if written[name] > 1:
                continue
            close = _misspelt(name, [other for other in written if other not in names])
            place = _place(event, name, text)
            if close and close not in told:
                told.add(name)
                message = f"?{name} is written only once, and there is a ?{close} too"
                yield Found("similar-variables", Severity.WARNING, place, message, f"did you mean ?{close}?")
            elif not close and not delivers_all:
                message = f"?{name} is used nowhere else, so it only asks that there is a value"
                advice = "deliver it, compare it, or leave it if that is meant"
                yield Found("used-once", Severity.HINT, place, message, advice)


def _misspelt(name: str, others: list[str]) -> str | None:
    """Another variable with nearly this name; names that differ in digits or a suffix are meant to differ."""
    plain = _bare(name)
    rivals = {_bare(other): other for other in others if other != name and _bare(other) != plain}
    same = next((other for other in others if other != name and other.lower() == name.lower()), None)
    close = get_close_matches(plain, [bare for bare in rivals if len(bare) > 2], n=1, cutoff=_SIMILAR)
    return same or (rivals[close[0]] if close and len(plain) > 2 else None)


def _bare(name: str) -> str:
    return re.sub(r"(?:_?[0-9]+|_[A-Za-z0-9]*)$", "", name)


def _written(subscription: Subscription) -> Counter[str]:
    """How often each variable is written in bodies, conditions and the delivery clause."""
    texts = [event.body.text for event in subscription.events if event.body]
    texts += [node.condition.text for node, _ in nodes(subscription.pattern) if isinstance(node, syntax.Filter)]
    counted = Counter(token.text[1:] for text in texts for token in tokenise(Document(text)) if token.kind == "VAR")
    counted.update(delivered_names(subscription))
    counted.update(name for event in subscription.events for name in event.times or ())
    return counted


def _missing(subscription: Subscription, parts: list[Part], text: str) -> Iterator[Found]:
    """Delivered variables that some notifications will lack."""
    certain = frozenset.intersection(*(part.certain for part in parts))
    possible = frozenset().union(*(part.possible for part in parts))
    position = getattr(subscription.delivery, "position", subscription.position)
    for name in sorted(delivered_names(subscription) - certain - {"this"}):
        match = re.compile(rf"[?$]{re.escape(name)}(?!\w)").search(text, position)
        place = match.start() if match else position
        if name not in possible:
            message = f"?{name} never has a value outside the part it is in"
            advice = "NO, iterations and the right sides of UNLESS and WITHOUT do not show their values"
            yield Found("never-bound", Severity.WARNING, place, message, advice)
        else:
            yield Found("may-be-unbound", Severity.HINT, place, *_may_be_unbound(name, subscription.context))


def _may_be_unbound(name: str, context: Context) -> tuple[str, str]:
    message = f"?{name} may be missing from some notifications"
    if context is Context.CUMULATIVE:
        return message, "cumulative delivers a value only when all members agree on it"
    return message, "OR and OPTIONAL leave variables without a value; that may be just right"


def _place(event: Event, name: str, text: str) -> int:
    match = re.compile(rf"[?$]{re.escape(name)}(?!\w)").search(text, event.position)
    return match.start() if match else event.position
