"""`motet subscribe`: register subscriptions in a lake."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from motet.cli import arguments, output
from motet.cli.lake_advice import events_before_text, warn_of_unknown_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from motet.lake import Lake
    from motet.language.syntax import Subscription

HELP = "register subscriptions in a lake; `motet notifications` shows what they find"
EXAMPLES = """\
  motet subscribe --lake building fire.motet
  motet subscribe --lake building fire.motet --ontology building.ttl --json
  echo 'SUBSCRIPTION all EVENT e WHEN e' | motet subscribe --lake building -

a subscription sees the events after it; with SINCE "2026-11-15T00:00:00Z" after its name also earlier ones
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="subscription files; - for standard input")
    add("--lake", metavar="DIR", required=True, help="the lake, created if there is none")
    arguments.add_syntax_argument(parser)
    arguments.add_background_argument(parser)
    add("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.embedded.registration import Registrations
    from motet.jobs.subscription_files import load_subscriptions
    from motet.lake import Lake, is_lake

    subscriptions = load_subscriptions(args.files, syntax=args.syntax)
    is_new = not is_lake(args.lake)
    lake = Lake.open(args.lake)
    starts: dict[str, int] | None = None
    try:
        arguments.add_ontology(args, lake)
        registrations = Registrations(lake)
        before = registrations.active().keys()
        while starts is None:  # None: another process has registered one of them meanwhile
            _refuse_cycles(lake, subscriptions, (record.text for record in registrations.active().values()))
            starts = registrations.register(subscriptions, {each.name: each.name for each in subscriptions})
    finally:
        if is_new and starts is None:
            lake.delete_if_empty()
    new = [each for each in subscriptions if each.name not in before]
    _print(args, {name: registrations.active()[name].offset for name in starts}, {each.name for each in new})
    _warn(lake, new)
    return 0


def _refuse_cycles(lake: Lake, subscriptions: Sequence[Subscription], active: Iterable[str]) -> None:
    """Refuse subscriptions whose derived events would feed them; the engine is loaded only if events are derived."""
    from motet.language.syntax import Construct

    if any(isinstance(each.delivery, Construct) for each in subscriptions) or any(
        "CONSTRUCT" in text.upper() for text in active
    ):
        from motet.embedded.backend import PipelineBackend

        backend, snapshot = PipelineBackend(lake, lambda: None), lake.snapshot()
        backend.restore(snapshot, snapshot.next_offset)  # follows the control records only
        backend.check(subscriptions)


def _print(args: argparse.Namespace, offsets: dict[str, int], new: set[str]) -> None:
    rows = [{"name": name, "offset": offset, "registered": name in new} for name, offset in offsets.items()]
    if args.json:
        output.print_json({"lake": args.lake, "subscriptions": rows})
        return
    for row in rows:
        print(f"{row['name']}: {'registered' if row['registered'] else 'is active already'} at offset {row['offset']}")


def _warn(lake: Lake, new: list[Subscription]) -> None:
    """Say what is new and will not match: earlier events, unknown names."""
    snapshot = lake.snapshot()
    names = [subscription.name for subscription in new if subscription.since is None]
    if text := events_before_text(snapshot, names, snapshot.next_offset):
        output.warn(text)
    warn_of_unknown_names(snapshot, new)
