"""A directory as a source: files that appear in it are taken into the log, each once, oldest first.

A file is whole when two looks at it, some time apart, show the same; whoever renames files into the directory need not
rely on that. One that changes later is read again, which adds the events that are new. A name that begins with a dot
or an underscore is work in progress. Bad files are set aside with the reason and never hold up the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

from motet.codec.decode import decode_file
from motet.codec.events import NO_EVENTS, Decoded
from motet.embedded.feed import Fed, SetAside, feed
from motet.lake import Lake
from motet.lake.sources import Look, Taken
from motet.model.errors import DecodeError, MotetError, UsageError

GROUP_EVENTS = 65_536  # of small files that are committed together
SETTLE = 1.0  # seconds


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
        for name, look in self._whole(now):
            for decoded in self._decoded(name):
                parts.append(decoded)
                if sum(part.events.num_rows for part in parts) >= GROUP_EVENTS:
                    yield self._commit(parts, files)
                    parts, files = [], {}
            if name not in self._unreadable:  # what a chmod can mend is tried again at every look
                files[name] = look
        if parts or files:
            yield self._commit(parts, files)

    def _commit(self, parts: list[Decoded], files: dict[str, Look]) -> Fed:
        fed = feed(self._lake, parts, self._set_aside, inputs=len(files))
        if files:
            self._taken.add(files)
        return fed

    def _decoded(self, name: str) -> Iterator[Decoded]:
        path = str(self._root / name)
        if not os.access(path, os.R_OK):
            yield from self._refused(name)
            return
        self._unreadable.discard(name)
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

    def _whole(self, now: float) -> list[tuple[str, Look]]:
        """The files that are new or changed and have stopped changing, the oldest first."""
        looks = dict(self._look())
        self._taken.keep_only(looks.keys())
        new = {name: look for name, look in looks.items() if not self._taken.holds(name, look)}
        since = {name: self._since(name, look, now) for name, look in new.items()}
        whole = [name for name in new if now - since[name] >= self._settle]
        self._waiting = {name: (look, since[name]) for name, look in new.items() if name not in set(whole)}
        return sorted(((name, new[name]) for name in whole), key=lambda file: (file[1][1], file[0]))

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


def _is_unfinished(name: str) -> bool:
    return name.startswith((".", "_"))
