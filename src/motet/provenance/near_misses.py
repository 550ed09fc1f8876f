"""Why do two sides not pair? The tests of a pairing operator one by one, for the two that come nearest."""

from __future__ import annotations

from collections.abc import Sequence

from motet.language.printer import pattern_text
from motet.language.syntax import Context, Pairing, Timed
from motet.model.intervals import relation
from motet.provenance.facts import Span
from motet.provenance.hindrances import (
    Differs,
    FilterFalse,
    Hindrance,
    NoPartner,
    Partner,
    SameEvent,
    Taken,
    TooFar,
    Unrelated,
)
from motet.provenance.pairing import Choice
from motet.reference.contexts import Completed
from motet.reference.occurrences import Occurrence, hull, join, project
from motet.reference.operators import Place, related, true

Nearness = tuple[int, ...]


def partner(o: Occurrence) -> Partner:
    return Partner(tuple(sorted(o.events)), Span(o.start, o.end))


def nearest_miss(
    pattern: Pairing,
    place: Place,
    own: Sequence[Occurrence],
    others: Sequence[Occurrence],
    made: tuple[Context, Sequence[Choice]],
    *,
    own_is_right: bool,
) -> tuple[Nearness, Hindrance]:
    """How near the best of all pairs came, and what kept it apart."""
    if not others:
        return (0,), NoPartner(pattern_text(pattern.left if own_is_right else pattern.right))
    misses = [_miss(pattern, place, x, y, made, own_is_right) for x in own for y in others]
    return max(misses, key=lambda miss: miss[0])


def _miss(
    pattern: Pairing,
    place: Place,
    x: Occurrence,
    y: Occurrence,
    made: tuple[Context, Sequence[Choice]],
    own_is_right: bool,
) -> tuple[Nearness, Hindrance]:
    a, b = (y, x) if own_is_right else (x, y)
    apart, there = -hull(a, b), partner(y)
    if not a.events.isdisjoint(b.events):
        return (1, apart), SameEvent(there)
    values = dict(y.bindings)
    differing = [(name, term, values[name]) for name, term in x.bindings if values.get(name, term) != term]
    if differing:
        return (2, -len(differing), apart), Differs(*differing[0], there)
    if not related(pattern, a, b):
        wanted = pattern.relation.value if isinstance(pattern, Timed) else "ALONGSIDE"
        return (3, apart), Unrelated(wanted, relation(a.interval, b.interval).value, there)
    if place.bound is not None and hull(a, b) > place.bound:
        return (4, apart), TooFar(hull(a, b), place.bound, there)
    condition = place.condition
    if condition is not None and not true(condition, join(a, b)):
        return (5, apart), FilterFalse(condition.text, project(join(a, b).bindings, condition.variables), there)
    return (6, apart), _taken(Completed(x, own_is_right), Completed(y, not own_is_right), *made)


def _taken(x: Completed, y: Completed, context: Context, made: Sequence[Choice]) -> Hindrance:
    """Two that fit each other: when the later one completed, the earlier one was gone or not the one to take."""
    earlier, later = sorted((x, y), key=lambda one: one.place)
    choice = next(one for one in made if one.x == later)
    there = partner(y.occurrence)
    if earlier in choice.candidates:
        return Taken(there, "passed over", _events(choice.chosen))
    closing = next((one for one in made if earlier in one.closed), None)
    if closing is not None:
        return Taken(there, "replaced" if context is Context.RECENT else "consumed", _events((closing.x,)))
    own = next(one for one in made if one.x == earlier)
    return Taken(there, "consumed", _events(own.chosen) or _events((later,)))


def _events(completed: Sequence[Completed]) -> tuple[str, ...]:
    return tuple(sorted({event for one in completed for event in one.occurrence.events}))
