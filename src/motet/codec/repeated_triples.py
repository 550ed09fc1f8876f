"""Triples an event states twice: a graph is a set, so the second one goes.

Candidates are found by a cheap fingerprint of lengths and first and last bytes, whole columns at a time; only events
with a candidate are compared term by term.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.codec.event_times import Int64s

_COLUMNS = ("subject", "predicate", "object")
_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)


def drop_repeated_triples(quads: pa.RecordBatch, starts: Int64s) -> tuple[pa.RecordBatch, Int64s]:
    """The quads without repetitions inside an event, and where the events begin now."""
    lengths = np.diff(np.append(starts, quads.num_rows))
    suspects = _suspects(quads, starts, lengths)
    if not len(suspects):
        return quads, starts
    keep = np.ones(quads.num_rows, np.bool_)
    for event in suspects:
        part = quads.slice(starts[event], lengths[event])
        seen: set[tuple[str, ...]] = set()
        for row, triple in enumerate(zip(*(part.column(name).to_pylist() for name in _COLUMNS), strict=True)):
            keep[starts[event] + row] = triple not in seen
            seen.add(triple)
    kept = np.add.reduceat(keep, starts, dtype=np.int64)
    return quads.filter(pa.array(keep)), np.concatenate([[0], np.cumsum(kept)[:-1]])


def _suspects(quads: pa.RecordBatch, starts: Int64s, lengths: Int64s) -> Int64s:
    """Events with two triples of the same fingerprint."""
    event = np.repeat(np.arange(len(starts), dtype=np.uint64), lengths)
    key = event * _MIX[3]
    for name in _COLUMNS:
        key = (key ^ _fingerprint(quads.column(name))) * _MIX[0]
        key ^= key >> np.uint64(29)
    ordered = np.sort(key)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated):
        return np.zeros(0, np.int64)
    return np.unique(event[np.isin(key, repeated)]).astype(np.int64)


def _fingerprint(strings: pa.StringArray) -> npt.NDArray[np.uint64]:
    """Equal for equal strings: made of the length, the first eight and the last eight bytes."""
    _, offsets_buffer, data_buffer = strings.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[strings.offset : strings.offset + len(strings) + 1]
    first_byte, last_byte = int(offsets[0]), int(offsets[-1])
    data = np.zeros(8 + last_byte - first_byte, np.uint8)  # eight bytes in front, so that every word can be read
    data[8:] = np.frombuffer(data_buffer, np.uint8)[first_byte:last_byte]
    words = np.ndarray(len(data) - 7, np.dtype("<u8"), data, strides=(1,))
    bounds = offsets.astype(np.int64) - first_byte + 8
    lengths = np.diff(bounds).astype(np.uint64)
    foreign_bits = np.uint64(8) * (np.uint64(8) - np.minimum(lengths, np.uint64(8)))
    last = words[bounds[1:] - 8] >> foreign_bits
    first = np.where(lengths >= np.uint64(8), words[np.minimum(bounds[:-1], len(words) - 1)], np.uint64(0))
    return (lengths * _MIX[0]) ^ (first * _MIX[1]) ^ (last * _MIX[2])
