"""`motet publish`: append the events of documents to a lake, each document as one call: all of its events or none."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, BinaryIO

from motet.cli import arguments, output
from motet.cli.arguments import STANDARD
from motet.model.errors import DecodeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motet.lake import Lake, Receipt

MAX_BYTES = 64 << 20  # of a document (language page, section 14)
HELP = "append the events of documents to a lake: each document is one call, of which all events are accepted or none"
EXAMPLES = """\
  motet publish --lake building alarm.ttl
  echo '<> a <http://example.org/Alarm> .' | motet publish --lake building -
  motet publish --lake building --id urn:alarm:7 alarm.jsonld --json

publishing a document twice makes two events, unless its events have IRIs; `motet ingest` reads files, where reading one
twice adds nothing
status: 1 when a document is refused; with --strict 3, also when events are late
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="documents, each published by a call of its own; - for standard input")
    add("--lake", metavar="DIR", required=True, help="the lake, created if there is none")
    add("--content-type", metavar="TYPE", help="the format of the documents (default: by the file name, or guessed)")
    add("--id", metavar="IRI", help="the document is one event with this IRI")
    arguments.add_document_arguments(parser)
    arguments.add_background_argument(parser)
    arguments.add_strict_argument(parser)
    add("--time", metavar="INSTANT", nargs="+", help="the time of an XML document: an instant, or its start and end")
    add("--json", action="store_true", help="print the receipts as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake, is_lake

    if args.id is not None and len(args.files) != 1:
        raise UsageError("--id names the event of one document", advice="Publish the documents one by one.")
    documents = list(_documents(args))
    is_new = not is_lake(args.lake)
    lake = Lake.open(args.lake)
    receipts: list[tuple[str, Receipt]] = []
    refused: list[DecodeError] = []
    try:
        arguments.add_ontology(args, lake)
        for name, data, content_type in documents:
            try:
                receipts.append((name, _publish(lake, name, data, content_type, args)))
            except DecodeError as error:
                refused.append(error)
                output.warn(f"refused: {error}")
    finally:
        if is_new and not receipts and lake.delete_if_empty():
            output.warn(f"nothing was published, so no lake {args.lake} was created")
        _print(receipts, as_json=args.json)
    return arguments.exit_status(args, rejected=len(refused), late=sum(receipt.late for _, receipt in receipts))


def _documents(args: argparse.Namespace) -> Iterator[tuple[str, bytes, str | None]]:
    """The name, content and content type of each document, None where it is to be guessed.

    What cannot be read is refused before anything is published.
    """
    from motet.codec.formats import find_format, format_of_content_type
    from motet.jobs.subscription_files import existing_file

    if args.content_type:
        format_of_content_type(args.content_type)
    for path in args.files:
        if path == STANDARD:
            yield "standard input", _limited("standard input", sys.stdin.buffer), args.content_type
        else:
            syntax = find_format(path)
            with existing_file(path, "event file").open("rb") as file:
                yield path, _limited(path, file), args.content_type or (syntax.value if syntax else None)


def _limited(name: str, file: BinaryIO) -> bytes:
    """The content of a document; a larger one is refused."""
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(f"{name} is larger than {MAX_BYTES >> 20} MiB", advice="Use `motet ingest`.")
    return data


def _publish(lake: Lake, name: str, data: bytes, content_type: str | None, args: argparse.Namespace) -> Receipt:
    """The receipt of one call; a DecodeError refuses it."""
    from motet.codec.options import decode_settings
    from motet.embedded.publishing import decode_request, read_request, with_counts

    settings = decode_settings(lake.snapshot().settings)
    try:
        request = read_request(data, content_type)
        mapping = arguments.read_mapping(args)
        decoded = decode_request(
            request, settings, id=args.id, base=args.base, rest=args.rest, headers=None, time=args.time, mapping=mapping
        )
        return with_counts(lake.append(decoded.events), decoded)
    except DecodeError as error:
        error.source = name
        raise
    except UsageError as error:  # the format cannot be guessed
        advice = (error.advice or "").replace("content_type", "--content-type")
        raise UsageError(f"{name}: {error.message}", advice=advice) from error


def _print(receipts: list[tuple[str, Receipt]], *, as_json: bool) -> None:
    names = ("accepted", "repeated", "stamped", "late", "dropped", "derived", "first", "last")
    if as_json:
        output.print_json(
            [
                {"document": name, "events": list(receipt.ids), **{each: getattr(receipt, each) for each in names}}
                for name, receipt in receipts
            ]
        )
        return
    for name, receipt in receipts:
        counts = {each: getattr(receipt, each) for each in names[:-2]}
        print(f"{name}: " + ", ".join(f"{n} {each}" for each, n in counts.items() if n or each == "accepted"))
        for iri in receipt.ids:
            print(f"  <{iri}>")
        if receipt.late:
            output.warn(f"  {receipt.late} are late: they are stored and never matched. `motet settings --lateness`")
