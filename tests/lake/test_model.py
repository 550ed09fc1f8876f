"""The lake against a plain Python model of section 11 of the language page."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.lake import Lake, ids, log, maintenance, manifest
from motet.model.errors import UsageError
from motet.model.records import Subscribe, Unsubscribe
from motet.model.times import END_OF_TIME, START_OF_TIME

Events = Callable[..., pa.Table]
Step = tuple[Any, ...]


@dataclass
class Model:
    """The log as a list, with every rule of the language page."""

    lateness: int | None
    records: list[dict[str, Any]] = field(default_factory=list)

    def frontier(self) -> int | None:
        reached = [record["end"] for record in self.records if record["kind"] == "tick"]
        if self.lateness is not None:
            ends = [record["end"] for record in self.records if record["kind"] == "event"]
            reached += [max(end - self.lateness, START_OF_TIME) for end in ends]
        return max(reached, default=None)

    def held(self) -> set[str]:
        return {record["id"] for record in self.records if record["kind"] == "event"}

    def add(self, kind: str, name: str | None = None, start: int | None = None, end: int | None = None) -> bool:
        if kind == "event" and name in self.held():
            return False
        frontier = self.frontier()
        late = (
            kind == "event" and end is not None and frontier is not None and (end < frontier or frontier >= END_OF_TIME)
        )
        record = {"offset": len(self.records), "kind": kind, "id": name, "start": start, "end": end}
        self.records.append(record | {"frontier": frontier, "late": late})
        return True


EVENT = st.tuples(st.integers(0, 12), st.none() | st.integers(0, 60), st.integers(0, 20))
STEP = st.one_of(
    st.tuples(st.just("append"), st.lists(EVENT, max_size=5)),
    st.tuples(st.just("append"), st.lists(EVENT, max_size=5)),
    st.tuples(st.just("tick"), st.integers(0, 60) | st.just(END_OF_TIME)),
    st.tuples(st.just("subscribe"), st.integers(0, 2)),
    st.tuples(st.just("unsubscribe"), st.integers(0, 2)),
    st.tuples(st.just("retract"), st.integers(0, 12)),
    st.tuples(st.just("compact"), st.integers(2, 30)),
    st.tuples(st.just("vacuum"), st.integers(0, 3)),
    st.tuples(st.just("reopen")),
)


def _colliding(names: list[str]) -> Any:
    """A hash with many collisions: every possible duplicate has to be compared."""
    return np.array([sum(map(ord, name)) % 3 for name in names], np.uint64)


def _step(lake: Lake, model: Model, events: Events, step: Step, now: int) -> None:
    match step:
        case ("append", rows):
            specs = [(f"urn:{n}", at, None if at is None else at + length) for n, at, length in rows]
            answer = lake.append(events(specs), now=now)
            stamped = [(name, now, now) if start is None else (name, start, end) for name, start, end in specs]
            accepted = [model.add("event", *spec) for spec in stamped]
            assert (answer.accepted, answer.duplicates) == (sum(accepted), len(accepted) - sum(accepted))
        case ("tick", instant):
            lake.tick(instant)
            model.add("tick", end=instant)
        case ("subscribe" | "unsubscribe" as kind, n):
            lake.append_controls([Subscribe(f"s{n}", "text") if kind == "subscribe" else Unsubscribe(f"s{n}")])
            model.add(kind, f"s{n}")
        case ("retract", n) if f"urn:{n}" in model.held():
            lake.retract(f"urn:{n}")
            model.add("retract", f"urn:{n}")
        case ("retract", n):
            with pytest.raises(UsageError):
                lake.retract(f"urn:{n}")
        case ("compact", rows):
            lake.compact(target_rows=rows, now=now)
        case ("vacuum", grace):
            lake.vacuum(grace, now=now)


def _records(lake: Lake) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in lake.snapshot().records():
        times = {name: batch.column(name).cast(pa.int64()).to_pylist() for name in ("start", "end", "frontier")}
        plain = {name: batch.column(name).to_pylist() for name in ("offset", "kind", "id", "late")} | times
        rows += [dict(zip(plain, values, strict=True)) for values in zip(*plain.values(), strict=True)]
    return rows


@pytest.mark.parametrize("collide", [False, True])
@settings(max_examples=100, deadline=None)
@given(lateness=st.sampled_from([None, 0, 15]), steps=st.lists(st.tuples(st.integers(0, 1), STEP), max_size=25))
def test_a_lake_holds_the_records_of_the_model(
    events: Events, collide: bool, lateness: int | None, steps: list[tuple[int, Step]]
) -> None:
    """Two lake objects that append, compact, vacuum and reopen in turn hold exactly the model's records."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)  # nothing is unplugged here, and it costs most of the time
        patch.setattr(ids, "TAIL_IDS", 6)
        patch.setattr(ids, "TAIL_SEGMENTS", 3)
        patch.setattr(manifest, "CHECKPOINT_EVERY", 4)
        for module in (ids, log, maintenance) if collide else ():
            patch.setattr(module, "hash_ids", _colliding)
        lakes = [Lake.open(folder, lateness=lateness) for _ in range(2)]
        model = Model(lateness)
        for now, (which, step) in enumerate(steps):
            if step == ("reopen",):
                lakes[which] = Lake.open(folder, lateness=lateness)
            _step(lakes[which], model, events, step, now)
        assert [_records(lake) for lake in lakes] == [model.records] * 2
        assert lakes[0].snapshot().frontier == model.frontier()
        assert lakes[0].check() == []
