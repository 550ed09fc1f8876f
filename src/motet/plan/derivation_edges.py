"""Derivation edges: which CONSTRUCT clauses feed which leaves of other subscriptions, for a plan or incrementally.

A clause feeds a leaf when each triple that all matches of the leaf require may be one of the template's triples, or
follow from one, or from the background (language page, sections 8 and 12). The triples of a clause that makes documents
are those that a mapping may lift from them. No subscription feeds itself, and cycles are refused. In a template
``?this`` is the derived event; its other variables stand for any term.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from motet.codec.xml import mappings_for
from motet.language.scope import xml_variables
from motet.language.syntax import Construct, Subscription, Template, XmlTemplate
from motet.model.errors import UsageError
from motet.model.terms import RDF_TYPE
from motet.ontology.entailment import Entailment, Reasoner
from motet.plan.graph import Kind, Plan
from motet.plan.leaves import EVENT_VARIABLE, LeafPredicates, XmlLeafPredicates, normalise
from motet.sparql.algebra import Algebra, Bgp, Extend, Filter, Join, LeftJoin, Minus, Triple, is_hidden, variable_name
from motet.xmlql.blocks import TemplateVariable
from motet.xmlql.parse import parse_block

TemplateTriple = tuple[str, str, str]
RequiredTriples = tuple[Triple, ...]  # the triples that every match of a leaf has

THIS = "this"
_PLACEHOLDER = "<urn:motet:variable:"


@dataclass(frozen=True, slots=True, order=True)
class DerivationEdge:
    """A CONSTRUCT clause of one subscription feeds a leaf of another."""

    producer: str
    clause: int  # from 1
    consumer: str
    node: int  # the leaf's id in the plan


def derivation_edges(plan: Plan, reasoner: Reasoner | None = None) -> tuple[DerivationEdge, ...]:
    """All derivation edges of a plan; a UsageError names the subscriptions that feed each other in a cycle.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import build_plan
    >>> text = "SUBSCRIPTION one EVENT a : <urn:A> WHEN a CONSTRUCT { ?this a <urn:B> } "
    >>> derivation_edges(build_plan(parse(text + "SUBSCRIPTION two EVENT b : <urn:B> WHEN b")))
    (DerivationEdge(producer='one', clause=1, consumer='two', node=1),)
    """
    edges = tuple(sorted(_edges(plan, reasoner or Reasoner((), Entailment.NONE))))
    refuse_cycles({(edge.producer, edge.consumer) for edge in edges})
    return edges


def refuse_cycles(edges: set[tuple[str, str]]) -> None:
    """Raise a UsageError if the edges, pairs of producer and consumer, have a cycle."""
    if cycle := _cycle(edges):
        raise UsageError(
            f"the CONSTRUCT clauses of {', '.join(cycle)} feed each other in a cycle",
            advice="Give the derived events a class that no EVENT of these subscriptions matches, or derived documents "
            "a root that no block matches: a block that begins with / matches only roots.",
        )


def cyclic_names(plan: Plan, reasoner: Reasoner | None = None) -> tuple[str, ...]:
    """The names of the subscriptions that feed each other in a cycle, if all were active at once."""
    edges = _edges(plan, reasoner or Reasoner((), Entailment.NONE))
    return tuple(_cycle({(edge.producer, edge.consumer) for edge in edges}))


def linked_names(plan: Plan, reasoner: Reasoner | None = None) -> frozenset[str]:
    """The names of the subscriptions at both ends of derivation edges, if all were active at once."""
    edges = _edges(plan, reasoner or Reasoner((), Entailment.NONE))
    return frozenset(name for edge in edges for name in (edge.producer, edge.consumer))


def feeds_itself(subscription: Subscription, reasoner: Reasoner) -> bool:
    """Whether the events a subscription derives may match its own leaves."""
    leaves = [required_triples(normalise(event)[0]) for event in subscription.events]
    return any(template.may_match(leaf) for template in template_triples(subscription, reasoner) for leaf in leaves)


@dataclass(frozen=True, slots=True)
class RequiredElement:
    """What every match of a leaf over XML documents has: an outermost element with one of these names, or with any; it
    is the root of the document if it is anchored.
    """

    names: frozenset[str]
    classes: RequiredTriples
    is_anchored: bool


Required = RequiredTriples | RequiredElement


@dataclass(frozen=True, slots=True)
class TemplateTriples:
    """The triples of events derived by a clause: those of the template with their consequences, an IRI in place of each
    variable; and the background.
    """

    triples: frozenset[TemplateTriple]
    background: frozenset[TemplateTriple]

    def may_match(self, required: Required) -> bool:
        """Whether a leaf with these required triples may match the derived events."""
        return not isinstance(required, RequiredElement) and all(self._has(triple) for triple in required)

    def _has(self, required: Triple) -> bool:
        if any(_may_equal(required, triple) for triple in self.triples):
            return True
        return required.subject != f"?{EVENT_VARIABLE}" and any(
            _may_equal(required, triple) for triple in self.background
        )


@dataclass(frozen=True, slots=True)
class TemplateDocument:
    """The XML documents derived by a clause: the names of their root and of all their elements, whether variables may
    insert others, and the triples that mappings may lift from them.
    """

    root: str | None  # None: any name
    names: frozenset[str]
    has_variables: bool
    lifted: tuple[TemplateTriples, ...]  # by each mapping that may be for them
    is_generic: bool  # the generic mapping may lift them

    def may_match(self, required: Required) -> bool:
        """Whether a leaf may match the derived documents."""
        if not isinstance(required, RequiredElement):
            return self._may_have(required)
        if not self._may_have(required.classes):
            return False
        if not required.names:
            return True
        if required.is_anchored:
            return self.root is None or self.root in required.names
        return self.has_variables or not required.names.isdisjoint(self.names)

    def _may_have(self, required: RequiredTriples) -> bool:
        return not required or self.is_generic or any(triples.may_match(required) for triples in self.lifted)


def template_triples(subscription: Subscription, reasoner: Reasoner) -> list[TemplateTriples | TemplateDocument]:
    """What the events of each CONSTRUCT clause may have."""
    delivery = subscription.delivery
    return (
        [
            _template_document(template, xml_variables(subscription), reasoner)
            if isinstance(template, XmlTemplate)
            else _template_triples(template, reasoner)
            for template in delivery.templates
        ]
        if isinstance(delivery, Construct)
        else []
    )


def required_triples(leaf: LeafPredicates) -> Required:
    """What every match of a leaf has."""
    if isinstance(leaf, XmlLeafPredicates):
        block = parse_block(leaf.block)
        classes = tuple(Triple(f"?{EVENT_VARIABLE}", RDF_TYPE, name) for name in leaf.classes)
        return RequiredElement(frozenset(block.element.names), classes, block.is_anchored)
    return tuple(_required(leaf.algebra()))


def _edges(plan: Plan, reasoner: Reasoner) -> Iterator[DerivationEdge]:
    leaves = [
        (node.id, required_triples(plan.leaves[node.operator.leaf_id or 0]))
        for node in plan.nodes
        if node.kind is Kind.LEAF
    ]
    for root in plan.roots:
        name = root.subscription.name
        for clause, template in enumerate(template_triples(root.subscription, reasoner), 1):
            for node, required in leaves:
                if template.may_match(required):
                    yield from (
                        DerivationEdge(name, clause, user, node) for user in plan.users.get(node, ()) if user != name
                    )


def _template_document(template: XmlTemplate, xml: frozenset[str], reasoner: Reasoner) -> TemplateDocument:
    """``xml`` are the variables that may stand for elements."""
    tree = template.tree
    names, has_variables = set(), False
    for element in tree.walk():
        inserted = {item.variable for item in element.content if isinstance(item, TemplateVariable)}
        has_variables |= isinstance(element.name, TemplateVariable) or not xml.isdisjoint(inserted)
        names |= {element.name} if isinstance(element.name, str) else set()
    root = tree.name if isinstance(tree.name, str) else None
    mappings = list(mappings_for(root, template.mappings))
    lifted = tuple(_closed(each.possible_triples(), reasoner) for each in mappings if not each.is_generic)
    return TemplateDocument(root, frozenset(names), has_variables, lifted, len(lifted) < len(mappings))


def _template_triples(template: Template, reasoner: Reasoner) -> TemplateTriples:
    return _closed(((triple.subject, str(triple.predicate), triple.object) for triple in template.triples), reasoner)


def _closed(triples: Iterable[TemplateTriple], reasoner: Reasoner) -> TemplateTriples:
    """Triples with variables, and what follows from them."""
    with_placeholders = [(_placeholder(s), _placeholder(p), _placeholder(o)) for s, p, o in triples]
    return TemplateTriples(frozenset(reasoner.close(with_placeholders)), reasoner.background)


def _placeholder(term: str) -> str:
    name = variable_name(term)
    return term if not name else f"{_PLACEHOLDER}{name.lstrip('.') if is_hidden(name) else name}>"


def _required(pattern: Algebra) -> Iterator[Triple]:
    """The triples that every match of a pattern has."""
    match pattern:
        case Bgp(triples):
            yield from triples
        case Join(left, right):
            yield from _required(left)
            yield from _required(right)
        case LeftJoin(left) | Minus(left):
            yield from _required(left)
        case Filter(operand) | Extend(operand):
            yield from _required(operand)


def _may_equal(required: Triple, available: TemplateTriple) -> bool:
    terms = (required.subject, required.predicate, required.object)
    return all(_agrees(pattern, term) for pattern, term in zip(terms, available, strict=True))


def _agrees(pattern: object, term: str) -> bool:
    if not isinstance(pattern, str):  # a property path
        return True
    if pattern == f"?{EVENT_VARIABLE}":
        return term == f"{_PLACEHOLDER}{THIS}>"
    return bool(variable_name(pattern)) or term.startswith(_PLACEHOLDER) or pattern == term


def _cycle(edges: set[tuple[str, str]]) -> list[str]:
    """The subscriptions on cycles, and between cycles; empty when there are none."""
    while edges:
        producers, consumers = {producer for producer, _ in edges}, {consumer for _, consumer in edges}
        inner = {
            (producer, consumer) for producer, consumer in edges if producer in consumers and consumer in producers
        }
        if inner == edges:
            return sorted(producers | consumers)
        edges = inner
    return []


Clause = tuple[str, int]  # name of the subscription, number of the clause from 1


@dataclass
class DerivationGraph:
    """The derivation edges of subscriptions that are added and removed; a change costs as much as the changed ones.

    >>> from motet.language.parse import parse
    >>> from motet.ontology.entailment import Reasoner
    >>> from motet.plan.derivation_edges import required_triples, template_triples
    >>> from motet.plan.leaves import normalise
    >>> text = "SUBSCRIPTION one EVENT a : <urn:A> WHEN a CONSTRUCT { ?this a <urn:B> } "
    >>> graph = DerivationGraph()
    >>> for subscription in parse(text + "SUBSCRIPTION two EVENT b : <urn:B> WHEN b"):
    ...     leaf = required_triples(normalise(subscription.events[0])[0])
    ...     graph.add(subscription.name, template_triples(subscription, Reasoner(())), {7: leaf})
    False
    True
    >>> graph.edges
    {('one', 1): {'two': [7]}}
    >>> graph.remove("two"), graph.edges
    (True, {('one', 1): {}})
    """

    templates: dict[Clause, TemplateTriples | TemplateDocument] = field(default_factory=dict)
    required: dict[str, Mapping[int, Required]] = field(default_factory=dict)  # by subscription and leaf
    edges: dict[Clause, dict[str, list[int]]] = field(default_factory=dict)  # by clause: consumers and their leaves

    def copy(self) -> DerivationGraph:
        """An independent copy."""
        return DerivationGraph(
            {**self.templates}, {**self.required}, {clause: {**leaves} for clause, leaves in self.edges.items()}
        )

    def add(
        self, name: str, templates: Sequence[TemplateTriples | TemplateDocument], required: Mapping[int, Required]
    ) -> bool:
        """Add a subscription; returns whether it is at either end of an edge."""
        clauses = {(name, clause): template for clause, template in enumerate(templates, 1)}
        self.edges.update((clause, _consumers(template, self.required)) for clause, template in clauses.items())
        is_consumer = [self._add_consumer(clause, name, required) for clause in self.templates]
        self.templates |= clauses
        self.required[name] = required
        return any(is_consumer) or any(self.edges[clause] for clause in clauses)

    def _add_consumer(self, clause: Clause, name: str, required: Mapping[int, Required]) -> bool:
        consumers = _consumers(self.templates[clause], {name: required})
        self.edges[clause].update(consumers)
        return bool(consumers)

    def remove(self, name: str) -> bool:
        """Remove a subscription; returns whether it was at either end of an edge."""
        clauses = [clause for clause in self.templates if clause[0] == name]
        was_producer = [self.edges.pop(clause) for clause in clauses]
        for clause in clauses:
            del self.templates[clause]
        self.required.pop(name, None)
        was_consumer = [consumers.pop(name, None) for consumers in self.edges.values()]
        return any(was_producer) or any(was_consumer)

    def pairs(self) -> set[tuple[str, str]]:
        """The pairs of producer and consumer."""
        return {(producer, consumer) for (producer, _), consumers in self.edges.items() for consumer in consumers}

    def refuse_cycles(self) -> None:
        """A UsageError names the subscriptions that feed each other in a cycle."""
        refuse_cycles(self.pairs())


def _consumers(
    template: TemplateTriples | TemplateDocument, required: Mapping[str, Mapping[int, Required]]
) -> dict[str, list[int]]:
    """The leaves that a template feeds, by subscription."""
    matching = {
        name: [leaf for leaf, triples in leaves.items() if template.may_match(triples)]
        for name, leaves in required.items()
    }
    return {name: leaves for name, leaves in matching.items() if leaves}
