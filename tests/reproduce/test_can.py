"""The figures of simulated CANs."""

import json

import pytest

from motet.cli.main import main
from motet.reproduce.can import broadcast_figures, hop_figures


def test_hops_are_those_of_a_study_of_zones_alone() -> None:
    """Greedy routing is within a tenth of the expected mean, Algorithm 3.1 not far from it; nothing is unanswered."""
    greedy, ordered = hop_figures(128, seed=2, lookups=300)
    assert (greedy.is_expected, ordered.is_expected, greedy.lookups, ordered.lookups) == (True, True, 300, 300)
    assert greedy.expected_hops == 3.69 and greedy.mean_hops <= ordered.mean_hops < 1.2 * greedy.mean_hops


def test_the_optimal_broadcast_sends_no_duplicate() -> None:
    """It sends one message less than there are peers; flooding sends duplicates."""
    for figures in broadcast_figures(30, seed=1):
        assert (figures.optimal_messages, figures.optimal_duplicates) == (29, 0)
        assert figures.flooding_duplicates > 29


def test_the_command_prints_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """One object for each network and way to join."""
    assert main(["reproduce", "broadcast", "--peers", "8", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert [(row["joins"], row["optimal_messages"]) for row in figures] == [("random point", 7), ("random peer", 7)]


@pytest.mark.parametrize(
    "arguments", [["broadcast", "--peers", "1"], ["broadcast", "--zones", "3"], ["bsbm", "--peers", "3"]]
)
def test_options_of_other_experiments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An option that would be ignored is an error."""
    assert main(["reproduce", *arguments]) == 2
    assert "--" in capsys.readouterr().err
