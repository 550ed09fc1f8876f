"""`motet why`: the derivation tree of a notification."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from motet.cli import arguments, output
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.jobs.investigate import WhyInput
    from motet.jobs.run import BatchJob
    from motet.model.notifications import Notification

HELP = "explain a notification: its events, their bindings, and what held at each operator"
EXAMPLES = """\
  motet why 3f2a --lake building
  motet why 3f2a --subscriptions fire.motet --events monday.nq --ontology building.ttl
  motet why 3f2a --lake building --prefix ex=http://example.org/building# --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the notification's id, or a unique prefix of it")
    add_input_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from motet.provenance.text import why_json, why_lines
    from motet.provenance.why import why

    check_input_arguments(args)
    log, notification = _from_lake(args) if args.lake else _from_files(args)
    answer = why(log.traced_log, notification, is_complete=log.is_complete)
    if args.json:
        output.print_json(why_json(answer) | {"examined": log.examined, "of_events": log.events})
    else:
        output.print_tree(why_lines(answer, log.style), log.note())
    return 0


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """What to explain: a lake, or files; for `motet why-not`, too."""
    add = parser.add_argument
    add("--lake", metavar="DIR", help="the lake to look into; or give files as for `motet run`:")
    add("--subscriptions", nargs="+", metavar="FILE", default=[], help="subscription files")
    add("--events", nargs="+", metavar="FILE", default=[], help="event files, in the order to read")
    arguments.add_syntax_argument(parser)
    arguments.add_ontology_arguments(parser)
    arguments.add_arrival_argument(parser)
    arguments.add_document_arguments(parser)
    arguments.add_content_type_argument(parser)
    arguments.add_prefix_argument(parser)
    add("--json", action="store_true", help="print the answer as JSON")


def check_input_arguments(args: argparse.Namespace, *, subscriptions_with_lake: bool = False) -> None:
    """Require a lake or files, not both; subscription files over a lake only if the command allows them."""
    has_files = bool(args.subscriptions) and bool(args.events)
    is_both = args.lake and (args.events or (args.subscriptions and not subscriptions_with_lake))
    if is_both or not (args.lake or has_files):
        raise UsageError("a lake or files are required", advice="Give --lake DIR, or --subscriptions and --events.")
    options: dict[str, object] = {"arrival": None, "base": None, "rest": "refuse", "content_type": None}
    options["entailment" if args.subscriptions else "ontology"] = None if args.subscriptions else []
    given = [name for name, default in options.items() if getattr(args, name) != default]
    if args.lake and given:
        raise UsageError(
            f"--{given[0].replace('_', '-')} does not apply to the log of a lake", advice="Leave it out, or give files."
        )


def input_from_files(args: argparse.Namespace, required: tuple[str, ...] = (), job: BatchJob | None = None) -> WhyInput:
    """The log of the given files, or of a job of them; the events in ``required`` are examined in any case."""
    from motet.jobs.investigate import from_files
    from motet.jobs.subscription_files import declared_prefixes, load_documents

    job = arguments.load_job(args) if job is None else job
    prefixes = declared_prefixes(load_documents(args.subscriptions, syntax=args.syntax))
    return from_files(job, prefixes | arguments.prefixes_of(args), output.Rejections(None), required)


def _from_files(args: argparse.Namespace) -> tuple[WhyInput, Notification]:
    from motet.jobs.investigate import find_notification

    log = input_from_files(args)
    return log, find_notification(args.id, (emission.notification for emission in log.traced_log.emissions_by_name()))


def _from_lake(args: argparse.Namespace) -> tuple[WhyInput, Notification]:
    from motet.jobs.investigate import find_notification, from_lake
    from motet.lake import Lake
    from motet.model.batches import notification_rows
    from motet.model.intervals import Interval

    snapshot = Lake.open(args.lake, create=False).snapshot()
    stored = (notification for batch in snapshot.notifications() for notification, _ in notification_rows(batch))
    notification = find_notification(args.id, stored)
    log = from_lake(
        snapshot,
        notification.subscription,
        Interval(notification.start_micros, notification.end_micros),
        prefixes=arguments.prefixes_of(args),
        entailment=args.entailment,
        required=notification.events,
    )
    return log, notification
