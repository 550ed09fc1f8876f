"""A lock that one process holds while it works on something; the error of another process names the holder."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from motet.lake import Store
from motet.model.errors import UsageError


@contextmanager
def hold_lock(store: Store, name: str, thing: str, *, advice: str) -> Iterator[None]:
    """Hold the lock in a file of a store while the block runs; after a crash it is not held any more."""
    with store.lock(f"{name}.guard"):  # two processes do not look at the same time
        if store.is_held(name):
            raise UsageError(f"{thing} is in use by {_holder(store, name)}", advice=advice)
        store.delete(name)
        held = store.hold(name)
        fields = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        held.append(json.dumps(fields).encode())
    try:
        yield
    finally:
        held.release()


def _holder(store: Store, name: str) -> str:
    with suppress(ValueError, KeyError, TypeError):
        fields = json.loads(store.find(name) or b"")
        if (fields["pid"], fields["host"]) == (os.getpid(), socket.gethostname()):
            return "another pipeline of this process"
        return f"process {fields['pid']} on {fields['host']}, since {fields['since']}"
    return "another process"
