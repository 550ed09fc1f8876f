"""Messages of a queue or rows of a table to events.

Whatever is wrong with a message becomes a rejection that holds the whole message: a queue must not stop at a bad one,
and whoever mends it must not have to look for it. Not for files, whose size is not known.

Setting up the decoder for one small message costs more than decoding it, so N-Quads messages are decoded together,
when that gives what each would give alone: nothing bad in them, and no event in two of them. Else they are halved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.assemble import group_whole, run_starts
from motet.codec.decode import decode_bytes
from motet.codec.events import NO_EVENTS, Decoded, build
from motet.codec.formats import Format
from motet.codec.limits import Limits, Source
from motet.codec.nquads import NQuadsDecoder
from motet.codec.rejections import cut
from motet.model.errors import DecodeError, MotetError
from motet.model.schemas import EVENTS, TIME

TOGETHER_BYTES = 4 << 20


@dataclass(frozen=True)
class Message:
    """Whole events in one format, and what its carrier knows about them."""

    data: bytes
    content_type: str
    name: str  # in errors
    arrived: int  # microseconds: the time of events that have none of their own
    headers: Mapping[str, str] | None = None  # with ``ce-`` headers it is a CloudEvent in binary mode
    event_id: str | None = None  # the IRI of the event when the data does not name it

    @property
    def is_plain(self) -> bool:
        return self.content_type == Format.N_QUADS.value and not self.headers


def decode_messages(messages: Iterable[Message], limits: Limits | None = None) -> Decoded:
    """The events of all messages, in order, each with a time.

    >>> sent = Message(b"<> a <urn:Alarm> .", "text/turtle", name="queue 1", arrived=0, event_id="urn:e:1")
    >>> decode_messages([sent]).events.column("id").to_pylist()
    ['urn:e:1']
    """
    parts = [part for run in _runs(messages) for part in _decode_run(run, limits or Limits())]
    events = pa.Table.from_batches([part.events for part in parts], EVENTS)
    (batch,) = events.combine_chunks().to_batches() if events.num_rows else (NO_EVENTS,)
    return Decoded(batch, [error for part in parts for error in part.rejected])


def _runs(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Plain messages that follow one another, together up to a size; any other message alone."""
    run: list[Message] = []
    size = 0
    for message in messages:
        size += len(message.data)
        if run and not (message.is_plain and run[-1].is_plain and size <= TOGETHER_BYTES):
            yield run
            run, size = [], len(message.data)
        run.append(message)
    if run:
        yield run


def _decode_run(run: Sequence[Message], limits: Limits) -> Iterator[Decoded]:
    together = _decode_together(run, limits) if len(run) > 1 else _decode_alone(run[0], limits)
    if together is not None:
        yield together
        return
    middle = len(run) // 2
    yield from _decode_run(run[:middle], limits)
    yield from _decode_run(run[middle:], limits)


def _decode_together(run: Sequence[Message], limits: Limits) -> Decoded | None:
    """The events of several plain messages; None when they have to be looked at one by one."""
    data = b"".join(message.data if message.data.endswith(b"\n") else message.data + b"\n" for message in run)
    quads, bad = NQuadsDecoder(max_line_bytes=limits.max_line_bytes).feed(data)
    graphs, starts = quads.column("graph"), run_starts(quads)
    if bad or graphs.null_count or not len(starts) or b"\r" in data:
        return None
    lines = np.cumsum([message.data.count(b"\n") + (not message.data.endswith(b"\n")) for message in run])
    owner = np.searchsorted(lines, quads.column("line").to_numpy())  # the message of each quad
    ends = np.append(starts[1:], len(owner)) - 1
    if (owner[starts] != owner[ends]).any() or pc.count_distinct(graphs).as_py() < len(starts):
        return None
    parts = list(build(group_whole([quads], []), Source(run[0].name, limits)))
    if any(part.rejected for part in parts):
        return None
    events = pa.Table.from_batches([part.events for part in parts], EVENTS)
    arrived = np.array([message.arrived for message in run])[owner[starts]]
    return Decoded(_stamped(events, arrived), [])


def _decode_alone(message: Message, limits: Limits) -> Decoded:
    try:
        parts = list(
            decode_bytes(
                message.data,
                message.content_type,
                headers=message.headers,
                event_id=None if message.is_plain else message.event_id,  # its graphs name its events
                name=message.name,
                limits=limits,
            )
        )
    except MotetError as error:  # an unknown content type, an id that is no IRI
        parts = [Decoded(NO_EVENTS, [DecodeError(error.message, source=message.name, advice=error.advice)])]
    events = pa.Table.from_batches([part.events for part in parts], EVENTS)
    rejected = [_whole(error, message) for part in parts for error in part.rejected]
    return Decoded(_stamped(events, np.full(events.num_rows, message.arrived)), rejected)


def _whole(error: DecodeError, message: Message) -> DecodeError:
    """The rejection with the message in it, where the codec had nothing to show."""
    if error.content is None:
        error.content = cut(message.data.decode("utf-8", "replace"))
    return error


def _stamped(events: pa.Table, arrived: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.RecordBatch:
    stamps = pa.array(arrived, pa.int64()).cast(TIME)
    times = {name: pc.coalesce(events[name], stamps) for name in ("start", "end")}
    columns = [(times[name] if name in times else events[name]).combine_chunks() for name in EVENTS.names]
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)
