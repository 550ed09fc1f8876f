"""All kernels are compiled before the first event is processed."""

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
from motet.fuzz.processor_engines import ProcessorEngine
from motet.fuzz.subscriptions import EngineCapabilities

warm_up()
print([kernel.__name__ for kernel in compiled._CACHED if len(kernel.signatures) != 1])
ProcessorEngine().run(list(islice(random_cases(5, EngineCapabilities()), 40)))
print([kernel.__name__ for kernel in compiled._CACHED if len(kernel.signatures) != 1])
"""


def test_every_kernel_is_compiled_for_one_signature() -> None:
    """In a new process the warm-up compiles each kernel once, and random cases need no other signature."""
    done = subprocess.run([sys.executable, "-c", ALL], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["[]", "[]", ""]


def test_kernels_are_compiled_only_if_they_are_not_cached(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning says so."""
    calls: list[str] = []
    monkeypatch.setattr(readiness, "warm_up", lambda: calls.append("all"))
    monkeypatch.setattr(readiness, "is_cached", lambda package: True)
    readiness.ensure_compiled()
    assert not calls
    monkeypatch.setattr(readiness, "is_cached", lambda package: False)
    with caplog.at_level(logging.WARNING, "motet"):
        readiness.ensure_compiled()
    assert calls == ["all"]
    assert "compiling the kernels" in caplog.text


def test_compiled_kernels_are_cached() -> None:
    """After the warm-up every kernel is in the cache."""
    readiness.ensure_compiled()
    assert compiled.is_cached("motet.engine")
