"""Whose is a checkpoint? A note in it says what the first start has fixed, and anything else is refused.

What Spark keeps there (how far the query is, and the state of the buckets) is Spark's. Only the ends of its logs are
looked at, since a file that was cut is told apart from a wrong request more clearly before Spark starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from motet.engine.state.format import VERSION
from motet.model.errors import EngineError, UsageError
from motet.spark.session import cores

BUCKETS, BUCKETS_A_CORE = 64, 4  # more than can be busy at once, so that they even out; in a cluster, room to grow
FOLDER = "checkpoint"  # in a lake
METADATA_FILE = "motet.json"
FORMAT = 2  # of what the pipeline itself keeps in the state, and of the offsets of its source

_LOGS = ("offsets", "commits")
_VOID = b"-"  # a source that has said nothing yet
_LAST = 2  # files of a log that Spark reads again
REBUILD_ADVICE = (
    "Nothing is lost: the log and the table are in the lake. Remove or rename the checkpoint and start again; the "
    "pipeline then derives its state from the log, and adds to the table only what is not there yet."
)


@dataclass(frozen=True)
class CheckpointMetadata:
    """What stays as it is as long as a checkpoint is used."""

    lakes: tuple[str, ...]
    buckets: int
    state: int = VERSION
    format: int = FORMAT


def default_checkpoint(lakes: Sequence[str | Path]) -> Path:
    """Where the checkpoint of a lake is, if nobody says otherwise: in a folder of it that it does not use itself."""
    if len(lakes) != 1:
        raise UsageError("several lakes have no checkpoint of their own", advice="Choose a directory: --checkpoint DIR")
    return Path(lakes[0]) / FOLDER


def open_checkpoint(checkpoint: Path, lakes: Sequence[str], buckets: int | None, master: str) -> CheckpointMetadata:
    """The note of a checkpoint, which is written if there is none; a start that does not go with it is refused."""
    asked = CheckpointMetadata(tuple(lakes), default_buckets(master) if buckets is None else buckets)
    if asked.buckets < 1:
        raise UsageError(f"{asked.buckets} buckets hold nothing", advice="Choose at least 1.")
    try:
        if not checkpoint.exists() or not any(checkpoint.iterdir()):
            _write(checkpoint, asked)
            return asked
        found = _read(checkpoint)
    except OSError as error:
        raise UsageError(
            f"the checkpoint {checkpoint} cannot be used: {error.strerror}",
            advice="Choose a directory that can be written: --checkpoint DIR",
        ) from error
    _compare(checkpoint, found, asked, any_buckets=buckets is None)
    _check(checkpoint)
    return found


def default_buckets(master: str) -> int:
    """As many as are of use there, unless somebody knows better.

    >>> buckets_on("local[2]"), buckets_on("spark://host:7077")
    (8, 64)
    """
    here = cores(master)
    return BUCKETS if here is None else BUCKETS_A_CORE * here


def unreadable_checkpoint(checkpoint: Path, reason: str) -> EngineError:
    """The refusal of a checkpoint that is damaged."""
    return EngineError(f"the checkpoint {checkpoint} cannot be read: {reason}", advice=REBUILD_ADVICE)


def _write(checkpoint: Path, note: CheckpointMetadata) -> None:
    checkpoint.mkdir(parents=True, exist_ok=True)
    draft = checkpoint / f".{METADATA_FILE}.{os.getpid()}"
    draft.write_text(json.dumps(asdict(note), sort_keys=True) + "\n")
    draft.replace(checkpoint / METADATA_FILE)


def _read(checkpoint: Path) -> CheckpointMetadata:
    try:
        found = json.loads((checkpoint / METADATA_FILE).read_bytes())
        return CheckpointMetadata(
            tuple(map(str, found["lakes"])), int(found["buckets"]), int(found["state"]), int(found["format"])
        )
    except FileNotFoundError as error:
        raise UsageError(
            f"{checkpoint} is not empty, and not a checkpoint of this pipeline: it has no {METADATA_FILE}",
            advice="Choose another directory: --checkpoint DIR",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise unreadable_checkpoint(checkpoint, f"{METADATA_FILE} is damaged") from error


def _compare(checkpoint: Path, found: CheckpointMetadata, asked: CheckpointMetadata, *, any_buckets: bool) -> None:
    if found.lakes != asked.lakes:
        raise UsageError(
            f"the checkpoint {checkpoint} belongs to {' and '.join(found.lakes)}, not to {' and '.join(asked.lakes)}",
            advice=f"Choose another directory: --checkpoint DIR. If the lakes have moved: {REBUILD_ADVICE}",
        )
    if found.buckets != asked.buckets and not any_buckets:
        raise UsageError(
            f"the checkpoint {checkpoint} has {found.buckets} buckets, not {asked.buckets}",
            advice=f"Leave --buckets out. To change them: {REBUILD_ADVICE}",
        )
    if (found.state, found.format) != (asked.state, asked.format):
        raise EngineError(
            f"the checkpoint {checkpoint} was written by another version of Motet: its state has version "
            f"{found.format}.{found.state}, this one reads {asked.format}.{asked.state}",
            advice=REBUILD_ADVICE,
        )


def _check(checkpoint: Path) -> None:
    """The files Spark reads first are what Spark writes: JSON, in its logs behind a line with a version."""
    for file in [path for log in _LOGS for path in _numbered(checkpoint / log)[-_LAST:]]:
        version, *lines = file.read_bytes().splitlines() or [b""]
        if not version.startswith(b"v") or not _is_json(line for line in lines if line != _VOID):
            raise unreadable_checkpoint(checkpoint, f"{file.relative_to(checkpoint)} is cut or damaged")
    metadata = checkpoint / "metadata"
    if metadata.exists() and not _is_json([metadata.read_bytes()]):
        raise unreadable_checkpoint(checkpoint, "metadata is cut or damaged")


def _is_json(lines: Iterable[bytes]) -> bool:
    try:
        return bool([json.loads(line) for line in lines])
    except ValueError:
        return False


def _numbered(folder: Path) -> list[Path]:
    return sorted(_files(folder), key=lambda path: int(path.name))


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if path.name.isdigit())
