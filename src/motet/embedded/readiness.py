"""Before the work begins: the kernels are compiled, so that nobody waits for that in the middle of it."""

from __future__ import annotations

import logging

from motet.engine.warm_up import warm_up
from motet.jit.compiled import is_cached

log = logging.getLogger("motet")


def get_ready() -> None:
    """Compile the kernels, unless they are kept from an earlier process or there is nowhere to keep them."""
    if not is_cached("motet.engine"):
        log.warning("compiling the kernels, once on this machine: about half a minute")
        warm_up()
