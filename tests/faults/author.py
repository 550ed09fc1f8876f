"""Who writes the log while the pipeline is killed: readings of rooms, subscriptions that come and go, corrections.

Everything is drawn from a seed. The log stays small enough for the reference engine to say what it means.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from motet.codec.decode import decode_bytes
from motet.lake import Lake
from motet.model.terms import XSD
from motet.model.times import format_datetime

NS = "http://example.org/"
FIRST = 1_794_736_800_000_000  # 2026-11-15T10:00:00Z
SECOND = 1_000_000
ROOMS = 6
LIVING = 8  # subscriptions at once

_LEAF = "EVENT {0} : <" + NS + "{1}> {{ ?{0} <" + NS + "room> ?room }}"
A, B, C, ALARM = (_LEAF.format(*pair) for pair in (("a", "A"), ("b", "B"), ("c", "C"), ("d", "Alarm")))
POOL: Sequence[str] = (
    f"{A} WHEN a SELECT ?room",
    f"{A} {B} WHEN a BEFORE b WITHIN 6 s SELECT ?room ?a ?b",
    f"{A} {B} WHEN a BEFORE b WITHIN 6 s CONTEXT chronicle SELECT ?a ?b",
    f"{A} {B} WHEN a AND b WITHIN 4 s CONTEXT unrestricted",
    f"{A} {C} WHEN a UNLESS c WITHIN 5 s SELECT ?room ?a",
    f"{A} {B} {C} WHEN (a BEFORE b WITHIN 8 s) WITHOUT c CONTEXT continuous SELECT ?room",
    f"{B} WHEN b{{3}} WITHIN 9 s SELECT ?room",
    f"{C} WHEN NO c FOR 7 s",
    f"{A} {B} WHEN a XOR b WITHIN 3 s SELECT ?room",
    f"{A} {B} WHEN a BEFORE b WITHIN 6 s CONTEXT cumulative CONSTRUCT {{ ?this a <{NS}Alarm> ; <{NS}room> ?room }}",
    f"{ALARM} {C} WHEN d BEFORE c WITHIN 10 s SELECT ?room ?c",
    f"{ALARM} WHEN d SELECT ?room",
)


class Author:
    """Appends a little at a time."""

    def __init__(self, lake: Lake, seed: int) -> None:
        self.lake = lake
        self.random = Random(seed)
        self.clock = FIRST
        self.written = 0
        self.living: list[str] = []
        self.named = 0
        self._subscribe()

    def write(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choices(
                [self._events, self._subscribe, self._unsubscribe, self._retract, self._background, self._tick],
                weights=[60, 12, 9, 4, 3, 4],
            )[0]()

    def end(self) -> None:
        """Nothing more will come: all that was waiting for time is decided."""
        self.lake.tick(self.clock + 3600 * SECOND)

    def _events(self) -> None:
        texts = "".join(self._event() for _ in range(self.random.randint(1, 4)))
        for decoded in decode_bytes(texts.encode(), "application/n-quads"):
            self.lake.append(decoded.events)

    def _event(self) -> str:
        self.clock += self.random.choice((0, SECOND // 2, SECOND, 2 * SECOND))
        at = self.clock - self.random.choice((0, 0, 0, SECOND, 9 * SECOND))  # the last one is late
        self.written += 1
        event = f"<{NS}e/{self.written}>"
        rooms = {self.random.randrange(ROOMS) for _ in range(self.random.choice((1, 1, 1, 2)))}
        lines = [f"{event} <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{NS}{self.random.choice('ABC')}>"]
        lines += [f"{event} <{NS}room> <{NS}r/{room}>" for room in sorted(rooms)]
        lines.append(f'{event} <http://www.w3.org/ns/sosa/resultTime> "{format_datetime(at)}"^^<{XSD}dateTime>')
        return "".join(f"{line} {event} .\n" for line in lines)

    def _subscribe(self) -> None:
        if len(self.living) < LIVING:
            self.named += 1
            since = f'SINCE "{format_datetime(self.clock - 10 * SECOND)}"' if self.random.random() < 0.25 else ""
            self.lake.subscribe(f"s{self.named}", f"SUBSCRIPTION s{self.named} {since} {self.random.choice(POOL)}")
            self.living.append(f"s{self.named}")

    def _unsubscribe(self) -> None:
        if self.living:
            self.lake.unsubscribe(self.living.pop(self.random.randrange(len(self.living))))

    def _retract(self) -> None:
        if self.written:
            self.lake.retract(f"{NS}e/{self.random.randint(1, self.written)}")

    def _background(self) -> None:
        triple = (f"<{NS}B>", "<http://www.w3.org/2000/01/rdf-schema#subClassOf>", f"<{NS}A>")
        if self.random.random() < 0.5:
            self.lake.background(added=[triple])
        else:
            self.lake.background(removed=[triple])

    def _tick(self) -> None:
        self.clock += self.random.choice((1, 3)) * SECOND
        self.lake.tick(self.clock - 2 * SECOND)
