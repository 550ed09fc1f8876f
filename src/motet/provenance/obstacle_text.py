"""The sentences for obstacles; the answer of `motet why-not` as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from motet.language.printer import pattern_text
from motet.model.terms import iri
from motet.provenance import obstacles as h
from motet.provenance.text import Names, length
from motet.provenance.why_not import Obstacle, WhyNot
from motet.reference.occurrences import Bindings

SHOWN = 4  # of a list

Line = tuple[str, str, str]  # branches, text, kind: as in ``tree``


def as_lines(answer: WhyNot, names: Names, *, everything: bool = False) -> Iterator[Line]:
    """The nearest reason, or all of them, nearest first."""
    names = names.of_day(answer.start)
    shown = answer.obstacles if everything else answer.obstacles[:1]
    yield "", f"{answer.subscription} and {names.event(answer.event)} on {names.day}", "head"
    for number, obstacle in enumerate(shown, 1):
        branch = "└─ " if number == len(shown) else "├─ "
        yield branch, sentence(obstacle, answer.event, names), "operator" if number == 1 else "fact"
    hidden = len(answer.obstacles) - len(shown)
    if hidden:
        yield "", f"{hidden} more with --all", "fact"


def as_json(answer: WhyNot) -> dict[str, object]:
    return {
        "subscription": answer.subscription,
        "event": answer.event,
        "reasons": [_obstacle_json(obstacle, answer.event) for obstacle in answer.obstacles],
    }


def _obstacle_json(obstacle: Obstacle, event: str) -> dict[str, object]:
    return {
        "leaf": obstacle.leaf,
        "operator": None if obstacle.pattern is None else pattern_text(obstacle.pattern),
        "reason": h.to_json(obstacle.hindrance),
        "text": sentence(obstacle, event, Names()),
    }


def sentence(obstacle: Obstacle, event: str, names: Names) -> str:
    """An obstacle of an event as one sentence."""
    if obstacle.leaf is None:
        return _unseen(obstacle.hindrance, names)
    led = _led(obstacle.hindrance, names)
    if led or obstacle.pattern is None:
        return f"as {obstacle.leaf}: {led or _leaf(obstacle.hindrance, names, iri(event))}"
    where, stopped = names.text(pattern_text(obstacle.pattern)), _stopped(obstacle.hindrance, names)
    tried = f" (the nearest of {obstacle.partners})" if obstacle.partners > 1 else ""
    return f"as {obstacle.leaf} it matches, but in {where}: {stopped}{tried}"


def _unseen(hindrance: h.Hindrance, names: Names) -> str:
    match hindrance:
        case h.Late(end, frontier):
            return f"late: it ends at {names.instant(end)}, the frontier was at {names.instant(frontier)} when it came"
        case h.TooEarly(start, None):
            return f"published ({names.instant(start)}) before the subscription began, which has no SINCE"
        case h.TooEarly(start, since) if since is not None:
            return f"it starts at {names.instant(start)}, before SINCE {names.instant(since)}"
        case h.Retracted():
            return "retracted before the subscription began"
        case h.Unsubscribed():
            return "published after the subscription had ended"
    raise AssertionError(f"{hindrance} is not about an event that is not seen")


def _leaf(hindrance: h.Hindrance, names: Names, event: str) -> str:  # noqa: PLR0911  (a table)
    """Why the event does not match the leaf."""
    match hindrance:
        case h.WrongClass(subject, wanted, stated):
            found = f"an {' and '.join(map(names.term, stated))}" if stated else "of no class"
            return f"class {names.term(wanted)}: {_subject(subject, event, names)} is {found}"
        case h.NoTriple(subject, predicate):
            about = "" if subject == event else f" about {names.term(subject)}"
            return f"no triple {names.term(predicate)}{about}"
        case h.OtherValue(predicate, wanted, found):
            return f"{names.term(predicate)} {names.term(wanted)}: it is {', '.join(map(names.term, found))}"
        case h.FilterFalse(condition, values, None):
            return f"{names.text(condition)}: {_values(values, names)}"
        case h.NoMatch(pattern):
            return f"no match of {{ {names.text(pattern)} }}"
        case h.OnlyBackground():
            return "the solution arises from the background alone, without the event"
        case h.TooMuch():
            return "the event entails more than the limits allow"
        case h.NotFed():
            return "a derived event whose template lacks what the leaf needs"
    raise AssertionError(f"{hindrance} is not about a leaf")


def _led(hindrance: h.Hindrance, names: Names) -> str:
    """What the event led to; empty when it was stopped."""
    match hindrance:
        case h.Told(notifications):
            return f"it was told: {_few([one[:12] for one in notifications])} (see `motet why`)"
        case h.Pending(frontier, needed):
            at = "there is no frontier yet" if frontier is None else f"the frontier is at {names.instant(frontier)}"
            return f"not final yet: {at}, it must pass {names.instant(needed)}"
        case h.Unsubscribed():
            return "the subscription ended before it was final"
        case h.Prevents(pattern, prevented):
            what = "; ".join(_partner(one, names) for one in prevented) or "nothing"
            return f"it can only prevent a match ({names.text(pattern)} must be absent); it prevented {what}"
    return ""


def _stopped(hindrance: h.Hindrance, names: Names) -> str:  # noqa: PLR0911  (a table)
    match hindrance:
        case h.NoPartner(pattern):
            return f"there is no {names.text(pattern)}"
        case h.SameEvent(there):
            return f"one event cannot be on both sides: {_partner(there, names)}"
        case h.Differs(variable, here, other, there):
            return f"?{variable} is {names.term(here)} here and {names.term(other)} there: {_partner(there, names)}"
        case h.Unrelated(wanted, actual, there):
            return f"the left side is {actual} the right one, not {wanted}, with {_partner(there, names)}"
        case h.TooFar(apart, bound, there):
            return f"{length(apart)} in all where {length(bound)} are allowed, with {_partner(there, names)}"
        case h.FilterFalse(condition, values, there) if there is not None:
            return (
                f"FILTER({names.text(condition)}) is not true: {_values(values, names)}, with {_partner(there, names)}"
            )
        case h.Taken(there, how, by):
            link = "for" if how == "passed over" else "by"
            return f"{_partner(there, names)} would fit, but was {how} {link} {_few(map(names.event, by))}"
    return _alone(hindrance, names)


def _alone(hindrance: h.Hindrance, names: Names) -> str:
    match hindrance:
        case h.TooLong(long, bound):
            return f"{length(long)} in all where {length(bound)} are allowed"
        case h.FilterFalse(condition, values):
            return f"FILTER({names.text(condition)}) is not true: {_values(values, names)}"
        case h.Contradicted(pattern, by):
            return f"{names.text(pattern)} contradicts it: {_partner(by, names)}"
        case h.TooFew(members, wanted, key):
            of_key = f" with {names.bindings(key)}" if key else ""
            return f"{members} of {wanted}{of_key}"
        case h.GapTooLong(gap, allowed, there):
            return f"{length(gap)} apart from the next, {_partner(there, names)}, where {length(allowed)} are allowed"
    raise AssertionError(f"{hindrance} has no words")


def _partner(partner: h.Partner, names: Names) -> str:
    events = _few(map(names.event, partner.events)) or "an absence"
    return f"{events} at {names.span(partner.span.start, partner.span.end)}"


def _subject(subject: str, event: str, names: Names) -> str:
    return "the event" if subject == event else names.term(subject)


def _few(words: Iterable[str]) -> str:
    """A list of which a person wants to see the beginning."""
    given = list(words)
    more = f" and {len(given) - SHOWN} more" if len(given) > SHOWN else ""
    return ", ".join(given[:SHOWN]) + more


def _values(values: Bindings, names: Names) -> str:
    return ", ".join(f"?{name} is {names.term(term)}" for name, term in values) or "a variable is unbound"
