"""The experiments on Pastry, at a small size."""

import pytest

from motet.reproduce.pastry import IDEAL_HOPS, churn, protocol_hops, recovery, static_hops


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
