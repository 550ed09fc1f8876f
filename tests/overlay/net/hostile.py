"""Hostile parties: random bytes, senseless messages of a member, wrong frames over TCP, and handshakes that fail.

Run: python -m tests.overlay.net.hostile [--decoder N] [--protocols N] [--frames N] [--handshakes N]

Prints what was sent, what was refused, and how memory, file descriptors and tasks have changed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import random
import ssl
import sys
import tempfile
import time
import typing
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from tests.overlay.net.parties import Note, Party, member, party

from motet.model.errors import DecodeError, LimitError, OverlayError
from motet.overlay.net.certificates import split_address
from motet.overlay.net.connection import introduce, open_connection
from motet.overlay.net.frames import (
    PROTOCOL_VERSION,
    Frame,
    FrameDecoder,
    Hello,
    MessageFrame,
    NetworkLimits,
    OperatorRequest,
    Refused,
    decode_message,
    encode_frame,
    encode_message,
    encode_value,
)
from motet.overlay.net.node_directory import NodeSettings
from motet.overlay.net.overlay_kinds import KINDS
from motet.overlay.protocol.identifiers import Contact, identifier_of
from motet.overlay.protocol.node import (
    MESSAGE_TYPES,
    CancelTimer,
    Expired,
    Input,
    PeerMessage,
    Received,
    Send,
    SetTimer,
    Started,
    Timer,
    check_sender,
    field_types,
)
from motet.overlay.protocol.pastry_messages import JoinRing

LIMITS = NetworkLimits(max_frame_bytes=2**16)


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


def attack_decoder(count: int, *, seed: int = 1) -> Counter[str]:
    """Hostile data into the decoder: how much was decoded, and how much refused."""
    counts: Counter[str] = Counter()
    for data in hostile_data(seed=seed, count=count):
        try:
            for frame in FrameDecoder(LIMITS).receive_data(data):
                if isinstance(frame, MessageFrame):
                    decode_message(frame.fields)
            counts["decoded"] += 1
        except (DecodeError, LimitError):
            counts["refused"] += 1
    return counts


INTEGERS = (0, 1, -1, 5, 10**15, 2**63, 2**127, -(2**127), 2**128 - 1, 2**128, 2**200, -(2**200))
ADDRESSES = ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "10.0.0.1:5", "x", "", "é" * 200)
MESSAGES_OF_A_MEMBER = 60


def attack_protocols(count: int, *, first_seed: int = 1) -> int:
    """Well-formed messages with senseless content into the protocols of nodes, `MESSAGES_OF_A_MEMBER` into each.

    Returns how many were handled; an error or an endless loop of a protocol is one here. Timers expire in between, and
    whatever the node sends must be a message that another node accepts.
    """
    for seed in range(first_seed, first_seed + count):
        source = random.Random(seed)
        node = KINDS["pastry"].make_node(NodeSettings(address=ADDRESSES[0], network="test", is_plain=True))
        now, timers = 10**15, dict[Timer, int]()
        inputs: list[Input] = [Started(), JoinRing()]
        for _ in range(MESSAGES_OF_A_MEMBER + len(inputs)):
            sender = source.choice(ADDRESSES[:3])
            message = Received(sender=sender, message=_accepted_message(source, sender))
            expired = [timer for timer, at in timers.items() if at <= now]
            for node_input in (*(Expired(timer=timer) for timer in expired), inputs.pop(0) if inputs else message):
                if isinstance(node_input, Expired):
                    timers.pop(node_input.timer, None)
                for effect in node.handle(now, node_input):
                    if isinstance(effect, SetTimer):
                        timers[effect.timer] = effect.at
                    elif isinstance(effect, CancelTimer):
                        timers.pop(effect.timer, None)
                    elif isinstance(effect, Send):
                        decode_message(msgspec.Raw(encode_message(effect.message)))
            now += source.choice([1_000, 100_000, 5_000_000])
    return count * MESSAGES_OF_A_MEMBER


def _accepted_message(source: random.Random, sender: str) -> PeerMessage:
    """A senseless message that the decoder and the host accept."""
    while True:
        with contextlib.suppress(DecodeError):
            message = decode_message(msgspec.Raw(encode_message(_senseless_message(source, depth=4))))
            check_sender(sender, message)
            return message


def _senseless_message(source: random.Random, depth: int) -> PeerMessage:
    names = list(MESSAGE_TYPES) if depth > 0 else ["Acknowledgement"]
    cls = MESSAGE_TYPES[source.choice(names)]
    return cls(**{name: _senseless_value(source, hint, depth) for name, hint in field_types(cls).items()})


def _senseless_value(source: random.Random, hint: Any, depth: int) -> Any:
    """A value of a field's type, of which none may be too large, too long or contradictory."""
    kinds: dict[Any, Callable[[], Any]] = {
        int: lambda: source.choice((*INTEGERS, source.getrandbits(128), identifier_of(ADDRESSES[0]))),
        str: lambda: source.choice(ADDRESSES),
        bytes: lambda: source.randbytes(source.choice((0, 3, 40))),
        bool: lambda: source.random() < 0.5,
    }
    if hint in kinds:
        return kinds[hint]()
    arguments = typing.get_args(hint)
    if type(None) in arguments:
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return None if source.random() < 0.3 else _senseless_value(source, inner, depth)
    if typing.get_origin(hint) is tuple:
        inner_types = arguments
        if arguments[-1] is Ellipsis:
            inner_types = arguments[:1] * source.choice((0, 1, 3, 40))
        return tuple(_senseless_value(source, inner, depth - 1) for inner in inner_types)
    if issubclass(hint, PeerMessage):
        return _senseless_message(source, depth - 1)
    if hint is Contact and source.random() < 0.98:  # others are refused by the decoder
        address = source.choice(ADDRESSES)
        return Contact(identifier_of(address), address)
    return hint(*(_senseless_value(source, inner, depth - 1) for inner in field_types(hint).values()))


async def attack_connections(target: Party, count: int, *, seed: int = 2) -> Counter[str]:
    """Hostile data over plain TCP, one connection each, before and after a correct hello; how the connections ended."""
    counts: Counter[str] = Counter()
    source = random.Random(seed)
    for data in hostile_data(seed=seed, count=count):
        connection = await open_connection(target.address, None, LIMITS)
        with contextlib.suppress(OSError, OverlayError):
            if source.random() < 0.7:
                address = f"127.0.0.1:{source.randint(1, 1000)}"
                await introduce(connection, target.address, role="peer", network="test", address=address, run=1)
                if source.random() < 0.5:  # with the right number, so that its content is read
                    number = connection._number_out
                    fields = data[4:] if source.random() < 0.5 else encode_value(["Note", source.random(), data])
                    connection.writer.write(encode_frame(MessageFrame(number, msgspec.Raw(fields))))
                else:
                    connection.writer.write(data)
            else:
                connection.writer.write(data)
            if source.random() < 0.5:
                connection.writer.write_eof()
            else:
                connection.writer.write(b"\xff\xff\xff\xff")
            counts[await _end(connection.reader)] += 1
        connection.abort()
    return counts


async def attack_handshakes(target: Party, stranger: ssl.SSLContext, count: int, *, seed: int = 3) -> Counter[str]:
    """TLS handshakes without a certificate, with one of another authority, and with something else than TLS."""
    counts: Counter[str] = Counter()
    source = random.Random(seed)
    host, port = split_address(target.address)
    without = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    without.check_hostname, without.verify_mode = False, ssl.CERT_NONE
    for number in range(count):
        kind = ("no certificate", "another authority", "no TLS", "ended early")[number % 4]
        context = {"no certificate": without, "another authority": stranger}.get(kind)
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            if kind == "no TLS":
                writer.write(source.randbytes(source.randint(1, 300)))
                writer.write_eof()
            elif kind == "ended early":
                writer.write(b"\x16\x03\x01\x02\x00\x01" + source.randbytes(30))
                writer.write_eof()
            else:
                writer.write(honest_frames()[0])
            with contextlib.suppress(OSError):
                await _end(reader)
            writer.transport.abort()
        counts[kind] += 1
    return counts


async def _end(reader: asyncio.StreamReader) -> str:
    """How the other side ends a connection: with a reason, or without."""
    data = b""
    async with asyncio.timeout(30):
        with contextlib.suppress(ConnectionError):
            while part := await reader.read(65536):
                data += part
    with contextlib.suppress(DecodeError, LimitError):
        for frame in FrameDecoder().receive_data(data):
            if isinstance(frame, Refused):
                return "refused with a reason"
    return "ended"


class Names(logging.Handler):
    """Counts the warnings that name who was cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "127.0.0.1:" in str(record.args and record.args[1])  # type: ignore[index]


def resources() -> dict[str, int]:
    """What this process holds now: memory in MiB, file descriptors, tasks."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "memory": pages * os.sysconf("SC_PAGE_SIZE") // 2**20,
        "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
        "tasks": len(asyncio.all_tasks()),
    }


async def attack(frames: int, handshakes: int, directory: Path, *, pause: float) -> list[tuple[str, dict[str, object]]]:
    """Attack one plain and one TLS party over TCP; both still serve an honest peer afterwards, or this fails."""
    names = Names()
    logging.getLogger("motet.overlay").addHandler(names)
    logging.getLogger("motet.overlay").propagate = False
    stranger = member(directory / "other", "127.0.0.1:1").client
    stranger.verify_mode = ssl.CERT_NONE
    results: list[tuple[str, dict[str, object]]] = []
    async with (
        party(limits=LIMITS) as plain,
        party(authority=directory / "own", limits=LIMITS) as secure,
    ):
        await attack_connections(plain, max(100, frames // 4), seed=9)
        await attack_handshakes(secure, stranger, 20, seed=9)
        for title, target, count in (("frames over TCP", plain, frames), ("TLS handshakes", secure, handshakes)):
            before, cut_off, named = resources(), target.transport.counts["connections cut off"], names.count
            started = time.perf_counter()
            if target is plain:
                ended = await attack_connections(plain, count)
            else:
                ended = await attack_handshakes(secure, stranger, count)
            seconds = time.perf_counter() - started
            await _settle(target, pause)
            after = resources()
            facts: dict[str, object] = {"count": count, "seconds": round(seconds, 1), **ended}
            facts["cut off"] = target.transport.counts["connections cut off"] - cut_off
            facts["named in the log"] = names.count - named
            facts |= {f"{key} before and after": (before[key], after[key]) for key in before}
            results.append((title, facts))
        while not plain.inbox.empty():
            plain.inbox.get_nowait()
        async with party() as honest:
            honest.send(plain, 1)
            assert await plain.receive() == [(honest.address, 1)]
        async with party(authority=directory / "own") as honest:
            honest.send(secure, 1)
            assert await secure.receive() == [(honest.address, 1)]
    return results


async def _settle(target: Party, pause: float) -> None:
    """Wait until the target has no connection left."""
    async with asyncio.timeout(30):
        while target.transport.statistics()["connections"]:
            await asyncio.sleep(0.01)
    await asyncio.sleep(pause)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decoder", type=int, default=10**6)
    parser.add_argument("--protocols", type=int, default=500)
    parser.add_argument("--frames", type=int, default=10**4)
    parser.add_argument("--handshakes", type=int, default=500)
    args = parser.parse_args()
    started = time.perf_counter()
    counts = attack_decoder(args.decoder)
    print(f"decoder: {args.decoder:,} in {time.perf_counter() - started:.1f} s: {dict(counts)}")  # noqa: T201
    started = time.perf_counter()
    handled = attack_protocols(args.protocols)
    print(f"protocols: {handled:,} senseless messages handled in {time.perf_counter() - started:.1f} s")  # noqa: T201
    with tempfile.TemporaryDirectory() as directory:
        pause = 2.1  # closed connections are kept for two seconds
        for title, facts in asyncio.run(attack(args.frames, args.handshakes, Path(directory), pause=pause)):
            print(f"{title}: {facts}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
