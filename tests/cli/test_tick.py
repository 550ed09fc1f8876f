"""`motet tick`: with an instant, and without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.builders import MINUTE, TEN, ManualClock, event_nquads

from motet.cli.main import main
from motet.lake import Lake
from motet.model.times import END_OF_TIME, format_datetime

ALONE = "SUBSCRIPTION alone EVENT a : <urn:A> EVENT b : <urn:B> WHEN a UNLESS b WITHIN 3000 d SIGNAL"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


def run(lake: Lake, capsys: pytest.CaptureFixture[str], *arguments: str) -> object:
    capsys.readouterr()
    assert main(["tick", "--lake", str(lake.store.root), "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake", clock=ManualClock(TEN))


def test_without_an_instant_everything_is_decided(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """ "A tick at the greatest instant that is waited for, however late: everything that is there is decided."."""
    from motet.embedded.cloud import Cloud

    with Cloud(lake) as cloud:
        cloud.subscribe(ALONE, lambda _: None)
        cloud.publish(event_nquads("urn:e:1", (TYPE, "<urn:A>")))
        cloud.publish(event_nquads("urn:e:2", (TYPE, "<urn:A>")))
    final = TEN + 3000 * 24 * 60 * MINUTE + 1
    assert run(lake, capsys) == {"offset": 4, "instant": format_datetime(final)}
    assert sum(len(batch) for batch in lake.notifications()) == 2
    assert run(lake, capsys) == {"offset": None, "instant": None}
    assert lake.snapshot().count("tick") == 1


def test_an_instant_is_bounded_by_the_clock(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """ "A tick may not be later than the writer's clock plus `ahead`"."""
    assert run(lake, capsys, "2026-11-15T10:00:00Z") == {"offset": 1, "instant": format_datetime(TEN)}
    assert main(["tick", "--lake", str(lake.store.root), "2199-01-01T00:00:00Z"]) == 2
    assert "more than 1 d ahead of the clock" in capsys.readouterr().err
    assert main(["tick", "--lake", str(lake.store.root), "--force", "2199-01-01T00:00:00Z"]) == 2


def test_the_end_of_time_needs_force(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """ "A tick at the end of time needs --force: it makes every later event late."."""
    assert main(["tick", "--lake", str(lake.store.root), "end"]) == 2
    assert "makes every later event late" in capsys.readouterr().err
    assert run(lake, capsys, "--force", "end") == {"offset": 1, "instant": format_datetime(END_OF_TIME)}


def test_a_tick_that_moves_nothing_says_so(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """The frontier never falls."""
    lake.tick(TEN)
    assert main(["tick", "--lake", str(lake.store.root), "2026-11-15T09:00:00Z"]) == 0
    assert "this tick does not move it" in capsys.readouterr().err
