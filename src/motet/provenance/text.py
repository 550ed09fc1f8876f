"""Text for terms, times and facts; a derivation tree as indented lines and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from motet.language.check import spoken
from motet.language.printer import pattern_text
from motet.language.syntax import Context, Leaf, No, Pattern, Run, Times, Unless, Within, Without, Xor
from motet.model.terms import OWL, RDF, RDF_TYPE, RDFS, XSD, iri, is_iri, literal_parts
from motet.model.times import END_OF_TIME, UNITS, format_datetime
from motet.provenance.facts import (
    Absent,
    Agrees,
    Anything,
    Begins,
    Counted,
    Fact,
    Fits,
    Gap,
    Lacks,
    Passes,
    Picked,
    Relates,
    Satisfies,
    Span,
    Stated,
    bindings_json,
    to_json,
)
from motet.provenance.why import Reason, Why
from motet.reference.occurrences import Bindings
from motet.reference.sparql import Triple

COMMON = {"rdf": RDF, "rdfs": RDFS, "owl": OWL, "xsd": XSD}
PLAIN = frozenset(XSD + name for name in ("integer", "decimal", "double", "boolean", "dateTime"))
_IRI = re.compile(r"<([^<>\s\"]*)>")
_NUMBER = re.compile(r'"([^"\\]*)"\^\^<http://www\.w3\.org/2001/XMLSchema#(?:integer|decimal|double|boolean)>')
_DERIVED = re.compile(r"(urn:motet:derived:[0-9a-f]{12})[0-9a-f]{52}")
_LOCAL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]*[A-Za-z0-9_\-])?")


@dataclass(frozen=True)
class Names:
    """Prefixes (name to IRI) that shorten IRIs, and the day of which only the time is said.

    >>> names = Names({"ex": "http://example.org/"})
    >>> names.term("<http://example.org/Room>"), names.term('"5"^^<http://www.w3.org/2001/XMLSchema#integer>')
    ('ex:Room', '5')
    """

    prefixes: Mapping[str, str] = field(default_factory=dict)
    day: str = ""

    def of_day(self, instant: int) -> Names:
        return Names(self.prefixes, format_datetime(instant)[:10])

    def iri(self, value: str) -> str:
        for name, start in {**self.prefixes, **COMMON}.items():
            if value.startswith(start) and _LOCAL.fullmatch(value, len(start)):
                return f"{name}:{value[len(start) :]}"
        return f"<{value}>"

    def event(self, value: str) -> str:
        """An event's IRI stands alone and needs no brackets; a derived one is cut like a notification's id."""
        return _DERIVED.sub(r"\1…", self.iri(value).strip("<>"))

    def term(self, term: str) -> str:
        if is_iri(term):
            return self.iri(term[1:-1])
        text, datatype, _ = literal_parts(term)
        if datatype in PLAIN:
            return text
        return self.text(term)

    def text(self, sparql: str) -> str:
        """SPARQL, an axiom or a literal with its IRIs shortened."""
        plain = _NUMBER.sub(r"\1", sparql).replace(f" {RDF_TYPE} ", " a ")
        return _IRI.sub(lambda found: self.iri(found[1]), plain)

    def triple(self, triple: Triple, event: str = "") -> str:
        """A triple; the event itself needs no mention."""
        subject, predicate, value = triple
        said = "a" if predicate == RDF_TYPE else self.text(predicate)
        return f"{'' if subject == event else f'{self.term(subject)} '}{said} {self.term(value)}"

    def bindings(self, bindings: Bindings) -> str:
        return ", ".join(f"?{name} = {self.term(term)}" for name, term in bindings)

    def instant(self, instant: int) -> str:
        """
        >>> Names(day="1970-01-01").instant(61_500_000), Names().instant(0)
        ('00:01:01.5', '1970-01-01 00:00:00')
        """
        if instant >= END_OF_TIME:
            return "the end of time"
        date, _, time = format_datetime(instant).rstrip("Z").partition("T")
        time = time.rstrip("0").rstrip(".") if "." in time else time
        return time if date == self.day else f"{date} {time}"

    def span(self, start: int, end: int) -> str:
        return self.instant(start) if start == end else f"{self.instant(start)} to {self.instant(end)}"


def length(micros: int) -> str:
    """A duration in the two largest units that say it.

    >>> length(421_000_000), length(0), length(1_500_000)
    ('7 min 1 s', '0 s', '1.5 s')
    """
    if micros < UNITS["s"]:
        return f"{micros / 1000:g} ms" if micros else "0 s"
    for unit, smaller in (("d", "h"), ("h", "min"), ("min", "s")):
        if micros >= UNITS[unit]:
            rest = round(micros % UNITS[unit] / UNITS[smaller], 6)
            return f"{micros // UNITS[unit]} {unit}" + (f" {rest:g} {smaller}" if rest else "")
    return f"{micros / UNITS['s']:g} s"


def operator(pattern: Pattern) -> str:  # noqa: PLR0911  (a table)
    """An operator without the operands it is made of.

    >>> from motet.language.syntax import Leaf
    >>> operator(Times(Leaf("a"), 3, 5_000_000))
    '3 TIMES, EVERY 5 s'
    """
    match pattern:
        case Times(_, count, gap):
            return f"{count} TIMES" + (f", EVERY {length(gap)}" if gap is not None else "")
        case Run(_, gap):
            return f"RUN, EVERY {length(gap)}"
        case Unless(_, absent, window):
            return f"UNLESS {pattern_text(absent)} WITHIN {length(window)}"
        case Without(_, absent):
            return f"WITHOUT {pattern_text(absent)}"
        case Xor(window=window):
            return f"XOR WITHIN {length(window)}"
        case Within(_, bound):
            return f"WITHIN {length(bound)}"
        case No(operand, duration):
            return f"NO {pattern_text(operand)} FOR {length(duration)}"
    return spoken(pattern)


def fact_text(fact: Fact, names: Names, event: str = "") -> str:  # noqa: PLR0911  (a table)
    """One fact in words; ``event`` is the term of the event it is about, if it is about one."""
    match fact:
        case Relates():
            return _relation(fact, names)
        case Agrees(variable, term):
            return f"?{variable} is {names.term(term)} on both sides"
        case Fits(start, end, bound):
            return f"{length(end - start)} in all, at most {length(bound)} allowed"
        case Satisfies(condition, values):
            with_values = f", with {names.bindings(values)}" if values else ""
            return f"FILTER({names.text(condition)}) is true{with_values}"
        case Absent():
            return _absence(fact, names)
        case Passes():
            return "WITHOUT has nothing to look at: the left side does not end before the right one starts"
        case Picked():
            return _choice(fact)
        case Stated():
            return _triple(fact, names, event)
    return _other(fact, names)


def _other(fact: Fact, names: Names) -> str:
    match fact:
        case Counted(members, key):
            of_key = f" with {names.bindings(key)}" if key else ""
            return f"{members} {'member' if members == 1 else 'members'}{of_key}"
        case Gap(previous, following, allowed):
            gap = length(following - previous)
            return f"{gap} from {names.instant(previous)} to the next, at most {length(allowed)} allowed"
        case Begins(point, since):
            return f"counted from {names.instant(point)}, " + ("SINCE" if since else "the end of the last one")
        case Lacks(pattern):
            return f"the event has no {names.text(pattern)}"
        case Anything():
            return "every event matches"
    raise AssertionError(f"{fact} has no words")


def _relation(fact: Relates, names: Names) -> str:
    left, right = _interval(fact.left, names), _interval(fact.right, names)
    if fact.relation == "BEFORE":
        return f"{left} is BEFORE {right}, by {length(fact.right.start - fact.left.end)}"
    if fact.relation == "AFTER":
        return f"{left} is AFTER {right}, by {length(fact.left.start - fact.right.end)}"
    if fact.relation == "ALONGSIDE":
        start, end = max(fact.left.start, fact.right.start), min(fact.left.end, fact.right.end)
        return f"both go on at {names.span(start, end)}"
    return f"{left} {fact.relation} {right}"


def _interval(span: Span, names: Names) -> str:
    return names.instant(span.start) if span.start == span.end else f"[{names.span(span.start, span.end)}]"


def _absence(fact: Absent, names: Names) -> str:
    absent = fact.pattern if fact.pattern.isidentifier() else f"({fact.pattern})"
    agreeing = f" with {names.bindings(fact.bindings)}" if fact.bindings else ""
    trust = "" if fact.checked else " (not checked: not all events that can matter are at hand)"
    if fact.window == "hull":
        assert fact.length is not None
        around = names.span(fact.after, fact.until)
        return f"no {absent}{agreeing} within {length(fact.length)} around {around}{trust}"
    until = "before" if fact.window == "between" else "until"
    return f"no {absent}{agreeing} after {names.instant(fact.after)} {until} {names.instant(fact.until)}{trust}"


def _choice(fact: Picked) -> str:
    when = f"when the {fact.completed} side completed"
    if fact.candidates == 1:
        return f"{fact.context}: the only partner {when}"
    rule = {
        Context.RECENT.value: "the latest of {} partners",
        Context.CHRONICLE.value: "the oldest of {} partners",
        Context.CUMULATIVE.value: "all of the {} partners",
    }.get(fact.context, "each of the {} partners makes a pair")
    return f"{fact.context}: {rule.format(fact.candidates)} {when}"


def _triple(fact: Stated, names: Names, event: str) -> str:
    said = names.triple(fact.triple, event)
    if fact.source == "event":
        return said
    if fact.source == "reasoning":
        axioms = "; ".join(names.text(axiom) for axiom in fact.axioms) or "reasoning"
        stated = f" (stated: {', '.join(map(names.term, fact.stated))})" if fact.stated else ""
        return f"{said}{stated}, by {axioms}"
    return f"{said}, from the background" if fact.source == "background" else f"{said} (a path)"


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
