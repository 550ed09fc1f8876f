"""Zone files: the triples of all events once more, divided by a k-d tree over offset, subject, predicate and object.

Zones are computed from the log and can be deleted. They are built in *runs*: a run holds the events of one range of
offsets, divided into zones, with a file of the events themselves. A new run is made of the records that are in none;
runs of similar size are merged, so that a row is rewritten a logarithmic number of times. The manifest has the bounds
of each zone, cut to `BOUND_LENGTH` characters, by which a query reads only some of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from motet.lake.manifest import Commit, Manifest
from motet.lake.segments import new_name
from motet.lake.snapshot import DataFile, Snapshot
from motet.lake.store import Store
from motet.lake.zone_rows import EVENT_ROWS, QUAD_ROWS, TERMS, LogRows, log_rows, ranks, without_earlier
from motet.model.errors import CorruptLakeError
from motet.model.records import EVENT

MIN_ROWS = 32_000  # of a zone
SINGLE_ZONE = 100_000  # a run with at most so many rows is one zone
MAX_ZONES = 1_024  # of a run, about: in a larger one the zones are larger
GROUP_ROWS = 8_192  # of a row group
BOUND_LENGTH = 64  # characters of a bound
MAX_PREDICATES = 64  # counted in one zone
CHECKED_ROWS = 1_000_000  # earlier rows that are compared with new ones together
RUN_ROWS = 4_000_000  # triples of the log that become a run at once
MAX_RUN_ROWS = 8_000_000  # runs are not merged to larger ones: they are in memory
WORST_SHARE = 0.25  # a dimension is skipped if its best cut leaves less than this on one side
QUADS, EVENTS = "quads", "events"
SCHEMAS = {QUADS: QUAD_ROWS, EVENTS: EVENT_ROWS}

OnRows = Callable[[int], None]
Coordinates = npt.NDArray[np.int64]
RowNumbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ZoneResult:
    """What a build of zones has done: the zones there are, and the rows that were written."""

    zones: int = 0
    rows: int = 0


def build_zones(
    store: Store,
    manifest: Manifest,
    *,
    least: int | None = None,
    most: int | None = None,
    most_merged: int = MAX_RUN_ROWS,
    on_rows: OnRows = lambda _: None,
) -> ZoneResult:
    """Bring the events that are in no zone into zones, if they are at least ``least`` triples or there are no zones.

    ``most`` is the number of rows above which a zone is cut; by default it follows from the size of the run. Runs are
    merged up to ``most_merged`` rows, which are in memory.
    """
    written = 0
    while rows := _build_run(store, manifest, MIN_ROWS if least is None else least, most, most_merged, on_rows):
        written += rows
    return ZoneResult(len(quad_zones(manifest.snapshot())), written)


def _build_run(
    store: Store, manifest: Manifest, least: int, most: int | None, most_merged: int, on_rows: OnRows
) -> int:
    """Make a run of the next records, merged with the runs before it that are small; the number of rows written.

    Without enough new records the newest runs are merged, if they should be.
    """
    snapshot = manifest.snapshot()
    new = log_rows(snapshot, snapshot.zones_end, snapshot.next_offset, RUN_ROWS)
    is_enough = new.quads.num_rows >= (least if snapshot.zones else 1)
    quads, events, stop = new if is_enough else (QUAD_ROWS.empty_table(), EVENT_ROWS.empty_table(), snapshot.zones_end)
    merged = _runs_to_merge(_runs(snapshot), quads.num_rows, least, most_merged)
    if not is_enough and len(merged) < 2:
        return 0
    on_rows(quads.num_rows)
    if is_enough:
        quads = without_earlier(quads, _earlier_quads(store, snapshot))
    for run in merged:
        quads = pa.concat_tables([_read(store, run, QUADS), quads])
        events = pa.concat_tables([_read(store, run, EVENTS), events])
    files = _write_run(store, LogRows(quads, events, stop), snapshot.version + 1, least, most)
    replaced = tuple(file.name for run in merged for file in run)
    return quads.num_rows if _commit(store, manifest, snapshot, files, replaced, stop) else 0


def quad_zones(snapshot: Snapshot) -> list[DataFile]:
    """The zones of triples."""
    return [file for file in snapshot.zones if file.zone is not None and file.zone["kind"] == QUADS]


def event_files(snapshot: Snapshot) -> list[DataFile]:
    """The files of the events, one for each run."""
    return [file for file in snapshot.zones if file.zone is not None and file.zone["kind"] == EVENTS]


def may_hold(zone: DataFile, column: str, lower: Any, upper: Any) -> bool:
    """Whether a zone may have a value of ``[lower, upper]`` in a column; None is no bound.

    >>> zone = DataFile("z", 0, 9, 5, 99, zone={"kind": "quads", "bounds": {"s": ["<urn:b>", "<urn:d>"]}})
    >>> may_hold(zone, "s", "<urn:c>", "<urn:c>"), may_hold(zone, "s", "<urn:e>", None)
    (True, False)
    """
    bounds = (zone.zone or {}).get("bounds", {})
    if column not in bounds:
        return True
    if bounds[column] is None:  # no row has a value
        return False
    least, greatest = bounds[column]
    if isinstance(least, str):  # bounds are cut: equal beginnings may be anything
        lower, upper = (None if value is None else value[:BOUND_LENGTH] for value in (lower, upper))
    return (upper is None or least <= upper) and (lower is None or greatest >= lower)


def _runs(snapshot: Snapshot) -> list[list[DataFile]]:
    """The zone files of each run, by offset."""
    files = sorted(snapshot.zones, key=lambda file: (file.zone or {}).get("run", [0])[0])
    return [list(group) for _, group in groupby(files, key=lambda file: (file.zone or {}).get("run"))]


def _runs_to_merge(runs: list[list[DataFile]], new_rows: int, least: int, most: int) -> list[list[DataFile]]:
    """The runs, the newest first, that are not much larger than what follows them; together at most ``most`` rows."""
    merged: list[list[DataFile]] = []
    rows = new_rows
    for run in reversed(runs):
        size = sum(file.rows for file in run if (file.zone or {})["kind"] == QUADS)
        is_much_larger = size >= 2 * rows and size >= least
        if (is_much_larger and rows) or size + rows > most:
            break
        merged.append(run)
        rows += size
    return merged


def _earlier_quads(store: Store, snapshot: Snapshot) -> Iterator[pa.Table]:
    """The triples of all zones, some files at a time."""
    pending: list[pa.Table] = []
    for zone in quad_zones(snapshot):
        pending.append(read_zone(store, zone, list(TERMS)))
        if sum(table.num_rows for table in pending) >= CHECKED_ROWS:
            yield pa.concat_tables(pending)
            pending = []
    if pending:
        yield pa.concat_tables(pending)


def read_zone(store: Store, zone: DataFile, columns: list[str] | None = None) -> pa.Table:
    """The rows of a zone file."""
    try:
        return pq.read_table(store.path(zone.name), columns=columns)
    except (OSError, pa.ArrowInvalid) as error:
        raise CorruptLakeError(
            f"{store.path(zone.name)} cannot be read: {error}",
            advice="Delete the folder zones and run `motet compact --rebuild-zones`: it is rebuilt from the log.",
        ) from error


def _read(store: Store, run: Sequence[DataFile], kind: str) -> pa.Table:
    tables = [read_zone(store, file) for file in run if (file.zone or {})["kind"] == kind]
    return pa.concat_tables(tables) if tables else SCHEMAS[kind].empty_table()


def _write_run(store: Store, rows: LogRows, version: int, least: int, most: int | None) -> list[DataFile]:
    """Write the zones of a run, and the file of its events."""
    quads, events, stop = rows.quads.combine_chunks(), rows.events, rows.stop  # rows are taken from whole columns
    run = [pc.min(events["off"]).as_py(), stop]
    coordinates = [quads["off"].to_numpy(), *(ranks(quads[name]) for name in TERMS)]
    if most is None:
        most = max(2 * least, SINGLE_ZONE if quads.num_rows <= SINGLE_ZONE else 0, quads.num_rows // MAX_ZONES)
    files = []
    for zone in divide(coordinates, least, most):
        _, subject, predicate, obj = (dimension[zone] for dimension in coordinates)
        table = quads.take(pa.array(zone[np.lexsort((subject, obj, predicate))]))
        files.append(_write(store, table, version, QUADS, run))
    return [*files, _write(store, events.sort_by("g"), version, EVENTS, run)]


def _write(store: Store, table: pa.Table, version: int, kind: str, run: list[int]) -> DataFile:
    offsets = pc.min_max(table["off"]).as_py()
    name = new_name("zones", offsets["min"], version)
    with store.create(name) as sink:
        with pq.ParquetWriter(
            sink, table.schema, compression="zstd", write_page_index=True, write_statistics=True
        ) as writer:
            writer.write_table(table, row_group_size=GROUP_ROWS)
        size = sink.tell()
    zone = {"kind": kind, "run": run, "bounds": _bounds(table)}
    if kind == QUADS:
        zone |= _counts(table)
    return DataFile(name, offsets["min"], offsets["max"] + 1, table.num_rows, size, zone=zone)


def _bounds(table: pa.Table) -> dict[str, list[Any] | None]:
    bounds: dict[str, list[Any] | None] = {}
    for name in table.column_names:
        if name in ("okind", "first"):
            continue
        pair = list(pc.min_max(table[name]).as_py().values())
        if isinstance(pair[0], str):
            pair = [value[:BOUND_LENGTH] for value in pair]
        if not any(isinstance(value, float) and math.isinf(value) for value in pair):  # JSON has no infinity
            bounds[name] = None if pair[0] is None else pair
    return bounds


def _counts(quads: pa.Table) -> dict[str, Any]:
    predicates: Counter[str] = Counter()
    kinds: dict[str, list[int]] = {}
    for pair in quads.group_by(["p", "okind"]).aggregate([([], "count_all")]).sort_by("okind").to_pylist():
        predicates[pair["p"]] += pair["count_all"]
        kinds.setdefault(pair["p"], []).append(pair["okind"])
    is_counted = len(predicates) <= MAX_PREDICATES
    return {
        "predicates": dict(predicates) if is_counted else None,
        "kinds": kinds if is_counted else None,
        "distinct": {name: pc.count_distinct(quads[name]).as_py() for name in ("s", "o")},
    }


def _commit(
    store: Store, manifest: Manifest, before: Snapshot, files: Sequence[DataFile], replaced: tuple[str, ...], stop: int
) -> bool:
    """Commit the files of a run; False if another process has changed the zones."""
    current = list(files)

    def propose(newest: Snapshot) -> Commit | None:
        nonlocal current
        if newest.zones_end != before.zones_end or newest.zones != before.zones:
            return None
        named = [(file, new_name("zones", file.first, newest.version + 1)) for file in current]
        if not all(store.rename(file.name, name) for file, name in named):
            return None
        current = [file._replace(name=name) for file, name in named]
        clock = manifest.clock()
        removal: Mapping[str, Any] = {"remove": replaced, "removed_at": clock} if replaced else {}
        return Commit.after(newest, clock)._replace(add=tuple(current), zones_end=stop, **removal)

    if manifest.commit(propose) is not None:
        return True
    for file in current:
        store.delete(file.name)
    return False


def drop_zones(manifest: Manifest) -> int:
    """Remove all zones from the manifest, so that they are rebuilt; returns their number."""
    count = 0

    def propose(newest: Snapshot) -> Commit | None:
        nonlocal count
        count = len(newest.zones)
        clock = manifest.clock()
        names = tuple(file.name for file in newest.zones)
        if not names:
            return None
        return Commit.after(newest, clock)._replace(remove=names, removed_at=clock, zones_end=0)

    manifest.commit(propose)
    return count


def zone_problems(snapshot: Snapshot) -> Iterator[str]:
    """Contradictions between zones and the log, as texts."""
    rows = 0
    for zone in snapshot.zones:
        try:
            count = pq.read_metadata(snapshot.store.path(zone.name)).num_rows
        except (OSError, pa.ArrowInvalid) as error:
            yield f"{zone.name}: cannot be read: {error}; {_REBUILD}"
            continue
        if count != zone.rows:
            yield f"{zone.name}: holds {count} rows, the manifest says {zone.rows}; {_REBUILD}"
        rows += count if (zone.zone or {})["kind"] == QUADS else 0
    batches = snapshot.records(0, snapshot.zones_end, ["kind", "triples"]) if snapshot.zones else ()
    events = (batch.filter(pc.equal(batch.column("kind"), EVENT)) for batch in batches)
    triples = sum(len(batch.column("triples").flatten()) for batch in events)
    if rows != triples:
        yield f"the zones hold {rows} triples, the log {triples}; {_REBUILD}"


_REBUILD = "queries may miss events: run `motet compact --rebuild-zones`"


def divide(dimensions: Sequence[Coordinates], least: int, most: int) -> list[RowNumbers]:
    """The rows of each zone: parts of more than ``most`` rows are cut, into parts of at least ``least``.

    The dimensions are taken in turn. A cut is never inside one value, so a zone without any possible cut may be larger.

    >>> [part.tolist() for part in divide([np.array([0, 0, 1, 2])], least=1, most=2)]
    [[0, 1], [2, 3]]
    """
    zones: list[RowNumbers] = []
    pending = [(np.arange(len(dimensions[0])), 0)]
    while pending:
        rows, depth = pending.pop()
        parts = _cut(dimensions, rows, depth, least) if len(rows) > most else None
        if parts is None:
            zones.append(rows)
        else:
            pending += [(parts[1], parts[2]), (parts[0], parts[2])]
    return zones


def _cut(
    dimensions: Sequence[Coordinates], rows: RowNumbers, depth: int, least: int
) -> tuple[RowNumbers, RowNumbers, int] | None:
    """Both sides of the cut in the next dimension that has a good one, and the depth below it."""
    for dimension in range(depth, depth + len(dimensions)):
        values = dimensions[dimension % len(dimensions)][rows]
        median = np.partition(values, len(values) // 2)[len(values) // 2]
        below, up_to = values < median, values <= median
        is_left = min(below, up_to, key=lambda side: abs(2 * int(side.sum()) - len(rows)))
        smaller = min(int(is_left.sum()), len(rows) - int(is_left.sum()))
        if smaller >= max(least, WORST_SHARE * len(rows)):
            return rows[is_left], rows[~is_left], dimension + 1
    return None


# Pictures: the balance of the zones, and any two of their dimensions as SVG or text


DIMENSIONS = {"offset": "off", "subject": "s", "predicate": "p", "object": "o"}
_SHADES = " .:-=+*#%@"
_COLUMNS, _LINES = 64, 20
_SIZE, _MARGIN = 600, 40


class Box(NamedTuple):
    """A zone in a picture: its sides as parts of the whole, from 0 to 1."""

    left: float
    right: float
    low: float
    high: float
    zone: DataFile


def zone_summary(snapshot: Snapshot) -> dict[str, object]:
    """Numbers of the zones: how many, how large, how even, and how much of the log they hold."""
    zones = quad_zones(snapshot)
    rows = sorted(zone.rows for zone in zones)
    log_bytes = sum(segment.size for segment in snapshot.segments)
    zone_bytes = sum(file.size for file in snapshot.zones)
    return {
        "zones": len(zones),
        "zone_runs": len(event_files(snapshot)),
        "zone_rows": sum(rows),
        "zone_rows_least": rows[0] if rows else None,
        "zone_rows_median": int(median(rows)) if rows else None,
        "zone_rows_most": rows[-1] if rows else None,
        "zone_bytes": zone_bytes,
        "zone_bytes_per_log_byte": round(zone_bytes / log_bytes, 2) if log_bytes else None,
        "zoned_to": snapshot.zones_end,
    }


def boxes(snapshot: Snapshot, across: str, up: str) -> list[Box]:
    """The zones as boxes in two dimensions; bounds of texts are placed by their order."""
    zones = quad_zones(snapshot)
    sides = [_sides(zones, DIMENSIONS[name]) for name in (across, up)]
    pairs = zip(zones, *sides, strict=True)
    return [Box(left, right, low, high, zone) for zone, (left, right), (low, high) in pairs]


def _sides(zones: Sequence[DataFile], column: str) -> list[tuple[float, float]]:
    bounds = [(zone.zone or {})["bounds"][column] for zone in zones]
    values = sorted({value for pair in bounds for value in pair})
    last = max(len(values) - 1, 1)
    place = {value: index / last for index, value in enumerate(values)}
    if column == "off" and values[-1:] != values[:1]:
        place = {value: (value - values[0]) / (values[-1] - values[0]) for value in values}
    return [(place[least], place[greatest]) for least, greatest in bounds]


def as_text(snapshot: Snapshot, across: str, up: str) -> str:
    """A grid whose characters are the darker, the more zones are there."""
    counts = [[0] * _COLUMNS for _ in range(_LINES)]
    for box in boxes(snapshot, across, up):
        for line in range(int(box.low * (_LINES - 1)), int(box.high * (_LINES - 1)) + 1):
            for position in range(int(box.left * (_COLUMNS - 1)), int(box.right * (_COLUMNS - 1)) + 1):
                counts[line][position] += 1
    most = max(max(row) for row in counts) or 1
    lines = ["".join(_SHADES[-(-count * (len(_SHADES) - 1) // most)] for count in row) for row in reversed(counts)]
    return "\n".join([f"{up} ↑   {across} →   (@: {most} zones)", *(f"|{line}|" for line in lines), ""])


def as_svg(snapshot: Snapshot, across: str, up: str) -> str:
    """A rectangle for each zone, with its rows as a tooltip."""
    side = _SIZE - 2 * _MARGIN
    elements = []
    for box in boxes(snapshot, across, up):
        x, width = _MARGIN + box.left * side, max((box.right - box.left) * side, 2)
        y, height = _MARGIN + (1 - box.high) * side, max((box.high - box.low) * side, 2)
        title = f"{box.zone.rows} rows, {box.zone.size} bytes, offsets {box.zone.first} to {box.zone.stop - 1}"
        elements.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="#3b6ea5" '
            f'fill-opacity="0.15" stroke="#1d3557"><title>{escape(title)}</title></rect>'
        )
    labels = (
        f'<text x="{_SIZE / 2}" y="{_SIZE - 10}" text-anchor="middle">{escape(across)}</text>',
        f'<text x="14" y="{_SIZE / 2}" text-anchor="middle" transform="rotate(-90 14 {_SIZE / 2})">{escape(up)}</text>',
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" font-family="sans-serif">'
    return "\n".join([head, *elements, *labels, "</svg>", ""])
