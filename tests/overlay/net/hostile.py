"""Hostile parties: random bytes for the decoder, wrong frames over TCP, and handshakes that fail.

Run: python -m tests.overlay.net.hostile [--decoder N] [--frames N] [--handshakes N]     (`make hostile`)

Prints what was sent, what was refused, and how memory, file descriptors and tasks have changed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
from tests.overlay.net.parties import Note

from motet.overlay.net.frames import (
    PROTOCOL_VERSION,
    Frame,
    Hello,
    MessageFrame,
    OperatorRequest,
    Refused,
    encode_frame,
    encode_message,
    encode_value,
)


def honest_frames() -> list[bytes]:
    """The frames that hostile data is made from."""
    frames: list[Frame] = [
        Hello(PROTOCOL_VERSION, "peer", "test", "127.0.0.1:1", 1, 1),
        Refused("closing"),
        MessageFrame(1, msgspec.Raw(encode_message(Note(number=1, text="hello")))),
        MessageFrame(2, msgspec.Raw(encode_message(Note(number=2**40, text="x" * 200)))),
        OperatorRequest(1, "status", msgspec.Raw(encode_value(None))),
    ]
    return list(map(encode_frame, frames))


def hostile_data(*, seed: int, count: int) -> Iterator[bytes]:
    """Data for one connection each: a mutated frame or two, random bytes, or deep and long structures."""
    source = random.Random(seed)
    frames = honest_frames()
    for _ in range(count):
        kind = source.randrange(8)
        frame = bytearray(source.choice(frames))
        if kind <= 3:  # some bytes of the body are changed
            for _ in range(source.randint(1, 1 + kind * 2)):
                frame[source.randrange(4, len(frame))] = source.randrange(256)
            yield bytes(frame)
        elif kind == 4:  # cut off, with a length that says so
            body = frame[4 : source.randrange(4, len(frame))]
            yield len(body).to_bytes(4, "big") + body
        elif kind == 5:  # random bytes
            body = bytearray(source.randbytes(source.randint(0, 80)))
            yield (len(body) if source.random() < 0.7 else source.randrange(2**32)).to_bytes(4, "big") + body
        elif kind == 6:  # nested or long arrays and maps, most of them announced only
            opening = source.choice(
                [b"\x91", b"\x81", b"\xdd\xff\xff\xff\xff", b"\xdc\xff\xff", b"\xc6\x7f\xff\xff\xff"]
            )
            body = bytearray(b"\x93\x02\x01" + opening * source.randint(1, 700))
            yield len(body).to_bytes(4, "big") + body
        else:  # repeated, and something behind it
            yield bytes(frame) + source.choice(frames) + source.randbytes(source.randint(0, 9))
