"""Hostile parties over TCP and TLS: a sample of what `make hostile` runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.overlay.net.hostile import attack, attack_protocols


def test_hostile_parties_are_named_and_cut_off(tmp_path: Path) -> None:
    """Each one is refused and counted; nothing of it remains, and honest peers are served afterwards."""
    results = dict(asyncio.run(attack(100, 20, tmp_path, pause=0)))
    frames, handshakes = results["frames over TCP"], results["TLS handshakes"]
    assert handshakes["cut off"] == handshakes["count"] == 20
    assert isinstance(frames["cut off"], int) and 50 < frames["cut off"] <= 100
    for facts in (frames, handshakes):
        for kind in ("descriptors", "tasks"):
            change = facts[f"{kind} before and after"]
            assert isinstance(change, tuple) and change[1] <= change[0], (kind, facts)


def test_a_member_cannot_make_a_node_fail_with_senseless_messages() -> None:
    """Well-formed messages with any content are handled, and nothing is sent that another node would refuse."""
    assert attack_protocols(15) == 900
