"""The notifications of single-event subscriptions, rule by rule."""

import pickle

import pyarrow as pa
import pytest
from tests.builders import matched

from motet.engine.match.matcher import Matcher
from motet.engine.match.single_events import single_event_matcher
from motet.language.parse import parse
from motet.model.batches import EVENTS, EventRow, Records
from motet.model.errors import EngineError
from motet.model.notifications import Notification
from motet.model.terms import RDF_TYPE

A = (("<urn:e:1>", RDF_TYPE, "<urn:A>"), ("<urn:e:1>", "<urn:p>", '"01"^^<http://www.w3.org/2001/XMLSchema#integer>'))
EVENT = EventRow("urn:e:1", 2_000_000, 5_000_000, A)
SUBCLASS = ("<urn:A>", "<http://www.w3.org/2000/01/rdf-schema#subClassOf>", "<urn:B>")


def batch(event: EventRow) -> pa.RecordBatch:
    triples = [dict(zip(("subject", "predicate", "object"), triple, strict=True)) for triple in event.triples]
    row = {"id": event.id, "start": event.start, "end": event.end, "line": 1, "triples": triples}
    return pa.RecordBatch.from_pylist([row], schema=EVENTS)


def told(matcher: Matcher, event: EventRow = EVENT) -> list[Notification]:
    return [notification for notification, _ in matched(matcher, Records(columns=batch(event))).rows]


def match(body: str, event: EventRow = EVENT, **settings: object) -> list[tuple[tuple[str, str], ...]]:
    matcher = single_event_matcher(parse(f"SUBSCRIPTION s EVENT {body}"), **settings)  # type: ignore[arg-type]
    return [notification.bindings for notification in told(matcher, event)]


def test_a_literal_keeps_its_form() -> None:
    """The value decides the filter, the lexical form is what is delivered."""
    (found,) = match("e { ?e <urn:p> ?x FILTER(?x < 2) } WHEN e SELECT ?x")
    assert found == (("x", '"01"^^<http://www.w3.org/2001/XMLSchema#integer>'),)


def test_an_event_without_pattern_matches_once() -> None:
    """Neither class nor body: every event."""
    assert match("e WHEN e") == [(("e", "<urn:e:1>"),)]


def test_subclasses_need_the_ontology() -> None:
    """The background makes an A a B, unless entailment is off."""
    body = "e : <urn:B> WHEN e SIGNAL"
    assert match(body) == []
    assert match(body, background=frozenset({SUBCLASS})) == [()]
    assert match(body, background=frozenset({SUBCLASS}), entailment="none") == []


def test_a_solution_of_the_background_alone_does_not_count() -> None:
    """A solution needs at least one triple of the event."""
    fact = ("<urn:r>", RDF_TYPE, "<urn:Room>")
    assert match("e { ?r a <urn:Room> } WHEN e", background=frozenset({fact})) == []
    joined = match("e { ?r a <urn:Room> . ?e <urn:p> ?x } WHEN e SELECT ?r", background=frozenset({fact}))
    assert joined == [(("r", "<urn:r>"),)]
    assert match("e { VALUES ?x { 1 } } WHEN e") == []


def test_within_and_filter_around_a_leaf() -> None:
    """WITHIN limits the event's own length, FILTER its bindings."""
    assert match("e WHEN e WITHIN 3 s SIGNAL") == [()]
    assert match("e WHEN e WITHIN 2 s SIGNAL") == []
    assert match("e { ?e <urn:p> ?x } WHEN e FILTER(?x > 5) SIGNAL") == []


def test_during_binds_the_interval() -> None:
    """Start and end as xsd:dateTime."""
    (found,) = match("e DURING ?s ?t WHEN e SELECT ?s ?t")
    assert found == (
        ("s", '"1970-01-01T00:00:02.000000Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'),
        ("t", '"1970-01-01T00:00:05.000000Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'),
    )


def test_events_delivery_shows_the_graph() -> None:
    """Sorted N-Quads lines of the event as it was published."""
    (subscription,) = parse("SUBSCRIPTION s EVENT e WHEN e EVENTS")
    (found,) = told(single_event_matcher((subscription,)))
    assert found.graphs == tuple(sorted(f"{s} {p} {o} <urn:e:1> ." for s, p, o in A))
    assert found.bindings == ()


def test_an_event_that_entails_too_much_matches_no_pattern() -> None:
    """The limit on inferred triples protects the stream; a leaf without a body still matches the event."""
    background = frozenset(
        {("<urn:same>", RDF_TYPE, "<http://www.w3.org/2002/07/owl#TransitiveProperty>")}
        | {("<urn:link>", "<http://www.w3.org/2000/01/rdf-schema#subPropertyOf>", "<urn:same>")}
    )
    chain = tuple((f"<urn:{i}>", "<urn:same>", f"<urn:{i + 1}>") for i in range(400))
    event = EventRow("urn:e:1", 0, 0, chain)
    assert match("e { <urn:0> <urn:same> ?x } WHEN e SIGNAL", event, background=background) == []
    assert match("e WHEN e SIGNAL", event, background=background) == [()]


@pytest.mark.parametrize(
    "rest", ["EVENT a EVENT b WHEN a BEFORE b", "EVENT a WHEN a{2}", "EVENT a WHEN a CONSTRUCT { ?a <urn:p> 1 }"]
)
def test_composite_and_construct_subscriptions_are_refused(rest: str) -> None:
    """The error names the subscription and says what to do."""
    with pytest.raises(EngineError, match=r"'s'.*\n.*a Processor"):
        single_event_matcher(parse(f"SUBSCRIPTION s {rest}"))


def test_a_pickled_matcher_matches_the_same() -> None:
    """Pickled and back, it gives the same notifications for a batch."""
    matcher = single_event_matcher(parse("SUBSCRIPTION s EVENT e : <urn:B> WHEN e SIGNAL"), frozenset({SUBCLASS}))
    found = told(pickle.loads(pickle.dumps(matcher)))  # noqa: S301  (our own)
    assert found == [Notification("s", 2_000_000, 5_000_000, ("urn:e:1",), ())]


def test_values_combine_as_in_sparql() -> None:
    """Several values of several properties give every combination, each once, and only what is delivered counts."""
    triples = tuple(("<urn:e:1>", f"<urn:{p}>", f'"{value}"') for p in "pq" for value in (1, 2, 2))
    event = EventRow("urn:e:1", 0, 0, triples)
    body = "e { ?e <urn:p> ?x ; <urn:q> ?y } WHEN e SELECT"
    both = [(("x", f'"{x}"'), ("y", f'"{y}"')) for x in (1, 2) for y in (1, 2)]
    assert sorted(match(f"{body} ?x ?y", event)) == both
    assert sorted(match(f"{body} ?y", event)) == [(("y", '"1"'),), (("y", '"2"'),)]


def test_only_the_values_that_pass_are_bound() -> None:
    """A comparison or an IN selects among the values of one property."""
    number = "^^<http://www.w3.org/2001/XMLSchema#integer>"
    triples = tuple(("<urn:e:1>", "<urn:p>", f'"{value}"{number}') for value in range(6))
    event = EventRow(
        "urn:e:1", 0, 0, (*triples, ("<urn:e:1>", "<urn:p>", "<urn:a>"), ("<urn:e:1>", "<urn:p>", "<urn:b>"))
    )
    found = match("e { ?e <urn:p> ?x FILTER(?x > 1 && ?x <= 3) } WHEN e SELECT ?x", event)
    assert sorted(found) == [(("x", f'"{value}"{number}'),) for value in (2, 3)]
    assert match("e { ?e <urn:p> ?x FILTER(?x IN (<urn:b>, <urn:c>)) } WHEN e SELECT ?x", event) == [
        (("x", "<urn:b>"),)
    ]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ('STRSTARTS(?x, "ab")', ['"ab"', '"abc"@en']),
        ('STRSTARTS(STR(?x), "ab")', ['"ab"', '"abc"@en', '"abcd"^^<urn:t>', "<ab:x>"]),
        ('STRSTARTS(STR(?x), "ab:x")', ["<ab:x>"]),
        ('STRSTARTS(STR(?x), "ab:x>")', []),
        (r'STRSTARTS(STR(?x), "a\"")', [r'"a\"b"']),
        ('STRSTARTS(STR(?x), "é")', ['"éa"']),
        ('STRSTARTS(?x, "a") && STRSTARTS(?x, "ab")', ['"ab"', '"abc"@en']),
    ],
)
def test_prefixes(test: str, expected: list[str]) -> None:
    """Of strings alone or, through STR, of every value; language tags and datatypes do not count."""
    terms = ('"ab"', '"abc"@en', '"abcd"^^<urn:t>', "<ab:x>", r'"a\"b"', '"éa"', '"b"', '""')
    event = EventRow("urn:e:1", 0, 0, tuple(("<urn:e:1>", "<urn:p>", term) for term in terms))
    found = match(f"e {{ ?e <urn:p> ?x FILTER({test}) }} WHEN e SELECT ?x", event)
    assert sorted(bindings[0][1] for bindings in found) == sorted(expected)
