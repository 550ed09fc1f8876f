"""`motet why`: the derivation of a notification."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from motet.cli import output, why_arguments

if TYPE_CHECKING:
    from motet.jobs.investigate import WhyInput
    from motet.model.notifications import Notification

HELP = "show why there is a notification: its events, their bindings, and what held at each operator"
EXAMPLES = """\
  motet why 3f2a --lake building
  motet why 3f2a --subscriptions fire.motet --events monday.nq --ontology building.ttl
  motet why 3f2a --lake building --prefix ex=http://example.org/building# --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the notification's id, or a prefix of it that no other id has")
    why_arguments.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from motet.provenance.text import why_json, why_lines
    from motet.provenance.why import why

    why_arguments.check(args)
    log, notification = _from_lake(args) if args.lake else _from_files(args)
    answer = why(log.scene, notification, is_complete=log.complete)
    if args.json:
        output.print_json(why_json(answer) | {"examined": log.examined, "of_events": log.events})
    else:
        why_arguments.show(why_lines(answer, log.names), log.note())
    return 0


def _from_files(args: argparse.Namespace) -> tuple[WhyInput, Notification]:
    from motet.jobs.investigate import find_notification

    log = why_arguments.input_from_files(args)
    return log, find_notification(args.id, (emission.notification for emission in log.scene.emissions_by_name()))


def _from_lake(args: argparse.Namespace) -> tuple[WhyInput, Notification]:
    from motet.jobs.investigate import find_notification, from_lake
    from motet.lake import Lake
    from motet.model.tables import notification_rows

    snapshot = Lake.open(args.lake, create=False).snapshot()
    stored = (notification for batch in snapshot.notifications() for notification, _ in notification_rows(batch))
    notification = find_notification(args.id, stored)
    log = from_lake(
        snapshot,
        notification.subscription,
        (notification.start, notification.end),
        prefixes=why_arguments.prefixes_of(args),
        entailment=args.entailment,
        required=notification.events,
    )
    return log, notification
