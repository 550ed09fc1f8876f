"""The lake against a plain Python model of sections 11 and 14 of the language page."""

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
from tests.builders import ManualClock

from motet.lake import Lake, ids, log, maintenance, manifest
from motet.model.batches import EVENTS
from motet.model.errors import ConflictError, DecodeError, UsageError
from motet.model.records import Subscribe, Unsubscribe
from motet.model.times import END_OF_TIME

Events = Callable[..., pa.Table]
Step = tuple[Any, ...]
Spec = tuple[str, int | None, int | None, int]  # id, start, end, content


@dataclass
class Model:
    """The log as a list, with every rule of the language page."""

    lateness: int | None
    ahead: int | None
    records: list[dict[str, Any]] = field(default_factory=list)
    contents: dict[str, int] = field(default_factory=dict)
    frontier: int | None = None

    def commit(self, clock: int, *rows: dict[str, Any]) -> None:
        """Append records in one commit."""
        before, moves = self.frontier, []
        for row in rows:
            late = row["kind"] == "event" and before is not None and (row["end"] < before or before >= END_OF_TIME)
            record = {"offset": len(self.records), "id": None, "start": None, "end": None, "stamped": False}
            self.records.append(record | row | {"frontier": before, "late": late})
            if row["kind"] == "tick":
                moves.append(row["end"])
            if row["kind"] == "event" and not late and not row["stamped"] and self.lateness is not None:
                moves.append((row["end"] if self.ahead is None else min(row["end"], clock)) - self.lateness)
        self.frontier = max([*moves, *([] if before is None else [before])], default=None)

    def append(self, clock: int, specs: list[Spec], *, partial: bool) -> tuple[int, int, int] | None:
        """Append events; the numbers of accepted, repeated and rejected ones, None if the request is refused."""
        contents, accepted, repeated, rejected = dict(self.contents), [], 0, 0
        for name, start, end, content in specs:
            if name in contents:
                repeated, rejected = repeated + (contents[name] == content), rejected + (contents[name] != content)
            elif end is not None and self.ahead is not None and end > clock + self.ahead:
                rejected += 1
            else:
                contents[name] = content
                accepted.append((name, start, end))
        if rejected and not partial:
            return None
        self.contents = contents
        stamp = max(clock, clock if self.frontier is None else self.frontier)
        timed = [event("event", name, start, end) for name, start, end in accepted if end is not None]
        untimed = [event("event", name, stamp, stamp, stamped=True) for name, _, end in accepted if end is None]
        if accepted:
            self.commit(clock, *sorted(timed, key=lambda row: row["end"]), *untimed)
        return len(accepted), repeated, rejected


def event(kind: str, name: str, start: int | None, end: int | None, *, stamped: bool = False) -> dict[str, Any]:
    return {"kind": kind, "id": name, "start": start, "end": end, "stamped": stamped}


EVENT = st.tuples(st.integers(0, 12), st.none() | st.integers(0, 60), st.integers(0, 20), st.sampled_from([0, 0, 0, 1]))
STEP = st.one_of(
    st.tuples(st.just("append"), st.lists(EVENT, max_size=5), st.booleans()),
    st.tuples(st.just("append"), st.lists(EVENT, max_size=5), st.booleans()),
    st.tuples(st.just("tick"), st.integers(0, 60) | st.just(END_OF_TIME)),
    st.tuples(st.just("subscribe"), st.integers(0, 2)),
    st.tuples(st.just("unsubscribe"), st.integers(0, 2)),
    st.tuples(st.just("retract"), st.integers(0, 12)),
    st.tuples(st.just("settings"), st.sampled_from([None, 0, 9]), st.sampled_from([None, 5])),
    st.tuples(st.just("clock"), st.integers(-5, 20)),
    st.tuples(st.just("compact"), st.integers(2, 30)),
    st.tuples(st.just("vacuum"), st.integers(0, 3)),
    st.tuples(st.just("reopen")),
)


def _colliding(names: list[str]) -> Any:
    """A hash with many collisions: every possible duplicate has to be compared."""
    return np.array([sum(map(ord, name)) % 3 for name in names], np.uint64)


def _table(specs: list[Spec]) -> pa.Table:
    rows = []
    for id_, start, end, content in specs:
        triple = {"subject": "<urn:s>", "predicate": "<urn:p>", "object": f'"{content}"'}
        rows.append({"id": id_, "start": start, "end": end, "triples": [triple], "line": 1})
    return pa.Table.from_pylist(rows, EVENTS)


def _append(lake: Lake, model: Model, specs: list[Spec], clock: int, *, partial: bool) -> None:
    expected = model.append(clock, specs, partial=partial)
    events = _table(specs) if clock % 2 or not specs else _table(specs).combine_chunks().to_batches()[0]
    if expected is None:
        with pytest.raises((ConflictError, DecodeError)):
            lake.append(events)
        return
    receipt = lake.append(events, partial=partial)
    assert (receipt.accepted, receipt.repeated, len(receipt.rejected)) == expected
    assert list(receipt.ids) == [spec[0] for spec in specs]
    added = model.records[len(model.records) - receipt.accepted :]
    assert (receipt.late, receipt.stamped) == (sum(r["late"] for r in added), sum(r["stamped"] for r in added))
    assert (receipt.first, receipt.last) == ((added[0]["offset"], added[-1]["offset"]) if added else (None, None))


def _step(lake: Lake, model: Model, step: Step, clock: ManualClock) -> None:
    match step:
        case ("append", rows, partial):
            specs = [(f"urn:{n}", at, None if at is None else at + length, content) for n, at, length, content in rows]
            _append(lake, model, specs, clock.now, partial=partial)
        case ("tick", instant) if model.ahead is not None and instant > clock.now + model.ahead:
            with pytest.raises(UsageError, match="ahead of the clock"):
                lake.tick(instant)
        case ("tick", instant):
            lake.tick(instant)
            model.commit(clock.now, {"kind": "tick", "end": instant})
        case ("subscribe" | "unsubscribe" as kind, n):
            lake.append_controls([Subscribe(f"s{n}", "text") if kind == "subscribe" else Unsubscribe(f"s{n}")])
            model.commit(clock.now, {"kind": kind, "id": f"s{n}"})
        case ("retract", n) if f"urn:{n}" in model.contents:
            lake.retract(f"urn:{n}")
            model.commit(clock.now, {"kind": "retract", "id": f"urn:{n}"})
        case ("retract", n):
            with pytest.raises(UsageError):
                lake.retract(f"urn:{n}")
        case ("settings", lateness, ahead):
            lake.change_settings(lateness=lateness, ahead=ahead)
            if (lateness, ahead) != (model.lateness, model.ahead):
                model.commit(clock.now, {"kind": "settings"})
            model.lateness, model.ahead = lateness, ahead
        case ("clock", step_):
            clock.now += step_
        case ("compact", rows):
            lake.compact(target_rows=rows)
        case ("vacuum", grace):
            lake.vacuum(grace)


def _records(lake: Lake) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in lake.snapshot().records():
        times = {name: batch.column(name).cast(pa.int64()).to_pylist() for name in ("start", "end", "frontier")}
        plain = {name: batch.column(name).to_pylist() for name in ("offset", "kind", "id", "late", "stamped")} | times
        rows += [dict(zip(plain, values, strict=True)) for values in zip(*plain.values(), strict=True)]
    return rows


@pytest.mark.parametrize("collide", [False, True])
@settings(max_examples=150, deadline=None)
@given(
    lateness=st.sampled_from([None, 0, 15]),
    ahead=st.sampled_from([None, 10, 30]),
    steps=st.lists(st.tuples(st.integers(0, 1), STEP), max_size=25),
)
def test_a_lake_holds_the_records_of_the_model(
    collide: bool, lateness: int | None, ahead: int | None, steps: list[tuple[int, Step]]
) -> None:
    """Two lake objects that append, compact, vacuum and reopen in turn hold exactly the model's records."""
    clock = ManualClock(20)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)  # nothing is unplugged here, and it costs most of the time
        patch.setattr(ids, "TAIL_IDS", 6)
        patch.setattr(ids, "TAIL_SEGMENTS", 3)
        patch.setattr(manifest, "CHECKPOINT_EVERY", 4)
        for module in (ids, log, maintenance) if collide else ():
            patch.setattr(module, "hash_ids", _colliding)
        lakes = [Lake.open(folder, lateness=lateness, ahead=ahead, clock=clock) for _ in range(2)]
        model = Model(lateness, ahead)
        model.commit(clock.now, {"kind": "settings"})
        for which, step in steps:
            if step == ("reopen",):
                lakes[which] = Lake.open(folder, clock=clock)
            _step(lakes[which], model, step, clock)
        assert [_records(lake) for lake in lakes] == [model.records] * 2
        assert [lake.snapshot().frontier for lake in lakes] == [model.frontier] * 2
        assert lakes[0].check() == []
