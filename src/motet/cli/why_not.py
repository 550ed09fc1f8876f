"""`motet why-not`: what keeps an event from contributing to a notification."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from motet.cli import arguments, output
from motet.cli.why import add_input_arguments, check_input_arguments, input_from_files

if TYPE_CHECKING:
    from motet.jobs.investigate import WhyInput

HELP = "show which predicate or condition kept an event from contributing to a notification"
EXAMPLES = """\
  motet why-not --subscription real-fire --event urn:e:7 --lake building
  motet why-not --subscription real-fire --event urn:e:7 --subscriptions fire.motet --events monday.nq --all
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--subscription", metavar="NAME", required=True, help="the subscription that did not match")
    add("--event", metavar="IRI", required=True, help="the event that did not contribute")
    add("--all", action="store_true", help="show every obstacle, nearest first, not only the nearest")
    add_input_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from motet.provenance.obstacle_text import why_not_json, why_not_lines
    from motet.provenance.why_not import why_not

    check_input_arguments(args)
    event = args.event.strip("<>")
    log = _from_lake(args, event) if args.lake else input_from_files(args, required=(event,))
    answer = why_not(log.traced_log, args.subscription, event)
    if args.json:
        output.print_json(why_not_json(answer) | {"examined": log.examined, "of_events": log.events})
    else:
        output.print_tree(why_not_lines(answer, log.style, everything=args.all), log.note())
    return 0


def _from_lake(args: argparse.Namespace, event: str) -> WhyInput:
    from motet.jobs.investigate import event_interval, from_lake
    from motet.lake import Lake

    snapshot = Lake.open(args.lake, create=False).snapshot()
    return from_lake(
        snapshot,
        args.subscription,
        event_interval(snapshot, event),
        prefixes=arguments.prefixes_of(args),
        entailment=args.entailment,
        required=(event,),
    )
