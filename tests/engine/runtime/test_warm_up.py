"""The warm-up compiles all kernels, or loads them from the cache."""

from __future__ import annotations

import subprocess
import sys

ALL = """
from itertools import islice
from motet.jit import compiled
from motet.engine.runtime.warm_up import warm_up
from motet.fuzz.cases import random_cases
from motet.fuzz.processor_engines import ProcessorEngine
from motet.fuzz.subscriptions import EngineCapabilities

warm_up()
print([kernel for kernel in compiled.KERNELS if len(kernel.code.signatures) != 1])
ProcessorEngine().run(list(islice(random_cases(5, EngineCapabilities()), 40)))
print([kernel for kernel in compiled.KERNELS if len(kernel.code.signatures) != 1])
"""


def test_every_kernel_is_compiled_for_one_signature() -> None:
    """In a new process the warm-up compiles each kernel once, and random cases need no other signature."""
    done = subprocess.run([sys.executable, "-c", ALL], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["[]", "[]", ""]
