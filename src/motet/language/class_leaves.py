"""Leaves that are written as a class: how the class becomes an IRI, and the leaf an EVENT with a name of its own."""

from __future__ import annotations

import re
from dataclasses import replace

from motet.language.bounds import bounds
from motet.language.motet_lexer import KEYWORDS
from motet.language.syntax import Event, Leaf, Pattern, Run
from motet.language.walk import PAIRING
from motet.sparql.prologue import Names, resolve
from motet.sparql.tokens import Token

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class ClassLeaves:
    """Declares one event per leaf of a pattern, in the order the leaves are met."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._events: dict[str, Event] = {}

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(self._events.values())

    def declare(self, written: str, position: int) -> Leaf:
        """A new leaf for a class written as a bare name, a prefixed name or an IRI."""
        class_iri = self._class_iri(written, position)
        name = self._free_name(class_iri)
        self._events[name] = Event(name, class_iri, None, position)
        return Leaf(name, position)

    def bind_times(self, leaf: Leaf) -> tuple[str, str]:
        """The variables of a leaf's start and end."""
        times = f"{leaf.name}_start", f"{leaf.name}_end"
        self._events[leaf.name] = replace(self._events[leaf.name], times=times)
        return times

    def _class_iri(self, written: str, position: int) -> str:
        if not _BARE.fullmatch(written):
            return self._names.expand(Token("IRIREF" if written.startswith("<") else "PNAME", written, position))
        if "" in self._names.prefixes:
            return self._names.prefixes[""] + written
        if self._names.base is not None:
            return resolve(self._names.base, written)
        raise self._names.document.refusal(
            f"'{written}' is no IRI", position, "declare PREFIX : <…> or BASE <…>, or write the whole IRI"
        )

    def _free_name(self, class_iri: str) -> str:
        local = re.sub(r"\W", "_", re.split(r"[#/:]", class_iri)[-1], flags=re.ASCII)
        stem = local if re.match(r"[A-Za-z_]", local) else f"e{local}"
        taken = {name for event in self.events for name in (event.name, f"{event.name}_start", f"{event.name}_end")}
        candidates = (stem if number == 1 else f"{stem}_{number}" for number in range(1, len(taken) + 3))
        return next(name for name in candidates if name not in taken and name.upper() not in KEYWORDS)


def is_unbounded(pattern: Pattern) -> bool:
    """Whether a pairing operator or a run has no bound, so that the subscription needs UNBOUNDED."""
    waiting = [bounds(pattern)]
    while waiting:
        bounded = waiting.pop()
        if bounded.bound is None and isinstance(bounded.node, (*PAIRING, Run)):
            return True
        waiting.extend(bounded.children)
    return False
