"""Finds the events of a document: event nodes, the triples that belong to them, and their IRIs (section 14).

An event node is the name of a graph or, in the default graph, ``<>``, an IRI that states a time, or a blank node that
is a subject and no object. An event has the quads of its graph and the triples of the default graph that are reached
from its node without going through another event node. Nothing is parsed here, and times are not read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from motet.codec.event_times import node_predicates
from motet.codec.events import NO_EVENTS, Decoded, build_events
from motet.codec.grouping import GroupedQuads
from motet.codec.identity import content, minted_iri
from motet.codec.options import DecodeOptions
from motet.codec.rejections import Problem, conflict_problem, rejection, truncate
from motet.model import terms
from motet.model.batches import QUADS, Triple
from motet.model.errors import LimitError, MotetError

ATTRIBUTION_ADVICE = (
    "say which resource is the event: write <> for it, put it into a named graph, state its time, or publish the "
    "document with an id; rest=drop leaves such triples out, rest=share gives them to every event"
)
ONTOLOGY_ADVICE = (
    "events are not read with the axioms of other events: add it to the background with --ontology FILE or "
    "`motet background add`; with an id it is published as one event"
)
_ONTOLOGY = f"<{terms.OWL}Ontology>"
_OTHER_THIS = "_:<>"  # stands for <> in the content of other events; no blank node has this label
_QUOTED_TRIPLES = 5_000  # of a rejected event or default graph, in its error


class Quad(NamedTuple):
    """A quad of a document; ``graph`` is None in the default graph."""

    graph: str | None
    subject: str
    predicate: str
    object: str
    line: int


class Defect(NamedTuple):
    """A part of a document that cannot be read, with its graph, or its subject in the default graph, if known."""

    problem: Problem
    graph: str | None = None
    subject: str | None = None


@dataclass
class ParsedDocument:
    """The quads of a document, and what could not be read."""

    base: str  # the IRI of <>
    quads: list[Quad] = field(default_factory=list)
    defects: list[Defect] = field(default_factory=list)


class DocumentEvent(NamedTuple):
    """An event before its blank nodes are named and its time is read."""

    iri: str
    triples: list[Triple]
    line: int


class FoundEvents(NamedTuple):
    """The events of a document, the problems of rejected ones, and what is counted."""

    events: list[DocumentEvent]
    rejected: list[Problem]
    repeated: int = 0  # events
    dropped: int = 0  # triples


def decode_document(
    document: ParsedDocument, options: DecodeOptions, *, stated: Callable[[str], Iterable[Triple]] | None = None
) -> Iterator[Decoded]:
    """The events of a document; ``stated`` has the triples that a CloudEvent states of the event with an IRI."""
    found = find_events(document, options, is_cloudevent=stated is not None)
    events = found.events
    if stated is not None:
        events = [event._replace(triples=[*event.triples, *stated(event.iri)]) for event in events]
    yield from build_events(group_events(events), options)
    if found.rejected or found.repeated or found.dropped:
        rejected = [rejection(options.name, problem.event, [problem]) for problem in found.rejected]
        yield Decoded(NO_EVENTS, rejected, repeated=found.repeated, dropped=found.dropped)


def find_events(document: ParsedDocument, options: DecodeOptions, *, is_cloudevent: bool = False) -> FoundEvents:
    """The events of a document, in the order of their nodes.

    A CloudEvent whose data has no event node is itself the event.

    >>> quads = [Quad(None, "_:a", "<urn:p>", "_:b", 1), Quad(None, "_:b", "<urn:q>", '"1"', 2)]
    >>> found = find_events(ParsedDocument("", quads), DecodeOptions("input", input_id="urn:e:1"))
    >>> [(event.iri, len(event.triples)) for event in found.events]
    [('urn:e:1', 2)]
    """
    nodes = _event_nodes(document, options)
    event = options.id or (options.input_id if is_cloudevent and not nodes else None)
    try:
        if event is not None:
            return _single_event(document, event, nodes, options)
        _refuse_ontology(document, options)
        return _Finder(document, options, nodes).run()
    except MotetError as error:  # the document as a whole is refused
        line = error.line if isinstance(error, _RelativeIriError) else None
        problem = Problem(error.message, error.advice, line, content=_quote(document.quads, document, options))
        return FoundEvents([], [*(defect.problem for defect in document.defects), problem])


def group_events(events: Sequence[DocumentEvent]) -> GroupedQuads:
    """The events as grouped quads, for `build_events`."""
    lengths = np.array([len(event.triples) for event in events], np.int64)
    event = np.repeat(np.arange(len(events)), lengths)
    rows = [triple for event in events for triple in event.triples]
    columns = [pa.array(column, pa.string()) for column in (zip(*rows, strict=True) if rows else ((), (), ()))]
    graphs = pa.array([terms.iri(event.iri) for event in events], pa.string()).take(pa.array(event))
    lines = pa.array(np.array([event.line for event in events], np.int64)[event])
    quads = pa.RecordBatch.from_arrays([graphs, *columns, lines], schema=QUADS)
    return GroupedQuads(quads, np.cumsum(lengths) - lengths, {}, [])


def _refuse_ontology(document: ParsedDocument, options: DecodeOptions) -> None:
    """Raise for a default graph that describes an ontology and states no time."""
    default = [quad for quad in document.quads if quad.graph is None]
    ontology = next((q.subject for q in default if (q.predicate, q.object) == (terms.RDF_TYPE, _ONTOLOGY)), None)
    times = node_predicates(options.time_properties)
    if ontology is not None and not any(quad.predicate in times for quad in default):
        raise MotetError(
            f"it is an ontology and not an event: {_as_written(ontology, document.base) if document.base else ontology}"
            " is an owl:Ontology, and nothing states a time",
            advice=ONTOLOGY_ADVICE,
        )


class _RelativeIriError(MotetError):
    """A relative IRI in a document without a base."""

    def __init__(self, reference: str, line: int) -> None:
        advice = "write it as an absolute IRI, or give the document a base: @base in it, or the argument base"
        super().__init__(f"{reference} is a relative IRI, and the document has no base", advice=advice)
        self.line = line


def _event_nodes(document: ParsedDocument, options: DecodeOptions) -> dict[str, int]:
    """The event nodes by the indices of the first quads about them, in the order of these."""
    this, predicates = terms.iri(document.base), node_predicates(options.time_properties)
    objects = {quad.object for quad in document.quads if quad.object.startswith("_:")}
    first: dict[str, int] = {}
    nodes: set[str] = set()
    for index, (graph, subject, predicate, _, _) in enumerate(document.quads):
        if graph is not None:
            first.setdefault(graph, index)
            nodes.add(graph)
            continue
        first.setdefault(subject, index)
        if subject.startswith("_:"):
            if subject not in objects:
                nodes.add(subject)
        elif subject == this or predicate in predicates:
            nodes.add(subject)
    return {node: index for node, index in first.items() if node in nodes}


def _single_event(
    document: ParsedDocument, event: str, nodes: Mapping[str, int], options: DecodeOptions
) -> FoundEvents:
    """The whole document as one event; its node is the resource with that IRI, ``<>``, or the only blank event node."""
    if document.defects or not document.quads:
        return FoundEvents([], [replace(defect.problem, event=event) for defect in document.defects])
    _refuse_relative(document, options, allowed=(terms.iri(document.base), f"<{document.base}#"))
    _Size(options).add(document.quads)
    own = {terms.iri(event), terms.iri(document.base)}
    blank = [node for node in nodes if node.startswith("_:")]
    if len(blank) == 1 and not any(quad.subject in own or quad.object in own for quad in document.quads):
        own.add(blank[0])
    rename = _Renaming(dict.fromkeys(own, terms.iri(event)), document.base, event)
    triples = dict.fromkeys(rename.triple(quad[1:4]) for quad in document.quads)
    return FoundEvents([DocumentEvent(event, list(triples), document.quads[0].line)], [])


class _Size:
    """The size of the events of a document so far, as N-Triples; raises when it exceeds that of a document."""

    def __init__(self, options: DecodeOptions) -> None:
        self._limit = options.limits.max_document_bytes
        self._bytes = 0

    def add(self, quads: Iterable[Quad]) -> None:
        self._bytes += sum(len(s) + len(p) + len(o) + 5 for _, s, p, o, _ in quads)
        if self._bytes > self._limit:
            raise LimitError(
                f"the events of the document are together larger than {self._limit} bytes",
                advice="publish them in several documents; triples that many events reach count for each of them",
            )


class _Renaming(NamedTuple):
    """New terms for the nodes of a document; with an IRI, ``<#x>`` follows it as well."""

    names: Mapping[str, str]
    base: str = ""
    iri: str | None = None

    def triple(self, triple: Triple) -> Triple:
        s, p, o = triple
        if self.iri is not None and self.base:
            s, p, o = self._follow(s), self._follow(p), self._follow(o)
        return self.names.get(s, s), self.names.get(p, p), self.names.get(o, o)

    def _follow(self, term: str) -> str:
        before, mark, fragment = term.rpartition(f"<{self.base}#")
        if not mark or (before and not before.endswith('"^^')):
            return term
        assert self.iri is not None
        return f"{before}<{self.iri.partition('#')[0]}#{fragment}"


def _refuse_relative(document: ParsedDocument, options: DecodeOptions, *, allowed: tuple[str, ...]) -> None:
    """Raise for an IRI that was resolved against the reader's own base, except those with an allowed beginning."""
    if options.base is not None or not document.base:
        return
    scheme = document.base.partition("//")[0]
    for quad in document.quads:
        for term in (quad.graph or "", quad.subject, quad.predicate, quad.object):
            if scheme in term:
                iri = term[term.rindex("<") :]  # of a literal, its datatype
                if not iri.startswith(allowed) or (term != iri and "#" not in iri):
                    raise _RelativeIriError(_as_written(iri, document.base), quad.line)


def _as_written(text: str, base: str) -> str:
    """A text with relative IRIs in place of those that were resolved against the reader's own base, or nearly so."""
    directory = base[: base.rindex("/") + 1]
    for start in (base, directory, directory[:-1], base.partition("//")[0]):
        text = text.replace(f"<{start}", "<")
    return text


class _Members(NamedTuple):
    """An event node, the quads of its event, and the problems that reject it."""

    node: str
    quads: list[Quad]
    line: int
    problems: list[Problem]


class _Finder:
    """Finds the events of one document that has event nodes, or should have them."""

    def __init__(self, document: ParsedDocument, options: DecodeOptions, nodes: Mapping[str, int]) -> None:
        self._document = document
        self._options = options
        self._nodes = nodes
        self._this = terms.iri(document.base)
        self._only_this = nodes.keys() == {self._this}
        self._size = _Size(options)
        self._rejected: list[Problem] = []
        self._dropped = 0
        self._by_graph: dict[str, list[Quad]] = defaultdict(list)
        self._default: dict[str, list[Quad]] = defaultdict(list)  # by subject
        for quad in document.quads:
            if quad.graph is None:
                self._default[quad.subject].append(quad)
            else:
                self._by_graph[quad.graph].append(quad)
        self._reached: set[str] = set()  # subjects of the default graph
        self._unreadable = {defect.subject: defect.problem for defect in reversed(document.defects) if defect.subject}
        self._anonymous = {node for node in nodes if node == self._this or node.startswith("_:")}

    def run(self) -> FoundEvents:
        _refuse_relative(self._document, self._options, allowed=self._allowed())
        members = [self._event(node) for node in self._nodes]
        members = self._assign_rest(members)
        self._reject_defects(members)
        return self._named(members)

    def _allowed(self) -> tuple[str, ...]:
        if self._only_this:
            return self._this, f"<{self._document.base}#"
        return (self._this,) if self._this in self._nodes else ()

    def _event(self, node: str) -> _Members:
        """The quads of the node's graph, and those of the default graph that are reached from the node."""
        own = self._by_graph.get(node, [])
        quads = list(own)
        self._size.add(own)
        problems: list[Problem] = []
        if self._default or self._unreadable:
            by_subject: dict[str, list[Quad]] = defaultdict(list)
            for quad in own:
                by_subject[quad.subject].append(quad)
            for subject in self._reachable(node, by_subject):
                if subject in self._default:
                    self._reached.add(subject)
                    self._size.add(self._default[subject])
                    quads += self._default[subject]
                if subject in self._unreadable and subject != node:
                    problems.append(self._unreadable_problem(subject))
        line = self._document.quads[self._nodes[node]].line
        return _Members(node, quads, line, problems)

    def _reachable(self, node: str, own: Mapping[str, list[Quad]]) -> Iterator[str]:
        """The node and the terms that are reached from it, through its graph and the default graph."""
        seen, stack = {node}, [node]
        while stack:
            subject = stack.pop()
            yield subject
            for quads in (own.get(subject, ()), self._default.get(subject, ())):
                for quad in quads:
                    if quad.object not in seen and quad.object not in self._nodes and quad.object[0] != '"':
                        seen.add(quad.object)
                        stack.append(quad.object)

    def _unreadable_problem(self, subject: str) -> Problem:
        problem = self._unreadable[subject]
        reason = f"a statement about {subject}, which belongs to it, cannot be read: {problem.reason}"
        return Problem(reason, problem.advice, problem.line)

    def _assign_rest(self, members: list[_Members]) -> list[_Members]:
        """The events, after a decision about the triples that belong to none."""
        rest = [q for subject, quads in self._default.items() if subject not in self._reached for q in quads]
        if not rest:
            return members
        if self._options.rest == "drop":
            self._dropped = len(rest)
            return members
        if self._options.rest == "share" and members:
            return [self._shared(event, rest) for event in members]
        has_defects = any(defect.graph is None for defect in self._document.defects)
        self._rejected.append(self._rest_problem(rest, members, is_all=not has_defects))
        return members if has_defects else [event for event in members if event.node in self._by_graph]

    def _shared(self, event: _Members, rest: list[Quad]) -> _Members:
        self._size.add(rest)
        return event._replace(quads=[*event.quads, *rest])

    def _rest_problem(self, rest: list[Quad], members: list[_Members], *, is_all: bool) -> Problem:
        """The problem of triples that belong to no event; ``is_all``: the default graph is refused with them."""
        first, count = rest[0], len(rest)
        reason = f"{count} triple{'s' if count > 1 else ''} belong{'' if count > 1 else 's'} to no event; the first "
        reason += f"is about {'a blank node' if first.subject.startswith('_:') else first.subject}"
        refused = [event for event in members if event.node not in self._by_graph] if is_all else []
        if refused:
            reason += f"; the default graph is refused, and {len(refused)} event{'s' if len(refused) > 1 else ''} in it"
        quads = [quad for quad in self._document.quads if quad.graph is None] if is_all else rest
        return Problem(reason, ATTRIBUTION_ADVICE, first.line, content=self._quote(quads))

    def _quote(self, quads: Sequence[Quad]) -> str:
        return _quote(quads, self._document, self._options)

    def _reject_defects(self, members: list[_Members]) -> None:
        """Give each defect to the event it is a part of, or reject it alone."""
        by_node = {event.node: event for event in members}
        objects = {quad.object for quad in self._document.quads} if self._unreadable else set()
        for problem, graph, subject in self._document.defects:
            node = graph or subject
            if node is not None and node in by_node:
                by_node[node].problems.insert(0, problem)
            elif node is not None and terms.is_iri(node) and (graph or node not in objects):
                self._rejected.append(replace(problem, event=terms.iri_value(node)))
            else:
                self._rejected.append(problem)

    def _named(self, members: list[_Members]) -> FoundEvents:
        """The events with their IRIs; of several with one IRI the first."""
        iris = self._iris(members)
        names = {node: terms.iri(iris[node]) for node in self._anonymous if node in iris}
        rename = _Renaming(names, self._document.base, iris.get(self._this) if self._only_this else None)
        events: dict[str, tuple[_Members, DocumentEvent]] = {}
        repeated = 0
        for event in members:
            iri = iris.get(event.node)
            if event.problems or iri is None:
                self._rejected += [self._problem(event, iri)] if event.problems else []
                continue
            triples = dict.fromkeys(
                (rename.triple(q[1:4]) for q in event.quads) if names else (q[1:4] for q in event.quads)
            )
            named = DocumentEvent(iri, list(triples), event.line)
            if iri not in events:
                events[iri] = event, named
            elif set(events[iri][1].triples) == triples.keys():
                repeated += 1
            else:
                self._rejected.append(self._problem(event, iri, conflict_problem(event.line)))
        return FoundEvents([named for _, named in events.values()], self._rejected, repeated, self._dropped)

    def _problem(self, event: _Members, iri: str | None, problem: Problem | None = None) -> Problem:
        first, *more = event.problems if problem is None else [problem]
        reason = first.reason + (f" (and {len(more)} more in the same event)" if more else "")
        content = "\n".join(filter(None, [first.content, self._quote(event.quads)]))
        line = event.line if first.line is None else first.line
        return replace(first, reason=reason, line=line, content=truncate(content), event=iri)

    def _iris(self, members: list[_Members]) -> dict[str, str]:
        """The IRI of each event by its node; without those whose content cannot be labelled, which are rejected."""
        options, batch = self._options, self._options.batch
        anonymous = self._anonymous
        hidden = any(d.graph is None and not (d.subject and terms.is_iri(d.subject)) for d in self._document.defects)
        iris = {node: terms.iri_value(node) for node in self._nodes if node not in anonymous}
        if options.input_id is not None and len(anonymous) == 1 and not hidden:
            return iris | dict.fromkeys(anonymous, options.input_id)
        counts: Counter[bytes] = Counter() if batch is None else batch.counts
        input_id = options.input_id if batch is None else batch.id
        for event in members:
            if event.node in anonymous and not event.problems:
                try:
                    iris[event.node] = minted_iri(input_id, self._content(event), counts)
                except LimitError as error:
                    event.problems.append(Problem(error.message, error.advice))
        return iris

    def _content(self, event: _Members) -> list[str]:
        others = {} if event.node == self._this else {self._this: _OTHER_THIS}
        rename = _Renaming(others, self._document.base, "urn:motet:this" if self._only_this else None)
        triples = (rename.triple(quad[1:4]) for quad in event.quads)
        return content(event.node, triples, max_work=self._options.limits.max_blank_node_work)


def _quote(quads: Sequence[Quad], document: ParsedDocument, options: DecodeOptions) -> str:
    """Quads as N-Quads lines, with relative IRIs as they were written."""
    lines = (" ".join(term for term in (*quad[1:4], quad.graph, ".") if term) for quad in quads[:_QUOTED_TRIPLES])
    text = "\n".join(lines)
    return truncate(_as_written(text, document.base) if document.base and not options.base else text)
