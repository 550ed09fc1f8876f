"""Random logs and ontologies: a handful of events of few classes, rooms and values, in an arrival order that the log's
lateness mostly allows, with ticks, repetitions, background changes, and subscriptions that come and go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from random import Random

from motet.fuzz.case import BEGIN, LAST, SECOND, TAG, TIME_PROPERTIES, Case, run_of, tag, timed_event
from motet.fuzz.files import EX
from motet.fuzz.subscriptions import Abilities, random_subscriptions
from motet.language.syntax import Subscription
from motet.model.batches import Triple
from motet.model.terms import OWL, RDF_TYPE, RDFS, XSD, iri, literal
from motet.model.times import END_OF_TIME
from motet.reference import (
    BackgroundRecord,
    EventRecord,
    Record,
    RetractRecord,
    SubscribeRecord,
    TickRecord,
    UnsubscribeRecord,
)

TOGETHER = 6  # subscriptions over one log

SAYINGS = ('"fire"', '"Fire"@en', '"feu"@fr', '"ok"', '"fiŕe 🔥"@en', '"two\\nlines"')
NUMBERS = ("1", "2", "3", "01", "2.0", "many")


def random_cases(seed: int, abilities: Abilities, at_once: int = 1) -> Iterator[Case]:
    """Endless; the same for the same arguments."""
    return (nth_case(seed, number, abilities, at_once) for number in count())


def nth_case(seed: int, number: int, abilities: Abilities, at_once: int = 1) -> Case:
    """One of the cases of a seed. Those that are run at once have one ontology."""
    random = Random(f"{seed} {number}")  # noqa: S311  (seeded, not secret)
    ontology = random_ontology(Random(f"{seed} ontology {number // at_once}"))  # noqa: S311
    scope = f"c{number}"
    intervals = random.random() < 0.45
    subscriptions = random_subscriptions(random, scope, abilities, TOGETHER, intervals=intervals)
    as_log = abilities.logs and random.random() < 0.5
    case = random_case(random, scope, subscriptions, as_log=as_log, tagged=abilities.shares, intervals=intervals)
    return replace(case, ontology=ontology)


def random_case(
    random: Random,
    scope: str,
    subscriptions: Sequence[Subscription],
    *,
    as_log: bool,
    tagged: bool,
    intervals: bool = True,
) -> Case:
    """A log for these subscriptions; in the shape of `motet run` unless ``as_log``."""
    last, most = (0, 9) if random.random() < 0.04 else (random.choice((4, 6, LAST)), 23)
    events = [_event(random, scope, number, intervals, tagged, last) for number in range(1, most - random.randrange(7))]
    case = Case((), seed=random.randrange(2**32))
    begin = [SubscribeRecord(0, subscription) for subscription in subscriptions]
    if not as_log:
        random.shuffle(events)
        return run_of(case.with_records([*begin, *_repeating(random, scope, events, intervals, tagged)]))
    lateness = random.choice((None, 0, 2 * SECOND, 5 * SECOND))
    records = _arriving(random, _repeating(random, scope, events, intervals, tagged), lateness)
    records += [TickRecord(0, random.choice((END_OF_TIME, BEGIN + 60 * SECOND, BEGIN + 20 * SECOND)))]
    if random.random() < 0.1:
        records.append(_at_the_end(_event(random, scope, most, intervals, tagged)))
    _change_background(random, records, events)
    for subscribed in begin:
        _live(random, records, subscribed)
    if random.random() < 0.2:
        place = random.randint(1, len(records))
        if before := [record.id for record in records[:place] if isinstance(record, EventRecord)]:
            records.insert(place, RetractRecord(0, random.choice(before)))
    return Case((), lateness=lateness, seed=case.seed).with_records(records)


def random_ontology(random: Random) -> frozenset[Triple]:
    """A few axioms over the classes and properties of events, and a background of rooms; often nothing at all."""
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


def _event(random: Random, scope: str, number: int, intervals: bool, tagged: bool, last: int = LAST) -> EventRecord:
    names = f"urn:{scope}" if tagged else "urn:e"  # few of them, so that queries are parsed once
    name = f"{names}:{number}"
    own = iri(name)
    triples = {
        (own, RDF_TYPE, iri(EX + class_))
        for class_ in random.choice(("A", "B", "C", "AB", "BC", "AC", "ABC", "ABC", "ABC"))
    }
    for property_, odds in (("room", 0.95), ("near", 0.5)):
        if random.random() < odds:
            triples.add((own, iri(EX + property_), iri(EX + random.choice(("r1", "r1", "r1", "r2")))))
    if random.random() < 0.3:
        triples.add(random.choice(ROOMS))
    if random.random() < 0.8:
        triples |= {(own, iri(EX + "k"), _number(random)) for _ in range(random.choice((1, 1, 1, 2)))}
    if random.random() < 0.7:
        triples.add((own, iri(EX + "says"), random.choice(SAYINGS)))
    if random.random() < 0.5:
        triples.add((own, iri(EX + "cause"), iri(f"{names}:{random.randint(1, 5)}")))
    if random.random() < 0.1:  # OWL RL has consequences of this without an ontology
        twin = iri(f"{EX}twin{number}")
        triples |= {(own, iri(OWL + "sameAs"), twin), (twin, iri(EX + "near"), iri(EX + "r1"))}
    if tagged:
        triples.add((own, iri(TAG), iri(tag(scope))))
    start = random.randint(0, last)
    length = random.choice((0, 1, 2, 3, 4)) if intervals else 0
    return timed_event(name, BEGIN + start * SECOND, BEGIN + (start + length) * SECOND, triples)


def _at_the_end(event: EventRecord) -> EventRecord:
    """The event at the last instant: after a tick there it is late."""
    triples = (triple for triple in event.triples if triple[1] not in TIME_PROPERTIES)
    return timed_event(event.id, END_OF_TIME, END_OF_TIME, triples)


def _number(random: Random) -> str:
    text = random.choice(NUMBERS if random.random() < 0.1 else NUMBERS[:3])
    datatypes = {"2.0": "decimal", "many": "string"}  # what is no number makes comparisons fail
    return literal(text, datatype=XSD + datatypes.get(text, "integer"))


def _repeating(
    random: Random, scope: str, events: Sequence[EventRecord], intervals: bool, tagged: bool
) -> list[EventRecord]:
    """Sometimes an event is published again, with other content."""
    repeated = list(events)
    if random.random() < 0.2:
        number = random.randint(1, len(events))
        repeated.append(_event(random, scope, number, intervals, tagged))
    return repeated


def _arriving(random: Random, events: Sequence[EventRecord], lateness: int | None) -> list[Record]:
    """In the order of their ends, give or take what the lateness allows and sometimes more; ticks in between."""
    slack = (lateness if lateness is not None else LAST * SECOND) + random.choice((0, 0, 0, SECOND))
    arriving: list[tuple[int, Record]] = [(event.end + random.randint(0, slack), event) for event in events]
    for _ in range(random.choice((0, 0, 1, 2))):
        instant = BEGIN + random.randint(0, LAST) * SECOND
        arriving.append((instant + slack, TickRecord(0, instant)))
    return [record for _, record in sorted(arriving, key=lambda pair: pair[0])]


def _change_background(random: Random, records: list[Record], events: Sequence[EventRecord]) -> None:
    """It may come to speak of an event: what it says of it alone does not count."""
    if random.random() < 0.3:
        change = frozenset({random.choice(ROOMS), _axiom("C", RDFS + "subClassOf", "A")})
        if random.random() < 0.3:
            change |= set(random.sample(sorted(random.choice(events).triples), 2))
        place = random.randint(0, len(records) // 2)
        records.insert(place, BackgroundRecord(0, added=change))
        if random.random() < 0.5:
            records.insert(random.randint(place + 1, len(records)), BackgroundRecord(0, removed=change))


def _live(random: Random, records: list[Record], begin: SubscribeRecord) -> None:
    """Most subscriptions are there first and stay; some come later, even last of all, if they look back; some end and
    may come back; a retraction may come before them.
    """
    looks_back = begin.subscription.since is not None
    place = random.choice((0, 0, 0, 0, 0, 2, 5)) if not looks_back else random.choice((0, 2, 5, len(records) - 1))
    place = min(place, len(records))
    records.insert(place, begin)
    before = [record for record in records[:place] if isinstance(record, EventRecord)]
    if before and random.random() < 0.2:
        records.insert(place, RetractRecord(0, random.choice(before).id))
        place += 1
    if random.random() < 0.1:
        end = random.randint(place + 1, len(records))
        records.insert(end, UnsubscribeRecord(0, begin.subscription.name))
        if random.random() < 0.5:
            records.insert(random.randint(end + 1, len(records)), begin)
