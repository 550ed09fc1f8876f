"""The building demo's data."""

from pathlib import Path

from motet.codec.row_mapping import RowMapping
from motet.demo.building import (
    MIDNIGHT,
    composite_path,
    day,
    mapping_path,
    ontology_path,
    order_paths,
    orders,
    slot_of,
    subscriptions_path,
    write_orders,
)
from motet.jobs.run import load_job
from motet.language.parse import parse
from motet.language.syntax import with_mappings
from motet.model.times import UNITS
from motet.ontology.load import load
from motet.plan.builder import build_plan
from motet.plan.derivation_edges import derivation_edges


def test_a_seed_determines_the_day() -> None:
    """The same seed gives the same bytes, another seed another day."""
    assert list(day(events=200, seed=3)) == list(day(events=200, seed=3))
    assert list(day(events=200, seed=3)) != list(day(events=200, seed=4))


def test_the_number_of_events_is_approximate() -> None:
    """The number of events sets the interval of the sensors."""
    assert 6000 <= sum(1 for _ in day(events=6000)) <= 6600


def test_the_files_of_the_demo_are_valid() -> None:
    """The ontology loads and the subscriptions parse."""
    assert load([ontology_path()]).triples
    assert [s.name for s in parse(subscriptions_path().read_text())] == ["any-alarm", "too-warm", "stale-air", "drill"]
    combined = [s.name for s in parse(composite_path().read_text())]
    assert combined == ["fire", "fire-spreads", "smoke-in-drill", "open-a-window"]


def test_a_seed_determines_the_orders() -> None:
    """The same seed gives the same documents, another seed others."""
    assert list(orders(seed=3)) == list(orders(seed=3))
    assert list(orders(seed=3)) != list(orders(seed=4))


def test_documents_are_in_files_of_their_slot(tmp_path: Path) -> None:
    """The name of each file begins with the number of the slot of the day that its time is in."""
    write_orders(tmp_path, seed=2, files=8)
    expected = {f"{slot_of(time, 8):02}-{name}.xml": text for time, name, text in orders(seed=2)}
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == expected
    assert [slot_of(MIDNIGHT + hour * UNITS["h"], 8) for hour in (0, 2, 3, 23, 25)] == [0, 0, 1, 7, 7]


def test_deliveries_are_derived_and_lifted() -> None:
    """The subscriptions parse, and with the mapping 'paid' feeds 'deliver' and nothing else."""
    mapping = RowMapping.read(mapping_path())
    texts = [(path.read_text(), path.suffix[1:]) for path in order_paths()]
    subscriptions = [each for text, syntax in texts for each in parse(text, syntax=syntax)]
    mapped = [with_mappings(each, (mapping.text,)) for each in subscriptions]
    edges = derivation_edges(build_plan(mapped))
    assert [(edge.producer, edge.consumer) for edge in edges] == [("paid", "deliver")]
    assert load_job([str(order_paths()[0])], [], syntax="exmlql").subscriptions == tuple(subscriptions[:1])
