"""What a call of `publish` contains: its data as the bytes of a document, their events, and what is not counted.

Appends that arrive during a commit are committed together by the next one: a single publisher commits at once;
concurrent publishers share one write to disk. Each gets the receipt that its events would have got in a commit of their
own.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from motet.codec.decode import Decoded, decode_bytes
from motet.codec.events import NO_EVENTS, join_batches
from motet.codec.formats import Format, format_of_content_type, guess_format, guess_json_format
from motet.codec.nquads import parse_small
from motet.codec.options import DecodeOptions, DecodeSettings, Rest, decode_settings
from motet.codec.row_mapping import RowMapping
from motet.embedded.delivery_loop import RecentRecords
from motet.lake import AppendRequest, EventInput, Lake, Receipt
from motet.model.errors import DecodeError, UsageError, check_type, type_name
from motet.model.settings import Settings, TimeProperties
from motet.model.terms import XSD
from motet.model.times import Instant, format_datetime, to_micros

if TYPE_CHECKING:
    import pyoxigraph
    import rdflib


#: What `publish` takes: text or bytes of a document, JSON-LD as dictionaries, or a graph of rdflib or pyoxigraph.
EventData: TypeAlias = (
    "str | bytes | bytearray | memoryview | Mapping[str, Any] | Sequence[Mapping[str, Any]]"
    " | rdflib.Graph | pyoxigraph.Dataset | pyoxigraph.Store | Sequence[pyoxigraph.Quad]"
)

EventTime = Instant | Sequence[Instant]  # of an XML event: a point, or start and end
_N_QUADS = Format.N_QUADS.value
_ADVICE = {  # by kind of what does not count: what to do
    "late": "Publish sooner, or increase the lateness with `motet settings`.",
    "repeated": "An event that is to count again needs another IRI, or none.",
    "dropped": "Say which resource is the event, or give id.",
    "derived": "Publish the events from which they are derived.",
}
WARNING_SECONDS = 1.0  # between two warnings about receipts

log = logging.getLogger("motet")


def decode_call(
    data: EventData,
    settings: Settings,
    *,
    content_type: str | None,
    id: str | None,  # noqa: A002  (the language page's name)
    base: str | None,
    rest: Rest,
    headers: Mapping[str, str] | None,
    time: EventTime | None,
) -> tuple[EventInput, Decoded | None]:
    """The events of a call of `publish`; of more than a few N-Quads with what is not counted."""
    is_plain = content_type in (None, _N_QUADS) and id is None and time is None and not headers
    if is_plain and isinstance(data, str | bytes):
        body = encode_text(data) if isinstance(data, str) else data
        if (small := parse_small(body, settings.time_properties)) is not None:
            return small.events, None
    request = read_request(data, content_type)
    decoded = decode_request(
        request, decode_settings(settings), id=id, base=base, rest=rest, headers=headers, time=time
    )
    return decoded.events, decoded


@dataclass(frozen=True)
class Request:
    """The data of a call as the bytes of a document; its content type is given, guessed, or that of the data."""

    body: bytes
    content_type: str
    is_guessed: bool = False


def encode_text(text: str) -> bytes:
    """The UTF-8 of a text; one that has none is refused."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the text is not Unicode: {error.reason} (character {error.start})",
            advice="Read it with the encoding that it has.",
        ) from None


def read_request(data: EventData, content_type: str | None) -> Request:
    """The document of a call of `publish`, from data of any type that it takes."""
    check_type("content_type", content_type, str, None)
    if isinstance(data, str | bytes | bytearray | memoryview):
        body = encode_text(data) if isinstance(data, str) else bytes(data)
        found = content_type or guess_format(body).value
        if isinstance(data, str) and "encoding" in data[:200] and format_of_content_type(found) is Format.XML:
            from motet.model.xml_document import encode_document

            body = encode_document(data)
        return Request(body, found, is_guessed=content_type is None)
    graph = _graph_request(data)
    if graph is not None:
        if content_type is not None:
            raise UsageError(
                f"a graph of type {type(data).__qualname__} has no content type", advice="Leave content_type out."
            )
        return graph
    if isinstance(data, Mapping) or (isinstance(data, list) and all(isinstance(one, Mapping) for one in data)):
        return Request(_json_bytes(data), content_type or guess_json_format(data).value)
    raise UsageError(
        f"publish takes no {type_name(data)}",
        advice="Give text, bytes, a dict or a list of dicts (JSON-LD), or a graph of rdflib or pyoxigraph; "
        "`motet ingest` reads files.",
    )


def _graph_request(data: object) -> Request | None:
    """The document of a graph of rdflib or pyoxigraph; None for other data. Neither library is imported here."""
    rdflib, pyoxigraph = sys.modules.get("rdflib"), sys.modules.get("pyoxigraph")
    if rdflib is not None and isinstance(data, rdflib.Graph):
        return _rdflib_request(data, rdflib)
    if pyoxigraph is None:
        return None
    if isinstance(data, list) and data:
        is_graph = all(isinstance(one, pyoxigraph.Quad | pyoxigraph.Triple) for one in data)
    else:
        is_graph = isinstance(data, pyoxigraph.Dataset | pyoxigraph.Store)
    if not is_graph:
        return None
    return Request(pyoxigraph.serialize(data, format=pyoxigraph.RdfFormat.N_QUADS), Format.N_QUADS.value)


def _rdflib_request(data: Any, rdflib: Any) -> Request:
    """The N-Quads of a graph of rdflib; one that is named by an IRI is a named graph."""
    if isinstance(data, rdflib.ConjunctiveGraph) and not isinstance(data, rdflib.Dataset):
        raise UsageError("publish takes no rdflib.ConjunctiveGraph", advice="Use rdflib.Dataset.")
    if isinstance(data, rdflib.Dataset):
        graphs = {graph.identifier: graph for graph in data.graphs()}
    else:
        graphs = {data.identifier if isinstance(data.identifier, rdflib.URIRef) else None: data}
    lines = [
        line if name in (None, rdflib.graph.DATASET_DEFAULT_GRAPH_ID) else f"{line.removesuffix('.')}{name.n3()} ."
        for name, graph in graphs.items()
        for line in map(str.rstrip, graph.serialize(format="nt").split("\n"))
        if line
    ]
    return Request("\n".join(lines).encode(), Format.N_QUADS.value)


def _json_bytes(data: object) -> bytes:
    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False, default=_json_value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"the data is not JSON: {error}",
            advice="Use text, numbers, booleans, datetimes with a zone, lists and dicts.",
        ) from None


def _json_value(value: object) -> object:
    """What JSON has no value for, as a value of JSON-LD."""
    if isinstance(value, datetime):
        return {"@value": format_datetime(to_micros(value)), "@type": XSD + "dateTime"}
    if isinstance(value, Decimal):
        return {"@value": format(value, "f"), "@type": XSD + "decimal"}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"it has a {type_name(value)}")


def decode_request(
    request: Request,
    settings: DecodeSettings,
    *,
    id: str | None,  # noqa: A002  (the language page's name)
    base: str | None,
    rest: Rest,
    headers: Mapping[str, str] | None,
    time: EventTime | None = None,
    mapping: RowMapping | None = None,
) -> Decoded:
    """The events of one request, which is an input of its own; raises its first rejection."""
    check_type("id", id, str, None)
    check_type("base", base, str, None)
    check_type("headers", headers, Mapping, None)
    for name, value in (headers or {}).items():
        check_type(f"the header {name!r}", value, str)
    decoded = decode_bytes(
        request.body, request.content_type, headers=headers, id=id, base=base, rest=rest, input_id=uuid4().urn,
        interval=None if time is None else _interval(time), mapping=mapping, **settings,
    )  # fmt: skip
    try:
        return _accepted(decoded)
    except DecodeError as error:
        if request.is_guessed and request.content_type != Format.N_QUADS.value:
            guess = f"the data was read as {request.content_type}; if it is something else, give its content_type"
            error.advice = f"{error.advice}; {guess}" if error.advice else guess
        raise


def _interval(time: EventTime) -> tuple[int, int]:
    instants = [time] if isinstance(time, str | datetime) else list(time)
    if not 1 <= len(instants) <= 2:
        raise UsageError(f"a time has one or two instants, not {len(instants)}", advice="Give start and end.")
    start, end = to_micros(instants[0]), to_micros(instants[-1])
    if end < start:
        raise UsageError("the time ends before it starts", advice="Give the start first.")
    return start, end


def decode_call_rows(rows: object, mapping: RowMapping, times: TimeProperties) -> Decoded:
    """The events of the rows of one call, which is an input of its own; raises the first rejection."""
    from motet.codec.row_formats import decode_call

    options = DecodeOptions("rows", time_properties=times, input_id=uuid4().urn)
    return _accepted(decode_call(rows, mapping, options))


def _accepted(decoded: Iterable[Decoded]) -> Decoded:
    batches = []
    for batch in decoded:
        if batch.rejected:
            raise batch.rejected[0]
        batches.append(batch)
    return join_batches(batches) if batches else Decoded(NO_EVENTS, [])


def with_counts(receipt: Receipt, decoded: Decoded) -> Receipt:
    """The receipt, with what was left out when the request was decoded."""
    repeated = receipt.repeated + decoded.repeated
    return receipt._replace(repeated=repeated, dropped=decoded.dropped, derived=decoded.derived)


class PublishCounts(Counter[str]):
    """The events published so far, and those that do not count, by kind."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(("published", "stamped", *_ADVICE), 0))
        self._unreported = 0  # receipts, since the last warning
        self._next_warning: dict[str, float] = {}  # by kind, by the monotonic clock

    def add(self, receipt: Receipt) -> None:
        """Add a receipt; what does not count is logged as a warning, for each kind at most once per second."""
        self["published"] += receipt.accepted
        self["stamped"] += receipt.stamped
        if receipt.accepted == len(receipt.ids) and not (receipt.late or receipt.dropped or receipt.derived):
            return
        self.update(receipt.not_counted)
        self._unreported += 1
        now = time.monotonic()
        if any(self._next_warning.get(kind, 0.0) <= now for kind in receipt.not_counted):
            others = f", and {self._unreported - 1} further receipts" if self._unreported > 1 else ""
            ids = ", ".join(f"<{id_}>" for id_ in receipt.ids[:3]) or "none"
            advice = " ".join(_ADVICE[kind] for kind in receipt.not_counted if kind in _ADVICE)
            log.warning("%s (events: %s%s). %s", receipt, ids, others, advice)
            self._unreported = 0
            self._next_warning |= dict.fromkeys(receipt.not_counted, now + WARNING_SECONDS)


# Group commit


MAX_GROUP_EVENTS = 65_536  # of one commit


class QueuedAppend:
    """An append request and its result."""

    def __init__(self, request: AppendRequest) -> None:
        self.request = request
        self.result: Receipt | BaseException | None = None  # None: not done yet


class GroupCommitter:
    """Appends to a lake; the records of every commit stay in memory, in log order."""

    def __init__(self, lake: Lake, recent_records: RecentRecords) -> None:
        self._lake = lake
        self._recent_records = recent_records
        self._queue: list[QueuedAppend] = []
        self._queue_lock = threading.Lock()
        self._commit_lock = threading.RLock()

    def append(self, request: AppendRequest) -> Receipt:
        """Append the events of a request; durable when it returns, if the lake is."""
        append = QueuedAppend(request)
        with self._queue_lock:
            self._queue.append(append)
        with self._commit_lock:
            while append.result is None:  # the previous holder of the lock may have committed it
                self._commit(self._next_group())
        if isinstance(append.result, BaseException):
            raise append.result
        return append.result

    def _next_group(self) -> list[QueuedAppend]:
        """The oldest requests in the queue, up to the size of a commit."""
        with self._queue_lock:
            count = events = 0
            while count < len(self._queue) and (count == 0 or events < MAX_GROUP_EVENTS):
                events += len(self._queue[count].request.ids)
                count += 1
            group, self._queue = self._queue[:count], self._queue[count:]
        return group

    def _commit(self, group: list[QueuedAppend]) -> None:
        try:
            committed = self._lake.append_group([append.request for append in group])
        except BaseException as failure:  # noqa: BLE001  (raised again in every waiting publisher)
            for append in group:
                append.result = failure
            return
        for append, receipt in zip(group, committed.receipts, strict=True):
            append.result = receipt  # or the error that refuses this request alone
        if committed.placed is not None:
            self._recent_records.add(committed.placed)
