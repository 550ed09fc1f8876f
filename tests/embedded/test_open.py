"""`motet.open`: settings, clock and ontology (language page, section 14, Settings)."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests import builders

import motet
from motet.lake import Lake
from motet.model.errors import UsageError
from motet.model.settings import SettingArguments, Settings

MINUTE = 60_000_000


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ({"lateness": "1 min"}, {"lateness": MINUTE}),
        ({"lateness": timedelta(minutes=1), "ahead": "60 s"}, {"lateness": MINUTE, "ahead": MINUTE}),
        ({"time_properties": "urn:a"}, {"time_properties": (("urn:a",),)}),
        ({"lateness": None, "ahead": "unlimited"}, {"lateness": None, "ahead": None}),
        ({"heartbeat": "never"}, {"heartbeat": None}),
        ({"heartbeat": "default"}, {}),
        ({"time_properties": ["urn:a", ["urn:b", "urn:c"]]}, {"time_properties": (("urn:a",), ("urn:b", "urn:c"))}),
        ({"entailment": "rdfs"}, {"entailment": "rdfs"}),
    ],
)  # fmt: skip
def test_settings_of_a_new_lake(tmp_path: Path, arguments: SettingArguments, changed: dict[str, object]) -> None:
    """Durations are text or a timedelta; the lake stores them, and opening it again needs none."""
    motet.open(tmp_path, **arguments).close()
    assert Lake.open(tmp_path).snapshot().settings == Settings().changed(**changed)
    motet.open(tmp_path, **arguments).close()
    motet.open(tmp_path).close()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"lateness": "1 min"}, "lateness.*5 s.*1 min"),
        ({"ahead": None}, "ahead"),
        ({"heartbeat": "2 s"}, "heartbeat"),
        ({"time_properties": ["urn:at"]}, "time properties"),
        ({"entailment": "none"}, "entailment"),
    ],
)
def test_a_setting_on_a_lake_that_has_another_one(tmp_path: Path, arguments: SettingArguments, text: str) -> None:
    """It is an error that says how to change it."""
    motet.open(tmp_path).close()
    with pytest.raises(UsageError, match=text) as raised:
        motet.open(tmp_path, **arguments)
    assert "motet settings" in str(raised.value)


@pytest.mark.parametrize(
    "arguments",
    [
        {"lateness": "soon"}, {"lateness": timedelta(-1)}, {"heartbeat": "1 fortnight"}, {"entailment": "all"},
        {"latenes": "1 min"}, {"lateness": 10}, {"ahead": True}, {"time_properties": 5}, {"time_properties": [5]},
        {"ontology": 5}, {"ontology": [5]}, {"catalogue": 5}, {"imports": "lax"}, {"catalogue": {}}, {"clock": 5},
        {"durable": "no"}, {"engine": "flink"}, {"threaded": 1},
    ],
)  # fmt: skip
def test_what_is_no_argument_is_refused(tmp_path: Path, arguments: Any) -> None:
    """With advice; no lake is made."""
    with pytest.raises(UsageError) as refused:
        motet.open(tmp_path / "lake", **arguments)
    assert refused.value.advice
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("now", [builders.TEN, datetime(2026, 11, 15)])
def test_a_clock_returns_datetimes_with_a_zone(tmp_path: Path, now: Any) -> None:
    with pytest.raises(UsageError, match=r"is not a time|has no zone"):
        motet.open(tmp_path / "lake", clock=lambda: now)


def test_the_clock_stamps(tmp_path: Path) -> None:
    """An event that states no time has that of the clock."""
    clock = builders.ManualClock(builders.TEN)
    with motet.open(tmp_path, clock=clock.utc) as cloud:
        receipt = cloud.publish('<urn:s> <urn:p> "o" <urn:e:1> .')
    assert receipt.stamped == 1
    assert Lake.open(tmp_path).statistics()["end"] == builders.TEN


def test_an_ontology_is_put_into_the_background_unless_it_is_there(tmp_path: Path) -> None:
    """Opening again with it, or with a part of it, adds only what is missing."""
    ontology, more = tmp_path / "o.ttl", tmp_path / "m.ttl"
    ontology.write_text("<urn:a> <urn:p> <urn:b> .")
    more.write_text("<urn:a> <urn:p> <urn:b>, <urn:c> .")
    for _ in range(2):
        motet.open(tmp_path / "lake", ontology=[ontology]).close()
    motet.open(tmp_path / "lake", ontology=[more]).close()
    assert Lake.open(tmp_path / "lake").statistics()["kinds"] == {"background": 2, "settings": 1}


def test_an_ontology_is_one_file_and_imports_by_a_catalogue(tmp_path: Path) -> None:
    """The catalogue is a dictionary, or the path of one as JSON."""
    ontology, imported = tmp_path / "o.ttl", tmp_path / "i.ttl"
    ontology.write_text("<urn:o> <http://www.w3.org/2002/07/owl#imports> <urn:other> .")
    imported.write_text("<urn:a> <urn:p> <urn:b> .")
    (tmp_path / "catalogue.json").write_text('{"urn:other": "i.ttl"}')
    catalogues: list[Path | dict[str, Path]] = [{"urn:other": imported}, tmp_path / "catalogue.json"]
    for number, catalogue in enumerate(catalogues):
        lake = tmp_path / str(number)
        with motet.open(lake, ontology=str(ontology), catalogue=catalogue, imports="strict") as cloud:
            assert ("<urn:a>", "<urn:p>", "<urn:b>") in cloud.background.triples()


def test_imports_can_be_strict(tmp_path: Path) -> None:
    """An import that is not given is an error then, and nothing is added."""
    ontology = tmp_path / "o.ttl"
    ontology.write_text("<urn:o> <http://www.w3.org/2002/07/owl#imports> <urn:missing> .")
    with pytest.raises(motet.MotetError, match="urn:missing"):
        motet.open(tmp_path / "lake", ontology=[ontology], imports="strict")
    assert not (tmp_path / "lake").exists()
