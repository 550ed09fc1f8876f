"""`motet subscriptions`: list the active subscriptions of a lake, with their consumers."""

from __future__ import annotations

import argparse

from motet.cli import output
from motet.cli.lake_advice import warn_of_no_subscription
from motet.model.times import format_datetime, to_micros

HELP = "list the active subscriptions of a lake, where they begin, and who has received their notifications"
EXAMPLES = """\
  motet subscriptions --lake building
  motet subscriptions --lake building --json
  motet subscriptions --lake building --text > all.motet
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lake", metavar="DIR", required=True, help="the lake")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--text", action="store_true", help="print the texts of the subscriptions instead")
    form.add_argument("--json", action="store_true", help="print JSON, with the texts")


def run(args: argparse.Namespace) -> int:
    from motet.embedded.registration import Registrations
    from motet.lake import Lake

    lake = Lake.open(args.lake, create=False)
    states = Registrations(lake).states()
    if args.text:
        print("\n\n".join(state.text.strip() for state in states))
        return 0
    sinces = [None if state.since is None else format_datetime(to_micros(state.since)) for state in states]
    if args.json:
        output.print_json(
            [
                {**state._asdict(), "consumers": dict(state.consumers), "since": since}
                for state, since in zip(states, sinces, strict=True)
            ]
        )
        return 0
    rows = [
        (state.name, state.offset, since, ", ".join(f"{name} (to {at})" for name, at in state.consumers.items()))
        for state, since in zip(states, sinces, strict=True)
    ]
    if rows:
        output.print_table(rows, headers=["subscription", "offset", "since", "consumers"])
    else:
        warn_of_no_subscription(lake.snapshot(), args.lake)
    return 0
