"""The worker thread of a cloud."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from motet.embedded.worker import Worker
from motet.model.errors import LakeError


def _failing(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


def test_flush_skips_the_delay() -> None:
    """flush and close run the task at once; several wakes are one run."""
    calls: list[int] = []
    worker = Worker(lambda: calls.append(1), delay=3600)
    worker.wake()
    worker.wake()
    worker.flush()
    worker.wake()
    worker.close()
    assert calls == [1, 1]


def test_a_failure_is_raised_in_waiting_threads() -> None:
    """flush and close raise the error of the task."""
    worker = Worker(_failing(LakeError("gone")))
    worker.wake()
    with pytest.raises(LakeError, match="gone"):
        worker.flush()
    with pytest.raises(LakeError, match="gone"):
        worker.close()


def test_a_failed_task_is_tried_again() -> None:
    """A failure is raised once; who waits again makes the worker try again."""
    outcomes = iter([LakeError("gone"), LakeError("still gone"), None])
    done: list[int] = []

    def work() -> None:
        if (error := next(outcomes)) is not None:
            raise error
        done.append(1)

    worker = Worker(work)
    worker.wake()
    for text in ("gone", "still gone"):
        with pytest.raises(LakeError, match=text):
            worker.wait_for(lambda: bool(done))
    worker.wait_for(lambda: bool(done))
    worker.close()
    assert done == [1]


def test_a_failed_task_is_run_again_by_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker survives a transient error without another wake; a thread whose condition holds is not disturbed."""
    monkeypatch.setattr("motet.embedded.worker.RETRY_SECONDS", 0.001)
    outcomes = iter([LakeError("gone"), LakeError("still gone"), None])
    done = threading.Event()

    def work() -> None:
        if (error := next(outcomes)) is not None:
            raise error
        done.set()

    worker = Worker(work)
    worker.wake()
    worker.wait_for(lambda: True)
    assert done.wait(60)
    worker.close()
    assert caplog.text.count("it is run again") == 2


def test_a_failure_is_over_when_the_next_run_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits during a run has the result of that run, not the failure of the one before."""
    monkeypatch.setattr("motet.embedded.worker.RETRY_SECONDS", 0.001)
    runs = iter([LakeError("gone")])
    started, finish = threading.Event(), threading.Event()

    def work() -> None:
        if (error := next(runs, None)) is not None:
            raise error
        started.set()
        finish.wait(60)

    worker = Worker(work)
    worker.wake()
    assert started.wait(60)
    threading.Timer(0.05, finish.set).start()
    worker.close()
