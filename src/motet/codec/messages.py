"""Messages of a queue or rows of a table to events.

Whatever is wrong with a message becomes a rejection that holds the whole message: a queue must not stop at a bad one,
and whoever mends it must not have to look for it. Not for files, whose size is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.decode import decode_bytes
from motet.codec.events import NO_EVENTS, Decoded
from motet.codec.limits import Limits
from motet.codec.rejections import cut
from motet.model.errors import DecodeError, MotetError
from motet.model.schemas import EVENTS, TIME


@dataclass(frozen=True)
class Message:
    """Whole events in one format, and what its carrier knows about them."""

    data: bytes
    content_type: str
    name: str  # in errors
    arrived: int  # microseconds: the time of events that have none of their own
    headers: Mapping[str, str] | None = None  # with ``ce-`` headers it is a CloudEvent in binary mode
    event_id: str | None = None  # the IRI of the event when the data does not name it


def decode_messages(messages: Iterable[Message], limits: Limits | None = None) -> Decoded:
    """The events of all messages, in order, each with a time.

    >>> sent = Message(b"<> a <urn:Alarm> .", "text/turtle", name="queue 1", arrived=0, event_id="urn:e:1")
    >>> decode_messages([sent]).events.column("id").to_pylist()
    ['urn:e:1']
    """
    batches, arrived, rejected = [NO_EVENTS], [np.empty(0, np.int64)], []
    for message in messages:
        for decoded in _decode(message, limits):
            rejected += [_whole(error, message) for error in decoded.rejected]
            if decoded.events.num_rows:
                batches.append(decoded.events)
                arrived.append(np.full(decoded.events.num_rows, message.arrived))
    events = pa.Table.from_batches(batches, EVENTS)
    return Decoded(_stamped(events, pa.array(np.concatenate(arrived)).cast(TIME)), rejected)


def _decode(message: Message, limits: Limits | None) -> list[Decoded]:
    try:
        return list(
            decode_bytes(
                message.data,
                message.content_type,
                headers=message.headers,
                event_id=message.event_id,
                name=message.name,
                limits=limits,
            )
        )
    except MotetError as error:  # an unknown content type, an id that is no IRI
        return [Decoded(NO_EVENTS, [DecodeError(error.message, source=message.name, advice=error.advice)])]


def _whole(error: DecodeError, message: Message) -> DecodeError:
    """The rejection with the message in it, where the codec had nothing to show."""
    if error.content is None:
        error.content = cut(message.data.decode("utf-8", "replace"))
    return error


def _stamped(events: pa.Table, arrived: pa.Array) -> pa.RecordBatch:
    times = {name: pc.coalesce(events[name], arrived) for name in ("start", "end")}
    columns = [(times[name] if name in times else events[name]).combine_chunks() for name in EVENTS.names]
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)
