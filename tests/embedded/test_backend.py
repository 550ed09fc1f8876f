"""Restoring a backend: from a state snapshot after a stop, from the log after a kill; and the pipeline backend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.builders import FUTURE, ManualClock, reading

import motet
from motet.embedded import delivery_loop
from motet.embedded.backend import InProcessBackend
from motet.embedded.cloud import Cloud
from motet.lake import Lake
from motet.model.notifications import Notification

HOT = "SUBSCRIPTION hot EVENT e { ?e <urn:celsius> ?c FILTER(?c > 30) } WHEN e SELECT ?c"
PAIR = """
PREFIX ex: <http://example.org/>
SUBSCRIPTION fire
  EVENT smoke : ex:Smoke { ?smoke ex:room ?room }
  EVENT heat : ex:Heat { ?heat ex:room ?room }
  WHEN smoke BEFORE heat WITHIN 5 min
  CONTEXT chronicle
  SELECT ?room
"""
EVENT = """
@prefix ex: <http://example.org/> . @prefix prov: <http://www.w3.org/ns/prov#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
<urn:e:{0}> {{ <urn:e:{0}> a ex:{1} ; ex:room ex:r1 ; prov:startedAtTime "2026-11-15T10:0{2}:00Z"^^xsd:dateTime . }}
"""
PUBLISHER = """
import sys, motet
cloud = motet.open(sys.argv[1])
cloud.subscribe(sys.argv[2], print)
cloud.publish(sys.argv[3], content_type="application/trig")
cloud.flush()
print("published", flush=True)
sys.stdin.readline()
"""


def notifications_after_restart(directory: Path) -> list[tuple[str, ...]]:
    """The notifications of a new cloud after the second event of the pair and a tick."""
    received: list[Notification] = []
    lake = Lake.open(directory, clock=ManualClock(FUTURE))
    with Cloud(lake) as cloud:
        cloud.subscribe(PAIR, received.append)
        cloud.publish(EVENT.format(2, "Heat", 2), content_type="application/trig")
        cloud.tick("2027-01-15T08:00:00Z")
    return [found.events for found in received]


def publish_first_half(directory: Path) -> None:
    with motet.open(directory) as cloud:
        cloud.subscribe(PAIR, print)
        cloud.publish(EVENT.format(1, "Smoke", 1), content_type="application/trig")


def test_open_state_survives_a_restart(tmp_path: Path) -> None:
    """An open occurrence is restored from the state snapshot and can still pair."""
    publish_first_half(tmp_path)
    assert [path.name for path in (tmp_path / "states").iterdir()] == ["00000000000000000003.state"]
    assert notifications_after_restart(tmp_path) == [("urn:e:1", "urn:e:2")]


@pytest.mark.parametrize("damage", [b"", b"nonsense", None], ids=["empty", "nonsense", "gone"])
def test_a_damaged_state_snapshot_is_ignored(
    tmp_path: Path, damage: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged state snapshot is logged, and the state is rebuilt from the log."""
    publish_first_half(tmp_path)
    (state,) = (tmp_path / "states").iterdir()
    if damage is None:
        state.unlink()
    else:
        state.write_bytes(damage)
    assert notifications_after_restart(tmp_path) == [("urn:e:1", "urn:e:2")]
    assert ("cannot be restored" in caplog.text) == (damage is not None)


def test_open_state_survives_a_kill(tmp_path: Path) -> None:
    """A killed cloud stores no state snapshot; the state is rebuilt from the log."""
    arguments = [str(tmp_path), PAIR, EVENT.format(1, "Smoke", 1)]
    with subprocess.Popen(
        [sys.executable, "-c", PUBLISHER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cloud:
        assert cloud.stdout is not None
        assert cloud.stdout.readline() == "published\n"
        os.kill(cloud.pid, 9)
    assert not (tmp_path / "states").exists()
    assert notifications_after_restart(tmp_path) == [("urn:e:1", "urn:e:2")]


def test_the_pipeline_computes_each_range_once(tmp_path: Path) -> None:
    """The pipeline is called once for each range; its notifications are read from the table and delivered."""
    ranges: list[tuple[int, int]] = []
    received: list[Notification] = []
    lake = Lake.open(tmp_path)

    def derive() -> None:
        snapshot, here = lake.snapshot(), InProcessBackend(lake)
        first, stop = snapshot.notifications_end, snapshot.next_offset
        ranges.append((first, stop))
        here.restore(snapshot, first)
        found = here.advance(snapshot, stop, None)
        lake.commit_notifications(delivery_loop._to_table(found, first, stop), first, stop)

    with Cloud(lake, derive) as cloud:
        cloud.subscribe(HOT, received.append)
        cloud.publish(reading(1, 35))
        cloud.publish(reading(2, 35))
    assert (ranges, [found.events for found in received]) == ([(0, 2), (2, 3), (3, 4)], [("urn:e:1",), ("urn:e:2",)])
    assert Lake.open(tmp_path).cursor("hot") == 4
