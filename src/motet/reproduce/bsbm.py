"""A dataset in the shape of the Berlin SPARQL Benchmark, and the four queries that EventCloud's thesis asks of it.

The thesis (section 3.3.2) has 666 products with about 250 000 triples. As there, product types form a tree of three
levels, every product has the types of all three, one producer is German, and the rating site has no type. Each thing is
one event; its graph has an IRI of its own, so that the event's times are not triples of the thing.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from motet.codec.decode import decode_bytes
from motet.codec.formats import Format
from motet.lake import Lake
from motet.model.terms import RDF_TYPE, RDFS, XSD, iri, literal
from motet.model.times import UNITS, format_datetime, parse_datetime
from motet.query.duckdb_engine import lake_connection
from motet.query.lake_query import QueryOptions, open_history
from motet.query.limits import QueryLimits
from motet.sparql.dataset import Graph
from motet.sparql.parse import read_query

PRODUCTS = 666
FEATURES = 2860
PRODUCERS = 14
VENDORS = 8
OFFERS = 20 * PRODUCTS
PERSONS = 339
REVIEWS = 10 * PRODUCTS
BRANCHES, LEAVES = 6, 8  # product types: one root, its children, and theirs

BSBM = "http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/vocabulary/"
INSTANCES = "http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/instances/"
REVIEW = "http://purl.org/stuff/rev#"
DC = "http://purl.org/dc/elements/1.1/"
FOAF = "http://xmlns.com/foaf/0.1/"
COUNTRIES = "http://downlode.org/rdf/iso-3166/countries#"
OTHER_COUNTRIES = ("AT", "CN", "ES", "FR", "GB", "JP", "KR", "RU", "US")

BEGIN = parse_datetime("2014-01-01T00:00:00Z")
STATED_TIME = "<http://www.w3.org/ns/prov#generatedAtTime>"
WORDS = tuple(f"{first}{second}" for first in ("be", "cor", "dis", "mon", "par", "sta") for second in (
    "cution", "derly", "fying", "gent", "lated", "mented", "nesty", "rator", "singly", "tional",
))  # fmt: skip

Properties = list[tuple[str, str]]


class ThesisQuery(NamedTuple):
    """A query of the thesis, the distinct triples that it constructs, and the peers it visited of 300."""

    name: str
    text: str
    triples: int
    peers: str


_PREFIXES = f"""\
PREFIX bsbm: <{BSBM}>
PREFIX bsbm-ins: <{INSTANCES}>
PREFIX iso: <{COUNTRIES}>
PREFIX purl: <{REVIEW}>
"""
QUERIES = (
    ThesisQuery(
        "Q1",
        _PREFIXES
        + "CONSTRUCT { iso:DE <http://www.ecommerce.com/Producers> ?producer }\n"
        + "WHERE { ?producer a bsbm:Producer . ?producer bsbm:country iso:DE }",
        1,
        "fewer than Q3",
    ),
    ThesisQuery(
        "Q2",
        _PREFIXES + "CONSTRUCT { ?review a purl:Review } WHERE { ?review a purl:Review }",
        REVIEWS,
        "fewer than Q3",
    ),
    ThesisQuery("Q3", "CONSTRUCT { ?s a ?o } WHERE { ?s a ?o }", 25_920, "fewer than Q4"),
    ThesisQuery(
        "Q4",
        _PREFIXES
        + "CONSTRUCT { bsbm-ins:ProductType1 ?a ?b . ?c ?d bsbm-ins:ProductType1 }\n"
        + "WHERE { bsbm-ins:ProductType1 ?a ?b . ?c ?d bsbm-ins:ProductType1 }",
        677,
        "more than 85",
    ),
)


class QueryFigures(NamedTuple):
    """What a query of the thesis constructs here, and the zones that it visits."""

    query: ThesisQuery
    triples: int
    visited: int
    zones: int
    seconds: float  # from the parsed query to its triples


def load(directory: Path, *, seed: int, zones: int) -> Lake:
    """A new lake with the dataset, divided into about so many zones: a power of two."""
    lake = Lake.open(directory, durable=False)
    text = "".join(events(seed))
    for decoded in decode_bytes(text.encode(), Format.N_QUADS.value):
        lake.append(decoded.events)
    lake.build_zones(least=1, most=math.ceil(text.count("\n") / 2 ** round(math.log2(zones))))
    return lake


def ask(lake: Lake) -> list[QueryFigures]:
    """The figures of the four queries, on DuckDB."""
    figures = []
    for query in QUERIES:
        parsed = read_query(query.text)
        history = open_history(lake, parsed, QueryOptions(), lambda: None)
        started = time.perf_counter()
        with lake_connection(history, QueryLimits()) as engine:
            graph = engine.answer(parsed, QueryLimits(), now=format_datetime(BEGIN))
            assert isinstance(graph, Graph), "they are CONSTRUCT queries"
            report = engine.tables.report
        seconds = time.perf_counter() - started
        visited = {zone.name for _, read in report.scans for zone in read}
        figures.append(QueryFigures(query, len(set(graph)), len(visited), report.zones, seconds))
    return figures


def events(seed: int = 1) -> Iterator[str]:
    """The events of the dataset, each as N-Quads; equal seeds give equal events."""
    choose = random.Random(seed)  # noqa: S311  (not for cryptography)
    for number, (name, properties) in enumerate(_things(choose)):
        graph, instant = iri(f"{INSTANCES}graph/{name}"), format_datetime(BEGIN + number * UNITS["min"])
        lines = [f"{iri(INSTANCES + name)} {predicate} {value} {graph} .\n" for predicate, value in properties]
        yield "".join(lines) + f"{graph} {STATED_TIME} {_typed(instant, 'dateTime')} {graph} .\n"


def _things(choose: random.Random) -> Iterator[tuple[str, Properties]]:
    """The names of the things and their properties: types, features, producers, products, vendors, offers, …"""
    leaf_paths = []
    for number, parents in _product_types():
        if len(parents) == 2:
            leaf_paths.append((number, *parents))
        parent = [(iri(f"{RDFS}subClassOf"), _instance("ProductType", parents[0]))] if parents else []
        yield f"ProductType{number}", [*_described(choose, "ProductType"), *parent, *_published(choose)]
    for number in range(1, FEATURES + 1):
        yield f"ProductFeature{number}", [*_described(choose, "ProductFeature"), *_published(choose)]
    german = choose.randrange(PRODUCERS)
    for index in range(PRODUCERS):
        country = "DE" if index == german else choose.choice(OTHER_COUNTRIES)
        yield f"Producer{index + 1}", [*_described(choose, "Producer"), *_located(country), *_published(choose)]
    for number in range(1, PRODUCTS + 1):
        yield f"Product{number}", _product(choose, leaf_paths)
    for number in range(1, VENDORS + 1):
        country = choose.choice(("DE", *OTHER_COUNTRIES))
        yield f"Vendor{number}", [*_described(choose, "Vendor"), *_located(country), *_published(choose)]
    for number in range(1, OFFERS + 1):
        yield f"Offer{number}", _offer(choose, number)
    yield "RatingSite1", _published(choose)
    for number in range(1, PERSONS + 1):
        yield f"Reviewer{number}", _person(choose, number)
    for number in range(1, REVIEWS + 1):
        yield f"Review{number}", _review(choose)


def _product_types() -> Iterator[tuple[int, tuple[int, ...]]]:
    """The numbers of the product types with those of their ancestors, the nearest first."""
    yield 1, ()
    for branch in range(BRANCHES):
        yield 2 + branch, (1,)
    for leaf in range(BRANCHES * LEAVES):
        yield 2 + BRANCHES + leaf, (2 + leaf // LEAVES, 1)


def _product(choose: random.Random, leaf_paths: Sequence[tuple[int, ...]]) -> Properties:
    types = [(RDF_TYPE, _instance("ProductType", number)) for number in choose.choice(leaf_paths)]
    features = choose.sample(range(1, FEATURES + 1), choose.randint(13, 31))
    texts = range(1, choose.randint(4, 6))
    numbers = range(1, choose.randint(4, 6))
    return [
        *_described(choose, "Product"),
        *types,
        (_property("producer"), _instance("Producer", choose.randint(1, PRODUCERS))),
        *((_property("productFeature"), _instance("ProductFeature", feature)) for feature in features),
        *((_property(f"productPropertyTextual{index}"), literal(_text(choose, 8))) for index in texts),
        *((_property(f"productPropertyNumeric{index}"), _integer(choose.randint(1, 2000))) for index in numbers),
        *_published(choose),
    ]


def _offer(choose: random.Random, number: int) -> Properties:
    valid_from = choose.randrange(365)
    return [
        (RDF_TYPE, _property("Offer")),
        (_property("product"), _instance("Product", choose.randint(1, PRODUCTS))),
        (_property("vendor"), _instance("Vendor", choose.randint(1, VENDORS))),
        (_property("price"), _typed(f"{choose.randint(500, 1_000_000) / 100:.2f}", "decimal")),
        (_property("validFrom"), _date(valid_from)),
        (_property("validTo"), _date(valid_from + choose.randint(7, 90))),
        (_property("deliveryDays"), _integer(choose.randint(1, 21))),
        (_property("offerWebpage"), iri(f"http://www.example.org/offers/{number}")),
        *_published(choose),
    ]


def _person(choose: random.Random, number: int) -> Properties:
    country = choose.choice(("DE", *OTHER_COUNTRIES))
    return [
        (RDF_TYPE, iri(f"{FOAF}Person")),
        (iri(f"{FOAF}name"), literal(_text(choose, 2))),
        (iri(f"{FOAF}mbox_sha1sum"), literal(f"{choose.getrandbits(160):040x}")),
        (_property("country"), iri(COUNTRIES + country)),
        *_published(choose),
    ]


def _review(choose: random.Random) -> Properties:
    ratings = [number for number in range(1, 5) if choose.random() < 0.7]
    return [
        (RDF_TYPE, iri(f"{REVIEW}Review")),
        (_property("reviewFor"), _instance("Product", choose.randint(1, PRODUCTS))),
        (iri(f"{REVIEW}reviewer"), _instance("Reviewer", choose.randint(1, PERSONS))),
        (iri(f"{DC}title"), literal(_text(choose, 6))),
        (iri(f"{REVIEW}text"), literal(_text(choose, 40), language=choose.choice(("de", "en", "fr")))),
        (_property("reviewDate"), _date(choose.randrange(365))),
        *((_property(f"rating{number}"), _integer(choose.randint(1, 10))) for number in ratings),
        *_published(choose),
    ]


def _described(choose: random.Random, class_: str) -> Properties:
    label, comment = literal(_text(choose, 2)), literal(_text(choose, 25))
    return [(RDF_TYPE, _property(class_)), (iri(f"{RDFS}label"), label), (iri(f"{RDFS}comment"), comment)]


def _located(country: str) -> Properties:
    return [(_property("country"), iri(COUNTRIES + country))]


def _published(choose: random.Random) -> Properties:
    """Publisher and date: every thing states them."""
    return [
        (iri(f"{DC}publisher"), _instance("StandardizationInstitution", 1)),
        (iri(f"{DC}date"), _date(choose.randrange(365))),
    ]


def _property(name: str) -> str:
    return iri(BSBM + name)


def _instance(kind: str, number: int) -> str:
    return iri(f"{INSTANCES}{kind}{number}")


def _text(choose: random.Random, words: int) -> str:
    return " ".join(choose.choices(WORDS, k=words))


def _integer(value: int) -> str:
    return _typed(str(value), "integer")


def _date(day: int) -> str:
    return _typed(format_datetime(BEGIN + day * UNITS["d"])[:10], "date")


def _typed(text: str, datatype: str) -> str:
    return literal(text, datatype=XSD + datatype)
