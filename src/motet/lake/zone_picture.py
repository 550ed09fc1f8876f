"""Shows the zones of a lake: their balance, and a picture of any two of their dimensions as SVG or text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import median
from typing import NamedTuple

from motet.lake.snapshot import DataFile, Snapshot
from motet.lake.zones import event_files, quad_zones

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
