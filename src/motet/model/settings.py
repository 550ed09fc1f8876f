"""The settings of a lake (language page, section 14), and how they are written in its log and by users.

Durations are microseconds. Settings are changed by control records; a writer uses those in force before its commit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from typing import Any, Literal, Self, TypedDict, cast

from motet.model.errors import UsageError
from motet.model.times import END_OF_TIME, START_OF_TIME, UNITS, format_duration

TimeProperties = tuple[tuple[str, ...], ...]  # IRIs in the order they are tried; a pair is (start, end)
HeartbeatSetting = int | Literal["default"] | None  # None: never
SettingDuration = str | timedelta

_PROV = "http://www.w3.org/ns/prov#"
TIME_PROPERTIES: TimeProperties = (
    (_PROV + "startedAtTime", _PROV + "endedAtTime"),
    ("http://www.w3.org/ns/sosa/resultTime",),
    (_PROV + "generatedAtTime",),
    ("http://purl.org/dc/terms/created",),
)
ENTAILMENTS = ("none", "rdfs", "owl-rl")
DEFAULT_HEARTBEAT = 1_000_000
SPARK_HEARTBEAT = 10_000_000
_ROOT = re.compile(r"\broot[\"']?:\s*[\"']?([^\s,}\"']+)")  # in the text of a mapping
_LONGEST = END_OF_TIME - START_OF_TIME


class SettingValues(TypedDict, total=False):
    """Some of the settings of a lake, by name."""

    lateness: int | None
    ahead: int | None
    heartbeat: HeartbeatSetting
    time_properties: TimeProperties
    entailment: str | None
    mappings: tuple[str, ...]


class SettingArguments(TypedDict, total=False):
    """Settings as Python programs write them: a duration is a timedelta or a text such as '5 s'."""

    lateness: SettingDuration | None
    ahead: SettingDuration | None
    heartbeat: SettingDuration | None
    time_properties: str | Sequence[str | Sequence[str]]
    entailment: str | None
    mappings: Sequence[Any]  # dicts, texts in YAML, paths, or "generic"


@dataclass(frozen=True)
class Settings:
    """The settings of a lake.

    >>> Settings().changed(lateness=None).to_text()["lateness"]
    'unlimited'
    >>> Settings.from_json(Settings().to_json()) == Settings()
    True
    """

    lateness: int | None = 5_000_000  # how far the frontier stays behind the newest end; None: only ticks move it
    ahead: int | None = UNITS["d"]  # how far an event may end after its writer's clock; None: unlimited
    heartbeat: HeartbeatSetting = "default"  # how long the frontier rests before a heartbeat; None: never
    time_properties: TimeProperties = TIME_PROPERTIES
    entailment: str | None = None  # None: owl-rl if the background has a triple, otherwise none
    mappings: tuple[str, ...] = ()  # of XML documents: texts in YAML, or "generic", in the order they are tried

    def __post_init__(self) -> None:
        _check_duration("lateness", self.lateness)
        _check_duration("ahead", self.ahead)
        if self.heartbeat != "default":
            _check_duration("heartbeat", self.heartbeat)
        _check_time_properties(self.time_properties)
        if self.entailment is not None and self.entailment not in ENTAILMENTS:
            raise UsageError(f"{self.entailment!r} is no entailment", advice=f"Use one of {', '.join(ENTAILMENTS)}.")
        if not isinstance(self.mappings, tuple) or not all(isinstance(text, str) for text in self.mappings):
            raise UsageError(f"{self.mappings!r} is no list of mappings", advice="Give texts in YAML, or 'generic'.")

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The settings in the text of a control record; settings that this version does not know are ignored."""
        values: dict[str, Any] = dict(json.loads(text).items())
        known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        if "time_properties" in known:
            known["time_properties"] = tuple(map(tuple, known["time_properties"]))
        if "mappings" in known:
            known["mappings"] = tuple(known["mappings"])
        return cls(**known)

    def to_json(self) -> str:
        """All settings as the text of a control record."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    def to_text(self) -> dict[str, str | list[str]]:
        """The settings as users write them; of each mapping the root element that it is for."""
        heartbeat = self.heartbeat
        return {
            "lateness": _duration_text(self.lateness, "unlimited"),
            "ahead": _duration_text(self.ahead, "unlimited"),
            "heartbeat": heartbeat if isinstance(heartbeat, str) else _duration_text(heartbeat, "never"),
            "time_properties": [" ".join(group) for group in self.time_properties],
            "entailment": self.entailment or "unset",
            "mappings": [_mapping_name(text) for text in self.mappings],
        }

    def changed(self, **values: Any) -> Self:
        """The settings with other values for some of them."""
        unknown = sorted(values.keys() - {field.name for field in fields(self)})
        if unknown:
            raise UsageError(
                f"a lake has no setting {unknown[0]!r}", advice=f"Settings: {', '.join(self.__dataclass_fields__)}."
            )
        return replace(self, **values)

    def differing(self, values: Mapping[str, object]) -> str | None:
        """The first of the given settings that has another value here; None if all are as given."""
        return next(
            (name for name, value in values.items() if getattr(self.changed(**values), name) != getattr(self, name)),
            None,
        )

    def heartbeat_on(self, *, spark: bool = False) -> int | None:
        """The duration without movement of the frontier after which a live process appends a tick; None: never."""
        if self.lateness is None:
            return None
        if self.heartbeat == "default":
            return SPARK_HEARTBEAT if spark else DEFAULT_HEARTBEAT
        return self.heartbeat


def setting_values(arguments: SettingArguments) -> SettingValues:
    """The values of settings; what is no setting is left for `Settings.changed` to refuse.

    >>> setting_values({"lateness": "10 s", "ahead": timedelta(minutes=1), "heartbeat": None})
    {'lateness': 10000000, 'ahead': 60000000, 'heartbeat': None}
    """
    values: dict[str, Any] = dict(arguments)
    for name, unlimited in (("lateness", "unlimited"), ("ahead", "unlimited"), ("heartbeat", "never")):
        value = values.get(name)
        if isinstance(value, timedelta):
            values[name] = value // timedelta(microseconds=1)
        elif isinstance(value, str):
            is_default = (name, value) == ("heartbeat", "default")
            values[name] = value if is_default else parse_setting_duration(value, unlimited)
        elif value is not None:
            raise UsageError(
                f"{value!r} is no {name}", advice=f"Write '10 s', timedelta(seconds=10), or None for {unlimited}."
            )
    if "time_properties" in values:
        properties = values["time_properties"]
        properties = [properties] if isinstance(properties, str) else properties
        if not isinstance(properties, Sequence) or not all(isinstance(group, str | Sequence) for group in properties):
            raise UsageError(
                f"{properties!r} is no list of time properties", advice="Give IRIs, or pairs of IRIs: start and end."
            )
        values["time_properties"] = tuple((group,) if isinstance(group, str) else tuple(group) for group in properties)
    return cast(SettingValues, values)


def parse_setting_duration(text: str, unlimited: str) -> int | None:
    """A duration as users write it for a setting; ``unlimited`` is the word for none.

    >>> parse_setting_duration("10 min", "unlimited"), parse_setting_duration("unlimited", "unlimited")
    (600000000, None)
    """
    if text.strip() == unlimited:
        return None
    digits = text.strip().rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text.strip().removeprefix(digits)
    if not digits.strip().isdigit() or unit not in UNITS:
        raise UsageError(
            f"{text!r} is not a duration", advice=f"Write '10 min' or '{unlimited}'; units: {', '.join(UNITS)}."
        )
    return int(digits) * UNITS[unit]


def _check_duration(name: str, value: object) -> None:
    is_duration = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LONGEST
    if value is not None and not is_duration:
        raise UsageError(f"{value!r} is no {name}", advice="Give a number of microseconds from 0 up, or None.")


def _check_time_properties(properties: object) -> None:
    if not isinstance(properties, tuple) or not all(
        isinstance(group, tuple) and 1 <= len(group) <= 2 and all(isinstance(iri, str) and iri for iri in group)
        for group in properties
    ):
        raise UsageError(
            f"{properties!r} is no list of time properties", advice="Give tuples of one IRI, or of two: start and end."
        )


def _mapping_name(text: str) -> str:
    root = _ROOT.search(text)
    return root[1] if root else text.strip().partition("\n")[0]


def _duration_text(value: int | None, unlimited: str) -> str:
    return unlimited if value is None else format_duration(value)
