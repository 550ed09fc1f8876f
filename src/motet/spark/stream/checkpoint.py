"""Opens checkpoints: metadata fixed by the first start is compared with the request, and Spark's logs are checked.

The progress of the query and the state of the buckets are Spark's files. Only the last files of its logs are checked,
because a truncated file gives a clearer error before Spark starts. A rescaled checkpoint has a new query in a folder of
its own, with the states that its buckets begin with.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from motet.engine.state.format import VERSION
from motet.engine.state.snapshot import StateSnapshot
from motet.lake import Store
from motet.lake.store import hold_lock
from motet.model.errors import EngineError, UsageError
from motet.spark.session import cores

BUCKETS, BUCKETS_PER_CORE = 64, 4  # more than run at once, to balance the load; on a cluster, room to grow
FOLDER = "checkpoint"  # in a lake
METADATA_FILE = "motet.json"
LOCK_FILE = "motet.lock"
FORMAT = 2  # of the pipeline's stored state and of the offsets of its source
RESCALED_FORMAT = 3  # the same, with a folder for the query and with starts

_LOGS = ("offsets", "commits")
_SPARK_FILES = (*_LOGS, "sources", "state")
_NO_OFFSET = b"-"  # of a source without records so far
_LAST_FILES = 2  # of a log, which Spark reads at a restart
REBUILD_ADVICE = (
    "Nothing is lost: the log and the table are in the lake. Remove or rename the checkpoint and start again; the "
    "pipeline then rebuilds its state from the log, and adds only the notifications that the table lacks."
)


@dataclass(frozen=True)
class LakeStart:
    """Where a rescaled query begins with a lake."""

    offset: int
    linked: tuple[str, ...]  # the subscriptions that are linked by derivation edges there


@dataclass(frozen=True)
class CheckpointMetadata:
    """What is fixed while a checkpoint is used; stored as JSON."""

    lakes: tuple[str, ...]
    buckets: int
    state: int = VERSION
    format: int = FORMAT
    folder: str = ""  # of the query, in the checkpoint; empty: the checkpoint itself
    starts: Mapping[str, LakeStart] = field(default_factory=dict)  # by lake; empty: the query began with the logs


@dataclass(frozen=True)
class FirstStates:
    """The states with which the buckets of a rescaled query begin: files beside the query. Picklable."""

    folder: Path
    starts: Mapping[str, LakeStart]

    def path(self, lake: str, bucket: int) -> Path:
        return self.folder / f"state-{list(self.starts).index(lake)}-{bucket}"

    def read(self, lake: str, bucket: int) -> StateSnapshot:
        return StateSnapshot.from_bytes(self.path(lake, bucket).read_bytes())


def default_checkpoint(lakes: Sequence[str | Path]) -> Path:
    """The default checkpoint of a lake: a folder in it that the lake itself does not use."""
    if len(lakes) != 1:
        raise UsageError("several lakes have no default checkpoint", advice="Choose a directory: --checkpoint DIR")
    return Path(lakes[0]) / FOLDER


def open_checkpoint(checkpoint: Path, lakes: Sequence[str], buckets: int | None, master: str) -> CheckpointMetadata:
    """The metadata of a checkpoint, written by the first start; a request that does not match it is refused."""
    requested = CheckpointMetadata(tuple(lakes), default_buckets(master) if buckets is None else buckets)
    if requested.buckets < 1:
        raise UsageError(f"--buckets must be at least 1, not {requested.buckets}")
    try:
        if not checkpoint.exists() or all(path.name.startswith(LOCK_FILE) for path in checkpoint.iterdir()):
            _write(checkpoint, requested)
            return requested
        stored = read_metadata(checkpoint)
    except OSError as error:
        raise UsageError(
            f"the checkpoint {checkpoint} cannot be used: {error.strerror}",
            advice="Choose a directory that can be written: --checkpoint DIR",
        ) from error
    _compare(checkpoint, stored, requested, any_buckets=buckets is None)
    _check(checkpoint, stored.folder)
    return stored


def stored_metadata(checkpoint: Path, lakes: Sequence[str]) -> CheckpointMetadata:
    """The metadata of a checkpoint that a pipeline of these lakes has used."""
    if not checkpoint.exists():
        raise UsageError(
            f"there is no checkpoint {checkpoint}",
            advice="The first `motet stream` makes it, with the number of buckets that --buckets gives.",
        )
    stored = read_metadata(checkpoint)
    _compare(checkpoint, stored, CheckpointMetadata(tuple(lakes), stored.buckets), any_buckets=True)
    _check(checkpoint, stored.folder)
    return stored


def first_states(checkpoint: Path, metadata: CheckpointMetadata) -> FirstStates:
    """The first states of a checkpoint's buckets; there are none if it was never rescaled."""
    return FirstStates(checkpoint / metadata.folder, metadata.starts)


def committed_offsets(checkpoint: Path, metadata: CheckpointMetadata) -> tuple[int | None, Mapping[str, int]]:
    """The last batch that the query of a checkpoint has committed, and the offset by lake that it has reached."""
    folder = checkpoint / metadata.folder
    commits = _log_files(folder / "commits")
    if not commits:
        return None, {lake: start.offset for lake, start in metadata.starts.items()}
    *_, offsets = (folder / "offsets" / commits[-1].name).read_bytes().splitlines()
    return int(commits[-1].name), json.loads(offsets)


def replace_query(checkpoint: Path, before: CheckpointMetadata, after: CheckpointMetadata) -> None:
    """Make a new query that of a checkpoint, in one step, and delete the files of the one before."""
    _write(checkpoint, after)
    folders = [checkpoint / before.folder] if before.folder else [checkpoint / name for name in _SPARK_FILES]
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)
    if not before.folder:
        (checkpoint / "metadata").unlink(missing_ok=True)
        (checkpoint / ".metadata.crc").unlink(missing_ok=True)


@contextmanager
def hold_checkpoint(checkpoint: Path) -> Iterator[None]:
    """Hold a checkpoint, which one query at a time may use; the error of another one names the process that has it."""
    advice = "Stop that one first, or choose another directory: --checkpoint DIR"
    with hold_lock(Store(checkpoint, durable=False), LOCK_FILE, f"the checkpoint {checkpoint}", advice=advice):
        yield


def default_buckets(master: str) -> int:
    """The default number of buckets on a master.

    >>> default_buckets("local[2]"), default_buckets("spark://host:7077")
    (8, 64)
    """
    local_cores = cores(master)
    return BUCKETS if local_cores is None else BUCKETS_PER_CORE * local_cores


def unreadable_checkpoint(checkpoint: Path, reason: str) -> EngineError:
    """The error for a checkpoint that is damaged."""
    return EngineError(f"the checkpoint {checkpoint} cannot be read: {reason}", advice=REBUILD_ADVICE)


def _write(checkpoint: Path, metadata: CheckpointMetadata) -> None:
    checkpoint.mkdir(parents=True, exist_ok=True)
    draft = checkpoint / f".{METADATA_FILE}.{os.getpid()}"
    draft.write_text(json.dumps(asdict(metadata), sort_keys=True) + "\n")
    draft.replace(checkpoint / METADATA_FILE)


def read_metadata(checkpoint: Path) -> CheckpointMetadata:
    """The metadata of a checkpoint, as it is stored."""
    try:
        stored = json.loads((checkpoint / METADATA_FILE).read_bytes())
        return CheckpointMetadata(
            tuple(map(str, stored["lakes"])),
            int(stored["buckets"]),
            int(stored["state"]),
            int(stored["format"]),
            str(stored.get("folder", "")),
            {
                str(lake): LakeStart(int(start["offset"]), tuple(map(str, start["linked"])))
                for lake, start in stored.get("starts", {}).items()
            },
        )
    except FileNotFoundError as error:
        raise UsageError(
            f"{checkpoint} is not empty, and not a checkpoint of this pipeline: it has no {METADATA_FILE}",
            advice="Choose another directory: --checkpoint DIR",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise unreadable_checkpoint(checkpoint, f"{METADATA_FILE} is damaged") from error


def _compare(checkpoint: Path, stored: CheckpointMetadata, requested: CheckpointMetadata, *, any_buckets: bool) -> None:
    if stored.lakes != requested.lakes:
        stored_lakes, requested_lakes = (" and ".join(metadata.lakes) for metadata in (stored, requested))
        raise UsageError(
            f"the checkpoint {checkpoint} belongs to {stored_lakes}, not to {requested_lakes}",
            advice=f"Choose another directory: --checkpoint DIR. If the lakes have moved: {REBUILD_ADVICE}",
        )
    if stored.buckets != requested.buckets and not any_buckets:
        raise UsageError(
            f"the checkpoint {checkpoint} has {stored.buckets} buckets, not {requested.buckets}",
            advice="Leave --buckets out. To change them, stop the pipeline and use `motet rescale`.",
        )
    if stored.state != requested.state or stored.format not in (FORMAT, RESCALED_FORMAT):
        raise EngineError(
            f"the checkpoint {checkpoint} was written by another version of Motet: its state has version "
            f"{stored.format}.{stored.state}, this one reads {requested.format}.{requested.state}",
            advice=REBUILD_ADVICE,
        )


def _check(checkpoint: Path, folder: str) -> None:
    """Refuse files that Spark reads first and that are not what it writes: JSON, in its logs after a version line."""
    for file in [path for log in _LOGS for path in _log_files(checkpoint / folder / log)[-_LAST_FILES:]]:
        version, *lines = file.read_bytes().splitlines() or [b""]
        if not version.startswith(b"v") or not _is_json(line for line in lines if line != _NO_OFFSET):
            raise unreadable_checkpoint(checkpoint, f"{file.relative_to(checkpoint)} is truncated or damaged")
    metadata = checkpoint / folder / "metadata"
    if metadata.exists() and not _is_json([metadata.read_bytes()]):
        raise unreadable_checkpoint(checkpoint, "metadata is truncated or damaged")


def _is_json(lines: Iterable[bytes]) -> bool:
    try:
        return bool([json.loads(line) for line in lines])
    except ValueError:
        return False


def _log_files(folder: Path) -> list[Path]:
    """The files of a log of Spark's, in their order."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return sorted((path for path in paths if path.name.isdigit()), key=lambda path: int(path.name))
