"""The orders of the demo: XML documents, their subscriptions, and the mapping of what they derive."""

from pathlib import Path

from motet.codec.row_mapping import RowMapping
from motet.demo.building import MIDNIGHT, slot_of
from motet.demo.orders import documents, mapping_path, subscription_paths, write_documents
from motet.jobs.run import load_job
from motet.language.parse import parse
from motet.language.syntax import with_mappings
from motet.model.times import UNITS
from motet.plan.builder import build_plan
from motet.plan.derivation_edges import derivation_edges


def test_a_seed_determines_the_orders() -> None:
    """The same seed gives the same documents, another seed others."""
    assert list(documents(seed=3)) == list(documents(seed=3))
    assert list(documents(seed=3)) != list(documents(seed=4))


def test_documents_are_in_files_of_their_slot(tmp_path: Path) -> None:
    """The name of each file begins with the number of the slot of the day that its time is in."""
    write_documents(tmp_path, seed=2, files=8)
    expected = {f"{slot_of(time, 8):02}-{name}.xml": text for time, name, text in documents(seed=2)}
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == expected
    assert [slot_of(MIDNIGHT + hour * UNITS["h"], 8) for hour in (0, 2, 3, 23, 25)] == [0, 0, 1, 7, 7]


def test_deliveries_are_derived_and_lifted() -> None:
    """The subscriptions parse, and with the mapping 'paid' feeds 'deliver' and nothing else."""
    mapping = RowMapping.read(mapping_path())
    texts = [(path.read_text(), path.suffix[1:]) for path in subscription_paths()]
    subscriptions = [each for text, syntax in texts for each in parse(text, syntax=syntax)]
    mapped = [with_mappings(each, (mapping.text,)) for each in subscriptions]
    edges = derivation_edges(build_plan(mapped))
    assert [(edge.producer, edge.consumer) for edge in edges] == [("paid", "deliver")]
    assert load_job([str(subscription_paths()[0])], [], syntax="exmlql").subscriptions == tuple(subscriptions[:1])
