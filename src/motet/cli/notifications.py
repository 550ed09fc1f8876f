"""`motet notifications`: print the notifications of a lake, computing those that its table lacks first."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from motet.cli import output
from motet.cli.arguments import parse_instant
from motet.cli.lake_advice import pending_text, warn_of_earlier_events, warn_of_no_subscription
from motet.cli.shutdown import graceful_shutdown
from motet.model.errors import UsageError
from motet.model.times import format_datetime

if TYPE_CHECKING:
    import pyarrow as pa

    from motet.embedded.pipeline import LakeStream
    from motet.lake import Lake, Snapshot
    from motet.model.notifications import Notification

FOLLOW_SECONDS = 0.2  # between two looks for new records
HELP = "print the notifications of a lake; first computes those that are due, in this process"
EXAMPLES = """\
  motet notifications --lake building
  motet notifications --lake building --subscription real-fire --format json
  motet notifications --lake building --since 2026-11-15T08:00:00Z --format csv > notifications.csv
  motet notifications --lake building --follow            # goes on, until Ctrl-C
  motet notifications --lake building --consumer report   # only what this consumer has not received yet

json: one line for each notification, as `motet run` prints them
a consumer receives everything at least once: its cursor is moved after its notifications are printed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lake", metavar="DIR", required=True, help="the lake")
    add("--follow", action="store_true", help="go on with the notifications of records that are appended, until Ctrl-C")
    add("--since", metavar="TIME", help="leave out notifications that end before this time, or below this log offset")
    add("--subscription", metavar="NAME", nargs="+", action="extend", help="only of these subscriptions (default: all)")
    add("--consumer", metavar="NAME", help="read on after the cursor of this consumer, and move it")
    add("--format", choices=["table", "json", "csv"], default="table", help="default: table")
    add("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    add("--output", metavar="FILE", help="default: standard output")


def run(args: argparse.Namespace) -> int:
    from motet.embedded.pipeline import LakeStream
    from motet.lake import Lake

    if args.consumer is not None and args.since is not None:
        raise UsageError("a consumer reads on after its cursor", advice="Leave --since or --consumer out.")
    since = parse_since(args.since)
    lake = Lake.open(args.lake, create=False)
    snapshot = lake.snapshot()
    _check_names(args, snapshot)
    if not warn_of_no_subscription(snapshot, args.lake):
        warn_of_earlier_events(snapshot)
    with _Output(args.output) as sink, graceful_shutdown() as stop_requested, LakeStream(lake, output.warn) as stream:
        reader = _Reader(lake, args.subscription, since, args.consumer)
        try:
            writer = _writer(args.format, sink, snapshot, args.subscription)
            stream.process()
            reader.print_new(writer, sink)
            while args.follow and not stop_requested.wait(FOLLOW_SECONDS):
                stream.follow()
                reader.print_new(writer, sink)
        finally:
            lake.consumers.release_all()
        _print_end(args, stream, reader.count)
    return 0


def parse_since(text: str | None) -> tuple[int, int | None]:
    """The first emission offset and the least end of notifications: one of them is what the user gives.

    >>> parse_since("12"), parse_since("1970-01-01T00:00:01Z")
    ((12, None), (0, 1000000))
    """
    if text is None:
        return 0, None
    return (int(text), None) if text.isdigit() else (0, parse_instant(text))


def _check_names(args: argparse.Namespace, snapshot: Snapshot) -> None:
    """Refuse names that the lake has never had; a consumer needs active ones."""
    from motet.model.records import Subscribe

    if args.consumer is not None:
        known = set(snapshot.subscriptions())
    else:
        known = {record.name for record in snapshot.control_records(Subscribe) if isinstance(record, Subscribe)}
    for name in args.subscription or ():
        if name not in known:
            raise UsageError(
                f"there is no subscription {name!r} in {args.lake}",
                advice=f"`motet subscriptions --lake {args.lake}` lists them.",
            )


class _Output:
    """Standard output, or a file that grows as notifications come."""

    def __init__(self, path: str | None) -> None:
        self._path = None if path == "-" else path
        self._file: TextIO | None = None

    def __enter__(self) -> TextIO:
        if self._path is None:
            return sys.stdout
        try:
            self._file = Path(self._path).open("w", encoding="utf-8", newline="")
        except OSError as error:
            message = f"{self._path} cannot be written: {error.strerror}"
            raise UsageError(message, advice="Choose another --output.") from error
        return self._file

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


class _Reader:
    """Reads the notification table on from an offset, or from the cursors of a consumer."""

    def __init__(
        self, lake: Lake, names: list[str] | None, since: tuple[int, int | None], consumer: str | None
    ) -> None:
        self.count = 0
        self._lake = lake
        self._names = None if names is None else frozenset(names)
        self._first, self._earliest = since
        self._consumer = consumer
        if consumer is not None:
            lake.consumers.claim([consumer])
        self._starts = self._cursors()
        self._next = self._first if consumer is None else min(self._starts.values(), default=0)

    def print_new(self, writer: _Writer, sink: TextIO) -> None:
        """Print the notifications that were stored since the last call, then move the cursors."""
        snapshot = self._lake.snapshot()
        stop = snapshot.notifications_end
        if self._next >= stop:
            return
        self._starts = self._cursors()
        retracted = self._retracted(snapshot)
        for batch in snapshot.notifications(self._next):
            rows = self._filtered(batch, stop)
            writer.write(rows, retracted)
            self.count += rows.num_rows
        sink.flush()
        self._next = stop
        if self._consumer is not None and self._starts:
            from motet.lake.progress import cursor_name

            self._lake.consumers.put_cursors({cursor_name(self._consumer, name): stop for name in self._starts})

    def _cursors(self) -> dict[str, int]:
        """By subscription, the emission offset from which the consumer receives its notifications."""
        if self._consumer is None:
            return {}
        from motet.lake.progress import cursor_name

        active = self._lake.snapshot().subscriptions()
        names = [name for name in active if self._names is None or name in self._names]
        cursors = self._lake.cursors(cursor_name(self._consumer, name) for name in names)
        return {name: max(active[name].offset, cursors[cursor_name(self._consumer, name)]) for name in names}

    def _retracted(self, snapshot: Snapshot) -> frozenset[str]:
        from motet.model.records import Retraction

        records = snapshot.control_records(Retraction)
        return frozenset(record.event_id for record in records if isinstance(record, Retraction))

    def _filtered(self, batch: pa.RecordBatch, stop: int) -> pa.RecordBatch:
        import pyarrow as pa
        import pyarrow.compute as pc

        from motet.model.batches import TIME

        rows = batch.filter(pc.less(batch.column("offset"), stop))
        if self._names is not None:
            rows = rows.filter(pc.is_in(rows.column("subscription"), pa.array(sorted(self._names), pa.string())))
        if self._earliest is not None:
            rows = rows.filter(pc.greater_equal(rows.column("end"), pa.scalar(self._earliest, TIME)))
        if self._consumer is not None:
            pairs = zip(rows.column("subscription").to_pylist(), rows.column("offset").to_pylist(), strict=True)
            rows = rows.filter(pa.array([at >= self._starts.get(name, stop) for name, at in pairs], pa.bool_()))
        return rows


class _Writer(Protocol):
    """Writes rows of NOTIFICATIONS in one format; ``retracted`` has the events that were retracted."""

    def write(self, rows: pa.RecordBatch, retracted: frozenset[str]) -> None: ...


def _notifications(
    rows: pa.RecordBatch, retracted: frozenset[str]
) -> Iterator[tuple[Notification, str, list[str], dict[str, str]]]:
    """Each notification with its end, those of its events that were retracted, and its values by variable."""
    from motet.model.batches import notification_rows

    for notification, _ in notification_rows(rows):
        values = {name: term["value"] for name, term in notification.bindings_json.items()}
        events = [event for event in notification.events if event in retracted]
        yield notification, format_datetime(notification.end_micros), events, values


def _writer(format_: str, sink: TextIO, snapshot: Snapshot, names: Iterable[str] | None) -> _Writer:
    if format_ == "json":
        return _JsonLines(sink)
    return _Csv(sink, _variables(snapshot, names)) if format_ == "csv" else _Lines(sink)


def _variables(snapshot: Snapshot, names: Iterable[str] | None) -> list[str]:
    """The variables that the registered subscriptions deliver, sorted."""
    from motet.language.parse import parse
    from motet.model.records import Subscribe
    from motet.reference.visibility import Visibility

    variables: set[str] = set()
    for record in snapshot.control_records(Subscribe):
        assert isinstance(record, Subscribe)
        if names is None or record.name in names:
            (subscription,) = parse(record.text)
            visibility = Visibility(subscription)
            if visibility.selects_all:
                variables |= visibility.visible(subscription.pattern, frozenset(), inside_iteration=False)
            else:
                variables |= visibility.delivery_variables()
    return sorted(variables)


class _JsonLines:
    """The lines of section 10 of the language page."""

    def __init__(self, sink: TextIO) -> None:
        self._sink = sink

    def write(self, rows: pa.RecordBatch, retracted: frozenset[str]) -> None:
        from motet.model.notification_lines import json_lines

        self._sink.write("".join(f"{line}\n" for line in json_lines(rows).to_pylist()) if rows.num_rows else "")


class _Lines:
    """One line of text for each notification: end, subscription, bindings, beginning of the id."""

    def __init__(self, sink: TextIO) -> None:
        self._sink = sink
        self._width = 12

    def write(self, rows: pa.RecordBatch, retracted: frozenset[str]) -> None:
        for notification, end, events, values in _notifications(rows, retracted):
            self._width = max(self._width, len(notification.subscription))
            content = " ".join(f"{name}={value}" for name, value in values.items()) or " ".join(notification.events)
            mark = f"  (retracted: {' '.join(events)})" if events else ""
            text = f"{end}  {notification.subscription:<{self._width}}  {content}  {notification.id[:12]}{mark}"
            self._sink.write(output.printable(text) + "\n")


class _Csv:
    """Comma-separated values with a column for each variable; variables without one are in the column `others`."""

    def __init__(self, sink: TextIO, variables: list[str]) -> None:
        self._variables = variables
        self._rows = csv.writer(sink, lineterminator="\n")
        columns = ("id", "subscription", "start", "end", "events", "retracted")
        self._rows.writerow([*columns, *variables, "others"])

    def write(self, rows: pa.RecordBatch, retracted: frozenset[str]) -> None:
        for notification, end, events, values in _notifications(rows, retracted):
            others = " ".join(f"{name}={value}" for name, value in values.items() if name not in self._variables)
            start = format_datetime(notification.start_micros)
            fixed = notification.id, notification.subscription, start, end, " ".join(notification.events)
            bound = (values.get(name, "") for name in self._variables)
            self._rows.writerow([*fixed, " ".join(events), *bound, others])


def _print_end(args: argparse.Namespace, stream: LakeStream, count: int) -> None:
    if args.format == "table" or args.output:
        output.warn(f"{count} notification{'' if count == 1 else 's'}")
    if text := pending_text(stream.pending(), args.lake):
        output.warn(text)
