"""The syntax tree of a subscription. Immutable; equal subscriptions are equal trees.

Surfaces (`motet`, `sparql`, `jtang`, `cecube`, …) produce it, the printer writes it, the plan and the reference engine
read it. Positions are kept for errors and do not take part in equality. Durations are microseconds.

SPARQL inside a subscription is stored as text that stands on its own: prefixed names expanded to ``<iri>``, comments
removed, tokens separated by single spaces (literals, path modifiers and function calls close up). Two bodies that
differ only in layout or prefixes are therefore equal. The parsed form is a property of the node (``algebra``,
``triples``), computed through a bounded cache, so that a million nodes hold no trees.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from motet.model.intervals import Relation
from motet.model.terms import RDF_TYPE, iri
from motet.sparql.algebra import EMPTY, Algebra, Bgp, Expr, Join, Triple, preceded
from motet.sparql.parse_cache import parse_expression, parse_group, parse_template
from motet.xmlql.blocks import Block, TemplateElement
from motet.xmlql.parse import parse_block
from motet.xmlql.parse import parse_template as parse_xml_template


class Context(Enum):
    """Which partners a pairing operator takes (language page, section 7)."""

    UNRESTRICTED = "unrestricted"
    RECENT = "recent"
    CHRONICLE = "chronicle"
    CONTINUOUS = "continuous"
    CUMULATIVE = "cumulative"


@dataclass(frozen=True, slots=True)
class GroupPattern:
    """A SPARQL group graph pattern, without the outer braces."""

    text: str
    variables: frozenset[str]  # in scope outside the group, as SPARQL defines it
    position: int = field(default=0, compare=False)

    @property
    def algebra(self) -> Algebra:
        return parse_group(self.text)


@dataclass(frozen=True, slots=True)
class Expression:
    """A SPARQL expression, without the outer parentheses."""

    text: str
    variables: frozenset[str]
    position: int = field(default=0, compare=False)

    @property
    def algebra(self) -> Expr:
        return parse_expression(self.text)


@dataclass(frozen=True, slots=True)
class Template:
    """The triples of a CONSTRUCT clause, without the outer braces."""

    text: str
    variables: frozenset[str]
    position: int = field(default=0, compare=False)

    @property
    def triples(self) -> tuple[Triple, ...]:
        return parse_template(self.text)


@dataclass(frozen=True, slots=True)
class XmlBlock:
    """The block of an EVENT over XML documents, in its normal text, which declares its own namespaces."""

    text: str
    variables: frozenset[str]
    position: int = field(default=0, compare=False)

    @property
    def tree(self) -> Block:
        return parse_block(self.text)


@dataclass(frozen=True, slots=True)
class XmlTemplate:
    """The element of a CONSTRUCT XML clause, in its normal text."""

    text: str
    variables: frozenset[str]
    position: int = field(default=0, compare=False)
    mappings: tuple[str, ...] = ()  # in force when the subscription was registered: they lift what the clause makes

    @property
    def tree(self) -> TemplateElement:
        return parse_xml_template(self.text)


@dataclass(frozen=True, slots=True)
class Event:
    """``EVENT name : class { body }`` or ``EVENT name : class XML { block }``.

    Class and body may be missing; without body and block every event of the class matches once.

    ``EVENT name DURING ?start ?end`` also binds the event's interval, as xsd:dateTime with six digits and Z; the two
    variables do not occur in the body.
    """

    name: str
    class_iri: str | None = None  # bare IRI
    body: GroupPattern | None = None
    position: int = field(default=0, compare=False)
    times: tuple[str, str] | None = None  # the variables of start and end
    xml: XmlBlock | None = None  # in place of a body

    @property
    def algebra(self) -> Algebra:
        """Class and body as one group graph pattern; ``EMPTY`` when every graph matches.

        >>> Event("e", "urn:C").algebra == Bgp((Triple("?e", RDF_TYPE, "<urn:C>"),))
        True
        """
        body = self.body.algebra if self.body else EMPTY
        if self.class_iri is None:
            return body
        return preceded(body, Join(EMPTY, Bgp((Triple(f"?{self.name}", RDF_TYPE, iri(self.class_iri)),))))


# Patterns. A node's ``position`` is that of its operator, a leaf's that of the name.


@dataclass(frozen=True, slots=True)
class Leaf:
    """An event by its declared name."""

    name: str
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class And:
    left: Pattern
    right: Pattern
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Or:
    left: Pattern
    right: Pattern
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Xor:
    left: Pattern
    right: Pattern
    window: int
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Timed:
    """``left RELATION right``: one of the thirteen Allen relations."""

    relation: Relation
    left: Pattern
    right: Pattern
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Alongside:
    left: Pattern
    right: Pattern
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Within:
    operand: Pattern
    bound: int
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Unless:
    operand: Pattern
    absent: Pattern
    window: int
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Without:
    operand: Pattern
    absent: Pattern
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Filter:
    operand: Pattern
    condition: Expression
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class No:
    """``NO operand FOR duration``."""

    operand: Pattern
    duration: int
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Times:
    """``operand{count} EVERY gap``; ``gap`` is None without EVERY."""

    operand: Pattern
    count: int
    gap: int | None = None
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Run:
    """``operand+ EVERY gap``."""

    operand: Pattern
    gap: int
    position: int = field(default=0, compare=False)


Pattern = Leaf | And | Or | Xor | Timed | Alongside | Within | Unless | Without | Filter | No | Times | Run
Pairing = And | Timed | Alongside


# Delivery clauses.


@dataclass(frozen=True, slots=True)
class Select:
    variables: tuple[str, ...] | None = None  # None: SELECT *, every visible variable
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Construct:
    """One or more CONSTRUCT clauses."""

    templates: tuple[Template | XmlTemplate, ...]


@dataclass(frozen=True, slots=True)
class Signal:
    pass


@dataclass(frozen=True, slots=True)
class Events:
    pass


Delivery = Select | Construct | Signal | Events


@dataclass(frozen=True, slots=True)
class Subscription:
    name: str
    events: tuple[Event, ...]
    pattern: Pattern
    context: Context = Context.RECENT
    unbounded: bool = False
    delivery: Delivery = Select()
    since: int | None = None  # microseconds
    position: int = field(default=0, compare=False)

    def event(self, name: str) -> Event:
        return next(event for event in self.events if event.name == name)


def with_mappings(subscription: Subscription, mappings: tuple[str, ...]) -> Subscription:
    """A subscription as it is registered in a lake with these mappings of XML documents."""
    delivery = subscription.delivery
    if not isinstance(delivery, Construct):
        return subscription
    templates = (
        replace(template, mappings=mappings) if isinstance(template, XmlTemplate) else template
        for template in delivery.templates
    )
    return replace(subscription, delivery=Construct(tuple(templates)))


def xml_mappings(subscription: Subscription) -> tuple[str, ...]:
    """The mappings of XML documents that a subscription was registered with, if it makes documents."""
    delivery = subscription.delivery
    templates = delivery.templates if isinstance(delivery, Construct) else ()
    return next((template.mappings for template in templates if isinstance(template, XmlTemplate)), ())
