"""The figures of simulated overlays, at a small size."""

import json

import pytest

from motet.cli.main import main
from motet.reproduce.overlays import (
    IDEAL_HOPS,
    broadcast_figures,
    can_hops,
    churn,
    protocol_hops,
    recovery,
    static_hops,
)


@pytest.mark.parametrize("nodes", list(IDEAL_HOPS))
def test_static_hops_are_near_the_ideal(nodes: int) -> None:
    """Mean hops are within a tenth of the published ones, and the stretch is below two."""
    assert static_hops(nodes).is_expected


def test_the_static_mode_agrees_with_the_protocol() -> None:
    """Hops computed from tables are those of the protocol's lookups, within a twentieth."""
    protocol, static = protocol_hops(1_000, lookups=1_500), static_hops(1_000)
    assert protocol.is_expected
    assert protocol.mean_hops == pytest.approx(static.mean_hops, rel=0.05)


def test_lookups_survive_churn() -> None:
    """With lost messages and crashes no lookup fails, at a moderate rate of control messages."""
    figures = churn(100, mean_session=600, lookups=1_000, seconds=100)
    assert (figures.failed, figures.misdelivered) == (0, 0)
    assert figures.lookups > 900
    assert figures.control_per_second < 1.5


def test_a_ring_recovers_from_the_crash_of_its_half() -> None:
    """All live nodes have their true neighbours again within minutes."""
    figures = recovery(200, leaf_size=16)
    assert figures.healed_after is not None
    assert figures.healed_after <= 180


def test_hops_are_those_of_a_study_of_zones_alone() -> None:
    """Greedy routing and neighbours are near the expected means, Algorithm 3.1 not far; nothing is unanswered."""
    greedy, ordered = can_hops(128, seed=2, lookups=300)
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


def test_the_command_prints_a_row_for_each_recovery(capsys: pytest.CaptureFixture[str]) -> None:
    """Runs have the seeds from the first one on, and the status says whether all rings healed."""
    assert main(["reproduce", "pastry-recovery", "--peers", "60", "--seed", "4", "--runs", "2", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert [(row["nodes"], row["seed"], row["as_expected"]) for row in figures] == [(60, 4, True), (60, 5, True)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["broadcast", "--peers", "1"], "--peers must be from 2 to 20000"),
        (["broadcast", "--zones", "3"], "--zones is not an option of broadcast"),
        (["bsbm", "--peers", "3"], "--peers is not an option of bsbm"),
        (["bsbm", "--zones", "0"], "--zones must be positive, not 0"),
        (["exmlql", "--directory", "x"], "--directory is not an option of exmlql"),
        (["overlay-hops", "--lookups", "3"], "--lookups is not an option of overlay-hops"),
        (["pastry-churn", "--session", "nan"], "--session must be positive, not nan"),
        (["pastry-recovery", "--session", "121"], "--session is not an option of pastry-recovery"),
    ],
)
def test_options_that_would_be_ignored_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the option; nothing runs."""
    assert main(["reproduce", *arguments]) == 2
    assert message in capsys.readouterr().err
