"""Text for terms, times and facts; derivation trees and composition trees as indented lines and as JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from motet.language.check import operator_text
from motet.language.printer import pattern_text
from motet.language.scope import children
from motet.language.syntax import (
    Construct,
    Context,
    Leaf,
    No,
    Pattern,
    Run,
    Subscription,
    Times,
    Unless,
    Within,
    Without,
    Xor,
)
from motet.model.intervals import Interval
from motet.model.terms import OWL, RDF, RDF_TYPE, RDFS, XSD, iri, is_iri, literal_parts
from motet.model.times import END_OF_TIME, UNITS, format_datetime
from motet.plan.text import delivery_text, template_text
from motet.provenance import facts
from motet.provenance.why import DerivationNode, Why
from motet.reference.contexts import PatternResult
from motet.reference.occurrences import SortedBindings
from motet.reference.sparql import Triple

COMMON_PREFIXES = {"rdf": RDF, "rdfs": RDFS, "owl": OWL, "xsd": XSD}
UNQUOTED_TYPES = frozenset(XSD + name for name in ("integer", "decimal", "double", "boolean", "dateTime"))
_IRI = re.compile(r"<([^<>\s\"]*)>")
_NUMBER = re.compile(r'"([^"\\]*)"\^\^<http://www\.w3\.org/2001/XMLSchema#(?:integer|decimal|double|boolean)>')
_DERIVED = re.compile(r"(urn:motet:derived:[0-9a-f]{12})[0-9a-f]{52}")
_LOCAL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]*[A-Za-z0-9_\-])?")


@dataclass(frozen=True)
class TextStyle:
    """Formats terms and times: prefixes (name to IRI) shorten IRIs, instants on ``day`` are written without the date.

    >>> style = TextStyle({"ex": "http://example.org/"})
    >>> style.term("<http://example.org/Room>"), style.term('"5"^^<http://www.w3.org/2001/XMLSchema#integer>')
    ('ex:Room', '5')
    """

    prefixes: Mapping[str, str] = field(default_factory=dict)
    day: str = ""

    def for_day(self, instant: int) -> TextStyle:
        return TextStyle(self.prefixes, format_datetime(instant)[:10])

    def iri(self, value: str) -> str:
        for name, start in {**self.prefixes, **COMMON_PREFIXES}.items():
            if value.startswith(start) and _LOCAL.fullmatch(value, len(start)):
                return f"{name}:{value[len(start) :]}"
        return f"<{value}>"

    def event(self, value: str) -> str:
        """An event's IRI without brackets; that of a derived event is shortened like a notification id."""
        return _DERIVED.sub(r"\1…", self.iri(value).strip("<>"))

    def term(self, term: str) -> str:
        if is_iri(term):
            return self.iri(term[1:-1])
        text, datatype, _ = literal_parts(term)
        if datatype in UNQUOTED_TYPES:
            return text
        return self.text(term)

    def text(self, sparql: str) -> str:
        """SPARQL, an axiom or a literal with its IRIs shortened."""
        return self.iris(_NUMBER.sub(r"\1", sparql).replace(f" {RDF_TYPE} ", " a "))

    def iris(self, text: str) -> str:
        """Text with its IRIs shortened and nothing else."""
        return _IRI.sub(lambda match: self.iri(match[1]), text)

    def triple(self, triple: Triple, event: str = "") -> str:
        """A triple; the subject is left out when it is the event."""
        subject, predicate, value = triple
        verb = "a" if predicate == RDF_TYPE else self.text(predicate)
        return f"{'' if subject == event else f'{self.term(subject)} '}{verb} {self.term(value)}"

    def bindings(self, bindings: SortedBindings) -> str:
        return ", ".join(f"?{name} = {self.term(term)}" for name, term in bindings)

    def instant(self, instant: int) -> str:
        """The date and time of an instant.

        >>> TextStyle(day="1970-01-01").instant(61_500_000), TextStyle().instant(0)
        ('00:01:01.5', '1970-01-01 00:00:00')
        """
        if instant >= END_OF_TIME:
            return "the end of time"
        date, _, time = format_datetime(instant).rstrip("Z").partition("T")
        time = time.rstrip("0").rstrip(".") if "." in time else time
        return time if date == self.day else f"{date} {time}"

    def interval(self, start: int, end: int) -> str:
        return self.instant(start) if start == end else f"{self.instant(start)} to {self.instant(end)}"


def duration_text(micros: int) -> str:
    """A duration in one or two units.

    >>> duration_text(421_000_000), duration_text(0), duration_text(1_500_000)
    ('7 min 1 s', '0 s', '1.5 s')
    """
    if micros < UNITS["s"]:
        return f"{micros / 1000:g} ms" if micros else "0 s"
    for unit, smaller in (("d", "h"), ("h", "min"), ("min", "s")):
        if micros >= UNITS[unit]:
            rest = round(micros % UNITS[unit] / UNITS[smaller], 6)
            return f"{micros // UNITS[unit]} {unit}" + (f" {rest:g} {smaller}" if rest else "")
    return f"{micros / UNITS['s']:g} s"


def operator_title(pattern: Pattern) -> str:  # noqa: PLR0911  (a table)
    """The text of an operator without its operands; absent operands are part of the operator.

    >>> from motet.language.syntax import Leaf
    >>> operator_title(Times(Leaf("a"), 3, 5_000_000))
    '3 TIMES, EVERY 5 s'
    """
    match pattern:
        case Times(_, count, gap):
            return f"{count} TIMES" + (f", EVERY {duration_text(gap)}" if gap is not None else "")
        case Run(_, gap):
            return f"RUN, EVERY {duration_text(gap)}"
        case Unless(_, absent, window):
            return f"UNLESS {pattern_text(absent)} WITHIN {duration_text(window)}"
        case Without(_, absent):
            return f"WITHOUT {pattern_text(absent)}"
        case Xor(window=window):
            return f"XOR WITHIN {duration_text(window)}"
        case Within(_, bound):
            return f"WITHIN {duration_text(bound)}"
        case No(operand, duration):
            return f"NO {pattern_text(operand)} FOR {duration_text(duration)}"
    return operator_text(pattern)


def fact_text(fact: facts.Fact, style: TextStyle, event: str = "") -> str:  # noqa: PLR0911  (a table)
    """The text of a fact; ``event`` is the term of the event it is about, if any."""
    match fact:
        case facts.Relates():
            return _relation(fact, style)
        case facts.Agrees(variable, term):
            return f"?{variable} is {style.term(term)} on both sides"
        case facts.Fits(start, end, bound):
            return f"{duration_text(end - start)} in all, at most {duration_text(bound)} allowed"
        case facts.Satisfies(condition, values):
            with_values = f", with {style.bindings(values)}" if values else ""
            return f"FILTER({style.text(condition)}) is true{with_values}"
        case facts.Absent():
            return _absence(fact, style)
        case facts.Passes():
            return "WITHOUT has no effect: the left side does not end before the right side starts"
        case facts.Picked():
            return _choice(fact)
        case facts.Stated():
            return _triple(fact, style, event)
    return _counting_text(fact, style)


_ORIGINS = {
    "since": "SINCE",
    "occurrence": "the end of the previous occurrence",
    "frontier": "the beginning of the subscription: the frontier when it was registered",
    "first end": "the beginning of the subscription: the least end of the events it sees",
}


def _counting_text(fact: facts.Fact, style: TextStyle) -> str:
    match fact:
        case facts.Counted(members, key):
            of_key = f" with {style.bindings(key)}" if key else ""
            return f"{members} {'member' if members == 1 else 'members'}{of_key}"
        case facts.Gap(previous, following, allowed):
            gap = duration_text(following - previous)
            return f"{gap} from {style.instant(previous)} to the next, at most {duration_text(allowed)} allowed"
        case facts.Begins(point, origin):
            return f"counted from {style.instant(point)}, {_ORIGINS[origin]}"
        case facts.Lacks(pattern):
            return f"the event has no {style.text(pattern)}"
        case facts.Anything():
            return "every event matches"
        case facts.InDocument(block):
            return f"the document has {block}"
    raise AssertionError(f"{fact} has no text")


def _relation(fact: facts.Relates, style: TextStyle) -> str:
    left, right = _interval(fact.left, style), _interval(fact.right, style)
    if fact.relation == "BEFORE":
        return f"{left} is BEFORE {right}, by {duration_text(fact.right.start - fact.left.end)}"
    if fact.relation == "AFTER":
        return f"{left} is AFTER {right}, by {duration_text(fact.left.start - fact.right.end)}"
    if fact.relation == "ALONGSIDE":
        start, end = max(fact.left.start, fact.right.start), min(fact.left.end, fact.right.end)
        return f"both sides share {style.interval(start, end)}"
    return f"{left} {fact.relation} {right}"


def _interval(interval: Interval, style: TextStyle) -> str:
    return style.instant(interval.start) if interval.start == interval.end else f"[{style.interval(*interval)}]"


def _absence(fact: facts.Absent, style: TextStyle) -> str:
    absent = fact.pattern if fact.pattern.isidentifier() else f"({fact.pattern})"
    agreeing = f" with {style.bindings(fact.bindings)}" if fact.bindings else ""
    caveat = "" if fact.checked else " (not checked: not all events that can matter are available)"
    if fact.window == "hull":
        assert fact.length is not None
        around = style.interval(fact.after, fact.until)
        return f"no {absent}{agreeing} within {duration_text(fact.length)} around {around}{caveat}"
    until = "before" if fact.window == "between" else "until"
    return f"no {absent}{agreeing} after {style.instant(fact.after)} {until} {style.instant(fact.until)}{caveat}"


def _choice(fact: facts.Picked) -> str:
    when = f"when the {fact.completed} side completed"
    if fact.candidates == 1:
        return f"{fact.context}: the only partner {when}"
    rule = {
        Context.RECENT.value: "the latest of {} partners",
        Context.CHRONICLE.value: "the oldest of {} partners",
        Context.CUMULATIVE.value: "all of the {} partners",
    }.get(fact.context, "each of the {} partners makes a pair")
    return f"{fact.context}: {rule.format(fact.candidates)} {when}"


def _triple(fact: facts.Stated, style: TextStyle, event: str) -> str:
    text = style.triple(fact.triple, event)
    if fact.source == "event":
        return text
    if fact.source == "reasoning":
        axioms = "; ".join(style.text(axiom) for axiom in fact.axioms) or "reasoning"
        stated = f" (stated: {', '.join(map(style.term, fact.stated))})" if fact.stated else ""
        return f"{text}{stated}, by {axioms}"
    return f"{text}, from the background" if fact.source == "background" else f"{text} (a path)"


Line = tuple[str, str, str]  # branches, text, and kind of line: head, leaf, operator or fact


def why_lines(why: Why, style: TextStyle) -> Iterator[Line]:
    """The derivation tree of a notification as lines."""
    style = style.for_day(why.notification.start_micros)
    yield "", _head(why, style), "head"
    bindings = style.bindings(why.notification.bindings)
    if bindings:
        yield "", bindings, "fact"
    yield from _node(why.root, style, "", is_last=True)
    if why.other_count:
        count = "1 other derivation gives" if why.other_count == 1 else f"{why.other_count} other derivations give"
        yield "", f"{count} the same notification", "fact"
    if why.retracted:
        yield "", f"retracted since: {', '.join(map(style.event, why.retracted))}", "fact"
    if not why.is_choice_known:
        text = f"the partners chosen by {why.context.value} are unknown: they depend on events that were not examined"
        yield "", text, "fact"


def _head(why: Why, style: TextStyle) -> str:
    notification = why.notification
    when = style.interval(notification.start_micros, notification.end_micros)
    return f"{notification.subscription} {notification.id[:12]} on {style.day}, {when}"


def _node(node: DerivationNode, style: TextStyle, indent: str, *, is_last: bool) -> Iterator[Line]:
    is_leaf = isinstance(node.pattern, Leaf)
    yield f"{indent}{'└─ ' if is_last else '├─ '}", _title(node, style), "leaf" if is_leaf else "operator"
    inner = f"{indent}{'   ' if is_last else '│  '}"
    below = node.operands or node.derived_by
    event = iri(min(node.occurrence.events)) if is_leaf else ""
    for fact in node.facts:
        yield f"{inner}{'│  ' if below else '   '}", fact_text(fact, style, event), "fact"
    for position, operand in enumerate(node.operands, 1):
        yield from _node(operand, style, inner, is_last=position == len(node.operands))
    if node.derived_by is not None:
        yield f"{inner}└─ ", f"derived by {_head(node.derived_by, style)}", "head"
        yield from _node(node.derived_by.root, style, f"{inner}   ", is_last=True)


def _title(node: DerivationNode, style: TextStyle) -> str:
    o = node.occurrence
    when = style.interval(o.start, o.end)
    if not isinstance(node.pattern, Leaf):
        return f"{operator_title(node.pattern)}  {when}"
    (event,) = o.events
    solution = tuple(pair for pair in node.solution if pair[0] != node.pattern.name)
    bindings = f"  {style.bindings(solution)}" if solution else ""
    return f"{node.pattern.name} = {style.event(event)}  {when}{bindings}"


def why_json(why: Why) -> dict[str, object]:
    """The derivation tree for programs: instants as text, durations in microseconds, terms as N-Triples."""
    return {
        "notification": why.notification.id,
        "subscription": why.notification.subscription,
        "context": why.context.value,
        "start": format_datetime(why.notification.start_micros),
        "end": format_datetime(why.notification.end_micros),
        "events": list(why.notification.events),
        "bindings": facts.bindings_json(why.notification.bindings),
        "others": why.other_count,
        "checked": why.is_checked,
        "picked": why.is_choice_known,
        "retracted": list(why.retracted),
        "derivation": _node_json(why.root),
    }


def _node_json(node: DerivationNode) -> dict[str, object]:
    o = node.occurrence
    members: dict[str, object] = {
        "pattern": pattern_text(node.pattern),
        "operator": node.pattern.name if isinstance(node.pattern, Leaf) else operator_title(node.pattern),
        "start": format_datetime(o.start),
        "end": format_datetime(o.end),
        "events": sorted(o.events),
        "bindings": facts.bindings_json(node.solution or o.bindings),
        "facts": [facts.to_json(fact) for fact in node.facts],
        "parts": [_node_json(operand) for operand in node.operands],
    }
    if node.derived_by is not None:
        members["because"] = why_json(node.derived_by)
    return members


# Composition trees: which operators and EVENTs of a subscription are true over some events


@dataclass
class Compositions:
    """Counts the occurrences of each node while the reference engine evaluates subscriptions."""

    occurrences: dict[tuple[str, Pattern], set[object]] = field(default_factory=dict)

    def observe(self, name: str, pattern: Pattern, results: Sequence[PatternResult]) -> None:
        """Take the results of a node of the subscription of this name."""
        found = self.occurrences.setdefault((name, pattern), set())
        found.update(result.occurrence for result in results)

    def lines(self, subscriptions: Iterable[Subscription], notifications: Counter[str]) -> Iterator[str]:
        """The trees; ``notifications`` are the numbers of notifications by subscription."""
        for subscription in subscriptions:
            yield f"{subscription.name}: {subscription.context.value}"
            root = _value(notifications[subscription.name], "notification")
            delivery = subscription.delivery
            if isinstance(delivery, Construct):
                yield f"└─ CONSTRUCT  {root}"
                yield from (f"   │     {template_text(template)}" for template in delivery.templates)
            else:
                yield f"└─ {delivery_text(delivery)}  {root}"
            yield from self._tree(subscription.name, subscription.pattern, "   ", is_last=True)
            yield ""

    def _tree(self, name: str, pattern: Pattern, indent: str, *, is_last: bool) -> Iterator[str]:
        count = len(self.occurrences.get((name, pattern), ()))
        yield f"{indent}{'└─ ' if is_last else '├─ '}{_pattern_title(pattern)}  {_value(count, 'occurrence')}"
        operands = children(pattern)
        for index, operand in enumerate(operands):
            inner = f"{indent}{'   ' if is_last else '│  '}"
            yield from self._tree(name, operand, inner, is_last=index == len(operands) - 1)

    def to_json(self, subscriptions: Iterable[Subscription], notifications: Counter[str]) -> list[dict[str, Any]]:
        """The trees for programs."""
        return [
            {
                "subscription": subscription.name,
                "notifications": notifications[subscription.name],
                "pattern": self._node_json(subscription.name, subscription.pattern),
            }
            for subscription in subscriptions
        ]

    def _node_json(self, name: str, pattern: Pattern) -> dict[str, Any]:
        count = len(self.occurrences.get((name, pattern), ()))
        operands = [self._node_json(name, operand) for operand in children(pattern)]
        return {"node": _pattern_title(pattern), "true": count > 0, "occurrences": count, "operands": operands}


def _pattern_title(pattern: Pattern) -> str:
    return f"EVENT {pattern.name}" if isinstance(pattern, Leaf) else operator_title(pattern)


def _value(count: int, noun: str) -> str:
    return f"true, {count} {noun}{'' if count == 1 else 's'}" if count else "false"
