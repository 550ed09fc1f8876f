"""Files of inferred triples: what follows from single events with one version of the background.

They are computed from the log when a query needs them, are in no commit, and can be deleted. A file has the rows of the
events of one range of offsets, for one background and entailment, which its name has as a digest.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from motet.lake.store import Store
from motet.model.batches import Triple
from motet.model.errors import LakeError

FOLDER = "inferred"


class InferredFile(NamedTuple):
    name: str
    first: int
    stop: int


def background_digest(background: Iterable[Triple], entailment: str) -> str:
    """The name of a background with an entailment."""
    lines = [entailment, *(" ".join(triple) for triple in sorted(background))]
    return sha256("\n".join(lines).encode()).hexdigest()[:32]


def find_files(store: Store, digest: str) -> list[InferredFile]:
    """The files of a digest that follow each other from offset 0 on, each at most once."""
    found: list[InferredFile] = []
    for name in store.names(FOLDER):
        fields = name.removeprefix(f"{FOLDER}/").removesuffix(".parquet").split("-")
        if len(fields) == 3 and fields[0] == digest and fields[1].isdigit() and fields[2].isdigit():
            first, stop = int(fields[1]), int(fields[2])
            if first == (found[-1].stop if found else 0):
                found.append(InferredFile(name, first, stop))
    return found


def write_file(store: Store, digest: str, first: int, stop: int, rows: pa.Table) -> InferredFile | None:
    """Store the rows of a range; None if that is not possible: another process has them, or the lake is read-only."""
    name = f"{FOLDER}/{digest}-{first:020}-{stop:020}.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", row_group_size=8_192)
    with suppress(LakeError):
        if store.put_if_absent(name, sink.getvalue().to_pybytes()):
            return InferredFile(name, first, stop)
    return None


def outdated_files(store: Store, digests: Iterable[str]) -> list[str]:
    """The files of other digests than these."""
    current = tuple(f"{FOLDER}/{digest}-" for digest in digests)
    return [name for name in store.names(FOLDER) if not name.startswith(current)]
