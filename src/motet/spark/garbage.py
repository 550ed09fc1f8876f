"""What the collection of garbage need not look at: Spark has its workers do that after every task, all of it.

A worker has loaded the engine, and perhaps thousands of subscriptions: looking at them takes longer than many a task.
"""

from __future__ import annotations

import gc


def settle() -> None:
    """What is here now stays; what was here the last time and is not needed any more goes."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
