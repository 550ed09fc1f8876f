"""Encoded events: their rows, values and hashes agree with the terms."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.engine.match.random_leaves import LITERALS, PREDICATES, batch_of, leaves_of, random_background, random_batch

from motet.engine.match.encode import encode, encoding_tables
from motet.engine.match.index import LeafIndex
from motet.engine.match.leaf import comparable_value
from motet.engine.match.search_kernels import KIND, PREDICATE, REF
from motet.model.batches import event_rows
from motet.model.terms import RDF_TYPE, XSD, iri, literal
from motet.ontology.entailment import Entailment, Reasoner

NAMES = [RDF_TYPE, *PREDICATES]
numbers = st.one_of(
    st.integers().map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=6).map(lambda d: format(d, "f")),
    st.floats().map(repr),
    st.from_regex(r"[+-]?[0-9]{0,17}\.?[0-9]{0,9}([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
instants = (
    st.datetimes()
    .map(lambda at: at.isoformat())
    .flatmap(lambda text: st.sampled_from([text, text + "Z", text + "+14:00"]))
)
typed = st.one_of(
    st.tuples(numbers, st.sampled_from(["integer", "decimal", "double", "float", "int"])),
    st.tuples(instants, st.just("dateTime")),
).map(lambda pair: literal(pair[0], datatype=XSD + pair[1]))


@given(st.lists(st.one_of(typed, st.sampled_from(LITERALS)), min_size=1, max_size=20))
def test_values_are_those_of_the_terms(terms: list[str]) -> None:
    """The kernel agrees with the evaluator on every number and instant that it computes."""
    events = batch_of([(f"urn:{n}", [(f"<urn:{n}>", "<urn:p>", term)]) for n, term in enumerate(terms)])
    found = encode(events, encoding_tables(["<urn:p>"], {"<urn:p>"}, {}, {}))
    kinds = found.row[:, KIND].tolist()
    assert list(zip(found.value.tolist(), kinds, strict=True)) == [tuple(comparable_value(term)) for term in terms]


def test_rows_are_the_closure_of_the_event() -> None:
    """Under any hierarchy the rows are the closure's triples about the event, each once."""
    for seed in range(60):
        random = Random(seed)
        background = random_background(random)
        reasoner = Reasoner(background, Entailment.RDFS)
        if not reasoner.is_hierarchy_only:
            continue
        events = random_batch(random, 5)
        schema = reasoner.schema
        found = encode(events, encoding_tables(NAMES, set(), schema.superclasses, schema.properties))
        for number, event in enumerate(event_rows(events)):
            rows = found.row[found.starts[number] : found.starts[number + 1]]
            own = [(NAMES[p], found.terms[int(ref)].as_py()) for p, ref, _ in rows.tolist() if p < len(NAMES)]
            closed = reasoner.close(event.triples) | {t for t in reasoner.background if t[0] == iri(event.id)}
            expected = {(p, o) for s, p, o in closed if s == iri(event.id) and p in NAMES}
            assert sorted(own) == sorted(expected), seed


def test_equal_hashes_are_not_equal_terms() -> None:
    """A term with the hash of a constant does not match it unless the bytes are equal."""
    index = LeafIndex().with_leaves(leaves_of("SUBSCRIPTION s EVENT e { ?e <urn:p> <urn:wanted> } WHEN e"))
    known = encoding_tables(index.predicates, set(), {}, {})
    events = batch_of([(f"urn:{o}", [(f"<urn:{o}>", "<urn:p>", f"<urn:{o}>")]) for o in ("wanted", "others")])
    found = encode(events, known)
    forged = found._replace(code=found.code[[0, 0]])
    (group,) = index.segments
    assert group.arrays.search(forged).event.tolist() == [0]
    assert found.row[:, [PREDICATE, REF]].tolist() == [[1, 0], [1, 1]]
