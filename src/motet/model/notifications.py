"""A notification and its one-line JSON form (language page, section 10)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from motet.model import terms
from motet.model.times import format_datetime, parse_datetime


@dataclass(frozen=True)
class Notification:
    """An occurrence of a subscription's whole pattern, projected to its delivery clause.

    >>> n = Notification("any", 0, 0, ("urn:e:1",), (("x", "<urn:x>"),))
    >>> n.bindings_json
    {'x': {'type': 'uri', 'value': 'urn:x'}}
    """

    subscription: str
    start: int
    end: int
    events: tuple[str, ...]  # sorted
    bindings: tuple[tuple[str, str], ...]  # sorted (variable, N-Triples) pairs; unbound variables are left out
    graphs: tuple[str, ...] | None = None
    construct: tuple[str, ...] | None = None

    @property
    def sort_key(self) -> tuple[int, int, str, tuple[str, ...], tuple[tuple[str, str], ...]]:
        """The order of ``motet run``: end, start, subscription, events, bindings, by code point."""
        return self.end, self.start, self.subscription, self.events, self.bindings

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

    def _fields(self) -> tuple[str, str, str]:
        """The fields of every notification as JSON, in their order: bindings; end and events; start and subscription.

        They are formatted here: an encoder of dictionaries takes ten times as long.
        """
        bindings = ", ".join([f"{_string(variable)}: {_term_json(term)}" for variable, term in self.bindings])
        return (
            f'"bindings": {{{bindings}}}',
            f'"end": "{format_datetime(self.end)}", "events": {_strings(self.events)}',
            f'"start": "{format_datetime(self.start)}", "subscription": {_string(self.subscription)}',
        )


_string = json.encoder.encode_basestring  # as json.dumps with ensure_ascii=False


def _strings(values: tuple[str, ...]) -> str:
    return f"[{', '.join([_string(value) for value in values])}]"


def _term_json(term: str) -> str:
    if terms.is_iri(term):
        return f'{{"type": "uri", "value": {_string(terms.iri_value(term))}}}'
    return _literal_json(term)


@lru_cache(65_536)
def _literal_json(term: str) -> str:
    return json.dumps(terms.to_json(term), sort_keys=True, ensure_ascii=False)


def _hash(fields: Sequence[str]) -> str:
    return hashlib.sha256(f"{{{', '.join(fields)}}}".encode()).hexdigest()
