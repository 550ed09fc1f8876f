"""Derived events: the events that the CONSTRUCT clauses of a notification make (language page, sections 8 and 12).

A template is instantiated once for each member of the occurrence. As in SPARQL, a triple with an unbound or misplaced
term is left out, and blank nodes are new for each member; they become IRIs as blank nodes of a published event do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from motet.codec.blank_nodes import canonical_labels
from motet.codec.xml import lift_derived
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.table_kernels import UNBOUND
from motet.jit.compiled import Ints
from motet.language.syntax import Template, XmlTemplate
from motet.model.batches import RECORDS, TIME, Triple
from motet.model.terms import iri, iri_value, is_iri, literal
from motet.sparql.algebra import Triple as TriplePattern
from motet.sparql.algebra import is_hidden, variable_name
from motet.xmlql.blocks import TemplateElement
from motet.xmlql.construct import construct

THIS = "this"
DERIVED_BIT = 1 << 61  # set in the number of a derived event, which takes the place of an offset
_FIELDS = ("subject", "predicate", "object")
_MAX_WORK = 100_000  # steps of labelling blank nodes


@dataclass(frozen=True, slots=True)
class ConstructedEvent:
    """An event made by one CONSTRUCT clause; clauses are counted from 1."""

    id: str
    clause: int
    triples: tuple[Triple, ...]
    document: str | None = None  # of an XML event
    mappings: tuple[str, ...] = ()  # that lift the document

    @property
    def record_triples(self) -> tuple[Triple, ...]:
        """The triples of the event's record: of a document those that a mapping lifts."""
        return self.triples if self.document is None else lift_derived(self.document, self.id, self.mappings)

    @property
    def lines(self) -> list[str]:
        """What the notification has of it: the triples as N-Triples, or the canonical document."""
        return [f"{s} {p} {o} ." for s, p, o in self.triples] if self.document is None else [self.document]


class _DocumentTemplate(NamedTuple):
    tree: TemplateElement
    mappings: tuple[str, ...]  # that lift its documents


class ConstructTemplates:
    """The CONSTRUCT clauses of a subscription: triple patterns, and elements of XML documents."""

    def __init__(self, templates: Sequence[Template | XmlTemplate]) -> None:
        self._templates = [
            template.triples if isinstance(template, Template) else _DocumentTemplate(template.tree, template.mappings)
            for template in templates
        ]

    def derive(self, notification_id: str, members: Iterable[Mapping[str, str]]) -> list[ConstructedEvent]:
        """The derived events of one notification; a clause without any triple makes none."""
        ordered = sorted(members, key=_completion_order)
        solutions = sorted(ordered, key=lambda member: sorted(member.items()))
        events = []
        for clause, template in enumerate(self._templates, 1):
            id_ = f"urn:motet:derived:{notification_id}:{clause}"
            if isinstance(template, _DocumentTemplate):
                document = construct(template.tree, ordered)
                if document is not None:
                    events.append(ConstructedEvent(id_, clause, (), document, template.mappings))
                continue
            triples = _instantiate(template, solutions, id_)
            if triples:
                events.append(ConstructedEvent(id_, clause, tuple(sorted(triples))))
        return events


def member_times(name: str) -> str:
    """The key under which a member of an occurrence has the times of one of its events; no variable has such a name."""
    return f".{name}"


def times_term(start: int, end: int) -> str:
    """Both times of an event as one string, as members have it."""
    return literal(f"{end} {start}")


def _completion_order(member: Mapping[str, str]) -> tuple[int, int, list[str], list[tuple[str, str]]]:
    """“**Completion order** is `(end, start, sorted event ids)`, then bindings” (language page, section 4)."""
    times = [term.strip('"').split() for name, term in member.items() if name.startswith(".")]
    ids = sorted(iri_value(member[name[1:]]) for name in member if name.startswith("."))
    bindings = sorted((name, term) for name, term in member.items() if not name.startswith("."))
    if not times:
        return 0, 0, ids, bindings
    return max(int(end) for end, _ in times), min(int(start) for _, start in times), ids, bindings


def template_solutions(
    projected: Sequence[str], table: Occurrences, row: int, dictionary: Dictionary
) -> list[dict[str, str]]:
    """The solutions for which a template is instantiated: the members of an occurrence, or its projected variables."""
    if table.members is not None:
        return [{name: dictionary.string(value) for name, value in member} for member in table.members[row]]
    values = zip(projected, table.values[row].tolist(), strict=True)
    return [{name: dictionary.string(value) for name, value in values if value != UNBOUND}]


def derived_records(events: Sequence[ConstructedEvent], start: Ints, end: Ints, first: int) -> pa.RecordBatch:
    """Derived events as records; instead of offsets they have numbers from `DERIVED_BIT` + ``first`` on."""
    count = len(events)
    triples = [[dict(zip(_FIELDS, triple, strict=True)) for triple in event.record_triples] for event in events]
    columns = {
        "offset": pa.array(np.arange(count) + (DERIVED_BIT + first)),
        "kind": pa.repeat(pa.scalar("event"), count),
        "id": pa.array([event.id for event in events], pa.string()),
        "start": pa.array(start).cast(TIME),
        "end": pa.array(end).cast(TIME),
        "late": pa.repeat(pa.scalar(False), count),
        "stamped": pa.repeat(pa.scalar(False), count),
        "triples": pa.array(triples, RECORDS.field("triples").type),
        "payload": pa.array(
            [None if event.document is None else event.document.encode() for event in events], pa.binary()
        ),
    }
    arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in RECORDS]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


def _instantiate(patterns: Sequence[TriplePattern], members: Sequence[Mapping[str, str]], id_: str) -> set[Triple]:
    triples: set[Triple] = set()
    for index, member in enumerate(members):
        values = {THIS: iri(id_), **member}
        for pattern in patterns:
            positions = (pattern.subject, str(pattern.predicate), pattern.object)
            subject, predicate, object_ = (_term(position, values, index) for position in positions)
            if subject and predicate and object_ and not subject.startswith('"') and is_iri(predicate):
                triples.add((subject, predicate, object_))
    return _skolemise(triples, id_)


def _term(position: str, values: Mapping[str, str], member: int) -> str | None:
    name = variable_name(position)
    if not name:
        return position
    return f"_:{name.strip('.')}x{member}" if is_hidden(name) else values.get(name)


def _skolemise(triples: set[Triple], id_: str) -> set[Triple]:
    """Replace blank nodes by IRIs made from the event's IRI and their canonical labels."""
    if not any(term.startswith("_:") for triple in triples for term in triple):
        return triples
    labels = canonical_labels(triples, max_work=_MAX_WORK)
    stem = f"{id_}-genid-" if "#" in id_ else f"{id_}#genid-"

    def named(term: str) -> str:
        return iri(f"{stem}{labels[term]}") if term.startswith("_:") else term

    return {(named(s), named(p), named(o)) for s, p, o in triples}
