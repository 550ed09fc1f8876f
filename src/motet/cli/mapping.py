"""The arguments of `motet ingest` for rows: --map, and --dry-run, which shows what the mapping makes of the files."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import arguments, output
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.codec.events import Decoded
    from motet.codec.options import DecodeSettings
    from motet.codec.row_mapping import RowMapping

NEW = "new"
SHOWN_EVENTS = 2


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
            self.first = encode(decoded.events.slice(0, SHOWN_EVENTS), Format.TRIG).decode()
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
