"""A cloud that stops remembers; one that was killed reads the log again. Both go on as if nothing had happened."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import motet
from motet.model.notifications import Notification

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


def told_after(directory: Path) -> list[tuple[str, ...]]:
    """What a new cloud tells once the second half of the pair has come, and time has passed."""
    heard: list[Notification] = []
    with motet.open(directory) as cloud:
        cloud.subscribe(PAIR, heard.append)
        cloud.publish(EVENT.format(2, "Heat", 2), content_type="application/trig")
        cloud.tick(1_800_000_000_000_000)
    return [found.events for found in heard]


def publish_first_half(directory: Path) -> None:
    with motet.open(directory) as cloud:
        cloud.subscribe(PAIR, print)
        cloud.publish(EVENT.format(1, "Smoke", 1), content_type="application/trig")


def test_half_a_pair_survives_a_stop(tmp_path: Path) -> None:
    """What was open when the cloud was closed is open when it is opened again, from the state it kept."""
    publish_first_half(tmp_path)
    assert [path.name for path in (tmp_path / "states").iterdir()] == ["00000000000000000002.state"]
    assert told_after(tmp_path) == [("urn:e:1", "urn:e:2")]


@pytest.mark.parametrize("damage", [b"", b"nonsense", None], ids=["empty", "nonsense", "gone"])
def test_state_that_cannot_be_used_is_made_again(
    tmp_path: Path, damage: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged state is reported and left alone; the log is the truth."""
    publish_first_half(tmp_path)
    (state,) = (tmp_path / "states").iterdir()
    if damage is None:
        state.unlink()
    else:
        state.write_bytes(damage)
    assert told_after(tmp_path) == [("urn:e:1", "urn:e:2")]
    assert ("cannot be restored" in caplog.text) == (damage is not None)


def test_half_a_pair_survives_a_kill(tmp_path: Path) -> None:
    """A cloud that is killed keeps no state, and nothing is lost."""
    arguments = [str(tmp_path), PAIR, EVENT.format(1, "Smoke", 1)]
    with subprocess.Popen(
        [sys.executable, "-c", PUBLISHER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cloud:
        assert cloud.stdout is not None
        assert cloud.stdout.readline() == "published\n"
        os.kill(cloud.pid, 9)
    assert not (tmp_path / "states").exists()
    assert told_after(tmp_path) == [("urn:e:1", "urn:e:2")]
