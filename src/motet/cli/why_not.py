"""`motet why-not`: what stops an event from being told by a subscription."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from motet.cli import output, why_arguments

if TYPE_CHECKING:
    from motet.jobs.investigate import WhyInput

HELP = "say which predicate or condition kept an event from being told by a subscription"
EXAMPLES = """\
  motet why-not --subscription real-fire --event urn:e:7 --lake building
  motet why-not --subscription real-fire --event urn:e:7 --subscriptions fire.motet --events monday.nq --all
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--subscription", metavar="NAME", required=True)
    parser.add_argument("--event", metavar="IRI", required=True)
    parser.add_argument("--all", action="store_true", help="every reason, nearest first, not only the nearest")
    why_arguments.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from motet.provenance.obstacle_text import why_not_json, why_not_lines
    from motet.provenance.why_not import why_not

    why_arguments.check(args)
    event = args.event.strip("<>")
    log = _from_lake(args, event) if args.lake else why_arguments.input_from_files(args, required=(event,))
    answer = why_not(log.scene, args.subscription, event)
    if args.json:
        output.print_json(why_not_json(answer) | {"examined": log.examined, "of_events": log.events})
    else:
        why_arguments.show(why_not_lines(answer, log.names, everything=args.all), log.note())
    return 0


def _from_lake(args: argparse.Namespace, event: str) -> WhyInput:
    from motet.jobs.investigate import event_interval, from_lake
    from motet.lake import Lake

    snapshot = Lake.open(args.lake, create=False).snapshot()
    return from_lake(
        snapshot,
        args.subscription,
        event_interval(snapshot, event),
        prefixes=why_arguments.prefixes_of(args),
        entailment=args.entailment,
        required=(event,),
    )
