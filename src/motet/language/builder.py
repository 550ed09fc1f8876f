"""Subscriptions written in Python. The methods write the pattern language, so text and Python cannot drift apart.

>>> smoke = event("smoke", "urn:b#SmokeAlarm", "?smoke b:room ?room")
>>> heat = event("heat", "urn:b#HeatAlarm", "?heat b:room ?room")
>>> fire = subscription("fire", smoke.before(heat).within("5 min"), select=["room"], prefixes={"b": "urn:b#"})
>>> fire.name, fire.delivery.variables
('fire', ('room',))
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from motet.language.motet_lexer import is_event_name, is_subscription_name
from motet.language.parse import parse
from motet.language.syntax import Context, Subscription
from motet.model.errors import UsageError, check_type
from motet.model.times import Instant, format_datetime, format_duration, to_micros
from motet.sparql.tokens import Document, closing, tokenise

DurationInput = str | timedelta


@dataclass(frozen=True, slots=True)
class PatternText:
    """The text of a pattern and the declarations of its events; its methods combine patterns."""

    text: str
    events: tuple[tuple[str, str], ...]  # name and declaration

    # Pairing operators.

    def and_(self, right: PatternText) -> PatternText:
        return self._combine("AND", right)

    def alongside(self, right: PatternText) -> PatternText:
        return self._combine("ALONGSIDE", right)

    def before(self, right: PatternText) -> PatternText:
        return self._combine("BEFORE", right)

    def after(self, right: PatternText) -> PatternText:
        return self._combine("AFTER", right)

    def meets(self, right: PatternText) -> PatternText:
        return self._combine("MEETS", right)

    def met_by(self, right: PatternText) -> PatternText:
        return self._combine("MET BY", right)

    def overlaps(self, right: PatternText) -> PatternText:
        return self._combine("OVERLAPS", right)

    def overlapped_by(self, right: PatternText) -> PatternText:
        return self._combine("OVERLAPPED BY", right)

    def starts(self, right: PatternText) -> PatternText:
        return self._combine("STARTS", right)

    def started_by(self, right: PatternText) -> PatternText:
        return self._combine("STARTED BY", right)

    def during(self, right: PatternText) -> PatternText:
        return self._combine("DURING", right)

    def includes(self, right: PatternText) -> PatternText:
        return self._combine("INCLUDES", right)

    def finishes(self, right: PatternText) -> PatternText:
        return self._combine("FINISHES", right)

    def finished_by(self, right: PatternText) -> PatternText:
        return self._combine("FINISHED BY", right)

    def equals(self, right: PatternText) -> PatternText:
        return self._combine("EQUALS", right)

    # Alternatives, absence and conditions.

    def or_(self, right: PatternText) -> PatternText:
        return self._combine("OR", right)

    def xor(self, right: PatternText, window: DurationInput) -> PatternText:
        return self._combine("XOR", right, f" WITHIN {_duration(window)}")

    def unless(self, right: PatternText, window: DurationInput) -> PatternText:
        return self._combine("UNLESS", right, f" WITHIN {_duration(window)}")

    def without(self, right: PatternText) -> PatternText:
        return self._combine("WITHOUT", right)

    def within(self, bound: DurationInput) -> PatternText:
        return self._wrapped(f"{self._operand} WITHIN {_duration(bound)}")

    def filter(self, condition: str) -> PatternText:
        """Keep what satisfies a SPARQL expression."""
        return self._wrapped(f"{self._operand} FILTER{_enclosed('(', condition, ')')}")

    # Repetition.

    def times(self, count: int, every: DurationInput | None = None) -> PatternText:
        gap = "" if every is None else f" EVERY {_duration(every)}"
        return self._wrapped(f"{self._operand}{{{int(count)}}}{gap}")

    def run(self, every: DurationInput) -> PatternText:
        return self._wrapped(f"{self._operand}+ EVERY {_duration(every)}")

    @property
    def _operand(self) -> str:
        return self.text if is_event_name(self.text) else f"({self.text})"

    def _combine(self, sign: str, right: PatternText, tail: str = "") -> PatternText:
        check_type("the pattern", right, PatternText)
        return PatternText(f"{self._operand} {sign} {right._operand}{tail}", self.events + right.events)

    def _wrapped(self, text: str) -> PatternText:
        return PatternText(text, self.events)


def event(
    name: str,
    class_iri: str | None = None,
    body: str | None = None,
    *,
    xml: str | None = None,
    times: tuple[str, str] | None = None,
) -> PatternText:
    """An event: its name, its class, a SPARQL body or a block of EXML-QL, and variables for its start and end.

    The class is an IRI, or a name such as ``ex:Alarm`` with one of the prefixes of the subscription.
    """
    check_type("the name", name, str)
    check_type("the class", class_iri, str, None)
    check_type("the body", body, str, None)
    check_type("the block", xml, str, None)
    if body is not None and xml is not None:
        raise UsageError(f"the event '{name}' has a body and a block", advice="an event has one of them")
    if not is_event_name(name):
        raise UsageError(f"'{name}' cannot name an event", advice="use letters, digits and '_', and no keyword")
    parts = [f"EVENT {name}"]
    parts += [f": <{class_iri}>"] if class_iri is not None else []
    parts += [f"DURING ?{times[0]} ?{times[1]}"] if times else []
    parts += [_enclosed("{", body, "}")] if body is not None else []
    parts += [f"XML {{ {xml} }}"] if xml is not None else []
    return PatternText(name, ((name, " ".join(parts)),))


def no(pattern: PatternText, duration: DurationInput) -> PatternText:
    """``NO pattern FOR duration``."""
    check_type("the pattern", pattern, PatternText)
    return PatternText(f"NO {pattern._operand} FOR {_duration(duration)}", pattern.events)


def subscription(  # noqa: PLR0913  (one keyword per clause of the grammar)
    name: str,
    pattern: PatternText,
    *,
    context: str | Context = Context.RECENT,
    unbounded: bool = False,
    select: Iterable[str] | None = None,
    construct: Iterable[str] = (),
    construct_xml: Iterable[str] = (),
    deliver: str | None = None,
    since: Instant | None = None,
    prefixes: Mapping[str, str] | None = None,
) -> Subscription:
    """The checked subscription.

    ``select`` lists variables, ``construct`` and ``construct_xml`` templates; ``deliver`` is SIGNAL or EVENTS.
    """
    check_type("the name", name, str)
    check_type("the pattern", pattern, PatternText)
    check_type("select", select, Iterable, None)
    check_type("prefixes", prefixes, Mapping, None)
    if context not in [*Context, *(one.value for one in Context)]:
        contexts = ", ".join(one.value for one in Context)
        raise UsageError(f"{context!r} is no context", advice=f"Use one of {contexts}.")
    if not is_subscription_name(name):
        raise UsageError(f"'{name}' cannot name a subscription", advice="use letters, digits, '_' and '-', no keyword")
    lines = [f"PREFIX {prefix}: <{iri}>" for prefix, iri in (prefixes or {}).items()]
    beginning = "" if since is None else f' SINCE "{format_datetime(to_micros(since))}"'
    lines += [f"SUBSCRIPTION {name}{beginning}"]
    lines += [f"  {_with_class(declaration, prefixes or {})}" for declaration in _declarations(pattern)]
    lines += [f"  WHEN {pattern.text}"]
    lines += [f"  CONTEXT {Context(context).value}{' UNBOUNDED' if unbounded else ''}"]
    lines += ["  SELECT " + " ".join(f"?{variable}" for variable in select)] if select is not None else []
    lines += [f"  CONSTRUCT {_enclosed('{', template, '}')}" for template in construct]
    lines += [f"  CONSTRUCT XML {{ {template} }}" for template in construct_xml]
    lines += [f"  {deliver}"] if deliver else []
    (parsed,) = parse("\n".join(lines), source=name)
    return parsed


def _with_class(declaration: str, prefixes: Mapping[str, str]) -> str:
    """The declaration of an event, with the IRI of a class that is written with one of the prefixes."""

    def expand(match: re.Match[str]) -> str:
        return f"{match[1]}<{prefixes[match[2]]}{match[3]}>" if match[2] in prefixes else match[0]

    return re.sub(r"(EVENT \S+ : )<([^<>:]*):([^<>]*)>", expand, declaration, count=1)


def _declarations(pattern: PatternText) -> list[str]:
    declared: dict[str, str] = {}
    for name, declaration in pattern.events:
        if declared.setdefault(name, declaration) != declaration:
            raise UsageError(f"two different events are called '{name}'", advice="rename one of them")
    return list(declared.values())


def _duration(duration: DurationInput) -> str:
    if isinstance(duration, timedelta):
        return format_duration(duration // timedelta(microseconds=1))
    check_type("the duration", duration, str, timedelta)
    return f'"{duration}"^^xsd:dayTimeDuration' if duration.startswith(("P", "-")) else duration


def _enclosed(opening: str, text: str, closed: str) -> str:
    """The text in brackets; text that would close them itself is refused."""
    enclosed = f"{opening} {text}\n{closed}"  # the line break ends a comment at the end of the text
    document = Document(enclosed)
    tokens = tokenise(document)
    last = closing(document, tokens, 0)
    if last != len(tokens) - 1:
        raise document.refusal(f"'{closed}' closes nothing", tokens[last].position)
    return enclosed
