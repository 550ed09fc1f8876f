"""The store: durable and atomic writes, and errors with advice."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path

import pytest

from motet.lake.store import Store
from motet.model.errors import LakeError


def test_put_if_absent_first_wins(tmp_path: Path) -> None:
    """The first content of a name stays; the second writer gets False."""
    store = Store(tmp_path)
    assert store.put_if_absent("manifest/1", b"first")
    assert not store.put_if_absent("manifest/1", b"second")
    assert store.find("manifest/1") == b"first"
    assert store.names("tmp") == []


def test_put_replaces(tmp_path: Path) -> None:
    """A put replaces the whole content."""
    store = Store(tmp_path)
    store.put("a/b", b"long content")
    store.put("a/b", b"short")
    assert store.find("a/b") == b"short"


def test_absent_names(tmp_path: Path) -> None:
    """A missing file is None, a missing folder is empty, deleting a missing file is no error."""
    store = Store(tmp_path)
    store.delete("a/b")
    assert (store.find("a/b"), store.names("a"), store.modified("a/b")) == (None, [], None)
    assert not store.rename("a/b", "a/c")


def test_create_leaves_nothing_when_it_fails(tmp_path: Path) -> None:
    """A file whose writer failed is deleted."""
    store = Store(tmp_path)
    with pytest.raises(ZeroDivisionError), store.create("segments/x") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert store.names("segments") == []


def test_a_full_disk_is_an_error_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is a LakeError with advice, and leaves no file behind."""
    store = Store(tmp_path)
    store.put("a/b", b"old")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LakeError, match="No space left on device\n  The disk is full"):
        store.put("a/b", b"new")
    with pytest.raises(LakeError, match="The disk is full"), store.create("a/c"):
        pass
    assert (store.find("a/b"), store.names("a"), store.names("tmp")) == (b"old", ["a/b"], [])


def test_lock_keeps_others_out_only_for_a_while(tmp_path: Path) -> None:
    """A writer continues without the lock after a timeout: a stopped process cannot stop the others."""
    store = Store(tmp_path)
    entered = []
    with store.lock(), store.lock(patience=0.01):
        entered.append(True)
    assert entered == [True]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_no_locks(tmp_path: Path) -> None:
    """A child that lives on does not keep the locks that its parent had when it was forked."""
    store = Store(tmp_path)
    held = store.hold("held")
    reader, writer = os.pipe()
    with store.lock():
        child = os.fork()
        if child == 0:
            os.write(writer, b"1")
            signal.pause()
    os.read(reader, 1)
    try:
        assert store.is_held("held")
        del held  # its finalizer closes the file
        assert not store.is_held("held")
        begin = time.monotonic()
        with store.lock(patience=10):
            assert time.monotonic() - begin < 5
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
