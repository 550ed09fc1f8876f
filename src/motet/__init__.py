"""Motet, a semantic event cloud: publish RDF events, subscribe to what they mean and how they combine in time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from motet.model.errors import UsageError
from motet.model.notifications import Notification

if TYPE_CHECKING:
    from motet.embedded.cloud import Cloud

__all__ = ["Notification", "__version__", "open"]
__version__ = "0.1.0"


def open(  # noqa: A001  (motet.open("dir") is how people say it)
    directory: str | Path, *, engine: str = "embedded", ontology: Sequence[str | Path] = ()
) -> Cloud:
    """Open the event cloud whose lake is in a directory, making it when there is none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open(folder) as cloud:
    ...     names = cloud.subscribe("SUBSCRIPTION all EVENT e WHEN e SIGNAL", lambda found: print(found.events))
    ...     receipt = cloud.publish('<urn:s> <urn:p> "o" <urn:e:1> .')
    ('urn:e:1',)
    """
    if engine == "embedded":
        from motet.embedded.cloud import Cloud  # noqa: PLC0415  (importing motet stays cheap)
        from motet.lake import Lake  # noqa: PLC0415

        cloud = Cloud(Lake.open(directory))
    elif engine == "spark":
        from motet.spark.cloud import open_on_spark  # noqa: PLC0415

        cloud = open_on_spark(directory)
    else:
        raise UsageError(f"{engine!r} is not an engine", advice="Use 'embedded' or 'spark'.")
    if ontology:
        from motet.ontology.load import load  # noqa: PLC0415

        cloud.background.add(load(ontology).triples)
    return cloud
