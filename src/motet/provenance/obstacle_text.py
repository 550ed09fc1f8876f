"""The sentences for obstacles; the answer of `motet why-not` as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from motet.language.printer import pattern_text
from motet.model.terms import iri
from motet.plan.text import shorten
from motet.provenance import obstacles
from motet.provenance.text import Line, TextStyle, duration_text
from motet.provenance.why_not import LocatedObstacle, WhyNot
from motet.reference.occurrences import SortedBindings
from motet.sparql.algebra import Call, Compare, Constant, Expr, Variable
from motet.sparql.parse_cache import parse_expression
from motet.sparql.scope import operands
from motet.sparql.values import NUMERIC_RANK, decode

MAX_LISTED = 4  # items of a list


def why_not_lines(answer: WhyNot, style: TextStyle, *, everything: bool = False) -> Iterator[Line]:
    """The nearest obstacle, or all obstacles, nearest first."""
    style = style.for_day(answer.start)
    displayed = answer.obstacles if everything else answer.obstacles[:1]
    yield "", f"{answer.subscription} and {style.event(answer.event)} on {style.day}", "head"
    for position, obstacle in enumerate(displayed, 1):
        branch = "└─ " if position == len(displayed) else "├─ "
        yield branch, obstacle_text(obstacle, answer.event, style), "operator" if position == 1 else "fact"
    hidden = len(answer.obstacles) - len(displayed)
    if hidden:
        yield "", f"{hidden} more with --all", "fact"


def why_not_json(answer: WhyNot) -> dict[str, object]:
    return {
        "subscription": answer.subscription,
        "event": answer.event,
        "reasons": [_obstacle_json(obstacle, answer.event) for obstacle in answer.obstacles],
    }


def _obstacle_json(obstacle: LocatedObstacle, event: str) -> dict[str, object]:
    return {
        "leaf": obstacle.leaf,
        "operator": None if obstacle.pattern is None else pattern_text(obstacle.pattern),
        "reason": obstacles.to_json(obstacle.obstacle),
        "text": obstacle_text(obstacle, event, TextStyle()),
    }


def obstacle_text(obstacle: LocatedObstacle, event: str, style: TextStyle) -> str:
    """An obstacle of an event as a sentence."""
    if obstacle.leaf is None:
        return _invisible(obstacle.obstacle, style)
    outcome = _outcome(obstacle.obstacle, style)
    if outcome or obstacle.pattern is None:
        return f"as {obstacle.leaf}: {outcome or _leaf(obstacle.obstacle, style, iri(event))}"
    where, reason = style.text(pattern_text(obstacle.pattern)), _operator(obstacle.obstacle, style)
    tried = f" (the nearest of {obstacle.partners})" if obstacle.partners > 1 else ""
    return f"as {obstacle.leaf} it matches, but in {where}: {reason}{tried}"


def leaf_obstacle_text(obstacle: obstacles.Obstacle, event: str, style: TextStyle) -> str:
    """Why an event does not match a leaf."""
    return _leaf(obstacle, style, iri(event))


def _invisible(obstacle: obstacles.Obstacle, style: TextStyle) -> str:
    match obstacle:
        case obstacles.Late(end, frontier):
            before = style.instant(frontier)
            return f"late: it ends at {style.instant(end)}, the frontier before its commit was at {before}"
        case obstacles.TooEarly(start, None):
            return f"published ({style.instant(start)}) before the subscription began, which has no SINCE"
        case obstacles.TooEarly(start, since) if since is not None:
            return f"it starts at {style.instant(start)}, before SINCE {style.instant(since)}"
        case obstacles.Retracted():
            return "retracted before the subscription began"
        case obstacles.Unsubscribed():
            return "published after the subscription had ended"
    raise AssertionError(f"{obstacle} is not about an invisible event")


def _leaf(obstacle: obstacles.Obstacle, style: TextStyle, event: str) -> str:  # noqa: PLR0911  (a table)
    """Why the event does not match the leaf."""
    match obstacle:
        case obstacles.WrongClass(subject, wanted, stated):
            stated_classes = f"an {' and '.join(map(style.term, stated))}" if stated else "of no class"
            return f"class {style.term(wanted)}: {_subject(subject, event, style)} is {stated_classes}"
        case obstacles.NoTriple(subject, predicate):
            about = "" if subject == event else f" about {style.term(subject)}"
            return f"no triple {style.term(predicate)}{about}"
        case obstacles.OtherValue(predicate, wanted, found):
            value, *others = _distinct_terms((wanted, *found), style)
            return f"{style.term(predicate)} {value}: it is {', '.join(others)}"
        case obstacles.FilterFalse(condition, values, None):
            return f"{style.text(condition)}: {_values(condition, values, style)}"
        case obstacles.NoDocument():
            return "the event is no XML document"
        case obstacles.NoElement(pattern, ""):
            return f"the document has no {pattern}"
        case obstacles.NoElement(pattern, inside):
            return f"the document has {inside}, but no {pattern} in it"
        case obstacles.NoMatch(pattern):
            return f"no match of {{ {style.text(pattern)} }}"
        case obstacles.OnlyBackground():
            return "the solution arises from the background alone, without the event"
        case obstacles.TooMuch():
            return "the event entails more triples than the limits allow"
        case obstacles.NotFed():
            return "a derived event whose template lacks a triple the leaf requires"
    raise AssertionError(f"{obstacle} is not about a leaf")


def _outcome(obstacle: obstacles.Obstacle, style: TextStyle) -> str:
    """The outcome of an event that is part of a whole occurrence or on an absent side; empty otherwise."""
    match obstacle:
        case obstacles.Notified(notifications):
            return f"notified: {_list_text([id_[:12] for id_ in notifications])} (see `motet why`)"
        case obstacles.Pending(frontier, needed):
            at = "there is no frontier yet" if frontier is None else f"the frontier is at {style.instant(frontier)}"
            return f"not final yet: {at}, it must pass {style.instant(needed)}"
        case obstacles.Unsubscribed():
            return "the subscription ended before it was final"
        case obstacles.Prevents(pattern, prevented):
            what = "; ".join(_partner(occurrence, style) for occurrence in prevented) or "nothing"
            return f"it can only prevent a match ({style.text(pattern)} must be absent); it prevented {what}"
    return ""


def _operator(obstacle: obstacles.Obstacle, style: TextStyle) -> str:  # noqa: PLR0911  (a table)
    match obstacle:
        case obstacles.NoPartner(pattern):
            return f"there is no {style.text(pattern)}"
        case obstacles.SameEvent(there):
            return f"one event cannot be on both sides: {_partner(there, style)}"
        case obstacles.Differs(variable, here, other, there):
            value, other_value = _distinct_terms((here, other), style)
            return f"?{variable} is {value} here and {other_value} there: {_partner(there, style)}"
        case obstacles.Unrelated(wanted, actual, there):
            return f"the left side is {actual} the right side, not {wanted}, with {_partner(there, style)}"
        case obstacles.TooFar(apart, bound, there):
            return (
                f"{duration_text(apart)} in all where {duration_text(bound)} are allowed, with {_partner(there, style)}"
            )
        case obstacles.FilterFalse(condition, values, there) if there is not None:
            reason = _values(condition, values, style)
            return f"FILTER({style.text(condition)}) is not true: {reason}, with {_partner(there, style)}"
        case obstacles.Taken(there, how, by):
            link = "for" if how == "passed over" else "by"
            return f"{_partner(there, style)} would fit, but was {how} {link} {_list_text(map(style.event, by))}"
    return _operator_alone(obstacle, style)


def _operator_alone(obstacle: obstacles.Obstacle, style: TextStyle) -> str:
    match obstacle:
        case obstacles.TooLong(long, bound):
            return f"{duration_text(long)} in all where {duration_text(bound)} are allowed"
        case obstacles.FilterFalse(condition, values):
            return f"FILTER({style.text(condition)}) is not true: {_values(condition, values, style)}"
        case obstacles.Contradicted(pattern, by):
            return f"{style.text(pattern)} contradicts it: {_partner(by, style)}"
        case obstacles.TooFew(members, wanted, key):
            of_key = f" with {style.bindings(key)}" if key else ""
            return f"{members} of {wanted}{of_key}"
        case obstacles.GapTooLong(gap, allowed, there):
            allowed_text = duration_text(allowed)
            return (
                f"{duration_text(gap)} apart from the next, {_partner(there, style)}, where {allowed_text} are allowed"
            )
    raise AssertionError(f"{obstacle} has no text")


def _partner(partner: obstacles.Partner, style: TextStyle) -> str:
    events = _list_text(map(style.event, partner.events)) or "an absence"
    return f"{events} at {style.interval(partner.span.start, partner.span.end)}"


def _subject(subject: str, event: str, style: TextStyle) -> str:
    return "the event" if subject == event else style.term(subject)


def _list_text(items: Iterable[str]) -> str:
    """The first items of a list, and the number of the others."""
    texts = list(items)
    more = f" and {len(texts) - MAX_LISTED} more" if len(texts) > MAX_LISTED else ""
    return ", ".join(texts[:MAX_LISTED]) + more


def _values(condition: str, values: SortedBindings, style: TextStyle) -> str:
    """The values of a condition's variables; their types, too, where the condition compares two types."""
    text = ", ".join(f"?{name} is {style.term(term)}" for name, term in values) or "a variable is unbound"
    kinds = _compared_kinds(parse_expression(condition), dict(values))
    if kinds is None:
        return text
    are_times = all(kind.startswith("a time ") for kind in kinds)
    return f"{text}; {kinds[0]} is never compared with {kinds[1]}{' less than 14 hours apart' if are_times else ''}"


def _compared_kinds(condition: Expr, values: Mapping[str, str]) -> tuple[str, str] | None:
    """The kinds of the first two terms that a condition compares although they are of different kinds."""
    match condition:
        case Compare("=" | "<" | "<=" | ">" | ">=", left, right):
            kinds = [kind_text(term) for term in (_term(left, values), _term(right, values)) if term is not None]
            if len(kinds) == 2 and kinds[0] != kinds[1]:
                return kinds[0], kinds[1]
        case Call("STRSTARTS" | "STRENDS" | "CONTAINS" | "REGEX", (Variable(name), *_)) if name in values:
            kind = kind_text(values[name])
            return None if "string" in kind else (kind, "a string")
    found = (_compared_kinds(operand, values) for operand in operands(condition))
    return next((kinds for kinds in found if kinds is not None), None)


def _term(expression: Expr, values: Mapping[str, str]) -> str | None:
    if isinstance(expression, Variable):
        return values.get(expression.name)
    return expression.term if isinstance(expression, Constant) else None


def kind_text(term: str) -> str:
    """The kind of a term: only terms of one kind can be equal, less or greater.

    >>> kind_text('"5"'), kind_text('"5.0"^^<http://www.w3.org/2001/XMLSchema#decimal>'), kind_text("<urn:x>")
    ('a string', 'a number', 'an IRI')
    """
    value = decode(term)
    if value.kind in NUMERIC_RANK:
        return "a number"
    if value.kind == "dateTime":
        return "a time with a zone" if value.value.zone is not None else "a time without a zone"
    if value.kind == "other":
        return f"a literal of {shorten(iri(value.value[1]))}"
    return {"iri": "an IRI", "string": "a string", "lang": "a string with a language"}.get(
        value.kind, f"a literal of {value.kind}"
    )


def _distinct_terms(terms: Sequence[str], style: TextStyle) -> list[str]:
    """Terms as text, with their datatypes where the short texts would be the same."""
    texts = [style.term(term) for term in terms]
    return texts if len(set(texts)) == len(set(terms)) else [style.iris(term) for term in terms]
