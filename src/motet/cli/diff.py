"""`motet diff`: which notifications edited subscriptions, or late events, gain and lose over the log of a lake."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from motet.cli import arguments, output
from motet.cli.replay import replay_on
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.jobs.diff import ChangeExplainer, NotificationChange
    from motet.provenance.text import Line

HELP = "show which notifications edited subscriptions, or late events, gain and lose over the log of a lake, and why"
EXAMPLES = """\
  motet diff fire.motet fire-edited.motet --lake building
  motet diff fire.motet fire-edited.motet --lake building --since 2026-11-16T08:00:00Z --limit 100 --json
  motet diff fire.motet --late --lake building
"""
DEFAULT_LIMIT = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("old", metavar="OLD", help="the subscription file before the edit")
    add("new", metavar="NEW", nargs="?", help="the file after the edit; subscriptions are compared by name")
    add(
        "--late",
        action="store_true",
        help="instead of an edit, show what late events would change if they had come in time; takes one file",
    )
    add("--lake", metavar="DIR", required=True, help="the lake whose log is replayed")
    arguments.add_replay_range(parser)
    arguments.add_syntax_argument(parser)
    add("--engine", choices=["embedded", "spark"], default="embedded", help="default: embedded")
    add(
        "--limit",
        type=int,
        default=DEFAULT_LIMIT,
        metavar="N",
        help=f"how many changes to explain (default: {DEFAULT_LIMIT})",
    )
    arguments.add_prefix_argument(parser)
    add("--json", action="store_true", help="print the changes as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.jobs.diff import ChangeExplainer, edit_status, replay_changes
    from motet.jobs.replay import load_replay
    from motet.jobs.subscription_files import declared_prefixes, load_documents
    from motet.lake import Lake
    from motet.provenance.text import TextStyle

    if args.late != (args.new is None):
        raise UsageError(
            "--late compares one file with itself" if args.late else "the file after the edit is missing",
            advice="Write `motet diff OLD NEW --lake DIR` or `motet diff FILE --late --lake DIR`.",
        )
    documents = [load_documents([path], syntax=args.syntax) for path in (args.old, args.new or args.old)]
    old, new = (
        [subscription for _, subscriptions, _ in files for subscription in subscriptions] for files in documents
    )
    snapshot = Lake.open(args.lake, create=False).snapshot()
    before, after = (
        load_replay(snapshot, subscriptions, late=late, **arguments.replay_range(args))
        for subscriptions, late in ((old, False), (new, args.late))
    )
    style = TextStyle(declared_prefixes([*documents[0], *documents[1]]) | arguments.prefixes_of(args))
    changes = replay_changes(before, after, lambda replay, sink: replay_on(args.engine, replay, sink))
    explainer = ChangeExplainer(before, after, style)
    if args.late and not args.json:
        output.warn(f"{before.late} of {before.events} events are late")
    show = _show_json if args.json else _show
    show(edit_status(old, new), changes, explainer, max(args.limit, 0))
    return 0


def _show(
    status: dict[str, str], changes: Iterator[NotificationChange], explainer: ChangeExplainer, limit: int
) -> None:
    explained: list[NotificationChange] = []
    counts = Counter[tuple[str, bool]]()
    for change in changes:
        counts[change.notification.subscription, change.gained] += 1
        if len(explained) < limit:
            explained.append(change)
    cause = "late events" if explainer.is_late else "upstream edited"
    output.print_table(list(_rows(status, counts, cause)), headers=["subscription", "", "gained", "lost"])
    for change in explained:
        print()
        output.print_tree(_lines(change, explainer))
    if remaining := counts.total() - len(explained):
        output.warn(f"changes without an explanation: {remaining}. Raise --limit to explain them.")


def _rows(status: dict[str, str], counts: Counter[tuple[str, bool]], cause: str) -> Iterator[list[object]]:
    """A row per subscription; ``cause`` is why an unchanged one has changes."""
    for name, edit in status.items():
        gained, lost = counts[name, True], counts[name, False]
        yield [name, cause if edit == "unchanged" and gained + lost else edit, gained, lost]


def _lines(change: NotificationChange, explainer: ChangeExplainer) -> Iterator[Line]:
    from motet.provenance.obstacle_text import obstacle_text
    from motet.provenance.text import why_lines

    notification, explanation = change.notification, explainer.explain(change)
    style = explainer.style.for_day(notification.start_micros)
    interval = style.interval(notification.start_micros, notification.end_micros)
    head: list[Line] = [("", f"{notification.subscription} {notification.id[:12]} on {style.day}, {interval}", "head")]
    lines = why_lines(explanation.why, explainer.style) if explanation.why else head
    for index, (branch, text, kind) in enumerate(lines):
        sign = ("+ " if change.gained else "- ") if index == 0 else "  "
        yield sign + branch, text, kind
    if explanation.why_not is not None:
        when, event = explainer.side(not change.gained), explanation.why_not.event
        text = obstacle_text(explanation.why_not.nearest, event, style)
        yield "  ", f"{when}, {style.event(event)}: {text}", "operator"


def _show_json(
    status: dict[str, str], changes: Iterator[NotificationChange], explainer: ChangeExplainer, limit: int
) -> None:
    from motet.provenance.obstacle_text import why_not_json
    from motet.provenance.text import why_json

    entries: list[dict[str, object]] = []
    for change in changes:
        notification = json.loads(change.notification.to_line())
        entry = {"change": "gained" if change.gained else "lost", "notification": notification}
        if len(entries) < limit:
            explanation = explainer.explain(change)
            entry["why"] = why_json(explanation.why) if explanation.why else None
            entry["why_not"] = why_not_json(explanation.why_not) if explanation.why_not else None
        entries.append(entry)
    fields: dict[str, object] = {"subscriptions": status, "changes": entries}
    output.print_json(fields | ({"late": explainer.new.late} if explainer.is_late else {}))
