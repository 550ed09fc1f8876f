"""`motet` in a process of its own that dies with SIGKILL at a chosen call.

Usage: crashing.py MODULE:NAME COUNT ARGUMENT...  The COUNT-th call of the named function kills the process instead.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from operator import attrgetter


def main() -> int:
    module, _, name = sys.argv[1].partition(":")
    left = int(sys.argv[2])
    owner_name, _, attribute = name.rpartition(".")
    owner = attrgetter(owner_name)(importlib.import_module(module))
    original = getattr(owner, attribute)

    def counted(*args: object, **kwargs: object) -> object:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(owner, attribute, counted)
    from motet.cli.main import main as motet

    return motet(sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
