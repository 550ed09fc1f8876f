"""`motet diff`: what edited subscriptions gain and lose on a lake's history, and why."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from motet.cli import output, why_arguments
from motet.cli.replay import add_span, run_on, span_of
from motet.language.parse import SYNTAXES

if TYPE_CHECKING:
    from motet.jobs.diff import Change, ChangeExplainer

HELP = "show which notifications edited subscriptions gain and lose on a lake's history, and why"
EXAMPLES = """\
  motet diff fire.motet fire-edited.motet --lake building
  motet diff fire.motet fire-edited.motet --lake building --since 2026-11-16T08:00:00Z --limit 100 --json
"""
LIMIT = 20

Line = tuple[str, str, str]  # branches, text, kind: as of `motet why`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD", help="a file of subscriptions")
    parser.add_argument("new", metavar="NEW", help="the same, edited; subscriptions are compared by name")
    parser.add_argument("--lake", metavar="DIR", required=True)
    add_span(parser)
    parser.add_argument("--syntax", choices=SYNTAXES, default="motet", help="the subscriptions' language")
    parser.add_argument("--engine", choices=["embedded", "spark"], default="embedded", help="what replays them")
    parser.add_argument(
        "--limit", type=int, default=LIMIT, metavar="N", help=f"for how many to say why (default: {LIMIT})"
    )
    why_arguments.add_prefix_argument(parser)
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace) -> int:
    from motet.jobs.diff import ChangeExplainer, replayed_changes, status
    from motet.jobs.replay import load_replay
    from motet.jobs.subscription_files import load_documents
    from motet.provenance.text import TextStyle

    documents = [load_documents([path], syntax=args.syntax) for path in (args.old, args.new)]
    old, new = ([one for _, found, _ in each for one in found] for each in documents)
    before, after = (load_replay(args.lake, each, **span_of(args)) for each in (old, new))
    names = TextStyle(why_arguments.declared_prefixes([*documents[0], *documents[1]]) | why_arguments.prefixes_of(args))
    changes = replayed_changes(before, after, lambda replay, sink: run_on(args.engine, replay, sink))
    explainer = ChangeExplainer(before, after, names)
    show = _show_json if args.json else _show
    show(status(old, new), changes, explainer, max(args.limit, 0))
    return 0


def _show(status: dict[str, str], changes: Iterator[Change], explainer: ChangeExplainer, limit: int) -> None:
    shown: list[Change] = []
    counts = Counter[tuple[str, bool]]()
    for change in changes:
        counts[change.notification.subscription, change.gained] += 1
        if len(shown) < limit:
            shown.append(change)
    output.print_table(list(_rows(status, counts)), headers=["subscription", "", "gained", "lost"])
    for change in shown:
        print()
        why_arguments.show(_lines(change, explainer), "")
    if hidden := counts.total() - len(shown):
        output.complain(f"{hidden} more; --limit says for how many to say why")


def _rows(status: dict[str, str], counts: Counter[tuple[str, bool]]) -> Iterator[list[object]]:
    for name, what in status.items():
        gained, lost = counts[name, True], counts[name, False]
        yield [name, "fed differently" if what == "unchanged" and gained + lost else what, gained, lost]


def _lines(change: Change, explainer: ChangeExplainer) -> Iterator[Line]:
    from motet.provenance.obstacle_text import obstacle_text
    from motet.provenance.text import why_lines

    told, explanation = change.notification, explainer.explain(change)
    names = explainer.names.for_day(told.start)
    head: list[Line] = [
        ("", f"{told.subscription} {told.id[:12]} on {names.day}, {names.interval(told.start, told.end)}", "head")
    ]
    lines = why_lines(explanation.why, explainer.names) if explanation.why else head
    for number, (branch, text, kind) in enumerate(lines):
        sign = ("+ " if change.gained else "- ") if number == 0 else "  "
        yield sign + branch, text, kind
    if explanation.why_not is not None:
        when, event = "before" if change.gained else "now", explanation.why_not.event
        text = obstacle_text(explanation.why_not.nearest, event, names)
        yield "  ", f"{when}, {names.event(event)}: {text}", "operator"


def _show_json(status: dict[str, str], changes: Iterator[Change], explainer: ChangeExplainer, limit: int) -> None:
    from motet.provenance.obstacle_text import why_not_json
    from motet.provenance.text import why_json

    found: list[dict[str, object]] = []
    for change in changes:
        notification = json.loads(change.notification.to_line())
        told = {"change": "gained" if change.gained else "lost", "notification": notification}
        if len(found) < limit:
            explanation = explainer.explain(change)
            told["why"] = why_json(explanation.why) if explanation.why else None
            told["why_not"] = why_not_json(explanation.why_not) if explanation.why_not else None
        found.append(told)
    output.print_json({"subscriptions": status, "changes": found})
