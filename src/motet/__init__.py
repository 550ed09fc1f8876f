"""Motet: a semantic event cloud. Publish RDF or XML events, subscribe to their meaning in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Unpack
from typing import Literal as Either

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
    OverlayError,
    SubscriptionError,
    UsageError,
    require_extra,
)
from motet.model.notifications import Notification
from motet.model.settings import SettingArguments

if TYPE_CHECKING:
    from motet.embedded.async_cloud import AsyncCloud
    from motet.embedded.cloud import Cloud, Listener, PendingNotifications, SubscriptionState
    from motet.embedded.opening import Catalogue
    from motet.embedded.publishing import EventData
    from motet.lake import Lake, Receipt
    from motet.language.builder import PatternText, event, no, subscription
    from motet.language.parse import parse
    from motet.language.printer import to_text
    from motet.language.syntax import Subscription
    from motet.model.values import IRI, Literal
    from motet.ontology.load import Imports

__all__ = [
    "IRI",
    "AsyncCloud",
    "Cloud",
    "ConflictError",
    "CorruptLakeError",
    "DecodeError",
    "EngineError",
    "EventData",
    "JavaError",
    "Lake",
    "LakeError",
    "LimitError",
    "Listener",
    "Literal",
    "MissingExtraError",
    "MotetError",
    "Notification",
    "OverlayError",
    "PatternText",
    "PendingNotifications",
    "Receipt",
    "Subscription",
    "SubscriptionError",
    "SubscriptionState",
    "UsageError",
    "__version__",
    "event",
    "no",
    "open",
    "open_async",
    "parse",
    "subscription",
    "to_text",
]
__version__ = "0.1.0"  # the only place: pyproject.toml reads it from here

_LAZY = {  # imported when they are first used: Arrow and Numba take a second
    "AsyncCloud": "motet.embedded.async_cloud:AsyncCloud",
    "Cloud": "motet.embedded.cloud:Cloud",
    "EventData": "motet.embedded.publishing:EventData",
    "IRI": "motet.model.values:IRI",
    "Lake": "motet.lake:Lake",
    "Listener": "motet.embedded.cloud:Listener",
    "Literal": "motet.model.values:Literal",
    "PatternText": "motet.language.builder:PatternText",
    "PendingNotifications": "motet.embedded.cloud:PendingNotifications",
    "Receipt": "motet.lake:Receipt",
    "Subscription": "motet.language.syntax:Subscription",
    "SubscriptionState": "motet.embedded.cloud:SubscriptionState",
    "event": "motet.language.builder:event",
    "no": "motet.language.builder:no",
    "parse": "motet.language.parse:parse",
    "subscription": "motet.language.builder:subscription",
    "to_text": "motet.language.printer:to_text",
}


def open(  # noqa: A001  (motet.open("dir") is the natural name)
    directory: str | Path,
    *,
    engine: Either["embedded", "spark"] = "embedded",
    ontology: str | Path | Sequence[str | Path] = (),
    catalogue: Catalogue | None = None,
    imports: Imports = "warn",
    durable: bool = True,
    threaded: bool = False,
    clock: Callable[[], datetime] | None = None,
    **settings: Unpack[SettingArguments],
) -> Cloud:
    """Open the event cloud whose lake is in a directory; the lake is created if there is none.

    Published events are on disk when `publish` returns. Without ``durable`` the operating system writes them later:
    this is much faster, and events survive a crash of the process, but perhaps not of the machine. With ``threaded``
    another thread computes and delivers notifications, and `publish` does not wait for listeners (on Spark it never
    does). ``clock`` replaces the system's: a function that returns a `datetime` with a zone.

    ``ontology`` is a file or several; those of their triples that the background graph lacks are added to it. What they
    import is read from the given files and from ``catalogue``, a dictionary from IRIs to files or the path of one as
    JSON; nothing is fetched. A missing import is a warning or, with ``imports="strict"``, an error.

    The settings are those of a new lake; one that has others is not opened, and `motet settings` changes them:
    ``lateness``, ``ahead`` and ``heartbeat`` (text such as ``"10 s"`` or a `timedelta`; None is unlimited, or never),
    ``time_properties``, ``entailment`` and ``mappings`` of XML documents (a list of paths, texts or dicts).

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
    from motet.embedded.opening import load_background, open_lake
    from motet.model.errors import check_type

    check_type("threaded", threaded, bool)
    background = load_background(ontology, catalogue, imports)
    lake = open_lake(directory, settings, clock, durable=durable)
    if engine == "spark":
        from motet.spark.stream.job import open_on_spark

        cloud: Cloud = open_on_spark(lake)
    else:
        cloud = Cloud(lake, threaded=threaded)
    if background:
        cloud.background.add(background)
    return cloud


def open_async(
    directory: str | Path,
    *,
    engine: Either["embedded", "spark"] = "embedded",
    ontology: str | Path | Sequence[str | Path] = (),
    catalogue: Catalogue | None = None,
    imports: Imports = "warn",
    durable: bool = True,
    clock: Callable[[], datetime] | None = None,
    **settings: Unpack[SettingArguments],
) -> AsyncCloud:
    """The event cloud of a directory for asyncio; it is open inside ``async with``. The arguments are those of `open`.

    >>> import asyncio, tempfile
    >>> async def main(folder: str) -> None:
    ...     async with open_async(folder) as cloud:
    ...         await cloud.subscribe("SUBSCRIPTION all EVENT e WHEN e SIGNAL")
    ...         await cloud.publish('<urn:s> <urn:p> "o" <urn:e:1> .')
    ...         async for found in cloud.stream("all"):
    ...             print(found.events)
    ...             break
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(main(folder))
    ('urn:e:1',)
    """
    from motet.embedded.async_cloud import AsyncCloud

    return AsyncCloud(
        partial(
            open, directory, engine=engine, ontology=ontology, catalogue=catalogue, imports=imports, durable=durable,
            threaded=True, clock=clock, **settings,
        )
    )  # fmt: skip


if not TYPE_CHECKING:  # type checkers must not accept every name

    def __getattr__(name: str) -> object:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, _, attribute = _LAZY[name].partition(":")
        value = globals()[name] = getattr(import_module(module), attribute)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
