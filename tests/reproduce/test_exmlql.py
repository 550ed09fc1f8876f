"""The experiment of EXML-QL: subscriptions of two blocks over random documents, and the paper's bounds."""

from __future__ import annotations

from motet.reproduce.exmlql import reproduce


def test_the_bounds_of_the_paper_hold() -> None:
    """Persons and orders meet, and neither matching nor composing takes more steps than the paper allows."""
    (figures,) = reproduce(sizes=(100,))
    assert (figures.events, figures.notifications) == (100, 7)
    assert figures.max_steps <= figures.step_bound
    assert figures.notifications <= figures.composition_bound
