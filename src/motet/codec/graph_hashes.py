"""Which graphs a stream has already closed, in eight bytes each.

Sorted runs of 64-bit hashes, merged when two have the same size, so that adding is cheap and asking takes few searches.
Two graphs with the same hash would be taken for one: among 100 million that happens once in some 3 000 streams.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class GraphHashes:
    """A growing set of graph names.

    >>> seen = GraphHashes()
    >>> seen.add(pa.array(["<urn:a>", "<urn:b>", "<urn:a>"]))
    array([False, False,  True])
    >>> seen.add(pa.array(["<urn:b>"]))
    array([ True])
    """

    def __init__(self) -> None:
        self._runs: list[npt.NDArray[np.int64]] = []

    def add(self, graphs: pa.StringArray) -> npt.NDArray[np.bool_]:
        """Remember graphs; true for those that were there before, earlier in the same array included."""
        hashes = np.fromiter(map(hash, graphs.to_pylist()), np.int64, len(graphs))
        known = np.ones(len(hashes), np.bool_)
        unique, first = np.unique(hashes, return_index=True)
        known[first] = self._contains(unique)
        self._append(np.sort(hashes[~known]))
        return known

    def _contains(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        found = np.zeros(len(hashes), np.bool_)
        for run in self._runs:
            place = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            found |= run[place] == hashes
        return found

    def _append(self, run: npt.NDArray[np.int64]) -> None:
        while self._runs and len(self._runs[-1]) <= len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")  # merges sorted runs in one pass
        if len(run):
            self._runs.append(run)
