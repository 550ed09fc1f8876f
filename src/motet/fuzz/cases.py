"""Random cases: logs and ontologies over a small vocabulary, with random subscriptions.

A log has a few events of few classes, rooms and values, in some cases two thirds of them documents of XML of few
elements, in an arrival order that its lateness mostly allows, with ticks, repeated events, background changes,
retractions, and subscriptions that begin and end. Some logs are *published*: by writers with clocks, in commits of
several events, with settings, stamped and future events and heartbeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random

from motet import reference
from motet.fuzz.case import (
    BEGIN,
    LAST_START,
    SCOPE_PROPERTY,
    SECOND,
    TIME_PROPERTIES,
    Case,
    as_run,
    restated,
    scope_iri,
    timed_event,
    without_time,
)
from motet.fuzz.documents import MINTED, minted_document_id, minted_id
from motet.fuzz.files import EX
from motet.fuzz.subscriptions import (
    DERIVED,
    TAGS,
    XML_PREFIX,
    XML_TEXTS,
    EngineCapabilities,
    XmlVocabulary,
    random_subscriptions,
)
from motet.language.syntax import Subscription
from motet.model.batches import Triple
from motet.model.terms import OWL, RDF_TYPE, RDFS, XSD, iri, literal
from motet.model.times import END_OF_TIME, UNITS, format_datetime
from motet.model.xml_document import MOTET_NAMESPACE

SUBSCRIPTIONS_PER_CASE = 6  # over one log
XML_SHARE = 0.3  # of the cases have documents of XML

STRINGS = ('"fire"', '"Fire"@en', '"feu"@fr', '"ok"', '"fiŕe 🔥"@en', '"two\\nlines"')
NUMBERS = ("1", "2", "3", "01", "2.0", "many")


def random_cases(seed: int, capabilities: EngineCapabilities, cases_per_run: int = 1) -> Iterator[Case]:
    """An endless sequence of cases, determined by the arguments."""
    return (nth_case(seed, number, capabilities, cases_per_run) for number in count())


def nth_case(seed: int, number: int, capabilities: EngineCapabilities, cases_per_run: int = 1) -> Case:
    """One of the cases of a seed. Cases of one run share an ontology."""
    random = Random(f"{seed} {number}")  # noqa: S311  (seeded, not secret)
    ontology = random_ontology(Random(f"{seed} ontology {number // cases_per_run}"))  # noqa: S311
    scope = f"c{number}"
    intervals = random.random() < 0.45
    has_xml = Random(f"{seed} xml {number}").random() < XML_SHARE  # noqa: S311
    mappings = random_mappings(Random(f"{seed} mappings {number}")) if not capabilities.shares_runs else ()  # noqa: S311
    xml = XmlVocabulary(scope if capabilities.shares_runs else "", mappings) if has_xml else None
    subscriptions = random_subscriptions(
        random, scope, capabilities, SUBSCRIPTIONS_PER_CASE, intervals=intervals, xml=xml
    )
    as_log = capabilities.logs and (random.random() < 0.5 or bool(xml and xml.mappings))
    case = random_case(
        random, scope, subscriptions, as_log=as_log, capabilities=capabilities, intervals=intervals, xml=xml
    )
    return replace(case, ontology=ontology)


def random_case(
    random: Random,
    scope: str,
    subscriptions: Sequence[Subscription],
    *,
    as_log: bool,
    capabilities: EngineCapabilities,
    intervals: bool = True,
    xml: XmlVocabulary | None = None,
) -> Case:
    """A case with these subscriptions: a log, or else a run."""
    last, max_events = (0, 9) if random.random() < 0.04 else (random.choice((4, 6, LAST_START)), 23)
    generator = _EventGenerator(random, scope, intervals, capabilities.shares_runs, last, xml)
    events = [generator.event(number) for number in range(1, max_events - random.randrange(7))]
    if random.random() < 0.3:
        events = [_untitled(event) if random.random() < 0.4 else event for event in events]
    case = Case((), seed=random.randrange(2**32))
    subscribes = [reference.SubscribeRecord(0, subscription) for subscription in subscriptions]
    if not as_log:
        random.shuffle(events)
        return as_run(case.with_records([*subscribes, *_with_repetition(random, generator, events)]))
    lateness = random.choice((None, 0, 2 * SECOND, 5 * SECOND))
    records = _in_arrival_order(random, _with_repetition(random, generator, events), lateness)
    records += [reference.TickRecord(0, random.choice((END_OF_TIME, BEGIN + 60 * SECOND, BEGIN + 20 * SECOND)))]
    if random.random() < 0.1:
        records.append(_at_the_end(replace(generator, last=LAST_START, xml=None).event(max_events)))
    _change_background(random, records, events)
    for subscribe in subscribes:
        _insert_registration(random, records, subscribe)
    if random.random() < 0.2:
        offset = random.randint(1, len(records))
        if before := [record.id for record in records[:offset] if isinstance(record, reference.EventRecord)]:
            records.insert(offset, reference.RetractRecord(0, random.choice(before)))
    case = replace(case, lateness=lateness)
    mappings = xml.mappings if xml else ()
    is_published = random.random() < 0.6 or bool(mappings)
    return _published(random, case, records, mappings) if is_published else case.with_records(records)


def random_mappings(random: Random) -> tuple[str, ...]:
    """Mappings of derived documents, in half of the cases: their roots are those of no published document."""
    if random.random() < 0.5:
        return ()
    fitting = [
        f"""
prefixes: {{ex: "{EX}"}}
event: {{root: {name.lower()}, class: "ex:{random.choice((name, name, name, "A"))}"}}
properties:
  o: {{property: ex:k, datatype: integer, optional: true}}
  p: {{property: ex:says, optional: {random.choice(("true", "true", "false"))}}}
  i: {{property: ex:room, optional: true}}
  "@k": {{property: ex:k, optional: true}}
  .: {{property: ex:says, optional: true}}
"""
        for name in DERIVED
    ]
    return tuple(random.sample(fitting, random.choice((1, 2, 2))))


def random_ontology(random: Random) -> frozenset[Triple]:
    """A few axioms over the classes and properties of events, and a background of rooms; empty in half of the cases."""
    if random.random() < 0.5:
        return frozenset()
    pool = [
        _axiom("C", RDFS + "subClassOf", "B"),
        _axiom("B", RDFS + "subClassOf", "A"),
        _axiom("near", RDFS + "subPropertyOf", "room"),
        _axiom("near", RDFS + "domain", "B"),
        _axiom("A", OWL + "equivalentClass", "Alarm"),
        _axiom("near", OWL + "inverseOf", "next"),
        (iri(EX + "near"), RDF_TYPE, iri(OWL + "SymmetricProperty")),
        (iri(EX + "near"), RDF_TYPE, iri(OWL + "TransitiveProperty")),
        *ROOMS,
    ]
    return frozenset(random.sample(pool, random.randint(1, 5)))


def _axiom(subject: str, predicate: str, value: str) -> Triple:
    return iri(EX + subject), iri(predicate), iri(EX + value)


ROOMS = (_axiom("r1", EX + "floor", "f1"), _axiom("r2", EX + "floor", "f1"), _axiom("r1", EX + "near", "r2"))


@dataclass(frozen=True)
class _EventGenerator:
    """Generates the events of a case, which have numbers from 1; the number decides whether one is an XML event."""

    random: Random
    scope: str
    intervals: bool
    is_scoped: bool
    last: int  # the latest start, in seconds after `BEGIN`
    xml: XmlVocabulary | None

    def event(self, number: int) -> reference.EventRecord:
        if self.xml and number % 3:
            return self._xml_event(number, self.xml)
        random = self.random
        subject = iri(self._name(number))
        triples = {
            (subject, RDF_TYPE, iri(EX + class_))
            for class_ in random.choice(("A", "B", "C", "AB", "BC", "AC", "ABC", "ABC", "ABC"))
        }
        for property_, odds in (("room", 0.95), ("near", 0.5)):
            if random.random() < odds:
                triples.add((subject, iri(EX + property_), iri(EX + random.choice(("r1", "r1", "r1", "r2")))))
        if random.random() < 0.3:
            triples.add(random.choice(ROOMS))
        if random.random() < 0.8:
            triples |= {(subject, iri(EX + "k"), _number(random)) for _ in range(random.choice((1, 1, 1, 2)))}
        if random.random() < 0.7:
            triples.add((subject, iri(EX + "says"), random.choice(STRINGS)))
        if random.random() < 0.5:
            triples.add((subject, iri(EX + "cause"), iri(self._name(random.randint(1, 5)))))
        if random.random() < 0.1:  # OWL RL has consequences of this without an ontology
            twin = iri(f"{EX}twin{number}")
            triples |= {(subject, iri(OWL + "sameAs"), twin), (twin, iri(EX + "near"), iri(EX + "r1"))}
        if self.is_scoped:
            triples.add((subject, iri(SCOPE_PROPERTY), iri(scope_iri(self.scope))))
        return timed_event(self._name(number), *self._interval(), triples)

    def _xml_event(self, number: int, xml: XmlVocabulary) -> reference.EventRecord:
        """An event whose document states its IRI and its time, or leaves them to its envelope."""
        name, (start, end) = self._name(number), self._interval()
        namespaces = f' xmlns:{XML_PREFIX}="{xml.namespace}" xmlns:m="{MOTET_NAMESPACE}"'
        payload = self._element(xml, 3, namespaces).encode()
        if self.random.random() < 0.5:
            payload = restated(payload, id=name)
        if self.random.random() < 0.6:
            payload = restated(payload, start=format_datetime(start), end=format_datetime(end))
        return reference.EventRecord(0, name, start, end, frozenset(), payload=payload)

    def _element(self, xml: XmlVocabulary, depth: int, declared: str = "") -> str:
        random = self.random
        name = xml.name(random, TAGS[:2] if declared else TAGS)
        attribute = f' k="{random.choice(XML_TEXTS[:19])}"' if random.random() < 0.25 else ""
        content = random.choice(XML_TEXTS)
        if depth and random.random() < (1 if declared else 0.5):
            content = "".join(self._element(xml, depth - 1) for _ in range(random.choice((1, 2, 3, 3))))
        return f"<{name}{declared}{attribute}>{content}</{name}>"

    def _name(self, number: int) -> str:
        """Equal in all cases that share no run, so that parsed queries are cached."""
        return f"urn:{self.scope}:{number}" if self.is_scoped else f"urn:e:{number}"

    def _interval(self) -> tuple[int, int]:
        start = self.random.randint(0, self.last)
        length = self.random.choice((0, 1, 2, 3, 4)) if self.intervals else 0
        return BEGIN + start * SECOND, BEGIN + (start + length) * SECOND


def _at_the_end(event: reference.EventRecord) -> reference.EventRecord:
    """The event at the last instant: after a tick there it is late."""
    triples = (triple for triple in event.triples if triple[1] not in TIME_PROPERTIES)
    return timed_event(event.id, END_OF_TIME, END_OF_TIME, triples)


def _number(random: Random) -> str:
    text = random.choice(NUMBERS if random.random() < 0.1 else NUMBERS[:3])
    datatypes = {"2.0": "decimal", "many": "string"}  # a string makes comparisons fail
    return literal(text, datatype=XSD + datatypes.get(text, "integer"))


def _with_repetition(
    random: Random, generator: _EventGenerator, events: Sequence[reference.EventRecord]
) -> list[reference.EventRecord]:
    """The events, sometimes with one of them published again with the same content, or with other content."""
    repeated = list(events)
    if random.random() < 0.2:
        number = random.randint(1, len(events))
        repeated.append(replace(generator, last=LAST_START).event(number))
    if random.random() < 0.2:
        repeated.append(random.choice(events))
    return repeated


def _untitled(event: reference.EventRecord, number: int = 0) -> reference.EventRecord:
    """The event without an IRI of its own; ``number`` events of equal content are before it in its input."""
    if event.payload is not None:
        times = {} if event.stamped else {"start": format_datetime(event.start), "end": format_datetime(event.end)}
        payload = restated(event.payload, id=None, **times)
        return replace(event, id=minted_document_id(payload), payload=payload)
    return _renamed(event, minted_id(event.triples, iri(event.id), number))


def _renamed(event: reference.EventRecord, name: str) -> reference.EventRecord:
    old, new = iri(event.id), iri(name)
    triples = frozenset((new if s == old else s, p, new if o == old else o) for s, p, o in event.triples)
    return replace(event, id=name, triples=triples)


def _published(random: Random, case: Case, records: Sequence[reference.Record], mappings: tuple[str, ...] = ()) -> Case:
    """The records as writers with clocks publish them. In an upgraded log the first of them are older than this."""
    begin = random.randint(1, len(records) // 2) if random.random() < 0.2 else 0
    ahead, entailment = random.choice((None, UNITS["d"], SECOND, 2 * SECOND)), None
    if random.random() < 0.15:
        entailment = random.choice(("none", "rdfs", "owl-rl"))
    settings = reference.SettingsRecord(0, case.lateness, ahead, entailment, mappings)
    if begin:  # an upgrade keeps what the lake did
        settings = reference.SettingsRecord(0, case.lateness, ahead=None)
    published: list[reference.Record] = [*records[:begin], settings]
    skews = random.sample((0, 0, SECOND, -SECOND, 3 * SECOND, -2 * SECOND), random.choice((1, 2, 3)))
    stamping, newest = random.choice((0.0, 0.15)), BEGIN
    for number, commit in enumerate(_random_commits(random, records[begin:]), 1):
        ends = [record.end for record in commit if isinstance(record, reference.EventRecord)]
        newest = max([newest, *(end for end in ends if end < END_OF_TIME)])
        clock = newest + random.choice(skews) + random.choice((0, 0, SECOND))
        published += _committed(random, commit, number, clock, stamping)
        if settings.lateness is not None and random.random() < 0.1:  # a heartbeat
            published.append(reference.TickRecord(0, clock - settings.lateness - random.choice((0, 1)), clock=clock))
        if random.random() < 0.05:
            latenesses = [each for each in (None, 0, SECOND, 4 * SECOND) if each != settings.lateness]
            settings = replace(settings, lateness=random.choice(latenesses), mappings=random.choice((mappings, ())))
            published.append(replace(settings, clock=clock))
    return without_void_retractions(case.with_records(published))


def _random_commits(random: Random, records: Sequence[reference.Record]) -> Iterator[list[reference.Record]]:
    """The records in commits: one record, or some consecutive events."""
    commit: list[reference.Record] = []
    for record in records:
        are_events = all(isinstance(each, reference.EventRecord) for each in (record, *commit))
        if commit and not (are_events and random.random() < 0.4):
            yield commit
            commit = []
        commit.append(record)
    if commit:
        yield commit


def _committed(
    random: Random, commit: Sequence[reference.Record], number: int, clock: int, stamping: float
) -> list[reference.Record]:
    """The records of one commit: “in the order of its events' ends, stamped ones last”."""
    events = [record for record in commit if isinstance(record, reference.EventRecord)]
    if not events:
        return [replace(record, clock=_tick_clock(record, clock)) for record in commit]
    stamped = [random.random() < stamping for _ in events]
    events = [
        without_time(event) if is_stamped and (event is events[0] or not event.id.startswith(MINTED)) else event
        for event, is_stamped in zip(events, stamped, strict=True)
    ]  # the IRI of the first one is made of its content again
    first = events[0]
    if first.id.startswith(MINTED):
        if first.stamped:
            events[0] = first = _untitled(first)
        if first.payload is None and random.random() < 0.3:  # the same reading twice is two events
            events.insert(1, _untitled(first, 1))
    events.sort(key=lambda event: (event.stamped, event.end))
    return [replace(event, commit=number if len(events) > 1 else None, clock=clock) for event in events]


def _tick_clock(record: reference.Record, clock: int) -> int | None:
    """The clock at which a record is written; a tick may not be later. At the end of time it is forced."""
    if not isinstance(record, reference.TickRecord):
        return clock
    return None if record.instant == END_OF_TIME else max(clock, record.instant)


def without_void_retractions(case: Case) -> Case:
    """The case without retractions of events that are not in the log before them."""
    written = reference.write_log(case.records, case.lateness).records
    accepted = {record.id: record.offset for record in written if isinstance(record, reference.EventRecord)}
    return case.with_records(
        record
        for record in case.records
        if not isinstance(record, reference.RetractRecord) or accepted.get(record.event, record.offset) < record.offset
    )


def _in_arrival_order(
    random: Random, events: Sequence[reference.EventRecord], lateness: int | None
) -> list[reference.Record]:
    """Events in the order of their ends, shifted within the lateness and sometimes beyond, with ticks between them."""
    slack = (lateness if lateness is not None else LAST_START * SECOND) + random.choice((0, 0, 0, SECOND, 3 * SECOND))
    arrivals: list[tuple[int, reference.Record]] = [(event.end + random.randint(0, slack), event) for event in events]
    for _ in range(random.choice((0, 0, 1, 2))):
        instant = BEGIN + random.randint(0, LAST_START) * SECOND
        arrivals.append((instant + slack, reference.TickRecord(0, instant)))
    return [record for _, record in sorted(arrivals, key=lambda pair: pair[0])]


def _change_background(
    random: Random, records: list[reference.Record], events: Sequence[reference.EventRecord]
) -> None:
    """Insert background changes; these may state triples about an event, which alone do not make it match."""
    if random.random() < 0.3:
        change = frozenset({random.choice(ROOMS), _axiom("C", RDFS + "subClassOf", "A")})
        if random.random() < 0.3:
            triples = sorted(random.choice(events).triples)
            change |= set(random.sample(triples, min(2, len(triples))))
        offset = random.randint(0, len(records) // 2)
        records.insert(offset, reference.BackgroundRecord(0, added=change))
        if random.random() < 0.5:
            records.insert(random.randint(offset + 1, len(records)), reference.BackgroundRecord(0, removed=change))


def _insert_registration(random: Random, records: list[reference.Record], subscribe: reference.SubscribeRecord) -> None:
    """Insert the subscribe record of a subscription, mostly first in the log; one with SINCE may be late in it.

    Some subscriptions end, and may begin again; a retraction may precede the subscribe record.
    """
    has_since = subscribe.subscription.since is not None
    offset = random.choice((0, 0, 0, 0, 0, 2, 5)) if not has_since else random.choice((0, 2, 5, len(records) - 1))
    offset = min(offset, len(records))
    records.insert(offset, subscribe)
    before = [record for record in records[:offset] if isinstance(record, reference.EventRecord)]
    if before and random.random() < 0.2:
        records.insert(offset, reference.RetractRecord(0, random.choice(before).id))
        offset += 1
    if random.random() < 0.1:
        end = random.randint(offset + 1, len(records))
        records.insert(end, reference.UnsubscribeRecord(0, subscribe.subscription.name))
        if random.random() < 0.5:
            records.insert(random.randint(end + 1, len(records)), subscribe)
