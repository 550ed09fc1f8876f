"""Nobody waits for a kernel to be compiled in the middle of the work."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from motet.engine.runtime import warm_up as readiness
from motet.jit import compiled

ALL = """
from itertools import islice
from motet.jit import compiled
from motet.engine.runtime.warm_up import warm_up
from motet.fuzz.cases import random_cases
from motet.fuzz.processor_engines import KernelEngine
from motet.fuzz.subscriptions import Abilities

warm_up()
print([one.__name__ for one in compiled._CACHED if len(one.signatures) != 1])
KernelEngine().run(list(islice(random_cases(5, Abilities()), 40)))
print([one.__name__ for one in compiled._CACHED if len(one.signatures) != 1])
"""


def test_every_kernel_is_compiled_before_the_work_begins() -> None:
    """In a new process each is compiled for one kind of arrays; other work needs no other."""
    done = subprocess.run([sys.executable, "-c", ALL], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["[]", "[]", ""]


def test_they_are_compiled_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Only when one is not kept on disk is the user told to wait."""
    asked: list[str] = []
    monkeypatch.setattr(readiness, "warm_up", lambda: asked.append("all"))
    monkeypatch.setattr(readiness, "is_cached", lambda package: True)
    readiness.ensure_compiled()
    assert not asked
    monkeypatch.setattr(readiness, "is_cached", lambda package: False)
    with caplog.at_level(logging.WARNING, "motet"):
        readiness.ensure_compiled()
    assert asked == ["all"]
    assert "compiling the kernels" in caplog.text


def test_what_is_compiled_is_kept() -> None:
    """After a process that has used them all."""
    readiness.ensure_compiled()
    assert compiled.is_cached("motet.engine")
