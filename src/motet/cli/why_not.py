"""`motet why-not`: what keeps an event from contributing to a notification."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from motet.cli import arguments, output
from motet.cli.why import add_input_arguments, check_input_arguments, input_from_files

if TYPE_CHECKING:
    from motet.jobs.investigate import LoggedEvent, WhyInput
    from motet.lake import Snapshot
    from motet.provenance.text import TextStyle
    from motet.provenance.why_not import WhyNot

HELP = "show which predicate or condition kept an event from contributing to a notification"
EXAMPLES = """\
  motet why-not --subscription real-fire --event urn:e:7 --lake building
  motet why-not --subscription real-fire --event urn:e:7 --subscriptions fire.motet --events monday.nq --all
  motet why-not --subscription real-fire --event urn:e:7 --subscriptions fire.motet --lake building
  motet why-not --subscription real-fire --event urn:motet:event:3f2a --subscriptions fire.motet --events monday.ttl

an event without an IRI of its own has one that begins with urn:motet:event:, as `motet run` prints it; a unique
beginning is enough
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--subscription", metavar="NAME", required=True, help="the subscription that did not match")
    add("--event", metavar="IRI", required=True, help="the event that did not contribute")
    add("--all", action="store_true", help="show every obstacle, nearest first, not only the nearest")
    add_input_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from motet.provenance.obstacle_text import why_not_json, why_not_lines

    check_input_arguments(args, subscriptions_with_lake=True)
    event = args.event.strip("<>")
    answer, log = (_over_lake if args.lake else _over_files)(args, event)
    if args.json:
        examined = {"examined": log.examined, "of_events": log.events} if log else {}
        output.print_json(why_not_json(answer) | examined)
    else:
        style = log.style if log else _style(args)
        output.print_tree(why_not_lines(answer, style, everything=args.all), log.note() if log else "")
    return 0


def _over_files(args: argparse.Namespace, event: str) -> tuple[WhyNot, WhyInput | None]:
    from motet.jobs.investigate import find_file_event
    from motet.provenance.why_not import why_not

    job = arguments.load_job(args)
    event = find_file_event(job, event)
    log = input_from_files(args, required=(event,), job=job)
    return why_not(log.traced_log, args.subscription, event), log


def _over_lake(args: argparse.Namespace, text: str) -> tuple[WhyNot, WhyInput | None]:
    from motet.jobs.investigate import find_event, from_lake
    from motet.lake import Lake
    from motet.provenance.why_not import why_not

    snapshot = Lake.open(args.lake, create=False).snapshot()
    event = find_event(snapshot, text)
    if args.subscriptions:
        return _over_replay(args, snapshot, event)
    log = from_lake(
        snapshot,
        args.subscription,
        event.interval,
        prefixes=arguments.prefixes_of(args),
        entailment=args.entailment,
        required=event.required,
    )
    return why_not(log.traced_log, args.subscription, event.id), log


def _over_replay(args: argparse.Namespace, snapshot: Snapshot, event: LoggedEvent) -> tuple[WhyNot, WhyInput | None]:
    """The answer for subscriptions of files over the log of a lake, as `motet replay` runs them."""
    from motet.jobs.investigate import from_replay, hidden_from_replay
    from motet.jobs.replay import load_replay
    from motet.jobs.subscription_files import load_subscriptions
    from motet.provenance.why_not import LocatedObstacle, WhyNot, why_not

    subscriptions = load_subscriptions(args.subscriptions, syntax=args.syntax)
    replay = load_replay(snapshot, subscriptions, ontology=arguments.load_ontology(args).triples)
    hidden = hidden_from_replay(replay, args.subscription, event)
    if hidden is not None:
        obstacle = LocatedObstacle(None, None, hidden, (0,))
        return WhyNot(args.subscription, event.id, event.interval.start, (obstacle,)), None
    log = from_replay(replay, args.subscription, event.interval, _style(args), event.required)
    return why_not(log.traced_log, args.subscription, event.id), log


def _style(args: argparse.Namespace) -> TextStyle:
    from motet.provenance.text import TextStyle

    return TextStyle(arguments.declared_prefixes(args) | arguments.prefixes_of(args))
