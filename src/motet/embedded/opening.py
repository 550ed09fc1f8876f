"""What `motet.open` does with its arguments: opens the lake, reads the ontology and adapts the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import get_args

from motet.codec.row_mapping import MappingInput
from motet.lake import Clock, Lake, system_clock
from motet.model.batches import Triple
from motet.model.errors import UsageError, check_type
from motet.model.settings import SettingArguments, setting_values
from motet.model.times import to_micros
from motet.ontology.load import Imports, load, read_catalogue

Files = str | Path | Sequence[str | Path]
Catalogue = str | Path | Mapping[str, str] | Mapping[str, Path] | Mapping[str, str | Path]


def open_lake(
    directory: str | Path, settings: SettingArguments, clock: Callable[[], datetime] | None, *, durable: bool
) -> Lake:
    """Open or create the lake in a directory."""
    check_type("directory", directory, str, Path)
    check_type("durable", durable, bool)
    if "mappings" in settings:
        settings = {**settings, "mappings": mapping_texts(settings["mappings"])}
    values = setting_values(settings)
    return Lake.open(directory, durable=durable, clock=system_clock if clock is None else _micros_of(clock), **values)


def mapping_texts(mappings: Sequence[MappingInput]) -> tuple[str, ...]:
    """The mappings of XML documents as the setting that a lake stores."""
    from motet.codec.xml import mapping_text

    check_type("mappings", mappings, list, tuple)
    return tuple(map(mapping_text, mappings))


def load_background(ontology: Files, catalogue: Catalogue | None, imports: Imports) -> tuple[Triple, ...]:
    """The triples of the ontology files and of what they import."""
    check_type("ontology", ontology, str, Path, Sequence)
    check_type("catalogue", catalogue, str, Path, Mapping, None)
    files = [ontology] if isinstance(ontology, str | Path) else list(ontology)
    for file in files:
        check_type("a file of the ontology", file, str, Path)
    if imports not in get_args(Imports):
        raise UsageError(f"imports is {imports!r}", advice=f"Use one of {', '.join(get_args(Imports))}.")
    if not files:
        if catalogue is not None:
            raise UsageError("a catalogue without an ontology has no effect", advice="Give the ontology, too.")
        return ()
    paths = read_catalogue(catalogue) if isinstance(catalogue, str | Path) else catalogue
    return load(files, catalogue=paths, imports=imports).triples


def _micros_of(clock: Callable[[], datetime]) -> Clock:
    """The clock of a user as that of a lake, in microseconds."""
    if not callable(clock):
        raise UsageError(
            f"clock is {clock!r}, which cannot be called", advice="Give a function that returns a datetime with a zone."
        )
    return lambda: to_micros(clock())
