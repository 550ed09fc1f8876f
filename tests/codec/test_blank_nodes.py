"""Canonical labels and IRIs of blank nodes."""

import time

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.codec.blank_nodes import Triple, canonical_labels
from motet.codec.decode import decode_bytes
from motet.model.errors import LimitError

nodes = st.sampled_from([f"_:n{i}" for i in range(6)] + ["<urn:x>"])
graphs = st.sets(st.tuples(nodes, st.sampled_from(["<urn:p>", "<urn:q>"]), nodes | st.just('"a\\n"@en')), max_size=9)


def to_oxigraph(term: str) -> ox.NamedNode | ox.BlankNode | ox.Literal:
    if term.startswith("_:"):
        return ox.BlankNode(term[2:])
    return ox.NamedNode(term[1:-1]) if term.startswith("<") else ox.Literal("a\n", language="en")


@settings(deadline=None)
@given(graphs)
def test_labels_are_those_of_the_standard(triples: set[Triple]) -> None:
    """Canonical labels are the ones pyoxigraph's RDFC-1.0 gives."""
    dataset = ox.Dataset(
        [ox.Quad(to_oxigraph(s), to_oxigraph(p), to_oxigraph(o)) for s, p, o in triples]  # type: ignore[arg-type]
    )
    dataset.canonicalize(ox.CanonicalizationAlgorithm.RDFC_1_0)
    labels = canonical_labels(triples, max_work=1_000_000)
    named = {" ".join(f"_:{labels[t]}" if t.startswith("_:") else t for t in triple) for triple in triples}
    assert named == {str(quad) for quad in dataset}


def clique(size: int) -> list[Triple]:
    return [(f"_:{a}", "<urn:p>", f"_:{b}") for a in range(size) for b in range(size) if a != b]


def test_adversarial_graphs_are_refused_early() -> None:
    """A graph that needs exponential work is refused within the work limit."""
    before = time.process_time()
    with pytest.raises(LimitError, match="too similar"):
        canonical_labels(clique(12), max_work=20_000)
    assert time.process_time() - before < 5


def test_long_chains_are_refused() -> None:
    """A chain of similar nodes beyond the nesting limit raises LimitError, not RecursionError."""
    chain = [(f"_:{i}", "<urn:next>", f"_:{(i + 1) % 2000}") for i in range(2000)]
    with pytest.raises(LimitError, match="too similar"):
        canonical_labels(chain, max_work=1_000_000)


def test_iris_are_made_of_graph_and_label() -> None:
    """A blank node becomes an IRI of its graph and its label; a graph IRI with a fragment gets a dash."""
    lines = b"_:a <urn:p> _:b <urn:e> .\n_:a <urn:p> <urn:x> <urn:e#f> .\n<urn:s> <urn:p> <urn:o> <urn:none> .\n"
    [decoded] = decode_bytes(lines, "application/n-quads")
    triples = [[tuple(triple.values()) for triple in event] for event in decoded.events.column("triples").to_pylist()]
    assert triples == [
        [("<urn:e#genid-c14n1>", "<urn:p>", "<urn:e#genid-c14n0>")],
        [("<urn:e#f-genid-c14n0>", "<urn:p>", "<urn:x>")],
        [("<urn:s>", "<urn:p>", "<urn:o>")],
    ]


def test_only_the_adversarial_event_is_rejected() -> None:
    """An event whose blank nodes cannot be labelled is rejected; others are accepted."""
    adversarial = "".join(f"{s} {p} {o} <urn:bad> .\n" for s, p, o in clique(9))
    [decoded] = decode_bytes(f"{adversarial}_:a <urn:p> _:b <urn:good> .\n".encode(), "application/n-quads")
    assert decoded.events.column("id").to_pylist() == ["urn:good"]
    assert [(error.event, error.content) for error in decoded.rejected] == [("urn:bad", adversarial.rstrip("\n"))]
