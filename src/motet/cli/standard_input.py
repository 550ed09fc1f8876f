"""Standard input in place of a file, which `-` stands for: it is copied to a scratch file that is read like any other.

`motet ingest -`, `motet publish -` and `motet query --file -` read standard input themselves.
"""

from __future__ import annotations

import argparse
import atexit
import shutil
import sys
import tempfile
from pathlib import Path

from motet.model.errors import UsageError

STANDARD = "-"  # in place of the name of a file
STREAMED = {"ingest", "publish"}  # commands that read their files themselves
SAMPLE_BYTES = 1 << 20  # from which a format is guessed
_TEXT, _EVENTS, _RDF = "a subscription", "events", "RDF"
_INPUTS = {  # attributes of the parsed arguments that name input files: what is in them
    "subscriptions": _TEXT, "old": _TEXT, "new": _TEXT, "files": _TEXT, "events": _EVENTS, "data": _EVENTS,
    "ontology": _RDF, "description": _RDF,
}  # fmt: skip


def copy_standard_input(args: argparse.Namespace) -> None:
    """Replace `-` among the input files of a command by the path of a copy; several of them are refused."""
    uses = [name for name in _INPUTS for path in _paths(args, name) if path == STANDARD]
    uses += ["file"] if getattr(args, "file", None) == STANDARD else []
    if len(uses) > 1:
        raise UsageError("standard input can be read only once", advice="Give `-` for one file, and paths for others.")
    if "events" not in uses and "events" in vars(args) and getattr(args, "content_type", None) is not None:
        raise UsageError("--content-type is the format of standard input", advice="Leave it out, or give --events -.")
    if not uses or uses == ["file"] or (args.command in STREAMED and uses == ["files"]):
        return
    (name,) = uses
    path = _copy(_kind(args, name), getattr(args, "content_type", None))
    value = getattr(args, name)
    setattr(args, name, [path if each == STANDARD else each for each in value] if isinstance(value, list) else path)


def _paths(args: argparse.Namespace, name: str) -> list[str]:
    value = getattr(args, name, None)
    return value if isinstance(value, list) else [str(value)]


def _kind(args: argparse.Namespace, name: str) -> str:
    is_rdf = args.command in ("ontology", "background") or getattr(args, "source", None) == "rdf"
    return _RDF if name == "files" and is_rdf else _INPUTS[name]


def _copy(kind: str, content_type: str | None) -> str:
    """The path of a file with the content of standard input, deleted when the process ends."""
    if sys.stdin.isatty():
        print(f"reading {kind} from the terminal; end with Ctrl-D", file=sys.stderr)
    folder = tempfile.mkdtemp(prefix="motet-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "standard-input")
    with path.open("wb") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
    if kind == _TEXT:
        return str(path)
    with path.open("rb") as copy:
        head = copy.read(SAMPLE_BYTES)
    suffix = _event_suffix(head, content_type) if kind == _EVENTS else _rdf_suffix(head)
    return str(path.rename(path.with_suffix(suffix)))


def _event_suffix(head: bytes, content_type: str | None) -> str:
    from motet.codec.format_guess import guess_format
    from motet.codec.formats import SUFFIXES, Format, format_of_content_type

    syntax = format_of_content_type(content_type) if content_type else guess_format(head)
    syntax = Format.CLOUDEVENT if syntax.is_cloudevents else syntax
    return next(suffix for suffix, each in SUFFIXES.items() if each is syntax)


def _rdf_suffix(head: bytes) -> str:
    """The suffix of JSON-LD, or that of RDF/XML and Turtle, which the reader distinguishes."""
    return ".jsonld" if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")) else ".owl"
