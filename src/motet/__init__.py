"""Motet, a semantic event cloud: publish RDF events, subscribe to what they mean and how they combine in time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from motet.model.errors import UsageError
from motet.model.extras import require_extra
from motet.model.notifications import Notification

if TYPE_CHECKING:
    from motet.embedded.cloud import Cloud

__all__ = ["Notification", "__version__", "open"]
__version__ = "0.1.0"


def open(  # noqa: A001  (motet.open("dir") is how people say it)
    directory: str | Path,
    *,
    engine: str = "embedded",
    ontology: Sequence[str | Path] = (),
    durable: bool = True,
    threaded: bool = False,
) -> Cloud:
    """Open the event cloud whose lake is in a directory, making it when there is none.

    What was published is on disk when `publish` returns. When not ``durable``, it is left to the operating system when:
    much faster, and events survive the death of the process, but perhaps not that of the machine. When ``threaded``,
    another thread derives and delivers, and `publish` does not wait for listeners (on Spark it never does).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open(folder) as cloud:
    ...     names = cloud.subscribe("SUBSCRIPTION all EVENT e WHEN e SIGNAL", lambda found: print(found.events))
    ...     receipt = cloud.publish('<urn:s> <urn:p> "o" <urn:e:1> .')
    ('urn:e:1',)
    """
    if engine == "embedded":
        from motet.embedded.cloud import Cloud
        from motet.lake import Lake

        cloud = Cloud(Lake.open(directory, durable=durable), threaded=threaded)
    elif engine == "spark":
        require_extra("spark", "engine='spark'", alternative="use engine='embedded'")
        from motet.spark.stream.cloud import open_on_spark

        cloud = open_on_spark(directory, durable=durable)
    else:
        raise UsageError(f"{engine!r} is not an engine", advice="Use 'embedded' or 'spark'.")
    if ontology:
        from motet.ontology.load import load

        cloud.background.add(load(ontology).triples)
    return cloud
