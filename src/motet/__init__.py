"""Motet, a semantic event cloud: publish RDF events, subscribe to what they mean and how they combine in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from motet.model.errors import (
    ConflictError,
    CorruptLakeError,
    DecodeError,
    EngineError,
    JavaError,
    LakeError,
    LimitError,
    MissingExtraError,
    MotetError,
    SubscriptionError,
    UsageError,
)
from motet.model.extras import require_extra
from motet.model.notifications import Notification
from motet.model.settings import SettingArguments, setting_values

if TYPE_CHECKING:
    from motet.embedded.cloud import Cloud, Listener
    from motet.lake import Lake, Receipt
    from motet.language.builder import PatternText, event, no, subscription
    from motet.language.parse import parse
    from motet.language.printer import to_text
    from motet.language.syntax import Subscription
    from motet.ontology.load import Imports

__all__ = [
    "Cloud",
    "ConflictError",
    "CorruptLakeError",
    "DecodeError",
    "EngineError",
    "JavaError",
    "Lake",
    "LakeError",
    "LimitError",
    "Listener",
    "MissingExtraError",
    "MotetError",
    "Notification",
    "PatternText",
    "Receipt",
    "Subscription",
    "SubscriptionError",
    "UsageError",
    "__version__",
    "event",
    "no",
    "open",
    "parse",
    "subscription",
    "to_text",
]
__version__ = "0.1.0"  # the only place: pyproject.toml reads it from here

_LAZY = {  # imported when they are first used: Arrow and Numba take a second
    "Cloud": "motet.embedded.cloud:Cloud",
    "Lake": "motet.lake:Lake",
    "Listener": "motet.embedded.cloud:Listener",
    "PatternText": "motet.language.builder:PatternText",
    "Receipt": "motet.lake:Receipt",
    "Subscription": "motet.language.syntax:Subscription",
    "event": "motet.language.builder:event",
    "no": "motet.language.builder:no",
    "parse": "motet.language.parse:parse",
    "subscription": "motet.language.builder:subscription",
    "to_text": "motet.language.printer:to_text",
}


def open(  # noqa: A001  (motet.open("dir") is the natural name)
    directory: str | Path,
    *,
    engine: Literal["embedded", "spark"] = "embedded",
    ontology: Sequence[str | Path] = (),
    imports: Imports = "warn",
    durable: bool = True,
    threaded: bool = False,
    clock: Callable[[], int] | None = None,
    **settings: Unpack[SettingArguments],
) -> Cloud:
    """Open the event cloud whose lake is in a directory; the lake is created if there is none.

    Published events are on disk when `publish` returns. Without ``durable`` the operating system writes them later:
    this is much faster, and events survive a crash of the process, but perhaps not of the machine. With ``threaded``
    another thread computes and delivers notifications, and `publish` does not wait for listeners (on Spark it never
    does). The triples of ``ontology`` that the background graph lacks are added to it; ``imports`` says what happens
    if an import cannot be loaded. ``clock`` replaces the system's; it returns UTC microseconds.

    The settings are those of a new lake; one that has others is not opened, and `motet settings` changes them:
    ``lateness``, ``ahead`` and ``heartbeat`` (text such as ``"10 s"``, a `timedelta`, or microseconds; None is
    unlimited, or never), ``time_properties`` and ``entailment``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open(folder) as cloud:
    ...     names = cloud.subscribe("SUBSCRIPTION all EVENT e WHEN e SIGNAL", lambda found: print(found.events))
    ...     receipt = cloud.publish('<urn:s> <urn:p> "o" <urn:e:1> .')
    ('urn:e:1',)
    """
    if engine not in ("embedded", "spark"):
        raise UsageError(f"{engine!r} is not an engine", advice="Use 'embedded' or 'spark'.")
    if engine == "spark":
        require_extra("spark", "engine='spark'", alternative="use engine='embedded'")
    from motet.embedded.cloud import Cloud
    from motet.lake import Lake, system_clock

    background: tuple[tuple[str, str, str], ...] = ()
    if ontology:
        from motet.ontology.load import load

        background = load(ontology, imports=imports).triples
    values = setting_values(settings)
    lake = Lake.open(directory, durable=durable, clock=clock or system_clock, **values)
    if engine == "spark":
        from motet.spark.stream.job import open_on_spark

        cloud: Cloud = open_on_spark(lake)
    else:
        cloud = Cloud(lake, threaded=threaded)
    if background:
        cloud.background.add(background)
    return cloud


if not TYPE_CHECKING:  # type checkers must not accept every name

    def __getattr__(name: str) -> object:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, _, attribute = _LAZY[name].partition(":")
        value = globals()[name] = getattr(import_module(module), attribute)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
