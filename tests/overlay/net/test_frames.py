"""Frames: what is encoded is decoded, in pieces of any size, and nothing else is."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.overlay.net.hostile import attack_decoder
from tests.overlay.net.parties import Note

from motet.model.errors import DecodeError, LimitError
from motet.overlay.net.frames import (
    PROTOCOL_VERSION,
    Frame,
    FrameDecoder,
    Hello,
    MessageFrame,
    NetworkLimits,
    OperatorAnswer,
    OperatorRequest,
    Refused,
    decode_message,
    decode_value,
    encode_frame,
    encode_message,
    encode_value,
)

FRAMES: list[Frame] = [
    Hello(PROTOCOL_VERSION, "peer", "home", "127.0.0.1:1", 7, 2**62),
    Refused("another network"),
    MessageFrame(3, msgspec.Raw(encode_message(Note(number=1, text="é")))),
    OperatorRequest(4, "status", msgspec.Raw(encode_value(None))),
    OperatorAnswer(4, None, msgspec.Raw(encode_value({"a": [1, b"2"]}))),
]


def texts(frames: list[Frame]) -> list[str]:
    return [repr(msgspec.msgpack.encode(frame)) for frame in frames]


@given(st.lists(st.integers(1, 40)))
def test_frames_arrive_whole_in_any_pieces(sizes: list[int]) -> None:
    """The decoder returns the frames that were encoded, wherever the bytes are cut."""
    data = b"".join(map(encode_frame, FRAMES))
    decoder, frames = FrameDecoder(), list[Frame]()
    for size in [*sizes, len(data)]:
        frames += decoder.receive_data(data[:size])
        data = data[size:]
    assert (texts(frames), decoder.is_inside_frame) == (texts(FRAMES), False)


def test_a_message_travels() -> None:
    """A message is decoded as it was encoded, with the types of its fields."""
    note = Note(number=-(2**63), text="a\x00b")
    assert decode_message(msgspec.Raw(encode_message(note))) == note


def test_a_frame_over_the_limit_is_refused_before_it_is_read() -> None:
    """The length alone decides."""
    decoder = FrameDecoder(NetworkLimits(max_frame_bytes=1000))
    with pytest.raises(LimitError, match="a frame of 1,001 bytes; 1,000 are allowed"):
        list(decoder.receive_data((1001).to_bytes(4, "big")))


def test_frames_before_a_wrong_one_are_returned() -> None:
    """A wrong frame does not spoil those before it."""
    decoder = FrameDecoder()
    frames = decoder.receive_data(encode_frame(Refused("a")) + b"\x00\x00\x00\x01\xc1")
    assert next(frames) == Refused("a")
    with pytest.raises(DecodeError, match="a frame that is none"):
        next(frames)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x92\x01",  # truncated
        b"\x92\x09\xa1a",  # no such kind
        b"\x92\x01\xc0",  # a reason that is no text
        b"\x92\x01" + b"\xda\x02\x01" + b"a" * 513,  # a text over its limit
        b"\x94\x02\x01\xc0\xc0",  # a field too many
        b"\x93\x02\xff\xc0",  # a negative number
        b"\x92\x01\xa1a\xc0",  # bytes behind the frame
        b"\xdd\xff\xff\xff\xff",  # an array that is not there
        b"\x91" * 100_000,  # deeper than the stack
    ],
    ids=range(10),
)
def test_what_is_no_frame_is_refused(body: bytes) -> None:
    """A wrong frame is a DecodeError, whatever is wrong with it."""
    with pytest.raises(DecodeError):
        list(FrameDecoder().receive_data(len(body).to_bytes(4, "big") + body))


@pytest.mark.parametrize(
    "value",
    [b"\xc1", b"\x81\x90\x01", b"\x91" * 100_000, b"\xdd\x0f\xff\xff\xff\x01", b"\xc7\x0c\xff" + b"\xff" * 12],
    ids=["unused", "unhashable key", "deep", "array that is not there", "time out of range"],
)
def test_what_is_no_value_is_refused(value: bytes) -> None:
    """Plain values have the same protection: no value is more than a number, text, bytes, list or map."""
    with pytest.raises(DecodeError):
        decode_message(msgspec.Raw(value))


def test_plain_values_travel() -> None:
    """Answers to operators are plain values."""
    value = {"a": [1, -2, None, True, "x", b"y", 1.5]}
    assert decode_value(encode_value(value)) == value


def test_the_other_side_speaks_tls() -> None:
    """The first bytes of TLS are recognised: the length would otherwise be a riddle."""
    with pytest.raises(DecodeError, match="the other side speaks TLS"):
        list(FrameDecoder().receive_data(b"\x16\x03\x01\x02\x00\x01"))


def test_hostile_bytes_raise_nothing_else() -> None:
    """Fuzzed, truncated, oversized and repeated frames are decoded or refused; `make hostile` tries a million."""
    counts = attack_decoder(20_000)
    assert (sum(counts.values()), min(counts["decoded"], counts["refused"]) > 1_000) == (20_000, True)
