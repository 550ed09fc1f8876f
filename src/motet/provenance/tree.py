"""A derivation as an indented tree for people, and as values for programs."""

from __future__ import annotations

from collections.abc import Iterator

from motet.language.printer import pattern_text
from motet.language.syntax import Leaf
from motet.model.terms import iri
from motet.model.times import format_datetime
from motet.provenance.derivation import Reason, Why
from motet.provenance.facts import bindings_json, to_json
from motet.provenance.wording import Names, fact_text, operator

Line = tuple[str, str, str]  # the drawn branches, the text, and what kind of line it is: head, leaf, operator or fact


def as_lines(why: Why, names: Names) -> Iterator[Line]:
    """The tree, line by line."""
    names = names.of_day(why.notification.start)
    yield "", _head(why, names), "head"
    told = names.bindings(why.notification.bindings)
    if told:
        yield "", told, "fact"
    yield from _node(why.reason, names, "", is_last=True)
    if why.others:
        count = "1 other derivation gives" if why.others == 1 else f"{why.others} other derivations give"
        yield "", f"{count} the same notification", "fact"
    if why.retracted:
        yield "", f"retracted since: {', '.join(map(names.event, why.retracted))}", "fact"
    if not why.picked:
        text = f"which partners {why.context.value} took cannot be followed: that depends on events not examined"
        yield "", text, "fact"


def _head(why: Why, names: Names) -> str:
    notification = why.notification
    when = names.span(notification.start, notification.end)
    return f"{notification.subscription} {notification.id[:12]} on {names.day}, {when}"


def _node(reason: Reason, names: Names, indent: str, *, is_last: bool) -> Iterator[Line]:
    is_leaf = isinstance(reason.pattern, Leaf)
    yield f"{indent}{'└─ ' if is_last else '├─ '}", _title(reason, names), "leaf" if is_leaf else "operator"
    inner = f"{indent}{'   ' if is_last else '│  '}"
    below = reason.parts or reason.because
    event = iri(min(reason.occurrence.events)) if is_leaf else ""
    for fact in reason.facts:
        yield f"{inner}{'│  ' if below else '   '}", fact_text(fact, names, event), "fact"
    for number, part in enumerate(reason.parts, 1):
        yield from _node(part, names, inner, is_last=number == len(reason.parts))
    if reason.because is not None:
        yield f"{inner}└─ ", f"derived by {_head(reason.because, names)}", "head"
        yield from _node(reason.because.reason, names, f"{inner}   ", is_last=True)


def _title(reason: Reason, names: Names) -> str:
    o = reason.occurrence
    when = names.span(o.start, o.end)
    if not isinstance(reason.pattern, Leaf):
        return f"{operator(reason.pattern)}  {when}"
    (event,) = o.events
    own = tuple(pair for pair in reason.solution if pair[0] != reason.pattern.name)
    bindings = f"  {names.bindings(own)}" if own else ""
    return f"{reason.pattern.name} = {names.event(event)}  {when}{bindings}"


def as_json(why: Why) -> dict[str, object]:
    """Times are text or microseconds, terms N-Triples."""
    return {
        "notification": why.notification.id,
        "subscription": why.notification.subscription,
        "context": why.context.value,
        "start": format_datetime(why.notification.start),
        "end": format_datetime(why.notification.end),
        "events": list(why.notification.events),
        "bindings": bindings_json(why.notification.bindings),
        "others": why.others,
        "checked": why.checked,
        "picked": why.picked,
        "retracted": list(why.retracted),
        "derivation": _reason_json(why.reason),
    }


def _reason_json(reason: Reason) -> dict[str, object]:
    o = reason.occurrence
    shown: dict[str, object] = {
        "pattern": pattern_text(reason.pattern),
        "operator": reason.pattern.name if isinstance(reason.pattern, Leaf) else operator(reason.pattern),
        "start": format_datetime(o.start),
        "end": format_datetime(o.end),
        "events": sorted(o.events),
        "bindings": bindings_json(reason.solution or o.bindings),
        "facts": [to_json(fact) for fact in reason.facts],
        "parts": [_reason_json(part) for part in reason.parts],
    }
    if reason.because is not None:
        shown["because"] = as_json(reason.because)
    return shown
