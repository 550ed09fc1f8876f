"""Frames of the overlay's connections: a length of four bytes, then one msgpack value. Pure: bytes in, frames out.

A connection begins with a `Hello` in each direction. A peer then sends `MessageFrame`s; an operator sends
`OperatorRequest`s and gets `OperatorAnswer`s. `Refused` says why a connection ends.

Each side says in its hello which random number the other side's first frame must have; the next ones count on from it.
A frame, or a whole connection, that is recorded and sent again therefore has the wrong number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import msgspec

from motet.model.errors import DecodeError, LimitError
from motet.overlay.protocol.node import PeerMessage, from_fields, to_fields

PROTOCOL_VERSION = 1
LENGTH_BYTES = 4
MAX_NUMBER = 2**62

_Text = Annotated[str, msgspec.Meta(max_length=512)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")  # an alert, a handshake


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimits:
    """Limits on what peers can make a host do. Beyond a rate, reading is delayed; other limits end a connection."""

    max_frame_bytes: int = 2**21  # a stored value of 1 MiB fits
    bytes_per_second: int = 32 * 2**20
    frames_per_second: int = 20_000
    max_queued_frames: int = 2_000  # to one peer; further messages to it are dropped
    max_queued_bytes: int = 8 * 2**20
    max_connections: int = 1_024
    max_handshakes: int = 64  # connections that have not said hello yet
    handshake_seconds: float = 10.0
    frame_seconds: float = 30.0  # for the rest of a frame that has begun, and for writing to a peer
    cut_off_seconds: float = 30.0  # how long a peer that broke the protocol is refused


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """The first frame in each direction. Later versions only add fields at the end."""

    version: _Number
    role: _Text  # "peer" or "operator"
    network: _Text
    address: _Text
    run: _Number  # a random number of this run of the process
    first_number: _Number  # of the frame that is expected next


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The last frame of a connection that is ended on purpose."""

    reason: _Text


class MessageFrame(msgspec.Struct, frozen=True, array_like=True, tag=2, forbid_unknown_fields=True):
    """A message of a peer, as `to_fields` makes it."""

    number: _Number
    fields: msgspec.Raw


class OperatorRequest(msgspec.Struct, frozen=True, array_like=True, tag=3, forbid_unknown_fields=True):
    """A request of an operator to a node, such as `status`."""

    number: _Number
    name: _Text
    argument: msgspec.Raw


class OperatorAnswer(msgspec.Struct, frozen=True, array_like=True, tag=4, forbid_unknown_fields=True):
    """The answer to the request with this number, or an outcome that was not requested by number (0)."""

    number: _Number
    error: _Text | None
    value: msgspec.Raw


Frame: TypeAlias = Hello | Refused | MessageFrame | OperatorRequest | OperatorAnswer

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)
_values = msgspec.msgpack.Decoder()


class FrameDecoder:
    """Turns the bytes of one connection into frames.

    >>> decoder = FrameDecoder()
    >>> data = encode_frame(Refused("closing"))
    >>> list(decoder.receive_data(data[:7])), list(decoder.receive_data(data[7:]))
    ([], [Refused(reason='closing')])
    """

    def __init__(self, limits: NetworkLimits | None = None) -> None:
        self._max_bytes = (limits or NetworkLimits()).max_frame_bytes
        self._buffer = bytearray()

    @property
    def is_inside_frame(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return bool(self._buffer)

    def receive_data(self, data: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete; DecodeError or LimitError at the first that is wrong."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= LENGTH_BYTES:
                length = int.from_bytes(buffer[start : start + LENGTH_BYTES], "big")
                self._check(length, bytes(buffer[start : start + 2]))
                end = start + LENGTH_BYTES + length
                if len(buffer) < end:
                    return
                body = bytes(buffer[start + LENGTH_BYTES : end])
                start = end
                yield decode_frame(body)
        finally:
            del buffer[:start]

    def _check(self, length: int, beginning: bytes) -> None:
        if length <= self._max_bytes:
            return
        if beginning in _TLS_RECORDS:
            raise DecodeError("the other side speaks TLS, this side does not")
        raise LimitError(f"a frame of {length:,} bytes; {self._max_bytes:,} are allowed")


def encode_frame(frame: Frame) -> bytes:
    """The bytes of a frame, with its length before it."""
    body = _encoder.encode(frame)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def decode_frame(body: bytes) -> Frame:
    """The frame in these bytes, without the length; DecodeError if there is none."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise DecodeError(f"a frame that is none: {error}") from None
    except RecursionError:
        raise DecodeError("a frame that is nested too deeply") from None


def encode_message(message: PeerMessage) -> bytes:
    """The body of a message, for a `MessageFrame`."""
    return encode_value(to_fields(message))


def decode_message(fields: msgspec.Raw) -> PeerMessage:
    """The message of a `MessageFrame`; DecodeError if it is none."""
    return from_fields(decode_value(fields))


def encode_value(value: object) -> bytes:
    """Any value of numbers, texts, bytes, lists and maps."""
    return _encoder.encode(value)


def decode_value(data: msgspec.Raw | bytes) -> object:
    """The value that `encode_value` encoded; DecodeError if there is none."""
    try:
        return _values.decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError, OverflowError) as error:
        raise DecodeError(f"a value that cannot be decoded: {error}") from None
