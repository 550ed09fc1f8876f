"""From a stretch of the log to its notifications. The same function serves the embedded host and Spark's workers."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.match.matcher import Matcher
from motet.model.schemas import NOTIFICATIONS, TIME
from motet.model.tables import Triple
from motet.plan.registry import Registry
from motet.plan.timeline import Stretch

_FEW = 32
_last: list[tuple[Registry, Matcher]] = []


def derive(stretch: Stretch, records: pa.RecordBatch) -> pa.RecordBatch:
    """The notifications of the records that belong to the stretch."""
    found = engine_for(stretch.registry).notify(select(stretch, records))
    if stretch.emitted_at is None:
        return found
    index = NOTIFICATIONS.get_field_index("offset")
    offsets = pa.repeat(pa.scalar(stretch.emitted_at, pa.int64()), len(found))
    return found.set_column(index, NOTIFICATIONS.field(index), offsets)


def select(stretch: Stretch, records: pa.RecordBatch) -> pa.RecordBatch:
    """The events the stretch's subscriptions see: not late, and for those of the past not too early and not hidden."""
    if _all_wanted(stretch, records):
        return records
    offsets = records.column("offset")
    wanted = pc.and_(pc.equal(records.column("kind"), "event"), pc.invert(records.column("late")))
    wanted = pc.and_(wanted, pc.and_(pc.greater_equal(offsets, stretch.first), pc.less(offsets, stretch.stop)))
    if stretch.since is not None:
        since = pa.scalar(stretch.since, pa.int64()).cast(TIME)
        wanted = pc.and_(wanted, pc.greater_equal(records.column("start"), since))
    if stretch.hidden:
        hidden = pc.is_in(records.column("id"), pa.array(sorted(stretch.hidden), pa.string()))
        wanted = pc.and_(wanted, pc.invert(hidden))
    return records.filter(wanted)


def _all_wanted(stretch: Stretch, records: pa.RecordBatch) -> bool:
    """Whether all of a few records are seen: the usual case where it matters how long one event takes."""
    if records.num_rows > _FEW or stretch.since is not None or stretch.hidden:
        return False
    offsets = records.column("offset").to_pylist()
    kinds, late = records.column("kind").to_pylist(), records.column("late").to_pylist()
    inside = all(stretch.first <= offset < stretch.stop for offset in offsets)
    return inside and set(kinds) == {"event"} and not any(late)


def engine_for(registry: Registry) -> Matcher:
    """The matcher of a registry. The last one is known by identity: to hash it would mean to read it all."""
    last = _last[0] if _last else None
    if last is None or last[0] is not registry:
        last = registry, _engine_for(registry)
        _last[:] = [last]
    return last[1]


@lru_cache(maxsize=8)
def _engine_for(registry: Registry) -> Matcher:
    """The matcher of a registry, made from the last one over the same background: most subscriptions stay."""
    latest = _latest(registry.background)
    found = latest[0] = latest[0].changed(registry.subscriptions)
    return found


@lru_cache(maxsize=8)
def _latest(background: frozenset[Triple]) -> list[Matcher]:
    """The last matcher made; with an ontology in the background it reasons, without one there is nothing to do."""
    return [Matcher((), background, "owl-rl" if background else "none")]
