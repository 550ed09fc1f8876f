"""The extras of the package: what Spark, NATS, metrics, overlays and PNG pictures need beside the embedded product."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from motet.model.errors import MissingExtraError

Extra = Literal["spark", "metrics", "connect", "nats", "overlay", "pictures"]

_MODULES: dict[Extra, tuple[str, ...]] = {
    "spark": ("pyspark", "pandas", "prometheus_client"),
    "metrics": ("prometheus_client",),
    "connect": ("grpc",),
    "nats": ("nats",),
    "overlay": ("msgspec", "cryptography"),
    "pictures": ("resvg_py",),
}


def require_extra(extra: Extra, feature: str, *, alternative: str = "") -> None:
    """Raise MissingExtraError, which says what to install, unless the modules of an extra are installed.

    ``alternative`` is what can be done without the extra, such as ``use --engine embedded``.
    """
    missing = [module for module in _MODULES[extra] if find_spec(module) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        install = f"Run: python -m pip install 'motet[{extra}]'"
        raise MissingExtraError(
            f"{feature} needs {', '.join(missing)}, which {are} not installed",
            extra=extra,
            advice=f"{install}, or {alternative}" if alternative else install,
        )
