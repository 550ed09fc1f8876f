"""Builders that the lake's tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pytest

from motet.lake import segments
from motet.model.batches import EVENTS, NOTIFICATIONS

Spec = tuple[str, int | None, int | None]  # id, start, end


def _events(specs: Iterable[Spec | str], quads: int = 1) -> pa.Table:
    rows = [(spec, 0, 0) if isinstance(spec, str) else spec for spec in specs]
    columns = {
        "id": [id for id, _, _ in rows],  # noqa: A001 the column's name
        "start": [start for _, start, _ in rows],
        "end": [end for _, _, end in rows],
        "triples": [
            [{"subject": f"<{id}>", "predicate": f"<urn:p{n}>", "object": f'"{n}"'} for n in range(quads)]
            for id, _, _ in rows  # noqa: A001 the column's name
        ],
        "line": range(1, len(rows) + 1),
        "payload": [None] * len(rows),
    }
    return pa.table([pa.array(columns[field.name], field.type) for field in EVENTS], schema=EVENTS)


def _notifications(offsets: Iterable[int]) -> pa.Table:
    rows = [
        {"subscription": "s", "start": n, "end": n, "events": [f"urn:e:{n}"], "bindings": [], "offset": n}
        for n in offsets
    ]
    return pa.Table.from_pylist(rows, NOTIFICATIONS)


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few records get a Parquet file too, instead of standing in their commit."""
    monkeypatch.setattr(segments, "INLINE_BYTES", -1)


@pytest.fixture(scope="session")
def events() -> Callable[..., pa.Table]:
    """A table of events from ids, or from (id, start, end)."""
    return _events


@pytest.fixture(scope="session")
def notifications() -> Callable[..., pa.Table]:
    """A table with one notification per offset."""
    return _notifications
