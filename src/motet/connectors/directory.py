"""A directory as a source: files that appear in it are taken into the log, each once, oldest first.

A file is whole when two looks at it, some time apart, show the same; whoever renames files into the directory need not
rely on that. One that changes later is read again, which adds the events that are new. A name that begins with a dot
or an underscore is work in progress. Bad files are set aside with the reason and never hold up the others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

from motet.codec.decode import Message, decode_file, decode_messages
from motet.codec.events import NO_EVENTS, Decoded
from motet.codec.formats import SUFFIXES, format_of_path
from motet.connectors.ingestion import Fed, SetAside, feed
from motet.lake import Lake
from motet.lake.sources import Look, Taken
from motet.model.errors import DecodeError, MotetError, UsageError

GROUP_BYTES = 32 << 20  # of events in memory; small files are committed together
SMALL_BYTES = 64 << 10  # of a file that is decoded together with others
RUN_BYTES = 4 << 20
SETTLE = 1.0  # seconds

File = tuple[str, Look]


class Directory:
    """The files of one directory and the directories in it, as far as they are in the lake."""

    def __init__(self, path: str | Path, lake: Lake, set_aside: SetAside, *, settle: float = SETTLE) -> None:
        self._root = Path(path).absolute()
        if not self._root.is_dir():
            raise UsageError(f"there is no directory {str(path)!r}", advice="Make it, or check the path.")
        if lake.store.root.absolute().is_relative_to(self._root):
            raise UsageError(
                f"the lake {str(lake.store.root)!r} is inside the directory that is its source",
                advice="Use two directories beside each other.",
            )
        self._lake = lake
        self._set_aside = set_aside
        self._settle = settle
        self._taken = Taken(lake.store, str(self._root))
        self._waiting: dict[str, tuple[Look, float]] = {}  # how new files looked, and since when
        self._unreadable: set[str] = set()

    @property
    def is_done(self) -> bool:
        """Whether the last look left no file to wait for."""
        return not self._waiting

    def take(self, now: float) -> Iterator[Fed]:
        """Take in what is new, commit by commit; ``now`` is any clock's time in seconds."""
        parts: list[Decoded] = []
        files: dict[str, Look] = {}
        size = 0
        for run in _runs(self._whole(now)):
            for decoded, done in self._decoded(run):
                parts.append(decoded)
                files |= done
                size += decoded.events.nbytes
                if size >= GROUP_BYTES:
                    yield self._commit(parts, files)
                    parts, files, size = [], {}, 0
        if parts:
            yield self._commit(parts, files)

    def _commit(self, parts: list[Decoded], files: dict[str, Look]) -> Fed:
        fed = feed(self._lake, parts, self._set_aside, inputs=len(files))
        if files:
            self._taken.add(files)
        return fed

    def _decoded(self, run: list[File]) -> Iterator[tuple[Decoded, dict[str, Look]]]:
        """What files hold, each part with the files that end with it."""
        readable: dict[str, Look] = {}
        for name, look in run:
            if os.access(self._root / name, os.R_OK):
                self._unreadable.discard(name)
                readable[name] = look
            else:  # what a chmod can mend is tried again at every look
                yield from ((refused, {}) for refused in self._refused(name))
        if len(readable) > 1:
            yield decode_messages(self._messages(readable)), readable
            return
        for name, look in readable.items():
            yield from ((decoded, {}) for decoded in self._decoded_alone(name))
            yield Decoded(NO_EVENTS, []), {name: look}

    def _messages(self, names: Iterable[str]) -> Iterator[Message]:
        """Small files as messages: of those, setting up a decoder for each would cost more than decoding them."""
        now = time.time_ns() // 1000
        for name in names:
            path = self._root / name
            with suppress(FileNotFoundError):  # gone since the look
                yield Message(path.read_bytes(), format_of_path(name).value, str(path), now)

    def _decoded_alone(self, name: str) -> Iterator[Decoded]:
        path = str(self._root / name)
        try:
            yield from decode_file(path)
        except MotetError as error:  # a name that does not tell the format
            reason = error.message.removeprefix(f"{path}: ")
            yield Decoded(NO_EVENTS, [DecodeError(reason, source=path, advice=error.advice)])

    def _refused(self, name: str) -> list[Decoded]:
        """What is said about something that must not be read: the same thing is named once."""
        if name in self._unreadable:
            return []
        self._unreadable.add(name)
        path = str(self._root / name)
        return [Decoded(NO_EVENTS, [DecodeError("it cannot be read", source=path, advice="Check its permissions.")])]

    def _whole(self, now: float) -> list[File]:
        """The files that are new or changed and have stopped changing, the oldest first."""
        looks = dict(self._look())
        self._taken.keep_only(looks.keys())
        new = [(name, look) for name, look in looks.items() if not self._taken.holds(name, look)]
        since = {name: self._since(name, look, now) for name, look in new}
        whole = [file for file in new if now - since[file[0]] >= self._settle]
        self._waiting = {name: (look, since[name]) for name, look in new if now - since[name] < self._settle}
        return sorted(whole, key=lambda file: (file[1][1], file[0]))

    def _since(self, name: str, look: Look, now: float) -> float:
        seen, at = self._waiting.get(name, (None, now))
        return at if seen == look else now

    def _look(self) -> Iterator[tuple[str, Look]]:
        for folder, folders, names in os.walk(self._root, onerror=self._not_listed):
            folders[:] = [name for name in folders if not _is_unfinished(name)]
            for path in (Path(folder, name) for name in names if not _is_unfinished(name)):
                with suppress(FileNotFoundError):  # gone since it was listed
                    found = path.stat()
                    if S_ISREG(found.st_mode):
                        yield str(path.relative_to(self._root)), (found.st_size, found.st_mtime_ns)

    def _not_listed(self, error: OSError) -> None:
        for refused in self._refused(os.path.relpath(error.filename, self._root)):
            self._set_aside(refused.rejected)


def _runs(files: list[File]) -> Iterator[list[File]]:
    """Small files that follow one another, together up to a size; any other file alone."""
    run: list[File] = []
    size = 0
    for file in files:
        size += file[1][0]
        if run and not (size <= RUN_BYTES and _is_small(*file) and _is_small(*run[-1])):
            yield run
            run, size = [], file[1][0]
        run.append(file)
    if run:
        yield run


def _is_small(name: str, look: Look) -> bool:
    return look[0] <= SMALL_BYTES and name.lower().endswith(tuple(SUFFIXES))


def _is_unfinished(name: str) -> bool:
    return name.startswith((".", "_"))
