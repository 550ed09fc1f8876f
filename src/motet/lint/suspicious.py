"""Patterns that are allowed but often mistakes: misspelt variables, pairs of unrelated events, unbound variables,
accidental keys of iterations, comparisons with a constant of the wrong type, and much state.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches

from motet.language import syntax
from motet.language.check import operator_text
from motet.language.scope import (
    ITERATION,
    PAIRING,
    AnnotatedPattern,
    annotate,
    delivered_names,
    leaf_variables,
    leaves,
    nodes,
)
from motet.language.syntax import Context, Event, Subscription
from motet.lint.alternatives import PatternAlternative, body_constraints
from motet.lint.conditions import ValueKind, value_of
from motet.lint.diagnostics import Diagnostic, Severity
from motet.model.terms import RDF, XSD, is_iri, literal_parts
from motet.model.times import UNITS, format_duration
from motet.sparql.algebra import Compare, Constant, Expr, In, Variable
from motet.sparql.scope import mentioned, operands
from motet.sparql.tokens import Document, tokenise

_SIMILAR = 0.75


def suspicious_diagnostics(
    subscription: Subscription, alternatives: list[PatternAlternative], text: str
) -> Iterator[Diagnostic]:
    """The diagnostics about probable mistakes in a subscription with these alternatives."""
    tree = annotate(subscription)
    yield from _unrelated_pairs(tree, subscription.context)
    yield from _selected_keys(tree, subscription)
    yield from _single_uses(subscription, text)
    if alternatives:
        yield from _unbound_deliveries(subscription, alternatives, text)
        yield from _compared_constants(subscription, text)


def _trees(root: AnnotatedPattern) -> Iterator[AnnotatedPattern]:
    stack = [root]
    while stack:
        tree = stack.pop()
        stack.extend(reversed(tree.children))
        yield tree


def _unrelated_pairs(root: AnnotatedPattern, context: Context) -> Iterator[Diagnostic]:
    """Pairs without a shared variable: in the recent context each side has one latest occurrence, of all."""
    for tree in _trees(root):
        if not isinstance(tree.node, PAIRING) or tree.shared or not all(child.visible for child in tree.children):
            continue  # NO has nothing to share
        name, bind_values = operator_text(tree.node), [_binds_values(child) for child in tree.children]
        advice = "use one variable in both, such as ?room, if they belong together"
        if context is Context.RECENT:
            message = (
                f"the two sides of {name} share no variable, so recent keeps one occurrence of each side: a later one "
                "replaces it, whatever it is about"
            )
            severity = Severity.WARNING if all(bind_values) else Severity.HINT
            advice += "; otherwise another context keeps more than the latest"
            yield Diagnostic("latest-of-all", severity, tree.node.position, message, advice)
        elif isinstance(tree.node, syntax.And) and all(bind_values):
            message = "the two sides of AND share no variable, so occurrences pair whatever they are about"
            yield Diagnostic("unrelated-pair", Severity.WARNING, tree.node.position, message, advice)


def _selected_keys(root: AnnotatedPattern, subscription: Subscription) -> Iterator[Diagnostic]:
    """Variables that are keys of an iteration only because the delivery clause names them."""
    delivered = delivered_names(subscription)
    for tree in _trees(root):
        if not isinstance(tree.node, ITERATION) or (isinstance(tree.node, syntax.Times) and tree.node.count == 1):
            continue
        inside = frozenset(leaf.name for leaf in leaves(tree.node))
        keys = sorted((tree.visible & delivered) - _used_outside(subscription, inside))
        measured = [name for name in keys if _is_measured(name, [subscription.event(leaf) for leaf in inside])]
        if not keys or (len(keys) == 1 and not measured):
            continue  # one key, such as ?room, is what an iteration counts by
        names, sign = ", ".join(f"?{name}" for name in measured or keys), _iteration_text(tree.node)
        message = f"{names} is delivered, so '{sign}' counts per value of it: all members must have the same"
        advice = "leave it out, or deliver EVENTS, unless the members are meant to agree on it"
        severity = Severity.WARNING if measured else Severity.HINT
        yield Diagnostic("selected-key", severity, tree.node.position, message, advice)


def _iteration_text(node: syntax.Pattern) -> str:
    return f"{{{node.count}}}" if isinstance(node, syntax.Times) else "+"


def _used_outside(subscription: Subscription, inside: frozenset[str]) -> frozenset[str]:
    """The variables of leaves that are not below an iteration, and of FILTERs."""
    names = [leaf_variables(event) for event in subscription.events if event.name not in inside]
    names += [node.condition.variables for node, _ in nodes(subscription.pattern) if isinstance(node, syntax.Filter)]
    return frozenset().union(*names)


def _is_measured(name: str, events: list[Event]) -> bool:
    """Whether a variable is a time of its event, or its body compares it by size."""
    if any(name in (event.times or ()) for event in events):
        return True
    conditions = [condition for event in events for condition in body_constraints(event).conditions]
    return any(
        isinstance(each, Compare) and each.operator not in ("=", "!=") and name in mentioned(each)
        for each in conditions
    )


_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T.*)?")
_ABSOLUTE_IRI = re.compile(r"(?:https?://|urn:)\S+")


def _compared_constants(subscription: Subscription, text: str) -> Iterator[Diagnostic]:
    """Comparisons with a string that looks like another value, and with a time without a zone."""
    conditions: list[tuple[int, Expr]] = []
    texts: set[str] = set()  # variables that are certainly strings
    for event in subscription.events:
        body = body_constraints(event)
        conditions += [(event.position, condition) for condition in body.conditions]
        texts |= {each.variable for each in body.types if each.types <= {XSD + "string", RDF + "langString"}}
    for node, _ in nodes(subscription.pattern):
        if isinstance(node, syntax.Filter):
            conditions.append((node.condition.position, node.condition.algebra))
    for position, condition in conditions:
        for name, operator, term in _comparisons(condition):
            if name not in texts:
                yield from _compared_constant(name, operator, term, position, text)


def _comparisons(condition: Expr) -> Iterator[tuple[str, str, str]]:
    """The variable, operator and constant of each comparison in a condition."""
    stack = [condition]
    while stack:
        expression = stack.pop()
        stack.extend(operands(expression))
        match expression:
            case Compare(operator, Variable(name), Constant(term)) | Compare(operator, Constant(term), Variable(name)):
                yield name, operator, term
            case In(Variable(name), choices):
                yield from ((name, "=", each.term) for each in choices if isinstance(each, Constant))


def _compared_constant(name: str, operator: str, term: str, position: int, text: str) -> Iterator[Diagnostic]:
    if is_iri(term) or operator == "!=":
        return
    lexical, datatype, language = literal_parts(term)
    found = text.find(lexical, position)
    position = found if found > 0 else position
    if datatype == XSD + "string" and language is None:
        for kind, pattern, form in _LOOKALIKES:
            if pattern.fullmatch(lexical):
                message = f"?{name} is compared with a string: {kind} never equals, precedes or follows one"
                yield Diagnostic("string-comparison", Severity.WARNING, position, message, form.format(lexical))
    elif (value := value_of(term)) is not None and value.kind is ValueKind.LOCAL_TIME:
        message = (
            f"?{name} is compared with a time without a zone: a time with a zone is comparable with it only when they "
            "are more than 14 hours apart"
        )
        advice = f'write "{lexical}Z" if the events have a zone'
        yield Diagnostic("time-without-zone", Severity.HINT, position, message, advice)


_LOOKALIKES = (
    ("a number", _NUMBER, "write {0} without quotes, unless the events have it as a string"),
    ("a time", _TIME, 'write "{0}"^^xsd:dateTime, with a time and a zone, unless the events have it as a string'),
    ("an IRI", _ABSOLUTE_IRI, "write <{0}>, unless the events have it as a string"),
)


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
    for event in subscription.events:
        for element in event.xml.tree.element.walk() if event.xml is not None else ():
            counted.update(element.own_variables())
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


# State: `motet.plan.explain` computes the bound of each operator; large ones are reported where they are written


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
