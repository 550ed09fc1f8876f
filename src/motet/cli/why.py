"""`motet why`: the derivation of a notification."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from motet.cli import at_hand, output
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.cli.at_hand import AtHand
    from motet.model.notifications import Notification

HELP = "show why there is a notification: its events, their bindings, and what held at each operator"
EXAMPLES = """\
  motet why 3f2a --lake building
  motet why 3f2a --subscriptions fire.motet --events monday.nq --ontology building.ttl
  motet why 3f2a --lake building --prefix ex=http://example.org/building# --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the notification's id, or as much of its beginning as tells it apart")
    at_hand.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from motet.provenance.derivation import why
    from motet.provenance.tree import as_json, as_lines

    at_hand.check(args)
    found, notification = _from_lake(args) if args.lake else _from_files(args)
    account = why(found.scene, notification, checked=found.complete)
    if args.json:
        output.print_json(as_json(account) | {"examined": found.examined, "of_events": found.events})
    else:
        at_hand.show(as_lines(account, found.names), found.note())
    return 0


def _from_files(args: argparse.Namespace) -> tuple[AtHand, Notification]:
    found = at_hand.from_files(args)
    return found, _the_one(args.id, (emission.notification for emission in found.scene.emitted()))


def _from_lake(args: argparse.Namespace) -> tuple[AtHand, Notification]:
    from motet.lake import Lake
    from motet.model.tables import notification_rows

    snapshot = Lake.open(args.lake, create=False).snapshot()
    stored = (one for batch in snapshot.notifications() for one, _ in notification_rows(batch))
    told = _the_one(args.id, stored)
    return at_hand.from_lake(snapshot, told.subscription, (told.start, told.end), args, told.events), told


def _the_one(beginning: str, notifications: Iterable[Notification]) -> Notification:
    """The notification whose id begins so."""
    matching = (one for one in notifications if one.id.startswith(beginning.lower()))
    found = list(islice(dict.fromkeys(matching), 3))
    if not found:
        raise UsageError(f"no notification has an id that begins with {beginning!r}", advice="`motet run` prints ids.")
    if len(found) > 1:
        ids = ", ".join(one.id[: len(beginning) + 8] for one in found)
        raise UsageError(f"several ids begin with {beginning!r}: {ids}", advice="Give more of the id.")
    return found[0]
