"""The BSBM experiment of EventCloud's thesis, section 3.3.2."""

from pathlib import Path

from motet.reproduce import bsbm


def test_the_queries_construct_what_the_thesis_says(tmp_path: Path) -> None:
    """Table 3.2; and Q4 visits more zones than Q3, Q3 more than Q1 and Q2, none all (figure 3.7)."""
    figures = bsbm.ask(bsbm.load(tmp_path / "lake", seed=1, zones=64))
    assert [figure.triples for figure in figures] == [1, 6_660, 25_920, 677]
    first, second, third, fourth = (figure.visited for figure in figures)
    assert max(first, second) < third < fourth < figures[0].zones


def test_the_dataset_depends_on_its_seed_alone() -> None:
    """About 250 000 triples, as in the thesis, beside one time for each event."""
    events = list(bsbm.events(seed=2))
    assert events == list(bsbm.events(seed=2)) != list(bsbm.events(seed=3))
    triples = sum(event.count("\n") for event in events) - len(events)
    assert abs(triples - 250_030) < 0.02 * 250_030
