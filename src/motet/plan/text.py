"""The text of operators, leaves, conditions and deliveries in explanations; IRIs are shortened to their last part."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from motet.language.syntax import Construct, Delivery, Select, Template, XmlTemplate
from motet.model.terms import RDF_TYPE
from motet.model.times import format_datetime, format_duration
from motet.ontology.drawing import short_name
from motet.plan.graph import ITERATION, Kind, PlanNode, Start
from motet.plan.leaves import LeafPredicates, XmlLeafPredicates, as_filter
from motet.sparql.algebra import EMPTY, Bgp
from motet.sparql.scope import renamed
from motet.sparql.write import expression_text, group_text, variable_text
from motet.xmlql.blocks import renamed_block
from motet.xmlql.parse import parse_block
from motet.xmlql.write import block_text

_NUMBER = re.compile(r'"([^"]*)"\^\^<http://www\.w3\.org/2001/XMLSchema#(?:integer|decimal|double)>')
_IRI = re.compile(r"<[^<>\s]*>")

VariableNames = Mapping[str, str]


def shorten(sparql: str) -> str:
    """SPARQL or a term with IRIs and numbers shortened.

    >>> shorten('?l > "3"^^<http://www.w3.org/2001/XMLSchema#integer> && ?c = <http://example.org/x#Red>')
    '?l > 3 && ?c = Red'
    """
    text = _NUMBER.sub(r"\1", sparql).replace(f" {RDF_TYPE} ", " a ")
    return _IRI.sub(lambda match: short_name(match[0]), text)


def variables_text(names: Iterable[str], variable_names: VariableNames) -> str:
    return " ".join(variable_text(variable_names.get(name, name)) for name in names)


def operator_text(node: PlanNode) -> str:
    """The operator of a node, without its operands.

    >>> from motet.plan.graph import Operator
    >>> operator_text(PlanNode(0, Operator(Kind.NO, window=5_000_000)))
    'NO for 5 s'
    """
    name = _iteration_text(node) if node.kind in ITERATION else node.title
    limit = node.bound if node.operator.window is None else node.operator.window
    if limit is None:
        return name
    preposition = {Kind.NO: " for", Kind.WITHIN: ""}.get(node.kind, " within")
    return f"{name}{preposition} {format_duration(limit)}"


def _iteration_text(node: PlanNode) -> str:
    sign = "+" if node.kind is Kind.RUN else f"{{{node.operator.count}}}"
    return f"ITERATION {sign}" + (f" every {format_duration(node.operator.gap)}" if node.operator.gap else "")


def condition_text(node: PlanNode, variable_names: VariableNames) -> str:
    """The FILTER of a node with the names of a subscription; empty if it has none."""
    if node.condition is None:
        return ""
    return shorten(expression_text(renamed(node.condition, lambda name: variable_names.get(name, name))))


def matching_text(leaf: LeafPredicates, variable_names: VariableNames) -> list[str]:
    """The steps by which a leaf is matched.

    >>> matching_text(LeafPredicates(), {"v0": "e"})
    ['every event']
    """
    steps = _indexed(leaf, variable_names)
    if isinstance(leaf, XmlLeafPredicates):
        names = {name: variable_names.get(name, name) for name in leaf.variables()}
        steps = [step for step in steps if step != "every event"]
        steps.append(f"block: {block_text(renamed_block(parse_block(leaf.block), names))}")
    reads = [f"{variables_text([read.variable], variable_names)} from {shorten(read.predicate)}" for read in leaf.reads]
    steps += [f"binds {', '.join(reads)}"] if reads else []
    if leaf.joins:
        steps.append(
            f"joins {shorten(group_text(renamed(Bgp(leaf.joins), lambda name: variable_names.get(name, name))))}"
        )
    if leaf.during:
        steps.append(f"binds {variables_text(leaf.during, variable_names)} to its start and end")
    if leaf.residue != EMPTY:
        residue = renamed(leaf.residue, lambda name: variable_names.get(name, name))
        steps.append(f"then each candidate is verified: {shorten(group_text(residue))}")
    return steps


def _indexed(leaf: LeafPredicates, variable_names: VariableNames) -> list[str]:
    """The predicates an index evaluates, the most selective first."""
    predicates = [f"class {shorten(name)}" for name in leaf.classes]
    predicates += [f"{shorten(equality.predicate)} is {shorten(equality.object)}" for equality in leaf.equalities]
    predicates += [
        shorten(expression_text(renamed(as_filter(t), lambda name: variable_names.get(name, name))))
        for t in leaf.tests()
    ]
    if predicates:
        return [f"index: {', '.join(predicates)}"]
    return [] if leaf.reads or leaf.joins else ["every event"]


def delivery_text(clause: Delivery) -> str:
    match clause:
        case Select(None):
            return "SELECT *"
        case Select(tuple(names)):
            return "SELECT " + " ".join(f"?{name}" for name in names)
        case Construct(templates):
            return f"CONSTRUCT, {len(templates)} derived event{'s' * (len(templates) > 1)} each"
    return type(clause).__name__.upper()


def template_text(template: Template | XmlTemplate) -> str:
    """The template of a CONSTRUCT clause: its triples, or its element.

    >>> template_text(Template("?this <http://example.org/in> ?room", frozenset({"this", "room"})))
    '{ ?this in ?room }'
    """
    return template.text if isinstance(template, XmlTemplate) else f"{{ {shorten(template.text)} }}"


def start_text(start: Start) -> str:
    """The start of a subscription as text.

    >>> start_text(Start(17))
    'from offset 17'
    """
    since = "" if start.since is None else f" and since {format_datetime(start.since)}"
    return f"from offset {start.offset}{since}"
