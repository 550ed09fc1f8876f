"""`motet diff`: what edited subscriptions gain and lose on a lake's history, and why."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from motet.cli import at_hand, output
from motet.cli.replay import add_span, run_on, span_of
from motet.language.parse import SYNTAXES
from motet.model.errors import MotetError

if TYPE_CHECKING:
    from motet.embedded.diff import Change
    from motet.embedded.replay import Replay
    from motet.model.notifications import Notification
    from motet.provenance.derivation import Why
    from motet.provenance.why_not import WhyNot
    from motet.provenance.wording import Names

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
    parser.add_argument(
        "--prefix", action="append", default=[], metavar="NAME=IRI", help="shorten IRIs, as the files' own prefixes do"
    )
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace) -> int:
    from motet.embedded.diff import replayed_changes, status
    from motet.embedded.job import load_documents
    from motet.embedded.replay import load_replay
    from motet.provenance.wording import Names

    documents = [load_documents([path], syntax=args.syntax) for path in (args.old, args.new)]
    old, new = ([one for _, found, _ in each for one in found] for each in documents)
    before, after = (load_replay(args.lake, each, **span_of(args)) for each in (old, new))
    names = Names(at_hand.written_prefixes([*documents[0], *documents[1]]) | at_hand.prefixes_of(args))
    changes = replayed_changes(before, after, lambda replay, sink: run_on(args.engine, replay, sink))
    show = _show_json if args.json else _show
    show(status(old, new), changes, _Accounts(before, after, names), max(args.limit, 0))
    return 0


@dataclass(frozen=True)
class _Account:
    """Why one side gives a notification, and what stops it on the other; None where that cannot be said."""

    why: Why | None
    why_not: WhyNot | None


@dataclass(frozen=True)
class _Accounts:
    old: Replay
    new: Replay
    names: Names

    def of(self, change: Change) -> _Account:
        giving, other = (self.new, self.old) if change.gained else (self.old, self.new)
        return _Account(self._why(giving, change.notification), self._why_not(other, change.notification))

    def _why(self, replay: Replay, told: Notification) -> Why | None:
        from motet.provenance.derivation import why

        found = at_hand.from_replay(replay, told.subscription, (told.start, told.end), self.names, told.events)
        try:
            return why(found.scene, told, checked=found.complete)
        except MotetError:  # it needs events that are not among those that can be examined
            return None

    def _why_not(self, replay: Replay, told: Notification) -> WhyNot | None:
        """Of the event that gets least far: what the others lack is a consequence."""
        from motet.provenance.why_not import why_not

        if all(one.name != told.subscription for part in replay.parts for one in part.subscriptions):
            return None
        found = at_hand.from_replay(replay, told.subscription, (told.start, told.end), self.names, told.events)
        known = [event for event in told.events if found.scene.start_of(event) is not None]
        answers = [why_not(found.scene, told.subscription, event) for event in known]
        return min(answers, key=lambda answer: answer.nearest.nearness, default=None)


def _show(status: dict[str, str], changes: Iterator[Change], accounts: _Accounts, limit: int) -> None:
    shown: list[Change] = []
    counts = Counter[tuple[str, bool]]()
    for change in changes:
        counts[change.notification.subscription, change.gained] += 1
        if len(shown) < limit:
            shown.append(change)
    output.print_table(list(_rows(status, counts)), headers=["subscription", "", "gained", "lost"])
    for change in shown:
        print()
        at_hand.show(_lines(change, accounts), "")
    if hidden := counts.total() - len(shown):
        output.complain(f"{hidden} more; --limit says for how many to say why")


def _rows(status: dict[str, str], counts: Counter[tuple[str, bool]]) -> Iterator[list[object]]:
    for name, what in status.items():
        gained, lost = counts[name, True], counts[name, False]
        yield [name, "fed differently" if what == "unchanged" and gained + lost else what, gained, lost]


def _lines(change: Change, accounts: _Accounts) -> Iterator[Line]:
    from motet.provenance.hindrance_words import sentence
    from motet.provenance.tree import as_lines

    told, account = change.notification, accounts.of(change)
    names = accounts.names.of_day(told.start)
    head: list[Line] = [
        ("", f"{told.subscription} {told.id[:12]} on {names.day}, {names.span(told.start, told.end)}", "head")
    ]
    for number, (branch, text, kind) in enumerate(as_lines(account.why, accounts.names) if account.why else head):
        sign = ("+ " if change.gained else "- ") if number == 0 else "  "
        yield sign + branch, text, kind
    if account.why_not is not None:
        when, event = "before" if change.gained else "now", account.why_not.event
        text = sentence(account.why_not.nearest, event, names)
        yield "  ", f"{when}, {names.event(event)}: {text}", "operator"


def _show_json(status: dict[str, str], changes: Iterator[Change], accounts: _Accounts, limit: int) -> None:
    from motet.provenance import hindrance_words, tree

    found: list[dict[str, object]] = []
    for change in changes:
        notification = json.loads(change.notification.to_line())
        told = {"change": "gained" if change.gained else "lost", "notification": notification}
        if len(found) < limit:
            account = accounts.of(change)
            told["why"] = tree.as_json(account.why) if account.why else None
            told["why_not"] = hindrance_words.as_json(account.why_not) if account.why_not else None
        found.append(told)
    output.print_json({"subscriptions": status, "changes": found})
