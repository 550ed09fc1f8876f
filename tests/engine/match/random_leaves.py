"""Random subscriptions of one EVENT, events and ontologies over a small vocabulary, made to meet in every odd way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import pyarrow as pa

from motet.engine.match.leaf import LeafQuery
from motet.engine.runtime.active_plan import single_event_leaf
from motet.language.parse import parse
from motet.model.batches import EVENTS, Triple
from motet.model.errors import SubscriptionError
from motet.model.terms import OWL, RDF_TYPE, RDFS, XSD

PREDICATES = ("<urn:p>", "<urn:q>", "<urn:r>")
CLASSES = ("<urn:A>", "<urn:B>", "<urn:C>", "<urn:D>")
NODES = ("<urn:x>", "<urn:y>", "<urn:room>")
TEXTS = ('"fire"', '"fir"', '"Fire"@en', '"fire"@en', '"5"', '"a\\"b"', '"é"', '""')
NUMBERS = ("1", "2", "5", "05", "+5", "-3", "9007199254740992", "9007199254740993", "9223372036854775807")
DECIMALS = ("5.0", "2.5", "0.1", "0.10", "5.", ".5", "9007199254740993.0", "1.000000000000000001")
DOUBLES = ("5", "5e0", "1E1", "0.1", "NaN", "INF", "-INF", "1e300", "2.5E0", "123456789012345678")
TIMES = (
    "2026-11-15T10:00:00Z", "2026-11-15T11:00:00+01:00", "2026-11-15T10:00:00", "2026-11-15T10:00:00.5Z",
    "2026-11-15T10:00:00.0000001Z", "1500-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-11-14T24:00:00Z",
)  # fmt: skip
TYPED = {"integer": NUMBERS, "byte": ("5", "300"), "decimal": DECIMALS, "double": DOUBLES, "float": (*DOUBLES, "0.1")}
LITERALS = (
    *(f'"{text}"^^<{XSD}{name}>' for name, texts in TYPED.items() for text in texts),
    *(f'"{text}"^^<{XSD}dateTime>' for text in TIMES),
    f'"x"^^<{XSD}integer>', f'"true"^^<{XSD}boolean>', f'"2026-11-15"^^<{XSD}date>', '"5"^^<urn:unit>',
)  # fmt: skip
CONSTANTS = (
    *("1", "5", "-3", "2", "9007199254740993", "9007199254740992"),
    *("5.0", "0.1", "2.5", "1.000000000000000001", "5e0", "1e1", "0.1e0"),
    *(f'"{text}"^^<{XSD}dateTime>' for text in TIMES if text != "2026-02-30T00:00:00Z"),
)


def random_object(random: Random, event: str) -> str:
    kind = random.random()
    if kind < 0.4:
        return random.choice(LITERALS)
    return random.choice(TEXTS) if kind < 0.55 else random.choice((*NODES, *NODES, *CLASSES, event))


def random_event(random: Random, id_: str) -> list[Triple]:
    event = f"<{id_}>"
    triples = [(event, RDF_TYPE, random.choice(CLASSES)) for _ in range(random.choice((0, 1, 1, 2)))]
    for _ in range(random.choice((0, 1, 3, 5, 8, 30))):
        subject = event if random.random() < 0.8 else random.choice(NODES)
        triples.append((subject, random.choice(PREDICATES), random_object(random, event)))
    if random.random() < 0.05:
        triples.append((event, f"<{OWL}sameAs>", random.choice(NODES)))
    random.shuffle(triples)
    return triples


def random_batch(random: Random, count: int, known: tuple[str, ...] = ()) -> pa.RecordBatch:
    """Events, some under names the background may speak of."""
    ids = [f"urn:e:{number}" for number in range(count)]
    if known and random.random() < 0.3:
        ids[0] = random.choice(known)
    times = [random.randrange(5) * 1_000_000 for _ in ids]
    return batch_of(
        [(id_, random_event(random, id_)) for id_ in ids],
        [(start, start + random.randrange(4) * 1_000_000) for start in times],
    )


def batch_of(
    events: Sequence[tuple[str, Iterable[Triple]]], times: Sequence[tuple[int, int]] | None = None
) -> pa.RecordBatch:
    """Events of these names and triples."""
    rows = []
    for (id_, found), (start, end) in zip(events, times or [(0, 0)] * len(events), strict=True):
        triples = [dict(zip(("subject", "predicate", "object"), triple, strict=True)) for triple in found]
        rows.append({"id": id_, "start": start, "end": end, "line": 1, "triples": triples})
    return pa.RecordBatch.from_pylist(rows, schema=EVENTS)


def random_background(random: Random) -> frozenset[Triple]:
    if random.random() < 0.3:
        return frozenset()
    found: set[Triple] = set()
    for _ in range(random.randint(1, 6)):
        a, b = random.choice(CLASSES), random.choice(CLASSES)
        p, q = random.choice(PREDICATES), random.choice(PREDICATES)
        found.add(
            random.choice(
                [(a, f"<{RDFS}subClassOf>", b)] * 3
                + [(p, f"<{RDFS}subPropertyOf>", q)] * 2
                + [(p, f"<{RDFS}domain>", a), (p, f"<{RDFS}range>", a)]
                + [(random.choice(NODES), p, random.choice(NODES)), (random.choice(NODES), RDF_TYPE, a)]
            )
        )
    if random.random() < 0.3:
        p = random.choice(PREDICATES)
        kind = random.choice(("SymmetricProperty", "TransitiveProperty", "FunctionalProperty"))
        found.add(random.choice([(p, RDF_TYPE, f"<{OWL}{kind}>"), (p, f"<{OWL}inverseOf>", random.choice(PREDICATES))]))
    if random.random() < 0.1:
        found.add((random.choice(PREDICATES), f"<{RDFS}subPropertyOf>", RDF_TYPE))
    return frozenset(found)


def _triple(random: Random, variable: str) -> str:
    kind, p = random.random(), random.choice(PREDICATES)
    if kind < 0.5:
        return f"?e {p} ?{variable} ."
    if kind < 0.65:
        return f"?e {p} {random.choice((*NODES, *TEXTS, *LITERALS))} ."
    if kind < 0.75:
        return f"?e a {random.choice((*CLASSES, '?' + variable))} ."
    if kind < 0.8:
        return f"?e {p} {random.choice(('?e', '[]'))} ."
    if kind < 0.85:
        return f"?e ?{random.choice('pv')} ?{variable} ."
    return f"{random.choice(('?v', '?w', *NODES))} {p} {random.choice(('?' + variable, '?e', *NODES))} ."


def _filter(random: Random, variable: str) -> str:
    kind, v = random.random(), f"?{variable}"
    if kind < 0.55:
        operator = random.choice(("<", "<=", ">", ">=", "=", "="))
        sides = [v, random.choice(CONSTANTS)]
        random.shuffle(sides) if random.random() < 0.3 else None
        return f"FILTER({sides[0]} {operator} {sides[1]})"
    if kind < 0.8:
        terms = random.sample((*NODES, *TEXTS, "5"), random.randint(1, 3))
        return f"FILTER({v} IN ({', '.join(terms)}))"
    if kind < 0.9:
        text = random.choice(("fir", "urn:", "", "5", "é", "urn:x>"))
        return f'FILTER(STRSTARTS({random.choice((v, f"STR({v})"))}, "{text}"))'
    return random.choice((f"FILTER(!BOUND({v}))", f"FILTER({v} != 5)", f'FILTER(REGEX(STR({v}), "^f"))'))


def _body(random: Random) -> str:
    used = [random.choice("vwuv") for _ in range(random.choice((0, 1, 1, 2, 2, 3)))]
    parts = [_triple(random, variable) for variable in used]
    parts += [_filter(random, random.choice(used)) for _ in range(random.choice((0, 1, 1, 2))) if used]
    if random.random() < 0.15:
        p = random.choice(PREDICATES)
        odd = (
            f"OPTIONAL {{ ?e {p} ?o }}",
            f"MINUS {{ ?e {p} 5 }}",
            f"BIND(1 AS ?b) ?e {p} ?o .",
            "{ }",
            "VALUES ?u { 5 }",
            f"FILTER NOT EXISTS {{ ?e {p} ?n }}",
            f"{{ ?e {p} ?u }} UNION {{ ?u {p} ?e }}",
            f"?e {p}* ?u .",
        )
        parts.append(random.choice(odd))
    return " ".join(parts)


def leaves_of(text: str) -> tuple[LeafQuery, ...]:
    """The leaves of single-event subscriptions."""
    return tuple(map(single_event_leaf, parse(text)))


def random_leaf(random: Random, name: str) -> LeafQuery:
    """One that the language accepts."""
    while True:
        body = _body(random)
        typed = f": {random.choice(CLASSES)}" if random.random() < 0.5 else ""
        during = " DURING ?from ?to" if random.random() < 0.1 else ""
        guard = random.choice(("", "", "", "WITHIN 1 s", "FILTER(?v > 1)", "WITHIN 2 s WITHIN 1 s"))
        wanted = " ".join(f"?{v}" for v in random.sample("evwu", random.randint(1, 3)))
        delivery = random.choice(("", "", "SIGNAL", "EVENTS", f"SELECT {wanted}", f"SELECT {wanted}"))
        text = f"SUBSCRIPTION {name} EVENT e {typed}{during} {{ {body} }} WHEN e {guard} {delivery}"
        try:
            return leaves_of(text)[0]
        except SubscriptionError:
            continue
