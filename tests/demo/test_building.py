"""The building demo's data."""

from motet.demo.building import composite_path, day, ontology_path, subscriptions_path
from motet.language.parse import parse
from motet.ontology.load import load


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
