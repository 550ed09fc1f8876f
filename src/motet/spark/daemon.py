"""Where Spark's Python workers come from, on this machine: forked from a process that has everything loaded.

A worker that begins empty spends seconds on loading the engine and its compiled kernels, and a query uses several. On a
cluster the package may come with a job, after this process has begun: there workers load by themselves.
"""

from __future__ import annotations

from pyspark.daemon import manager

from motet.spark.garbage import settle

MODULE = "motet.spark.daemon"


def load() -> None:
    """Let the kernels do a little of everything, so that they are there."""
    import pandas  # noqa: F401  (Spark's frames)

    from motet.engine.warm_up import warm_up
    from motet.spark.stream import detecting, matching  # noqa: F401

    warm_up()


if __name__ == "__main__":
    load()
    settle()
    manager()
