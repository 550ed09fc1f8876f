"""Tests of `motet.jobs.zone_building`."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from motet.jobs.zone_building import ZoneBuilding
from motet.lake import Lake
from motet.model.batches import EventRow, event_batch
from motet.model.errors import LakeError


def publish(lake: Lake, *names: str) -> None:
    lake.append(event_batch([EventRow(f"urn:{name}", 1, 1, (("<urn:s>", "<urn:p>", "<urn:o>"),)) for name in names]))


def test_zones_are_built_when_enough_records_are_in_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again only after as many new ones."""
    monkeypatch.setattr("motet.jobs.zone_building.ZONE_RECORDS", 3)
    lake = Lake.open(tmp_path, durable=False, ahead=None, lateness=None)
    building = ZoneBuilding(lake)
    ends = []
    for names in (("a",), ("b", "c"), ("d",)):
        publish(lake, *names)
        building.start_if_due(lake.snapshot().next_offset)
        building.close()
        ends.append(lake.snapshot().zones_end)
    assert ends == [0, 4, 4]  # the first record is that of the settings


def test_a_failed_build_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The process goes on: queries read the log."""
    monkeypatch.setattr("motet.jobs.zone_building.ZONE_RECORDS", 1)
    lake = Lake.open(tmp_path, durable=False, ahead=None)

    def fail(**_: object) -> None:
        raise LakeError("no space")

    monkeypatch.setattr(lake, "build_zones", fail)
    publish(lake, "a")
    building = ZoneBuilding(lake)
    with caplog.at_level(logging.ERROR, "motet"):
        building.start_if_due(2)
        building.close()
    assert [record.message for record in caplog.records] == ["zones could not be built"]
