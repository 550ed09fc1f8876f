"""A directory as a source: each file that appears in it is ingested once.

The files that are complete at one look at the directory are one load. A file is complete when its size and modification
time have been the same for some time; a file that is renamed into the directory is complete at once. A file that
changes later is read again, which adds its new events. Names that begin with a dot or an underscore are ignored. Files
that cannot be decoded become dead letters and do not block the others.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

from motet.codec.decode import Message, decode_file, decode_messages
from motet.codec.events import NO_EVENTS, Decoded, OnRejected
from motet.codec.formats import SUFFIXES, format_of_path
from motet.codec.options import DecodeSettings, decode_settings
from motet.connectors.ingestion import (
    DEFAULT_DOCUMENTS,
    DocumentOptions,
    IngestResult,
    NamedInput,
    OnCommit,
    ingest_load,
)
from motet.lake import Lake
from motet.lake.progress import FileStamp, IngestedFiles
from motet.model.errors import DecodeError, MotetError, UsageError

SMALL_FILE_BYTES = 64 << 10  # of a file that is decoded together with others
FILE_GROUP_BYTES = 4 << 20
STABLE_SECONDS = 1.0
POLL_SECONDS = 0.5

File = tuple[str, FileStamp]  # path relative to the directory, size and modification time


def watch_directory(
    source: DirectorySource, on_commit: OnCommit, stop_requested: threading.Event, *, once: bool = False
) -> None:
    """Ingest files until a stop is requested; with ``once``, until no file is left."""
    while not stop_requested.is_set():
        started = time.monotonic()
        for result in source.ingest(started, stop_requested):
            on_commit(result)
            if stop_requested.is_set():
                return
        if once and source.is_drained:
            return
        listing_seconds = time.monotonic() - started
        stop_requested.wait(max(POLL_SECONDS, listing_seconds))  # a large directory is polled less often


class DirectorySource:
    """The files of a directory and its subdirectories, and which of them are in the lake."""

    def __init__(
        self,
        path: str | Path,
        lake: Lake,
        on_rejected: OnRejected,
        *,
        stable_seconds: float = STABLE_SECONDS,
        documents: DocumentOptions = DEFAULT_DOCUMENTS,
    ) -> None:
        self._root = Path(path).absolute()
        if not self._root.is_dir():
            raise UsageError(f"there is no directory {str(path)!r}", advice="Create it, or check the path.")
        if lake.store.root.absolute().is_relative_to(self._root):
            raise UsageError(
                f"the lake {str(lake.store.root)!r} is inside the directory that is its source",
                advice="Use two directories, neither inside the other.",
            )
        self._lake = lake
        self._on_rejected = on_rejected
        self._stable_seconds = stable_seconds
        self._documents = documents
        self._ingested = IngestedFiles(lake.store, str(self._root))
        self._changing: dict[str, tuple[FileStamp, float]] = {}  # perhaps incomplete: their stamp, and since when
        self._unreadable: set[str] = set()

    @property
    def is_drained(self) -> bool:
        """Whether the last call of `ingest` left no incomplete file."""
        return not self._changing

    def ingest(self, now: float, stop_requested: threading.Event | None = None) -> Iterator[IngestResult]:
        """Append the events of new files as one load; ``now`` is the time of any clock in seconds.

        The files are recorded as ingested after the last commit. A stop that is requested while they are read ends the
        load before its first commit.
        """
        stop_requested = stop_requested or threading.Event()
        finished: dict[str, FileStamp] = {}
        decoded = self._decode(self._complete_files(now), finished)
        yield from ingest_load(self._lake, decoded, self._on_rejected, stop_requested=stop_requested)
        if finished and not stop_requested.is_set():
            self._ingested.add(finished)
            yield IngestResult(inputs=len(finished))

    def _decode(self, files: list[File], finished: dict[str, FileStamp]) -> Iterator[NamedInput]:
        """The content of files in order, batch by batch; adds those that could be read to ``finished``."""
        settings = decode_settings(self._lake.snapshot().settings)
        for group in _groups(files):
            readable: dict[str, FileStamp] = {}
            for name, stamp in group:
                if os.access(self._root / name, os.R_OK):
                    self._unreadable.discard(name)
                    readable[name] = stamp
                else:  # its permissions may change: it is tried again at every look
                    yield from self._reject_unreadable(name)
            if len(readable) > 1:
                options = {name: getattr(self._documents, name) for name in ("base", "rest", "mapping")}
                messages = self._messages(readable)
                yield str(self._root), decode_messages(messages, **settings, **options)
            else:
                for name in readable:
                    yield from self._decode_file(name, settings)
            finished |= readable

    def _messages(self, names: Iterable[str]) -> Iterator[Message]:
        """Small files as messages: setting up a decoder for each would cost more than decoding them."""
        for name in names:
            path = self._root / name
            with suppress(FileNotFoundError):  # deleted since it was listed
                yield Message(path.read_bytes(), format_of_path(name).value, str(path))

    def _decode_file(self, name: str, settings: DecodeSettings) -> Iterator[NamedInput]:
        path = str(self._root / name)
        try:
            for decoded in decode_file(path, **settings, **vars(self._documents)):
                yield path, decoded
        except (MotetError, OSError) as error:  # the format is not known by the name, or reading fails
            advice = error.advice if isinstance(error, MotetError) else "Check the disk."
            reason = (error.message if isinstance(error, MotetError) else str(error)).removeprefix(f"{path}: ")
            yield path, Decoded(NO_EVENTS, [DecodeError(reason, source=path, advice=advice)])

    def _reject_unreadable(self, name: str) -> list[NamedInput]:
        """The rejection of a file or directory without read permission, the first time it is met."""
        if name in self._unreadable:
            return []
        self._unreadable.add(name)
        path = str(self._root / name)
        error = DecodeError("it cannot be read", source=path, advice="Check its permissions.")
        return [(path, Decoded(NO_EVENTS, [error]))]

    def _complete_files(self, now: float) -> list[File]:
        """The files that are new or changed and complete, the oldest first."""
        stamps = dict(self._list())
        self._ingested.retain(stamps.keys())
        new = [(name, stamp) for name, stamp in stamps.items() if not self._ingested.holds(name, stamp)]
        since = {name: self._unchanged_since(name, stamp, now) for name, stamp in new}
        complete = [file for file in new if now - since[file[0]] >= self._stable_seconds]
        self._changing = {name: (stamp, since[name]) for name, stamp in new if now - since[name] < self._stable_seconds}
        return sorted(complete, key=lambda file: (file[1][1], file[0]))

    def _unchanged_since(self, name: str, stamp: FileStamp, now: float) -> float:
        last_stamp, since = self._changing.get(name, (None, now))
        return since if last_stamp == stamp else now

    def _list(self) -> Iterator[File]:
        for folder, folders, names in os.walk(self._root, onerror=self._reject_unlisted):
            folders[:] = [name for name in folders if not _is_ignored(name)]
            for path in (Path(folder, name) for name in names if not _is_ignored(name)):
                with suppress(FileNotFoundError):  # deleted since it was listed
                    status = path.stat()
                    if S_ISREG(status.st_mode):
                        yield str(path.relative_to(self._root)), (status.st_size, status.st_mtime_ns)

    def _reject_unlisted(self, error: OSError) -> None:
        for _, decoded in self._reject_unreadable(os.path.relpath(error.filename, self._root)):
            self._on_rejected(decoded.rejected)


def _groups(files: list[File]) -> Iterator[list[File]]:
    """Consecutive small files together, up to a size; every other file alone."""
    group: list[File] = []
    size = 0
    for file in files:
        size += file[1][0]
        if group and not (size <= FILE_GROUP_BYTES and _is_small(*file) and _is_small(*group[-1])):
            yield group
            group, size = [], file[1][0]
        group.append(file)
    if group:
        yield group


def _is_small(name: str, stamp: FileStamp) -> bool:
    return stamp[0] <= SMALL_FILE_BYTES and name.lower().endswith(tuple(SUFFIXES))


def _is_ignored(name: str) -> bool:
    return name.startswith((".", "_"))
