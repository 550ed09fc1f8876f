"""The list of mutants is kept alive: `make mutants` itself takes minutes, this does not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.mutants.seeded import MUTANTS, Mutant

SOURCE = Path(__file__).parents[2] / "src" / "motet"


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_changes_one_place(mutant: Mutant) -> None:
    """Its text occurs exactly once, and what it becomes is Python again, and other Python."""
    text = (SOURCE / mutant.file).read_text("utf-8")
    assert ast.dump(ast.parse(mutant.applied(text))) != ast.dump(ast.parse(text))


def test_there_are_enough_and_no_two_are_the_same() -> None:
    """At least thirty, each with its own description."""
    assert len({str(mutant) for mutant in MUTANTS}) == len(MUTANTS) >= 30
