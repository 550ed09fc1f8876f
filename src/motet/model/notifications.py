"""A notification and its one-line JSON form (language page, section 10)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache

from motet.model import terms
from motet.model.times import format_datetime, parse_datetime, to_datetime
from motet.model.values import PythonValue, Term, python_value, term_of


@dataclass(frozen=True, repr=False)
class Notification:
    """An occurrence of a subscription's whole pattern, projected to its delivery clause.

    Its variables are read as from a dictionary: ``found["room"]`` is a Python value; ``found.terms`` has the RDF terms.

    >>> n = Notification("any", 0, 0, ("urn:e:1",), (("c", '"35"^^<http://www.w3.org/2001/XMLSchema#integer>'),))
    >>> n["c"], n.get("d"), n.start.isoformat(), n.bindings_json["c"]["value"]
    (35, None, '1970-01-01T00:00:00+00:00', '35')
    """

    subscription: str
    start_micros: int
    end_micros: int
    events: tuple[str, ...]  # sorted
    bindings: tuple[tuple[str, str], ...]  # sorted (variable, N-Triples) pairs; unbound variables are left out
    graphs: tuple[str, ...] | None = None
    construct: tuple[str, ...] | None = None

    @property
    def sort_key(self) -> tuple[int, int, str, tuple[str, ...], tuple[tuple[str, str], ...]]:
        """The order of ``motet run``: end, start, subscription, events, bindings, by code point."""
        return self.end_micros, self.start_micros, self.subscription, self.events, self.bindings

    @property
    def start(self) -> datetime:
        """When the occurrence starts, in UTC."""
        return to_datetime(self.start_micros)

    @property
    def end(self) -> datetime:
        """When the occurrence ends, in UTC."""
        return to_datetime(self.end_micros)

    @property
    def terms(self) -> dict[str, Term]:
        """The RDF terms of the variables that are bound, by name."""
        return {variable: term_of(term) for variable, term in self.bindings}

    def __getitem__(self, variable: str) -> PythonValue:
        """The Python value of a variable: an int, float, Decimal, bool, datetime, str, `IRI`, or another `Literal`."""
        value = self.get(variable)
        if value is not None:
            return value
        bound = ", ".join(self.keys()) or "none"
        raise KeyError(f"subscription {self.subscription!r} has no value for {variable!r}; bound variables: {bound}")

    def __contains__(self, variable: object) -> bool:
        return any(name == variable for name, _ in self.bindings)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> tuple[str, ...]:
        """The variables that are bound."""
        return tuple(name for name, _ in self.bindings)

    def get(self, variable: str, default: PythonValue | None = None) -> PythonValue | None:
        """The Python value of a variable, or the default if it is not bound."""
        return next((python_value(term) for name, term in self.bindings if name == variable), default)

    def to_dict(self) -> dict[str, object]:
        """All fields by name, with Python values; ``graphs`` and ``construct`` only where there are some."""
        extras = {"graphs": self.graphs, "construct": self.construct}
        return {
            "id": self.id,
            "subscription": self.subscription,
            "start": self.start,
            "end": self.end,
            "events": list(self.events),
            "bindings": dict(self),
            **{name: list(lines) for name, lines in extras.items() if lines is not None},
        }

    @property
    def bindings_json(self) -> dict[str, dict[str, str]]:
        return {variable: terms.to_json(term) for variable, term in self.bindings}

    @cached_property
    def id(self) -> str:
        """SHA-256 of the line without id, graphs and construct: equal notifications have equal ids."""
        return _hash(self._fields())

    def to_line(self) -> str:
        """The JSON line, without the newline.

        >>> Notification("any", 0, 0, ("urn:e:1",), (), construct=()).to_line()[:41]
        '{"bindings": {}, "construct": [], "end": '
        """
        fields = bindings, middle, start = self._fields()
        construct = "" if self.construct is None else f'"construct": {_strings(self.construct)}, '
        graphs = "" if self.graphs is None else f'"graphs": {_strings(self.graphs)}, '
        return f'{{{bindings}, {construct}{middle}, {graphs}"id": "{_hash(fields)}", {start}}}'

    @classmethod
    def from_line(cls, line: str) -> Notification:
        """The inverse of :meth:`to_line`.

        >>> notification = Notification("any", 0, 0, ("urn:e:1",), (("x", "<urn:x>"),), graphs=())
        >>> Notification.from_line(notification.to_line()) == notification
        True
        """
        fields = json.loads(line)
        bindings = tuple(sorted((name, terms.from_json(term)) for name, term in fields["bindings"].items()))
        start, end = (parse_datetime(fields[name]) for name in ("start", "end"))
        extras = {name: tuple(fields[name]) for name in ("graphs", "construct") if name in fields}
        return cls(fields["subscription"], start, end, tuple(fields["events"]), bindings, **extras)

    def __str__(self) -> str:
        return self.to_line()

    def __repr__(self) -> str:
        extras = "".join(f", {name}=…" for name in ("graphs", "construct") if getattr(self, name) is not None)
        times = f"{format_datetime(self.start_micros)} to {format_datetime(self.end_micros)}"
        return f"Notification({self.subscription!r}, {times}, events={list(self.events)}, {dict(self)}{extras})"

    def _fields(self) -> tuple[str, str, str]:
        """The fields of every notification as JSON, in their order: bindings; end and events; start and subscription.

        They are formatted here: an encoder of dictionaries takes ten times as long.
        """
        bindings = ", ".join([f"{string_json(variable)}: {term_json(term)}" for variable, term in self.bindings])
        return (
            f'"bindings": {{{bindings}}}',
            f'"end": "{format_datetime(self.end_micros)}", "events": {_strings(self.events)}',
            f'"start": "{format_datetime(self.start_micros)}", "subscription": {string_json(self.subscription)}',
        )


string_json = json.encoder.encode_basestring  # a string as json.dumps writes it with ensure_ascii=False


def _strings(values: tuple[str, ...]) -> str:
    return f"[{', '.join([string_json(value) for value in values])}]"


def term_json(term: str) -> str:
    """A term as JSON text."""
    if terms.is_iri(term):
        return f'{{"type": "uri", "value": {string_json(terms.iri_value(term))}}}'
    return _literal_json(term)


@lru_cache(65_536)
def _literal_json(term: str) -> str:
    return json.dumps(terms.to_json(term), sort_keys=True, ensure_ascii=False)


def _hash(fields: Sequence[str]) -> str:
    return hashlib.sha256(f"{{{', '.join(fields)}}}".encode()).hexdigest()
