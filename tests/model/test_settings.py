"""The settings of a lake as values, as records and as text."""

from __future__ import annotations

import json

import pytest

from motet.model.batches import record_batch
from motet.model.control import ControlState
from motet.model.errors import CorruptLakeError, UsageError
from motet.model.records import SettingsChange, control_records
from motet.model.settings import TIME_PROPERTIES, Settings, parse_setting_duration


def test_defaults() -> None:
    """ "lateness is a setting (default 5 s)"; "ahead … default 1 day"; "heartbeat … default 1 s, on Spark 10 s"."""
    settings = Settings()
    assert (settings.lateness, settings.ahead) == (5_000_000, 86_400_000_000)
    assert (settings.heartbeat_on(), settings.heartbeat_on(spark=True)) == (1_000_000, 10_000_000)
    assert (settings.time_properties, settings.entailment) == (TIME_PROPERTIES, None)


def test_heartbeat() -> None:
    """ "None for never"; "with `lateness` unlimited … there is no heartbeat"."""
    assert Settings(heartbeat=None).heartbeat_on(spark=True) is None
    assert Settings(heartbeat=7).heartbeat_on() == Settings(heartbeat=7).heartbeat_on(spark=True) == 7
    assert Settings(lateness=None).heartbeat_on() is None


@pytest.mark.parametrize(
    "settings",
    [Settings(), Settings(None, None, None, (("urn:a", "urn:b"), ("urn:c",)), "rdfs"), Settings(0, 0, 0, (), "none")],
)
def test_a_record_holds_all_settings(settings: Settings) -> None:
    """Settings survive the round trip through a record of the log."""
    batch = record_batch([SettingsChange(settings, 3).to_row()])
    assert list(control_records(batch)) == [SettingsChange(settings, 3)]


def test_later_versions_may_have_more_settings() -> None:
    """Unknown settings are ignored, missing ones have their defaults."""
    assert Settings.from_json(json.dumps({"lateness": 1, "colour": "red"})) == Settings(lateness=1)


def test_damaged_records_are_named() -> None:
    """A settings record that cannot be read names its offset."""
    row = SettingsChange(Settings(), 3).to_row()
    for text in ("{", "[]", '{"lateness": "soon"}', '{"time_properties": 5}'):
        with pytest.raises(CorruptLakeError, match="at offset 3 holds no settings"):
            list(control_records(record_batch([row._replace(text=text)])))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lateness": -1}, "-1 is no lateness"),
        ({"ahead": 0.5}, "0.5 is no ahead"),
        ({"heartbeat": "often"}, "'often' is no heartbeat"),
        ({"time_properties": ["urn:a"]}, "no list of time properties"),
        ({"time_properties": (("urn:a", "urn:b", "urn:c"),)}, "no list of time properties"),
        ({"entailment": "all"}, "'all' is no entailment"),
        ({"latenes": 1}, "no setting 'latenes'"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, object], message: str) -> None:
    """A wrong value or name is refused with an error that names it."""
    with pytest.raises(UsageError, match=message):
        Settings().changed(**values)


def test_durations_as_users_write_them() -> None:
    """A number with a unit, or a word for none."""
    assert [parse_setting_duration(text, "unlimited") for text in ("10 min", "5s", " 0 s", "unlimited")] == [
        600_000_000, 5_000_000, 0, None
    ]  # fmt: skip
    for text in ("", "soon", "5", "never", "-1 s", "1.5 s"):
        with pytest.raises(UsageError, match="is not a duration"):
            parse_setting_duration(text, "unlimited")


def test_control_state_folds_settings() -> None:
    """Before the first settings record there are none; the last one counts."""
    state = ControlState()
    assert (state.settings, state.entailment) == (None, "none")
    state.apply_all([SettingsChange(Settings(entailment="rdfs")), SettingsChange(Settings(entailment="owl-rl"))])
    assert (state.settings, state.entailment) == (Settings(entailment="owl-rl"), "owl-rl")
