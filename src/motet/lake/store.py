"""The files of a lake: durable writes, and the only module of the lake that accesses the disk.

Names are paths inside the lake with forward slashes. The other modules need only an atomic put-if-absent, so an object
store with conditional puts could replace this class.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import shutil
import socket
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, ParamSpec, TypeVar

from motet.model.errors import LakeError, UsageError

LOCK_PATIENCE = 30.0  # seconds; after so long a writer continues without the lock, which is advisory
SCRATCH = "tmp"
COMMIT_LOCK = "commit.lock"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

P = ParamSpec("P")
Result = TypeVar("Result")

_ADVICE = {
    errno.ENOSPC: "The disk is full: free some space and try again. What was acknowledged before is safe.",
    errno.EDQUOT: "The disk quota is used up: free some space and try again. What was acknowledged before is safe.",
    errno.EACCES: "Check who owns the lake's directory and its permissions.",
    errno.EPERM: "Check the directory's permissions, and that its file system has hard links.",
    errno.ENOENT: "Part of the lake's directory is gone: check the path, or restore the directory from a backup.",
    errno.ENOTDIR: "A lake is a directory: check the path.",
    errno.EROFS: "The file system is mounted read-only: a lake there can be read, not written.",
}


@dataclass(frozen=True)
class Store:
    """The files of one lake. It has no state but the path, so it can be sent to other processes.

    A store that is not ``durable`` does not sync the disk: what was written survives a crash of the process, but
    perhaps not one of the machine.
    """

    root: Path
    durable: bool = True

    def __reduce__(self) -> tuple[type[Store], tuple[object, ...]]:
        """With the absolute path, since another process may have another working directory."""
        return Store, (self.root.absolute(), self.durable)

    def path(self, name: str) -> Path:
        return self.root / name

    def find(self, name: str) -> bytes | None:
        """The content of a file; None if there is no such file."""
        try:
            handle = os.open(f"{self.root}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # the usual case when the next commit is looked for
            return None
        except OSError as error:
            raise _lake_error("read", self.path(name), error) from error
        with _as_lake_errors("read", self.path(name)), os.fdopen(handle, "rb") as file:
            return file.read()

    def names(self, folder: str) -> list[str]:
        """The files of a folder, sorted."""
        with _as_lake_errors("list", self.path(folder)):
            try:
                return sorted(f"{folder}/{name}" for name in os.listdir(self.path(folder)))  # noqa: PTH208 names alone
            except FileNotFoundError:
                return []

    def make_root(self) -> None:
        with _as_lake_errors("create", self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            self._sync_folder(self.root.absolute().parent)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a whole file under a new name; False if the name exists. Durable when it returns."""
        scratch, path = self._scratch(data), f"{self.root}/{name}"
        try:
            self._in_folder(name, os.link, scratch, path)
            if self.durable:
                self._sync_folder(self.path(name).parent)
        except FileExistsError:
            return False
        except OSError as error:
            raise _lake_error("write", self.path(name), error) from error
        finally:
            os.unlink(scratch)  # noqa: PTH108  (a Path costs as much as the call)
        return True

    def put(self, name: str, data: bytes) -> None:
        """Write a whole file, in place of an earlier one. Durable when it returns."""
        scratch, path = self._scratch(data), self.path(name)
        with _as_lake_errors("write", path):
            try:
                self._in_folder(name, os.replace, scratch, path)
            except BaseException:
                os.unlink(scratch)  # noqa: PTH108  (as above)
                raise
            self._sync_folder(path.parent)

    def append(self, name: str, data: bytes) -> None:
        """Append to a file, which is created if there is none. Durable when it returns."""
        path = self.path(name)
        with _as_lake_errors("write", path):
            self._make_folder(path.parent)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            try:
                _write_all(handle, data)
                self._sync(handle)
            finally:
                os.close(handle)
            self._sync_folder(path.parent)

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        """A new file to write to, durable when the block ends and deleted when it fails."""
        path = self.path(name)
        with _as_lake_errors("write", path):
            self._make_folder(path.parent)
            try:
                with path.open("xb") as file:
                    yield file
                    file.flush()
                    self._sync(file.fileno())
                self._sync_folder(path.parent)
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def rename(self, old: str, new: str) -> bool:
        """Rename a file; False if it does not exist."""
        with _as_lake_errors("rename", self.path(old)):
            try:
                self.path(old).rename(self.path(new))
            except FileNotFoundError:
                return False
            self._sync_folder(self.path(new).parent)
            return True

    def delete(self, name: str) -> None:
        with _as_lake_errors("delete", self.path(name)):
            self.path(name).unlink(missing_ok=True)

    def delete_folders(self, names: Iterable[str]) -> None:
        """Delete folders, and files beside them, with all they hold; then the root, if nothing else is in it."""
        for path in map(self.path, names):
            shutil.rmtree(path, ignore_errors=True)
            with suppress(OSError):  # a folder that is gone
                path.unlink()
        with suppress(OSError):  # other files are in it
            self.root.rmdir()

    def modified(self, name: str) -> int | None:
        """The time a file was last written, in microseconds; None if it does not exist."""
        with _as_lake_errors("read", self.path(name)):
            try:
                return self.path(name).stat().st_mtime_ns // 1000
            except FileNotFoundError:
                return None

    @contextmanager
    def lock(self, name: str = COMMIT_LOCK, *, patience: float = LOCK_PATIENCE) -> Iterator[None]:
        """An advisory lock between processes; that of writers avoids conflicts, and commits do not depend on it."""
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            handle = self._in_folder(name, os.open, f"{self.root}/{name}", flags, 0o666)
        except OSError as error:
            raise _lake_error("lock", self.root, error) from error
        _locked.add(handle)
        try:
            _acquire(handle, patience)
            yield
        finally:
            _locked.discard(handle)
            os.close(handle)  # releases the lock

    def hold(self, name: str) -> HeldFile:
        """Create a file that `is_held` until this process releases it or ends, however it ends."""
        path = self.path(name)
        with _as_lake_errors("write", path):
            handle = self._in_folder(name, os.open, f"{self.root}/{name}", _NEW | os.O_APPEND, 0o666)
            _locked.add(handle)
            _acquire(handle, LOCK_PATIENCE)
        return HeldFile(path, handle)

    def is_held(self, name: str) -> bool:
        """Whether a process holds a file; on a file system without locks, no."""
        try:
            handle = os.open(f"{self.root}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _lake_error("read", self.path(name), error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(handle)
        return False

    def _scratch(self, data: bytes) -> str:
        """A new temporary file with these bytes; its path."""
        name = f"{SCRATCH}/{random.getrandbits(64):016x}"  # unique, not secret; reseeded after a fork
        path = f"{self.root}/{name}"
        try:
            handle = self._in_folder(name, os.open, path, _NEW, 0o666)
            try:
                _write_all(handle, data)
                self._sync(handle)
            except BaseException:
                os.unlink(path)  # noqa: PTH108  (a Path costs as much as the call)
                raise
            finally:
                os.close(handle)
        except OSError as error:
            raise _lake_error("write", self.path(name), error) from error
        return path

    def _in_folder(self, name: str, action: Callable[P, Result], *args: P.args, **options: P.kwargs) -> Result:
        """Call ``action``; if the folder of the file is missing, create it and call again."""
        try:
            return action(*args, **options)
        except FileNotFoundError:
            self._make_folder(self.path(name).parent)
            return action(*args, **options)

    def _make_folder(self, folder: Path) -> None:
        try:
            folder.mkdir()
        except FileExistsError:
            return
        self._sync_folder(folder.parent)

    def _sync(self, handle: int) -> None:
        if self.durable:
            os.fsync(handle)

    def _sync_folder(self, folder: Path) -> None:
        if not self.durable:
            return
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


_locked: set[int] = set()  # handles of this process that have locks


def _close_locked(handle: int) -> None:
    if handle in _locked:  # not in a forked child
        _locked.discard(handle)
        os.close(handle)


def _close_inherited() -> None:
    """In a forked child: close the locks of the parent, which would otherwise last as long as the child."""
    for handle in _locked:
        os.close(handle)
    _locked.clear()


os.register_at_fork(after_in_child=_close_inherited)


class HeldFile:
    """A file with an advisory lock, which its holder appends to."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle = handle
        self._close = weakref.finalize(self, _close_locked, handle)  # a holder that is dropped releases it
        self._close.atexit = False

    def append(self, data: bytes) -> None:
        with _as_lake_errors("write", self._path):
            _write_all(self._handle, data)

    def release(self) -> None:
        """Delete the file, and release its lock."""
        with _as_lake_errors("delete", self._path):
            self._path.unlink(missing_ok=True)
        self._close()


@contextmanager
def _as_lake_errors(action: str, path: Path) -> Iterator[None]:
    """Raise errors of the operating system as LakeErrors with advice."""
    try:
        yield
    except OSError as error:
        raise _lake_error(action, path, error) from error


def _lake_error(action: str, path: Path, error: OSError) -> LakeError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    advice = _ADVICE.get(error.errno or 0, "Check the disk, then try again; repeating a publication is harmless.")
    return LakeError(f"cannot {action} {path}: {reason}", advice=advice)


def _write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _acquire(handle: int, patience: float) -> None:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # held by another writer
            time.sleep(0.001)
        except OSError:  # a file system without locks: continue without one
            return
        else:
            return


@contextmanager
def hold_lock(store: Store, name: str, thing: str, *, advice: str) -> Iterator[None]:
    """Hold the lock in a file of a store while the block runs; after a crash it is not held any more."""
    with store.lock(f"{name}.guard"):  # two processes do not look at the same time
        if store.is_held(name):
            raise UsageError(f"{thing} is in use by {_holder(store, name)}", advice=advice)
        store.delete(name)
        held = store.hold(name)
        fields = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        held.append(json.dumps(fields).encode())
    try:
        yield
    finally:
        held.release()


def _holder(store: Store, name: str) -> str:
    with suppress(ValueError, KeyError, TypeError):
        fields = json.loads(store.find(name) or b"")
        if (fields["pid"], fields["host"]) == (os.getpid(), socket.gethostname()):
            return "another pipeline of this process"
        return f"process {fields['pid']} on {fields['host']}, since {fields['since']}"
    return "another process"
