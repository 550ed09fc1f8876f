"""`motet why-not`: what stops an event from being told by a subscription."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from motet.cli import at_hand, output
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.cli.at_hand import AtHand
    from motet.lake import Snapshot

HELP = "say which predicate or condition kept an event from being told by a subscription"
EXAMPLES = """\
  motet why-not --subscription real-fire --event urn:e:7 --lake building
  motet why-not --subscription real-fire --event urn:e:7 --subscriptions fire.motet --events monday.nq --all
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--subscription", metavar="NAME", required=True)
    parser.add_argument("--event", metavar="IRI", required=True)
    parser.add_argument("--all", action="store_true", help="every reason, nearest first, not only the nearest")
    at_hand.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from motet.provenance.hindrance_words import as_json, as_lines
    from motet.provenance.why_not import why_not

    at_hand.check(args)
    event = args.event.strip("<>")
    found = _from_lake(args, event) if args.lake else at_hand.from_files(args, keep=(event,))
    answer = why_not(found.scene, args.subscription, event)
    if args.json:
        output.print_json(as_json(answer) | {"examined": found.examined, "of_events": found.events})
    else:
        at_hand.show(as_lines(answer, found.names, everything=args.all), found.note())
    return 0


def _from_lake(args: argparse.Namespace, event: str) -> AtHand:
    from motet.lake import Lake

    snapshot = Lake.open(args.lake, create=False).snapshot()
    span = _span(snapshot, event)
    return at_hand.from_lake(snapshot, args.subscription, span, args, (event,))


def _span(snapshot: Snapshot, event: str) -> tuple[int, int]:
    """When the event was."""
    import pyarrow.compute as pc

    from motet.model.tables import micros

    for batch in snapshot.records(columns=["kind", "id", "start", "end"]):
        here = batch.filter(pc.and_(pc.equal(batch.column("kind"), "event"), pc.equal(batch.column("id"), event)))
        for start, end in zip(micros(here.column("start")), micros(here.column("end")), strict=True):
            assert start is not None and end is not None, "events of a log are stamped"
            return start, end
    raise UsageError(f"there is no event <{event}> in {snapshot.store.root}", advice="Check the event's IRI.")
