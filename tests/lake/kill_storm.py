"""Two writers and a compactor on one lake, killed with SIGKILL again and again: run by ``test_kills.py``.

A script of its own, so that the children are forked from a process that has imported the lake and runs no thread.
Usage: kill_storm.py LAKE ACKNOWLEDGED KILLS SEED GRACE. Every id whose append returned is a line of ACKNOWLEDGED.
With a GRACE (microseconds of the vacuum) above 0, writers go without their courtesy lock: nothing may depend on it,
except that a vacuum without any grace takes files from writers that read them.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from motet.lake import Lake, Store
from motet.model.batches import EVENTS

LATENESS = 1_000
SHARED = 300  # ids that both writers publish

Role = Callable[[Path, int, random.Random], None]
grace = 0


def events(ids: list[str], writer: str, dice: random.Random) -> pa.Table:
    """Events that say who wrote them, in a jumble of times, so that some are late."""
    start = [time.time_ns() // 1_000_000 - dice.randrange(0, 2 * LATENESS) for _ in ids]
    triple = {"subject": "<urn:s>", "predicate": "<urn:writer>", "object": f'"{writer}"'}
    columns = {"id": ids, "start": start, "end": start, "triples": [[triple]] * len(ids), "line": [1] * len(ids)}
    columns["payload"] = [None] * len(ids)
    return pa.table([pa.array(columns[field.name], field.type) for field in EVENTS], schema=EVENTS)


def write(place: Path, acknowledged: int, dice: random.Random) -> None:
    """Append for ever, and acknowledge what was appended."""
    lake = Lake.open(place)
    me = f"{os.getpid()}-{dice.getrandbits(32):x}"
    for turn in range(1_000_000):
        ids = [f"urn:{me}:{turn}:{n}" for n in range(dice.randrange(1, 4))]
        ids += [f"urn:shared:{dice.randrange(SHARED)}" for _ in range(dice.randrange(3))]
        table = events(ids, me, dice)
        # a small batch becomes JSON; the writers contradict each other about the shared ids
        lake.append(table if dice.random() < 0.5 else table.to_batches()[0], partial=True)
        if dice.random() < 0.1:
            lake.tick(dice.randrange(1_000))
        os.write(acknowledged, "".join(f"{line}\n" for line in ids).encode())


def tidy(place: Path, acknowledged: int, dice: random.Random) -> None:
    """Compact and vacuum for ever."""
    lake = Lake.open(place)
    while True:
        lake.compact(target_rows=dice.choice([20, 200, 100_000]))
        lake.vacuum(older_than=grace)


def start(role: Role, place: Path, acknowledged: int, seed: int) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            role(place, acknowledged, random.Random(seed))
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(status)
    return child


def storm(place: Path, acknowledged: int, kills: int, dice: random.Random) -> None:
    """Kill a random child at a random moment and start another in its place."""
    roles: list[Role] = [write, write, tidy]
    alive = {start(role, place, acknowledged, dice.getrandbits(32)): role for role in roles}
    try:
        for _ in range(kills):
            time.sleep(dice.choice([0.005, 0.03, 0.12]) * dice.random())  # the random moment is what is tested
            victim = dice.choice(list(alive))
            os.kill(victim, signal.SIGKILL)
            _, status = os.waitpid(victim, 0)
            role = alive.pop(victim)
            if os.WIFEXITED(status):
                raise SystemExit(f"a child failed by itself: {role.__name__}")
            alive[start(role, place, acknowledged, dice.getrandbits(32))] = role
    finally:
        for child in alive:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


@contextmanager
def unlocked(store: Store) -> Iterator[None]:
    yield


def main() -> None:
    global grace  # noqa: PLW0603 one setting of one script
    grace = int(sys.argv[5])
    if grace:
        Store.lock = unlocked  # type: ignore[method-assign, assignment]
    place, acknowledged, kills, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    Lake.open(place, lateness=LATENESS)
    pa.array([0])  # the first one imports pandas, for half a second: here, not in every child
    handle = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    storm(place, handle, kills, random.Random(seed))


if __name__ == "__main__":
    main()
