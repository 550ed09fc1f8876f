"""Patterns that hold much state, or whose state grows without bound.

`motet.plan.state` computes the state bound of each operator; this module reports large ones where they are written.
"""

from __future__ import annotations

from collections.abc import Iterator

from motet.language import syntax
from motet.language.check import operator_text
from motet.language.scope import ITERATION, PAIRING, AnnotatedPattern, annotate
from motet.language.syntax import Context, Subscription
from motet.lint.diagnostics import Diagnostic, Severity
from motet.model.times import UNITS, format_duration

LONG_WINDOW = UNITS["d"]  # longer windows are reported
LONG_UNRESTRICTED = UNITS["h"]  # in the unrestricted context, where work grows with the square of the events


def state_size_diagnostics(subscription: Subscription) -> Iterator[Diagnostic]:
    """The diagnostics about large or unbounded state.

    >>> from motet.language.parse import parse
    >>> text = "SUBSCRIPTION s EVENT a : <urn:C> EVENT b : <urn:D> WHEN a BEFORE b WITHIN 3 d"
    >>> [diagnostic.rule for diagnostic in state_size_diagnostics(parse(text)[0])]
    ['long-window']
    """
    stack = [annotate(subscription)]
    while stack:
        tree = stack.pop()
        stack.extend(reversed(tree.children))
        if isinstance(tree.node, PAIRING):
            yield from _pairing(tree, subscription.context)
        elif isinstance(tree.node, ITERATION):
            yield from _iteration(tree)
        yield from _window(tree)


def _pairing(tree: AnnotatedPattern, context: Context) -> Iterator[Diagnostic]:
    name, position = operator_text(tree.node), tree.node.position
    keys = " ".join(f"?{variable}" for variable in sorted(tree.shared))
    if tree.bound is None and context is not Context.RECENT:
        message = f"{name} has no bound in the {context.value} context: occurrences without a partner are kept forever"
        yield Diagnostic("unbounded-state", Severity.WARNING, position, message, "add WITHIN and a duration")
    elif tree.bound is None and keys:
        message = f"{name} keeps the latest event of each side for every value of {keys} and never drops a value"
        yield Diagnostic(
            "unbounded-keys", Severity.WARNING, position, message, "add WITHIN if the values change over time"
        )
    elif tree.bound is not None and context is Context.UNRESTRICTED and tree.bound > LONG_UNRESTRICTED:
        message = f"unrestricted pairs every event with every other inside {format_duration(tree.bound)}"
        advice = "results grow with the square of the events: shorten the window, or use another context"
        yield Diagnostic("many-pairs", Severity.WARNING, position, message, advice)
    for child in tree.children:
        event = child.event
        has_pattern = event is not None and (
            event.class_iri is not None or event.xml or (event.body and event.body.text)
        )
        if event is not None and not has_pattern:
            message = f"'{event.name}' matches every event, so {name} pairs and keeps all of them"
            yield Diagnostic(
                "matches-everything", Severity.WARNING, child.node.position, message, "give it a class or a body"
            )


def _iteration(tree: AnnotatedPattern) -> Iterator[Diagnostic]:
    node = tree.node
    if isinstance(node, syntax.Times) and node.gap is None and tree.bound is None and node.count > 1:
        message = f"'{{{node.count}}}' counts without a time limit: members may be years apart and are kept until then"
        yield Diagnostic(
            "unbounded-count", Severity.WARNING, node.position, message, "add EVERY or WITHIN and a duration"
        )
    elif isinstance(node, syntax.Run) and tree.bound is None:
        message = "a run without a bound grows as long as events arrive"
        yield Diagnostic("unbounded-state", Severity.WARNING, node.position, message, "add WITHIN and a duration")


def _window(tree: AnnotatedPattern) -> Iterator[Diagnostic]:
    node = tree.node
    match node:
        case syntax.Within(bound=length):
            what = "occurrences inside it are kept that long"
        case syntax.Unless(window=length) | syntax.Xor(window=length):
            what = "no notification is emitted before it has passed"
        case syntax.No(duration=length):
            what = "a notification is emitted that long after the silence began"
        case _:
            return
    if length > LONG_WINDOW:
        message = f"a window of {format_duration(length)} is long: {what}"
        yield Diagnostic(
            "long-window", Severity.HINT, node.position, message, "shorten it if a shorter window suffices"
        )
