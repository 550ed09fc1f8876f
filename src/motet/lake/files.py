"""What the manifest says about data files, and lists of them that grow without being copied. Reads no file."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class DataFile(NamedTuple):
    """One file of records or notifications, covering the log offsets ``[first, stop)``."""

    name: str
    first: int
    stop: int
    rows: int
    size: int  # bytes
    kinds: Mapping[str, int] = {}  # records by kind
    late: int = 0
    start: int | None = None  # earliest start of its events
    end: int | None = None  # latest end of its events


class Files(Sequence[DataFile]):
    """An immutable list of files. Lists that grew from one another share their elements, so growing costs little.

    >>> one = Files([DataFile("a", 0, 1, 1, 9)])
    >>> two = one.plus([DataFile("b", 1, 2, 1, 9)])
    >>> len(one), len(two), two[1].name
    (1, 2, 'b')
    """

    __slots__ = ("_shared", "_size")

    def __init__(self, files: Iterable[DataFile] = ()) -> None:
        self._shared = _Shared(list(files))
        self._size = len(self._shared.files)

    def plus(self, more: Sequence[DataFile]) -> Files:
        """The list with more files behind it."""
        found = Files.__new__(Files)
        found._shared = self._shared.grown(self._size, more)
        found._size = self._size + len(more)
        return found

    @overload
    def __getitem__(self, place: int) -> DataFile: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[DataFile, ...]: ...

    def __getitem__(self, place: int | slice) -> DataFile | tuple[DataFile, ...]:
        if isinstance(place, slice):
            start, stop, step = place.indices(self._size)
            return tuple(self._shared.files[start : max(start, stop) : step])
        return self._shared.files[range(self._size)[place]]

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # the files have dictionaries in them

    def __reduce__(self) -> tuple[type[Files], tuple[tuple[DataFile, ...]]]:
        return Files, (self[:],)


class _Shared:
    """The elements of several lists, the longest of which may put more behind them."""

    def __init__(self, files: list[DataFile]) -> None:
        self.files = files
        self._growing = threading.Lock()

    def grown(self, size: int, more: Sequence[DataFile]) -> _Shared:
        """Elements of which the first ``size`` are the same, and then come these."""
        with self._growing:
            if size == len(self.files):
                self.files.extend(more)
                return self
            return _Shared([*self.files[:size], *more])


def describe(name: str, size: int, records: pa.Table) -> DataFile:
    """The manifest's words about a segment that holds these records."""
    offsets = records["offset"].to_numpy()
    kinds = records["kind"].value_counts()
    counts = {count["values"].as_py(): count["counts"].as_py() for count in kinds}
    events = pc.equal(records["kind"], "event").to_numpy()
    starts, ends = (pc.fill_null(records[name].cast(pa.int64()), 0).to_numpy()[events] for name in ("start", "end"))
    return DataFile(
        name=name,
        first=int(offsets[0]),
        stop=int(offsets[-1]) + 1,
        rows=records.num_rows,
        size=size,
        kinds=dict(sorted(counts.items())),
        late=int(np.count_nonzero(records["late"].to_numpy())),
        start=int(starts.min()) if len(starts) else None,
        end=int(ends.max()) if len(ends) else None,
    )


def union(name: str, size: int, files: Sequence[DataFile]) -> DataFile:
    """The manifest's words about a file that holds what these files held."""
    kinds: Counter[str] = Counter()
    for file in files:
        kinds.update(file.kinds)
    return DataFile(
        name=name,
        first=files[0].first,
        stop=files[-1].stop,
        rows=sum(file.rows for file in files),
        size=size,
        kinds=dict(sorted(kinds.items())),
        late=sum(file.late for file in files),
        start=min((file.start for file in files if file.start is not None), default=None),
        end=max((file.end for file in files if file.end is not None), default=None),
    )
