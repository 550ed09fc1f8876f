"""`motet ingest`: append events to a lake: of files, standard input, a watched directory or a NATS stream."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import arguments, output
from motet.cli.arguments import STANDARD
from motet.cli.shutdown import graceful_shutdown
from motet.model.errors import UsageError
from motet.model.settings import SettingValues, parse_setting_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motet.codec.events import Decoded
    from motet.codec.options import DecodeSettings
    from motet.codec.row_mapping import RowMapping
    from motet.connectors.ingestion import DocumentOptions, IngestResult
    from motet.lake import Lake


CHUNK_BYTES = 1 << 20
HELP = "append the events of files, standard input, a watched directory or a NATS stream to a lake"
EXAMPLES = """\
  motet ingest --lake building monday.nq tuesday.nq.gz  # one load: committed in the order of time
  sensors | motet ingest --lake building -              # committed as they come
  motet ingest --lake building --lateness '10 min' --json *.trig
  motet ingest --map new readings.csv > readings.yaml   # a mapping for rows, to edit
  motet ingest --map readings.yaml --dry-run readings.csv
  motet ingest --lake building --map readings.yaml readings.csv more.ndjson
  motet ingest --lake building --ontology building.ttl events.nq
  motet ingest --lake building --watch inbox            # each new file once, until Ctrl-C
  motet ingest --lake building --watch inbox --once     # the files that are there, then stop
  motet ingest --lake building --nats nats://127.0.0.1:4222 --stream EVENTS --durable motet

status: 1 when events were rejected; with --strict 3, also when events were late
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="event files, in any order; - for standard input")
    add("--watch", metavar="DIR", help="ingest the files of a directory, and those that appear in it")
    add("--nats", metavar="URL", help="ingest the messages of a stream of this NATS server")
    add("--stream", metavar="NAME", help="the JetStream stream (with --nats)")
    add("--durable", metavar="NAME", default="motet", help="the durable consumer of the stream (default: %(default)s)")
    add(
        "--content-type",
        metavar="TYPE",
        help="the format of standard input, and of messages without a Content-Type header (default: N-Quads)",
    )
    add("--id", metavar="IRI", help="the file, or standard input, is one event with this IRI")
    add("--base", metavar="IRI", help="the base of relative IRIs in documents that have none")
    add(
        "--rest",
        choices=["refuse", "drop", "share"],
        default="refuse",
        help="triples that belong to no event: refuse their document, drop them, or share them between all its events "
        "(default: %(default)s)",
    )
    add_mapping_arguments(parser)
    add("--once", action="store_true", help="with --watch or --nats: stop when no input is left")
    add("--lake", metavar="DIR", help="the lake, created if there is none; required unless nothing is written")
    add(
        "--lateness",
        metavar="DURATION",
        help="for a new lake: how far an event may end behind the newest one and still be matched, "
        "such as '10 min', or 'unlimited' (default: 5 s); motet settings changes it later",
    )
    add(
        "--dead-letter",
        metavar="FILE",
        help="where rejected events are written (default: dead-letter/rejected.jsonl in the lake)",
    )
    arguments.add_background_argument(parser)
    arguments.add_strict_argument(parser)
    add("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake, is_lake

    _check(args)
    if is_preview(args):
        return preview(args)
    settings: SettingValues = {}
    if args.lateness is not None:
        settings["lateness"] = parse_setting_duration(args.lateness, "unlimited")
    is_new = not is_lake(args.lake)
    lake = Lake.open(args.lake, **settings)
    rejections = output.Rejections(args.dead_letter or Path(args.lake) / "dead-letter" / "rejected.jsonl")
    totals = _Totals("messages" if args.nats else "files", rejections)
    started = time.perf_counter()
    is_complete = False
    try:
        arguments.add_ontology(args, lake)
        if args.files == [STANDARD]:
            _ingest_standard_input(args, lake, rejections, totals)
        elif args.files:
            _ingest_files(args, lake, rejections, totals)
        else:
            _follow(args, lake, rejections, totals)
        is_complete = True
    finally:  # what was done is said also when the rest fails
        if is_new and not totals.result.accepted and (rejections.count or not is_complete) and lake.delete_if_empty():
            output.warn(f"no event was accepted, so no lake {args.lake} was created")
        fields = totals.counts | {"lake": args.lake, "seconds": round(time.perf_counter() - started, 3)}
        if not is_complete:
            output.warn("stopped before the end of the input: the summary is of what was committed")
        output.print_json({**fields, "complete": is_complete}) if args.json else output.print_fields(fields)
        _print_advice(totals.result, rejections, args.lake)
    return arguments.exit_status(args, rejected=rejections.count, late=totals.result.late)


class _Totals:
    """The counts of the summary and of the progress line."""

    def __init__(self, inputs: str, rejections: output.Rejections) -> None:
        from motet.connectors.ingestion import IngestResult

        self._inputs = inputs
        self._rejections = rejections
        self.result = IngestResult()

    @property
    def counts(self) -> dict[str, object]:
        """The counts by name; conflicting events are among the rejected ones."""
        return {self._inputs: self.result.inputs, "accepted": self.result.accepted, **self._others()}

    def _others(self) -> dict[str, int]:
        names = ("repeated", "stamped", "late", "left_out")
        counts = {name: getattr(self.result, name) for name in names}
        return counts | {"rejected": self._rejections.count, "conflicting": self._rejections.conflicts}

    @property
    def decided(self) -> int:
        """The number of events that are accepted, repeated or rejected."""
        return self.result.accepted + self.result.repeated + self.result.rejected

    def add(self, result: IngestResult) -> str:
        """Add a commit; returns the text that shows the progress."""
        self.result += result
        others = [f"{count} {name.replace('_', ' ')}" for name, count in self._others().items() if count]
        return ", ".join([f"{self.result.accepted} accepted", *others])


def _documents(args: argparse.Namespace) -> DocumentOptions:
    from motet.connectors.ingestion import DocumentOptions

    return DocumentOptions(args.id, args.base, args.rest, arguments.read_mapping(args))


def _ingest_files(args: argparse.Namespace, lake: Lake, rejections: output.Rejections, totals: _Totals) -> None:
    from motet.connectors.ingestion import ingest_files

    with output.byte_progress() as progress:
        reading = progress.add_task("reading", total=sum(_sizes(args.files)), note="")
        committing = progress.add_task("committing", total=None, note="", visible=False)

        def on_sorted(events: int) -> None:
            progress.update(reading, visible=False)
            progress.update(committing, total=events, visible=True)

        on_read, documents = partial(progress.advance, reading), _documents(args)
        for result in ingest_files(
            lake, args.files, rejections, on_read=on_read, on_sorted=on_sorted, documents=documents
        ):
            progress.update(committing, note=totals.add(result), completed=totals.decided)


def _ingest_standard_input(
    args: argparse.Namespace, lake: Lake, rejections: output.Rejections, totals: _Totals
) -> None:
    from motet.connectors.ingestion import IngestResult, ingest_chunks

    with output.status_line("ingesting") as show:
        chunks, documents = _standard_input_chunks(), _documents(args)
        for result in ingest_chunks(lake, chunks, args.content_type, rejections, documents=documents):
            show(totals.add(result))
    totals.add(IngestResult(inputs=1))


def _standard_input_chunks() -> Iterator[bytes]:
    """What can be read from standard input without waiting for more, until it ends."""
    while chunk := os.read(sys.stdin.fileno(), CHUNK_BYTES):
        yield chunk


def _follow(args: argparse.Namespace, lake: Lake, rejections: output.Rejections, totals: _Totals) -> None:
    with graceful_shutdown() as stop_requested, output.status_line("ingesting") as show:

        def on_commit(result: IngestResult) -> None:
            show(totals.add(result))

        if args.watch:
            from motet.connectors.directory import DirectorySource, watch_directory

            directory = DirectorySource(args.watch, lake, rejections, documents=_documents(args))
            watch_directory(directory, on_commit, stop_requested, once=args.once)
            return
        from motet.connectors.nats import StreamSource, ingest_stream

        source = StreamSource(args.nats, args.stream, args.durable, args.content_type, _documents(args))
        ingest_stream(
            source,
            lake,
            rejections,
            on_commit=on_commit,
            report=output.warn,
            stop_requested=stop_requested,
            once=args.once,
        )


def _check(args: argparse.Namespace) -> None:
    """Refuse wrong arguments before a lake is created."""
    from motet.codec.formats import Format, format_of_content_type

    if args.lake is None and not is_preview(args):
        raise UsageError("the lake is missing", advice="Add --lake DIR; it is created if there is none.")
    if sum(map(bool, (args.files, args.watch, args.nats))) != 1:
        raise UsageError("exactly one source is required", advice="Give files, or -, or --watch DIR, or --nats URL.")
    if STANDARD in args.files and len(args.files) > 1:
        raise UsageError("standard input is no part of a load of files", advice="Ingest - and the files separately.")
    if args.id is not None and len(args.files) != 1:
        raise UsageError("--id names the event of one input", advice="Give one file, or -.")
    if args.nats and not args.stream:
        raise UsageError("--nats requires the name of a stream", advice="Add --stream NAME.")
    if args.once and args.files:
        raise UsageError("--once is for --watch and --nats", advice="Omit it: files are read once anyway.")
    if args.watch and not Path(args.watch).is_dir():
        raise UsageError(f"there is no directory {args.watch!r}", advice="Create it, or check the path.")
    if args.content_type is not None and not args.nats and args.files != [STANDARD]:
        raise UsageError("--content-type is for - and --nats", advice="Leave it out: files have that of their names.")
    args.content_type = args.content_type or Format.N_QUADS.value
    format_of_content_type(args.content_type)
    check_mapping(args)
    if args.files != [STANDARD]:
        _sizes(args.files)


def _sizes(paths: list[str]) -> list[int]:
    for path in paths:
        if not Path(path).is_file():
            raise UsageError(f"there is no event file {path!r}", advice="Check the path; for a directory use --watch.")
    return [Path(path).stat().st_size for path in paths]


def _print_advice(totals: IngestResult, rejections: output.Rejections, lake: str) -> None:
    if totals.late:
        output.warn(
            f"late events: {totals.late}. They are stored and can be queried, but subscriptions do not match them.\n"
            f"  `motet diff SUBSCRIPTIONS --late --lake {lake}` shows what they would change.\n"
            f"  `motet settings --lake {lake} --lateness '10 min'` accepts later events from now on."
        )
    if totals.stamped:
        output.warn(
            f"stamped events: {totals.stamped}. They state no time, so they have that of their commit.\n"
            f"  `motet settings --lake {lake}` lists the properties that are read as times."
        )
    if totals.left_out:
        output.warn(f"left out: {totals.left_out} triples or derived events. Derived events are derived again.")
    if rejections.count:
        output.warn(
            f"rejected events: {rejections.count}. Correct the dead letters "
            f"{'above' if rejections.path == STANDARD else f'in {rejections.path}'} and ingest them again."
        )


# Rows: --map, and --dry-run, which shows what the mapping makes of the files


NEW = "new"
PREVIEW_EVENTS = 2


def add_mapping_arguments(parser: argparse.ArgumentParser) -> None:
    """--map and --dry-run."""
    parser.add_argument(
        "--map",
        metavar="MAPPING",
        help="a YAML file that says which events the rows of CSV and JSON are, and which triples XML documents have; "
        "`new` prints one for FILE to begin with, 'generic' lifts every document",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="read the files and print the columns, types and first events; write nothing",
    )


def check_mapping(args: argparse.Namespace) -> None:
    """Refuse a mapping that cannot be read, or that no input uses."""
    if args.map is None or args.map == NEW:
        return
    from motet.codec.formats import Format, find_format, format_of_content_type

    mapping = arguments.read_mapping(args)
    formats = [format_of_content_type(args.content_type)] if "-" in args.files else map(find_format, args.files)
    found = {syntax for syntax in formats if syntax is not None and (syntax.is_rows or syntax is Format.XML)}
    if args.files and not found:
        advice = "Leave --map out; of standard input, --content-type says what it is."
        raise UsageError("--map is for rows of CSV and JSON and for XML, and no input has rows or XML", advice=advice)
    if mapping is not None and Format.XML in found:
        from motet.codec.xml import xml_mapping

        xml_mapping(mapping)


def is_preview(args: argparse.Namespace) -> bool:
    """Whether the command writes nothing."""
    return args.dry_run or args.map == NEW


def preview(args: argparse.Namespace) -> int:
    """Print a new mapping, or what the files have; returns the exit status."""
    if not args.files or "-" in args.files:
        raise UsageError("--dry-run and --map new read files", advice="Give the names of files.")
    return _draft(args) if args.map == NEW else _dry_run(args, arguments.read_mapping(args))


def _draft(args: argparse.Namespace) -> int:
    from motet.codec.mapping_draft import draft_mapping

    if len(args.files) > 1:
        raise UsageError("--map new drafts the mapping of one file", advice="Give one of the files.")
    text = draft_mapping(args.files[0])
    output.print_json({"mapping": text}) if args.json else sys.stdout.write(text)
    return 0


def _dry_run(args: argparse.Namespace, mapping: RowMapping | None) -> int:
    from motet.codec.decode import decode_file

    summary, rejections = _Summary(mapping), output.Rejections(None)
    with output.byte_progress() as progress:
        reading = progress.add_task("reading", total=sum(Path(path).stat().st_size for path in args.files), note="")
        for path in args.files:
            for decoded in decode_file(
                path, id=args.id, base=args.base, rest=args.rest, mapping=mapping, **_settings(args),
                on_read=partial(progress.advance, reading),
            ):  # fmt: skip
                rejections(decoded.rejected)
                summary.add(decoded)
    counts = {"events": summary.events, "stamped": summary.stamped, "rejected": rejections.count}
    if args.json:
        output.print_json(counts | {"properties": summary.properties(), "first": summary.first.splitlines()})
    else:
        rows = [list(each.values()) for each in summary.properties()]
        output.print_table(rows, headers=["column", "property", "types", "example"])
        print(f"\n{summary.first}")
        output.print_fields(counts)
        output.warn("nothing was written: this was a dry run")
    return 1 if rejections.count else 0


def _settings(args: argparse.Namespace) -> DecodeSettings:
    """Those of the lake, if there is one."""
    from motet.codec.options import NO_SETTINGS, decode_settings
    from motet.lake import Lake, is_lake

    if args.lake is None or not is_lake(args.lake):
        return NO_SETTINGS
    return decode_settings(Lake.open(args.lake, create=False).snapshot().settings)


class _Summary:
    """The properties of events, with the datatypes and an example of their values."""

    def __init__(self, mapping: RowMapping | None) -> None:
        self.events = self.stamped = 0
        self.first = ""  # some events, as TriG
        self._types: dict[str, Counter[str]] = {}
        self._examples: dict[str, str] = {}
        self._columns: dict[str, str] = {}
        if mapping is not None:
            self._columns = {time.property: time.column for time in mapping.times}
            self._columns |= {each.property: each.column for each in mapping.properties}

    def add(self, decoded: Decoded) -> None:
        from motet.codec.encode import encode
        from motet.codec.formats import Format
        from motet.model.terms import iri_value

        if not self.events and decoded.events.num_rows:
            self.first = encode(decoded.events.slice(0, PREVIEW_EVENTS), Format.TRIG).decode()
        self.events += decoded.events.num_rows
        self.stamped += decoded.events.column("start").null_count
        triples = decoded.events.column("triples").flatten()
        predicates, objects = triples.field("predicate").to_pylist(), triples.field("object").to_pylist()
        for predicate, term in zip(predicates, objects, strict=True):
            name = iri_value(predicate)
            self._types.setdefault(name, Counter())[_type(term)] += 1
            self._examples.setdefault(name, term)

    def properties(self) -> list[dict[str, object]]:
        """For each property: its column, the number of values by type, and the first value."""
        return [
            {
                "column": self._columns.get(name, ""),
                "property": name,
                "types": dict(types.most_common()),
                "example": self._examples[name].partition("^^")[0],
            }
            for name, types in self._types.items()
        ]


def _type(term: str) -> str:
    """The short name of the type of a term."""
    if term.startswith("<"):
        return "IRI"
    _, _, rest = term.rpartition('"')
    if rest.startswith("@"):
        return f"text in {rest[1:]}"
    return rest[3:-1].rpartition("#")[2] or rest[3:-1] if rest else "string"
