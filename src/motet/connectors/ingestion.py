"""What every source does with decoded events: set aside what is bad, append the rest, say what became of it.

In this order, and only then may the source be told that it can forget them: after a crash it gives them again, and what
is in the log already is left out by its IRI.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from motet.codec.events import Decoded
from motet.lake import Appended, Lake
from motet.model.errors import DecodeError
from motet.model.schemas import EVENTS

SetAside = Callable[[Sequence[DecodeError]], object]  # keeps rejected events where people find them


@dataclass(frozen=True)
class Fed:
    """What became of some files or messages."""

    inputs: int
    appended: Appended
    rejected: int


def feed(lake: Lake, parts: Sequence[Decoded], set_aside: SetAside, *, inputs: int) -> Fed:
    """Take in the decoded events of so many inputs, in one commit."""
    rejected = [error for part in parts for error in part.rejected]
    set_aside(rejected)
    events = pa.Table.from_batches([part.events for part in parts], EVENTS)
    return Fed(inputs, lake.append(events, now=time.time_ns() // 1000), len(rejected))
