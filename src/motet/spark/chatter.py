"""What PySpark's workers print that is of no use to anyone, kept from the terminal.

Spark starts a Python worker for each stateful query, which prints the steps of its start; Spark copies that to the
standard error of the JVM. No setting turns it off, so whatever the JVM says passes through here.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

_CHATTER = re.compile(rb"(?:Starting )?Streaming TransformWithState\w* Python worker")


@contextmanager
def without_chatter() -> Iterator[None]:
    """Processes that are started in the block, such as the JVM of a session, are heard without their chatter."""
    reading, writing = os.pipe()
    before = os.dup(2)
    os.dup2(writing, 2)
    os.close(writing)
    ends = os.fdopen(reading, "rb"), os.fdopen(os.dup(before), "wb", buffering=0)
    threading.Thread(target=_pass_on, args=ends, daemon=True).start()
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _pass_on(said: BinaryIO, heard: BinaryIO) -> None:
    """Ends when the last process that has the other end does."""
    was_chatter = False
    with said, heard:
        for line in said:
            was_chatter = bool(_CHATTER.match(line)) or (was_chatter and not line.strip())
            if not was_chatter:
                heard.write(line)
