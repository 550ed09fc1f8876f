"""Spark's Python workers on this machine: forked from a daemon that has the engine loaded, with filtered output.

A worker that starts empty spends seconds on loading the engine and its compiled kernels, and a query uses several
workers. On a cluster the package may arrive with a job, after the daemon has started: workers there load by themselves.
"""

from __future__ import annotations

import gc
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import BinaryIO

DAEMON_MODULE = "motet.spark.workers"  # this one, for Spark's setting spark.python.daemon.module
PRELOADED = ("pandas", "motet.spark.stream.tasks")

_START_MESSAGE = re.compile(rb"(?:Starting )?Streaming TransformWithState\w* Python worker")


def preload() -> None:
    """Load the modules of the stages and every compiled kernel."""
    from motet.engine.runtime.warm_up import warm_up

    for module in PRELOADED:
        import_module(module)
    warm_up()


def freeze_heap() -> None:
    """Exclude the loaded objects from garbage collection, after a last collection of all objects.

    Spark collects garbage after every task. Scanning the engine and thousands of subscriptions takes longer than many
    tasks.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextmanager
def filter_worker_output() -> Iterator[None]:
    """Remove the start messages of Python workers from the standard error of processes started in the block.

    Spark copies them there from the worker of each stateful query, and no setting turns them off.
    """
    read_end, write_end = os.pipe()
    stderr = os.dup(2)
    os.dup2(write_end, 2)
    os.close(write_end)
    streams = os.fdopen(read_end, "rb"), os.fdopen(os.dup(stderr), "wb", buffering=0)
    threading.Thread(target=_copy_filtered, args=streams, daemon=True).start()
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _copy_filtered(source: BinaryIO, sink: BinaryIO) -> None:
    """Copy lines until the last process that holds the write end has ended."""
    is_start_message = False
    with source, sink:
        for line in source:
            is_start_message = bool(_START_MESSAGE.match(line)) or (is_start_message and not line.strip())
            if not is_start_message:
                sink.write(line)


if __name__ == "__main__":
    from pyspark.daemon import manager

    preload()
    freeze_heap()
    manager()
