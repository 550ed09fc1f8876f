"""How bytes become durable: the one place of the lake that touches the disk.

Names are paths inside the lake with forward slashes. Everything above needs only an atomic put-if-absent, so an object
store with conditional puts can take this class's place. Not for what the bytes mean.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from motet.model.errors import LakeError

LOCK_PATIENCE = 30.0  # seconds; a writer that waited this long goes on without the courtesy lock
SCRATCH = "tmp"

_ADVICE = {
    errno.ENOSPC: "The disk is full: free some space and do it again. What was acknowledged before is safe.",
    errno.EDQUOT: "The disk quota is used up: free some space and do it again. What was acknowledged before is safe.",
    errno.EACCES: "Check who owns the lake's directory and its permissions.",
    errno.EPERM: "Check the directory's permissions, and that its file system has hard links.",
    errno.ENOENT: "Part of the lake's directory is gone: check the path, or bring the directory back from a backup.",
    errno.ENOTDIR: "A lake is a directory: check the path.",
    errno.EROFS: "The file system is mounted read-only: a lake there can be read, not written.",
}


@dataclass(frozen=True)
class Store:
    """The files of one lake. It holds no state but its place, so it can be sent to other processes."""

    root: Path

    def path(self, name: str) -> Path:
        return self.root / name

    def find(self, name: str) -> bytes | None:
        """The content of a file, or None when there is none."""
        with _spoken("read", self.path(name)):
            try:
                return self.path(name).read_bytes()
            except FileNotFoundError:
                return None

    def names(self, folder: str) -> list[str]:
        """The files of a folder, sorted."""
        with _spoken("list", self.path(folder)):
            try:
                return sorted(f"{folder}/{name}" for name in os.listdir(self.path(folder)))  # noqa: PTH208 names alone
            except FileNotFoundError:
                return []

    def make_root(self) -> None:
        with _spoken("create", self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            _sync_folder(self.root.absolute().parent)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a whole file under a name nobody has taken; False when somebody has. Durable when it returns."""
        with self._scratch(data) as scratch, _spoken("write", self.path(name)):
            _make_folder(self.path(name).parent)
            try:
                os.link(scratch, self.path(name))
            except FileExistsError:
                return False
            _sync_folder(self.path(name).parent)
            return True

    def put(self, name: str, data: bytes) -> None:
        """Write a whole file, in place of the one that was there. Durable when it returns."""
        with self._scratch(data) as scratch, _spoken("write", self.path(name)):
            _make_folder(self.path(name).parent)
            scratch.replace(self.path(name))
            _sync_folder(self.path(name).parent)

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        """A new file to write to, durable when the block ends and gone when it fails."""
        path = self.path(name)
        with _spoken("write", path):
            _make_folder(path.parent)
            try:
                with path.open("xb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                _sync_folder(path.parent)
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def rename(self, old: str, new: str) -> bool:
        """Give a file a new name; False when it is gone."""
        with _spoken("rename", self.path(old)):
            try:
                self.path(old).rename(self.path(new))
            except FileNotFoundError:
                return False
            _sync_folder(self.path(new).parent)
            return True

    def delete(self, name: str) -> None:
        with _spoken("delete", self.path(name)):
            self.path(name).unlink(missing_ok=True)

    def modified(self, name: str) -> int | None:
        """When a file was last written, in microseconds; None when it is gone."""
        with _spoken("read", self.path(name)):
            try:
                return self.path(name).stat().st_mtime_ns // 1000
            except FileNotFoundError:
                return None

    @contextmanager
    def lock(self, patience: float = LOCK_PATIENCE) -> Iterator[None]:
        """Courtesy between writers: it saves work that would lose its commit. Nothing depends on having it."""
        with _spoken("lock", self.root):
            handle = os.open(self.path("commit.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _wait_for(handle, patience)
            yield
        finally:
            os.close(handle)  # lets the lock go

    @contextmanager
    def _scratch(self, data: bytes) -> Iterator[Path]:
        path = self.path(f"{SCRATCH}/{secrets.token_hex(8)}")
        with _spoken("write", path):
            _make_folder(path.parent)
            try:
                with path.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                yield path
            finally:
                path.unlink(missing_ok=True)


@contextmanager
def _spoken(action: str, path: Path) -> Iterator[None]:
    """Turn what the operating system says into a LakeError with advice."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        advice = _ADVICE.get(error.errno or 0, "Check the disk, then do it again; repeating a publication is harmless.")
        raise LakeError(f"cannot {action} {path}: {reason}", advice=advice) from error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir()
    except FileExistsError:
        return
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _wait_for(handle: int, patience: float) -> None:
    give_up = time.monotonic() + patience
    while time.monotonic() < give_up:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # held by another writer
            time.sleep(0.001)
        except OSError:  # a file system without locks: go on without
            return
        else:
            return
