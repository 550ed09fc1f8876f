"""Mutated XML documents: every one is accepted or rejected, quickly, in little memory, and in agreement with expat."""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple
from xml.parsers import expat

from motet.codec.options import DecodeOptions
from motet.codec.row_mapping import GENERIC, RowMapping
from motet.codec.xml import decode_xml, render, xml_mapping
from motet.model.batches import EventRow, content_digest, event_rows
from motet.model.errors import UsageError
from motet.model.xml_document import canonical_document, parse_stored_xml

MAX_SECONDS = 2.0  # for one document
MAX_MEMORY = 500 << 20  # bytes of the process
LARGE_SHARE = 0.003  # of the documents that are repeated until they are large

_ALERT = """<?xml version="1.0" encoding="UTF-8"?>
<c:alert xmlns:c="urn:oasis:names:tc:emergency:cap:1.2"><c:identifier>7</c:identifier>
<c:sent>2026-11-15T10:00:00Z</c:sent>
<c:info><c:severity>Severe</c:severity><c:area><c:areaDesc>Tower &amp; deck</c:areaDesc></c:area></c:info></c:alert>"""
_ORDER = """<order xmlns:motet="urn:motet:ns#" motet:id="urn:o:7" motet:start="2026-11-15T10:00:00Z" n='7'>
<!-- paid --><pay>finished</pay><![CDATA[<raw>]]><item sku="é">2.50</item></order>"""
_NOTIFY = """<w:Notify xmlns:w="http://docs.oasis-open.org/wsn/b-2"><w:NotificationMessage><w:Message><a:Alarm
xmlns:a="urn:a" room="lab" a:level="4"/></w:Message></w:NotificationMessage></w:Notify>"""
SEEDS = (_ALERT, _ORDER, _NOTIFY)
MAPPING = """
prefixes: {c: "urn:oasis:names:tc:emergency:cap:1.2"}
event: {root: "c:alert", id: "urn:cap:{c:identifier}", time: "c:sent"}
properties:
  c:info: {property: urn:info, optional: true, properties: {c:severity: urn:severity, c:area/c:areaDesc: urn:area}}
"""
FRAGMENTS = (
    '<!DOCTYPE a [<!ENTITY b "bbbbbbbb"><!ENTITY c "&b;&b;&b;&b;">]>',
    '<!DOCTYPE a SYSTEM "file:///etc/passwd">',
    '<!DOCTYPE a [<!ENTITY % p SYSTEM "http://example.org/p">%p;]>',
    "&c;", "&#0;", "&#x41;", "&amp;", "&lt;", "<?php x?>", "<?xml-stylesheet href='x'?>", "<?xml version='1.0'?>",
    '<?xml version="1.1"?>', '<?xml version="1.0" encoding="utf-7"?>', '<?xml version="1.0" encoding="utf-16"?>',
    '<?xml version="1.0" encoding="iso-8859-1"?>', "<![CDATA[", "]]>", "<!--", "-->", "--", "<a>", "</a>",
    "<a/>", "<a", ">", "<",
    '"', "'", "=", ' a="1"', ' a="1"', ' xmlns="urn:x"', ' xmlns:a="urn:x"', ' xmlns:a=""',
    ' xmlns:motet="urn:motet:ns#"',
    ' motet:id="x"', ' motet:end="2026"', ' xml:lang="en"', ' xsi:type="a:b"', "<a:b/>", "\x00", "\x1b",
    "\r\n", "\ufffe", "\u2028",
    "\U0001f600", "é", "\ufeff", " ", "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'/>",
    "<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='file:///etc/passwd'/>",
)  # fmt: skip
_ENCODINGS = (*["utf-8"] * 24, *["utf-16", "iso-8859-1"] * 3, "utf-16-le", "utf-32", "cp037")


@dataclass
class HostileReport:
    """What became of the documents, and what was wrong."""

    documents: int = 0
    accepted: int = 0
    rejected: Counter[str] = field(default_factory=Counter)  # by the beginning of the reason
    slowest: float = 0.0  # seconds of processor time
    memory: int = 0  # bytes, the greatest of the process
    size: int = 0  # bytes
    failures: list[tuple[bytes, str]] = field(default_factory=list)

    def fields(self) -> dict[str, object]:
        return {
            "documents": self.documents,
            "megabytes": round(self.size / 1e6, 1),
            "accepted": self.accepted,
            "rejected": self.rejected.total(),
            "slowest_seconds": round(self.slowest, 3),
            "memory_megabytes": round(self.memory / 1e6),
            "failures": len(self.failures),
        }


def fuzz_documents(
    runs: int, seed: int, *, keep_going: bool = False, on_progress: Callable[[int], object] = lambda count: None
) -> HostileReport:
    """Decode mutated documents and check what comes of each."""
    report, options, before = HostileReport(), _Options.read(), _peak_memory()
    for index in range(runs):
        data = mutated_document(Random(f"{seed}:{index}"))  # noqa: S311  (reproducible)
        _check(data, options, report)
        on_progress(1)
        if report.failures and not keep_going:
            break
    report.memory = _peak_memory()
    if report.memory > max(MAX_MEMORY, before):  # a process that was larger before shows nothing
        report.failures.append((b"", f"the process took {report.memory >> 20} MiB"))
    return report


def _peak_memory() -> int:
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes if sys.platform == "darwin" else kilobytes * 1024


class _Options(NamedTuple):
    plain: DecodeOptions
    lifting: DecodeOptions
    generic: RowMapping
    rendered: DecodeOptions

    @staticmethod
    def read() -> _Options:
        mapping, generic = xml_mapping(MAPPING), xml_mapping(GENERIC)
        lifting, rendered = (DecodeOptions("a.xml", xml_mappings=each) for each in ((mapping, generic), (generic,)))
        return _Options(DecodeOptions("a.xml"), lifting, generic, rendered)


def _check(data: bytes, options: _Options, report: HostileReport) -> None:
    report.documents += 1
    report.size += len(data)
    started = time.thread_time()
    try:
        problem = _problem(data, options, report)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is a defect)
        problem = f"{type(error).__name__}: {error}"
    seconds = time.thread_time() - started
    report.slowest = max(report.slowest, seconds)
    if seconds > MAX_SECONDS:
        problem = problem or f"it took {seconds:.1f} s"
    if problem:
        report.failures.append((data, problem))


def _problem(data: bytes, options: _Options, report: HostileReport) -> str | None:
    """What is wrong with the result of a document; None if nothing is."""
    decoded = decode_xml(data, options.plain)
    lifted = decode_xml(data, options.lifting)
    if decoded.rejected:
        [error] = decoded.rejected
        report.rejected[error.reason.partition(":")[0][:40]] += 1
        return None if error.advice and lifted.rejected else "a rejection without advice, or only without a mapping"
    report.accepted += 1
    [event] = event_rows(decoded.events)
    if event.payload != data:
        return "the document is not kept byte for byte"
    if reason := _refused_by_expat(data):
        return f"expat refuses it: {reason}"
    canonical = canonical_document(data)
    if canonical_document(canonical) != canonical or content_digest((), canonical) != content_digest((), data):
        return "its canonical form is not canonical"
    return next(filter(None, (_round_trip(row, options) for row in event_rows(lifted.events))), None)


def _round_trip(event: EventRow, options: _Options) -> str | None:
    """Whether the generic mapping renders the triples of an event so that they are lifted again."""
    try:
        rendered = render(event._replace(payload=None), options.generic)
    except UsageError as error:
        return f"rendering: {error}"
    [again] = event_rows(decode_xml(rendered.document, options.rendered).events)
    return None if set(again.triples) >= set(event.triples) - set(rendered.left_out) else "its triples do not come back"


def _refused_by_expat(data: bytes) -> str | None:
    """Why another parser refuses a document, or that it sees a DOCTYPE.

    Encodings that expat lacks are no reason, nor names with characters that only the fifth edition of XML 1.0 allows.
    """
    found: list[str] = []
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartDoctypeDeclHandler = lambda *_: found.append("it has a DOCTYPE")
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code) or ""
        is_known = "encoding" in reason or ("invalid token" in reason and not _has_ascii_names(data))
        return None if is_known else reason
    return found[0] if found else None


def _has_ascii_names(data: bytes) -> bool:
    names = (name for each in parse_stored_xml(data).iter("*") for name in (each.tag, *each.keys(), *each.nsmap))
    return all(name is None or str(name).isascii() for name in names)


def mutated_document(random: Random) -> bytes:
    """A document made of a seed by some changes of its text and of its bytes."""
    text = random.choice(SEEDS)
    for change in random.choices(_CHANGES, k=random.choice((0, 1, 1, 1, 2, 3, 8))):
        text = change(text, random)
    if random.random() < LARGE_SHARE:
        text = "".join(_enlarged(text, random))
    encoding = random.choice(_ENCODINGS)
    if random.random() < 0.9:
        text = text.replace('encoding="UTF-8"', f'encoding="{encoding}"', 1)
    data = bytearray(text.encode(encoding, "replace"))
    for _ in range(random.choice((0, 0, 0, 0, 0, 1, 3))):
        if data:
            data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data)


def _insert(text: str, random: Random) -> str:
    at = random.randint(0, len(text))
    return text[:at] + random.choice(FRAGMENTS) + text[at:]


def _delete(text: str, random: Random) -> str:
    begin = random.randint(0, len(text))
    return text[:begin] + text[begin + random.choice((1, 1, 5, 40)) :]


def _copy(text: str, random: Random) -> str:
    begin, at = random.randint(0, len(text)), random.randint(0, len(text))
    return text[:at] + text[begin : begin + random.choice((5, 40, 200))] + text[at:]


def _wrap(text: str, random: Random) -> str:
    """Inside an element of the same document, so that it stays well-formed."""
    body = text.partition("?>")[2] if text.startswith("<?xml") else text
    depth, name = random.choice((1, 3, 199, 260)), random.choice(("a", "a:b", "é"))
    return f"<{name}>" * depth + body + f"</{name}>" * depth


def _attribute(text: str, random: Random) -> str:
    """More attributes or namespaces at the first element without a colon."""
    count = random.choice((1, 10, 250, 400))
    kind = random.choice((" b{}='{}'", " xmlns:b{}='urn:{}'", " b{}='" + "x" * 500 + "{}'"))
    head, tag, tail = text.partition(">")
    return head.rstrip("/?") + "".join(kind.format(n, n) for n in range(count)) + tag + tail


_CHANGES: tuple[Callable[[str, Random], str], ...] = (_insert, _insert, _insert, _delete, _copy, _wrap, _attribute)


def _enlarged(text: str, random: Random) -> Iterator[str]:
    """The text with one of its parts many times, up to some megabytes."""
    begin, end = sorted((random.randint(0, len(text)), random.randint(0, len(text))))
    part = random.choice(
        (text[begin:end], "<a/>", "<a b='1'/>", "<a>", "&amp;", "x" * 100, "<?a?>", "<!-- x -->", " a='1'")
    )
    yield text[:begin]
    yield part * (random.choice((10_000, 300_000, 3_000_000)) // max(len(part), 1))
    yield text[begin:]
