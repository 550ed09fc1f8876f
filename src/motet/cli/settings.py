"""`motet settings`: show or change the settings of a lake."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import output
from motet.model.errors import UsageError
from motet.model.settings import ENTAILMENTS, TIME_PROPERTIES, TimeProperties, parse_setting_duration

if TYPE_CHECKING:
    from motet.model.settings import SettingValues

HELP = "show the settings of a lake, or change some of them"
EXAMPLES = """\
  motet settings --lake building
  motet settings --lake building --lateness '10 s' --ahead unlimited
  motet settings --lake building --heartbeat never --json
  motet settings --lake alerts --map cap.yaml generic
  motet settings --lake building --time-properties http://example.org/seenAt default
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lake", metavar="DIR", required=True, help="the lake")
    add(
        "--lateness",
        metavar="DURATION",
        help="how far the frontier stays behind the newest event: '10 s', or 'unlimited' (then only ticks move it)",
    )
    add(
        "--ahead",
        metavar="DURATION",
        help="how far an event may end after the clock of its writer: '1 d', or 'unlimited'",
    )
    add(
        "--heartbeat",
        metavar="DURATION",
        help="after how long without movement of the frontier a live process appends a tick: '1 s', 'never', "
        "or 'default' (1 s, on Spark 10 s)",
    )
    add(
        "--time-properties",
        metavar="IRI",
        nargs="+",
        help="the properties that state the time of an event, in the order they are tried; "
        "a pair 'START END' in quotes states both ends; 'default' stands for the default ones",
    )
    add(
        "--entailment",
        choices=[*ENTAILMENTS, "unset"],
        help="the entailment of events, before the first subscription; unset: owl-rl with a background, else none",
    )
    add(
        "--map",
        metavar="MAPPING",
        nargs="+",
        help="YAML files with the mappings of XML documents, in the order they are tried; 'generic' lifts every "
        "document, 'none' stands for no mapping",
    )
    add("--json", action="store_true", help="print the settings as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    changes = _changes(args)
    lake = Lake.open(args.lake, create=False)
    settings = lake.change_settings(**changes) if changes else lake.snapshot().settings
    if args.json:
        output.print_json(settings.to_text() | {"mappings": list(settings.mappings)})
    else:
        output.print_fields(settings.to_text())
    return 0


def _changes(args: argparse.Namespace) -> SettingValues:
    """The settings that the arguments name."""
    changes: SettingValues = {}
    if args.lateness is not None:
        changes["lateness"] = parse_setting_duration(args.lateness, "unlimited")
    if args.ahead is not None:
        changes["ahead"] = parse_setting_duration(args.ahead, "unlimited")
    if args.heartbeat is not None:
        is_default = args.heartbeat == "default"
        changes["heartbeat"] = "default" if is_default else parse_setting_duration(args.heartbeat, "never")
    if args.time_properties is not None:
        changes["time_properties"] = _time_properties(args.time_properties)
    if args.entailment is not None:
        changes["entailment"] = None if args.entailment == "unset" else args.entailment
    if args.map is not None:
        from motet.codec.row_mapping import GENERIC
        from motet.codec.xml import mapping_text

        changes["mappings"] = tuple(
            mapping_text(GENERIC if text == GENERIC else Path(text)) for text in args.map if args.map != ["none"]
        )
    return changes


def _time_properties(texts: list[str]) -> TimeProperties:
    groups: list[tuple[str, ...]] = []
    for text in texts:
        groups += TIME_PROPERTIES if text == "default" else [tuple(iri.strip("<>") for iri in text.split())]
    for iri in (iri for group in groups for iri in group):
        if ":" not in iri:
            raise UsageError(f"{iri!r} is not an IRI", advice="Write the whole IRI, such as http://example.org/seenAt.")
    return tuple(groups)
