"""A notification and its one-line JSON form (language page, section 10)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

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
        return hashlib.sha256(_dumps(self._identity()).encode()).hexdigest()

    def to_line(self) -> str:
        """The JSON line, without the newline."""
        fields = self._identity() | {"id": self.id}
        if self.graphs is not None:
            fields["graphs"] = list(self.graphs)
        if self.construct is not None:
            fields["construct"] = list(self.construct)
        return _dumps(fields)

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

    def _identity(self) -> dict[str, object]:
        return {
            "bindings": self.bindings_json,
            "end": format_datetime(self.end),
            "events": list(self.events),
            "start": format_datetime(self.start),
            "subscription": self.subscription,
        }


def _dumps(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
