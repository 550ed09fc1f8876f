"""Random subscriptions over the vocabulary of ``cases``: every operator, context, delivery and kind of leaf.

There are few classes, rooms, elements and values, so that most subscriptions have notifications. The texts of leaves
are parsed by the parser of the language, once each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random

from motet.fuzz.case import BEGIN, LAST_START, SCOPE_PROPERTY, SECOND, scope_iri
from motet.fuzz.files import EX
from motet.language import syntax
from motet.language.check import check
from motet.language.parse import parse
from motet.language.scope import iterated_names, leaf_variables, xml_variables
from motet.model.errors import SubscriptionError
from motet.model.intervals import Relation
from motet.model.terms import XSD
from motet.plan.builder import build_plan
from motet.plan.derivation_edges import cyclic_names

CLASSES = ("A", "B", "C")
DERIVED = ("D", "E")  # classes of derived events only; subscriptions that derive E may match D
MAX_DEPTH = 3

TAGS = ("o", "p", "i")  # of the elements of documents and blocks
XML_PREFIX = "x"  # of element names in a namespace
XML_TEXTS = (*("1", "1", "2", "ok") * 4, "3", "01", " 2 ", "2.5", "fire", "", "a&amp;b", "<![CDATA[<ok/>]]>")

# {e} is the name of the event. ?room and ?k are shared by the events of a subscription, ?v_… are of one event.
BODIES = (
    "",
    "",
    "?{e} ex:room ?room",
    "?{e} ex:k ?v_{e}",
    "OPTIONAL {{ ?{e} ex:near ?room }}",  # an unbound shared variable agrees with several keys
    "?{e} ex:k ?k",
    "?{e} ex:room ?room ; ex:k ?v_{e}",
    "?{e} ex:k ?v_{e} FILTER(?v_{e} > 1)",
    "?{e} ex:k ?k FILTER(?k IN (1, 3))",
    "{{ ?{e} ex:room ?room }} UNION {{ ?{e} ex:near ?room }}",
    "?{e} ex:k ?v_{e} BIND(?v_{e} + 1 AS ?k)",
    "?{e} ex:k ?k VALUES ?k {{ 1 2 }}",
    "?{e} ex:room|ex:near ?room",
    "?{e} ex:room/ex:floor ?room",
    "?{e} ex:near* ?room",
    "?{e} ex:room ?room FILTER NOT EXISTS {{ ?{e} ex:near ?other_{e} }}",
    "?{e} ex:room ?room MINUS {{ ?{e} ex:k 1 }}",
    '?{e} ex:says ?v_{e} FILTER(REGEX(?v_{e}, "^f", "i"))',
    '?{e} ex:says ?v_{e} FILTER(LANG(?v_{e}) = "en")',
    "?{e} ex:room ?room ; ex:says ?v_{e} FILTER(STRLEN(STR(?v_{e})) > 3)",
    "?{e} ex:k ?k OPTIONAL {{ ?{e} ex:near ?room FILTER(?k > 1) }}",
    "?{e} ex:room ?room BIND(IF(?room = ex:r1, 1, 2) AS ?k)",
    "?{e} ex:cause ?e1",  # another event, or the event itself
    "OPTIONAL {{ ?{e} ex:cause ?e2 }}",
)
LIFTED_BODIES = ("", "", "?{e} ex:k ?v_{e}", "?{e} ex:says ?v_{e}", "?{e} ex:k ?k", "?{e} ex:room ?room")
FREQUENT = 5  # number of bodies at the head that are used most often
TIMES = " DURING ?from_{e} ?to_{e}"

CONDITIONS = ("?k > 1", "?k < 3 || BOUND(?room)", "?room != <http://example.org/r1>", "!BOUND(?k)", 'STR(?room) > "r"')


SIDES = ("left", "right")
PAIRINGS = (syntax.And, syntax.Alongside, Relation.BEFORE, *Relation)
# Relations that never hold between points, with the sides that must be intervals.
INTERVAL_SIDES = {
    Relation.MEETS: SIDES,
    Relation.MET_BY: SIDES,
    Relation.OVERLAPS: SIDES,
    Relation.OVERLAPPED_BY: SIDES,
    Relation.STARTS: SIDES[1:],
    Relation.DURING: SIDES[1:],
    Relation.FINISHES: SIDES[1:],
    Relation.STARTED_BY: SIDES[:1],
    Relation.INCLUDES: SIDES[:1],
    Relation.FINISHED_BY: SIDES[:1],
}


@dataclass(frozen=True)
class XmlVocabulary:
    """The names of elements in the documents and blocks of a case; the scope of a shared run is their namespace.

    The mappings are for derived documents.
    """

    scope: str = ""
    mappings: tuple[str, ...] = ()

    @property
    def namespace(self) -> str:
        return scope_iri(self.scope) if self.scope else EX

    def name(self, random: Random, tags: Sequence[str] = TAGS) -> str:
        tag = random.choice(tags)
        return f"{XML_PREFIX}:{tag}" if self.scope or random.random() < 0.03 else tag

    @property
    def prologue(self) -> str:
        return f"PREFIX {XML_PREFIX}: <{self.namespace}> "


@dataclass(frozen=True)
class EngineCapabilities:
    """The kinds of cases that an engine accepts."""

    logs: bool = True
    shares_runs: bool = False  # several cases in one run, whose events must not mix


@dataclass
class SubscriptionGenerator:
    """Generates one subscription; ``events`` are those declared so far."""

    random: Random
    scope: str
    capabilities: EngineCapabilities
    derived_class: str  # class of the events this subscription derives; empty if none
    upstream_classes: tuple[str, ...]  # classes of the events that other subscriptions derive
    intervals: bool = True  # events may be intervals
    xml: XmlVocabulary | None = None  # of a case with documents of XML
    events: list[syntax.Event] = field(default_factory=list)

    def pattern(self, depth: int) -> syntax.Pattern:
        if depth == 0 or self.random.random() < (0.55 if self.events else 0.08):
            return self.leaf()
        kinds: list[Callable[[int], syntax.Pattern]] = [
            *[self.pair] * 10,
            self.either,
            self.exclusive,
            self.bounded,
            self.unless,
            self.without,
            self.without,
            self.filtered,
            self.filtered,
            self.absence,
            self.times,
            self.times,
            self.run,
        ]
        return self.random.choice(kinds)(depth - 1)

    def leaf(self) -> syntax.Leaf:
        name = f"e{len(self.events) + 1}"
        self.events.append(self._event(name))
        return syntax.Leaf(name)

    def pair(self, depth: int) -> syntax.Pattern:
        kind = self.random.choice(PAIRINGS)
        interval_sides = () if self.intervals or not isinstance(kind, Relation) else INTERVAL_SIDES.get(kind, ())
        left, right = (self.interval_pattern() if side in interval_sides else self.pattern(depth) for side in SIDES)
        return syntax.Timed(kind, left, right) if isinstance(kind, Relation) else kind(left, right)

    def interval_pattern(self) -> syntax.Pattern:
        """A pattern whose occurrences are intervals, over events that may be points."""
        kind = self.random.randrange(8)
        if kind == 0:
            return syntax.No(self.leaf(), self._short())
        if kind == 1:
            return syntax.Run(self.leaf(), self._short())
        if kind == 2:
            return syntax.Times(self.leaf(), self.random.choice((2, 3, 4)))
        left, right = self.leaf(), self.leaf()
        return syntax.And(left, right) if kind < 6 else syntax.Timed(Relation.BEFORE, left, right)

    def either(self, depth: int) -> syntax.Pattern:
        left = self.pattern(depth)
        return syntax.Or(left, left if self.random.random() < 0.1 else self.pattern(depth))

    def exclusive(self, depth: int) -> syntax.Pattern:
        return syntax.Xor(self.pattern(depth), self.pattern(depth), self._short())

    def bounded(self, depth: int) -> syntax.Pattern:
        return syntax.Within(self.pair(depth), self._long())

    def unless(self, depth: int) -> syntax.Pattern:
        return syntax.Unless(self.pattern(depth), self.pattern(depth), self._short())

    def without(self, depth: int) -> syntax.Pattern:
        """WITHOUT over a pairing, as the language requires, sometimes with WITHIN, UNLESS or FILTER between them."""
        operand = self.pair(depth)
        for _ in range(self.random.choice((0, 0, 1))):
            operand = self.random.choice((self._within, self._unless, self._condition))(operand)
        return syntax.Without(operand, self.pattern(depth))

    def filtered(self, depth: int) -> syntax.Pattern:
        return self._condition(self.random.choice((self.pair, self.pattern))(depth))

    def absence(self, depth: int) -> syntax.Pattern:
        return syntax.No(self.pattern(depth), self._duration())

    def times(self, depth: int) -> syntax.Pattern:
        gap = self._duration() if self.random.random() < 0.5 else None
        iteration = syntax.Times(self.pattern(depth), self.random.choice((1, 2, 2, 2, 3, 3, 5)), gap)
        return self._within(iteration) if self.random.random() < 0.3 else iteration

    def run(self, depth: int) -> syntax.Pattern:
        iteration = syntax.Run(self.pattern(depth), self._duration())
        return self._within(iteration) if self.random.random() < 0.6 else iteration

    def delivery(self, pattern: syntax.Pattern) -> syntax.Delivery:
        variables = set().union(*map(leaf_variables, self.events)) - iterated_names(pattern)
        if self.derived_class:
            return syntax.Construct(tuple(self._template(variables) for _ in range(self.random.choice((1, 1, 2)))))
        projected = self.random.sample(sorted(variables), min(len(variables), self.random.randint(1, 2)))
        choices: list[syntax.Delivery] = [syntax.Select(), syntax.Select(), syntax.Signal(), syntax.Events()]
        choices += [syntax.Select(tuple(projected))] if projected else []
        return self.random.choice(choices)

    def _event(self, name: str) -> syntax.Event:
        if self.xml and self.random.random() < (0.5 if self.xml.mappings else 0.8):
            return self._block_event(name, self.xml)
        is_lifted = bool(self.xml and self.xml.mappings)
        class_ = self.random.choice((*CLASSES * 2, *self.upstream_classes * (8 if is_lifted else 1)))
        typed = f": ex:{class_}" if self.derived_class or self.random.random() < 0.85 else ""
        times = TIMES.format(e=name) if self.random.random() < 0.05 else ""
        bodies: tuple[str, ...] = (*BODIES, "?{e} ex:says ?room", "?{e} ex:says ?room") if self.xml else BODIES
        if is_lifted and class_ in self.upstream_classes:
            bodies = LIFTED_BODIES
        body = self.random.choice(bodies[:FREQUENT] if self.random.random() < 0.7 else bodies).format(e=name)
        scope = f"?{name} <{SCOPE_PROPERTY}> <{scope_iri(self.scope)}> . " if self.capabilities.shares_runs else ""
        return parse_event(f"EVENT {name} {typed}{times} {{ {scope}{body} }}", name)

    def _block_event(self, name: str, xml: XmlVocabulary) -> syntax.Event:
        times = TIMES.format(e=name) if self.random.random() < 0.05 else ""
        class_ = ": ex:A" if self.random.random() < 0.02 else ""  # no document has a class without a mapping
        if xml.mappings and self.upstream_classes and self.random.random() < 0.2:
            class_ = f": ex:{self.random.choice(self.upstream_classes)}"
        block = BlockGenerator(self.random, xml, name, [*TAGS * 2, *map(str.lower, self.upstream_classes * 2)]).block()
        return parse_event(f"EVENT {name} {class_}{times} XML {{ {block} }}", name, xml.prologue)

    def _template(self, variables: set[str]) -> syntax.Template | syntax.XmlTemplate:
        if self.xml and self.random.random() < (0.9 if self.xml.mappings else 0.7):
            return self._xml_template(variables, self.xml)
        room = "; ex:room ?room" if "room" in variables and self.random.random() < 0.7 else ""
        scope = f"; <{SCOPE_PROPERTY}> <{scope_iri(self.scope)}>" if self.capabilities.shares_runs else ""
        return parse_template(f"?this a ex:{self.derived_class} {room} {scope}", frozenset(variables))

    def _xml_template(self, variables: set[str], xml: XmlVocabulary) -> syntax.XmlTemplate:
        """A template; in a shared run it inserts no elements, which could feed blocks of other cases."""
        inserted = xml_variables(syntax.Subscription("s", tuple(self.events), syntax.Leaf("e1")))
        names = sorted(variables - inserted if xml.scope else variables)
        root = xml.name(self.random, (self.derived_class.lower(),))
        content = "".join(self._template_item(names, xml) for _ in range(self.random.choice((1, 1, 2, 3))))
        attribute = f" k=${self.random.choice(names)}" if names and self.random.random() < 0.3 else ""
        return parse_xml_template(f"<{root}{attribute}>{content}</{root}>", tuple(names), xml.prologue)

    def _template_item(self, names: Sequence[str], xml: XmlVocabulary) -> str:
        variable = f"${self.random.choice(names)}" if names else self.random.choice(XML_TEXTS[:4])
        if self.random.random() < 0.25:
            return f" {variable} "
        if names and not xml.scope and self.random.random() < 0.05:
            return f"<{variable}>{self.random.choice(XML_TEXTS[:4])}</>"
        return f"<{xml.name(self.random)}>{variable}</>"

    def _within(self, pattern: syntax.Pattern) -> syntax.Pattern:
        return syntax.Within(pattern, self._duration())

    def _unless(self, pattern: syntax.Pattern) -> syntax.Pattern:
        return syntax.Unless(pattern, self.leaf(), self._duration())

    def _condition(self, pattern: syntax.Pattern) -> syntax.Pattern:
        """The pattern with a condition on variables of the events so far, or unchanged if there is none."""
        bound = set().union(*map(leaf_variables, self.events))
        private = sorted(name for name in bound if name.startswith("v_"))
        texts = [*CONDITIONS, *(f"?{name} > 1" for name in private), *(f"?k < ?{name}" for name in private)]
        conditions = [condition for text in texts if (condition := parse_condition(text)).variables <= bound]
        return syntax.Filter(pattern, self.random.choice(conditions)) if conditions else pattern

    def _duration(self) -> int:
        return self.random.randint(1, 8) * SECOND if self.random.random() < 0.98 else 1

    def _long(self) -> int:
        return self._duration() + 2 * SECOND

    def _short(self) -> int:
        """A duration for windows without occurrences: long windows always contain one."""
        return self.random.choice((SECOND // 2, SECOND // 2, SECOND, SECOND, 2 * SECOND, 4 * SECOND))


@dataclass(frozen=True)
class BlockGenerator:
    """Generates the text of the block of one event; ``tags`` may be its outermost name."""

    random: Random
    xml: XmlVocabulary
    event: str
    tags: Sequence[str]

    def block(self) -> str:
        anchor = self.random.choice(("", "", "", "", "/", "//"))
        return anchor + self._element(self.random.choice((0, 0, 0, 1, 1, 1, 2)), self.tags, can_vary=not self.xml.scope)

    def _element(self, depth: int, tags: Sequence[str] = TAGS, *, can_vary: bool = True) -> str:
        """``can_vary``: the name may be a variable. In a shared run outermost elements of blocks have names."""
        kind = self.random.random()
        name = self.xml.name(self.random, tags)
        if kind < 0.12:
            name = "|".join(dict.fromkeys((name, self.xml.name(self.random, tags))))
        elif kind < 0.2 and can_vary:
            name = f"${self.random.choice(('tag', f't_{self.event}'))}"
        attributes = f" k={self._attribute()}" if self.random.random() < 0.1 else ""
        clause = ""
        if self.random.random() < 0.15:
            variable = self.random.choice((f"x_{self.event}", f"x_{self.event}", "x"))
            clause = f" {self.random.choice(('ELEMENT_AS', 'CONTENT_AS'))} ${variable}"
        return f"<{name}{attributes}>{self._content(depth)}</>{clause}"

    def _content(self, depth: int) -> str:
        kind = self.random.random()
        if depth and kind < 0.85:
            nested = range(self.random.choice((1, 1, 1, 2)))
            return " ".join(self.random.choice(("", "", "//")) + self._element(depth - 1) for _ in nested)
        if kind < 0.2:
            return ""
        if kind < 0.27:
            return self.random.choice(XML_TEXTS[:4])
        if kind < 0.37:
            operator = self.random.choice(("<", "<=", "=", "!=", ">=", ">"))
            return f" $v_{self.event} {operator} {self.random.choice(('1', '2', '2.0', '-1e0'))} "
        return self._variable()

    def _attribute(self) -> str:
        return self._variable() if self.random.random() < 0.7 else f'"{self.random.choice(XML_TEXTS[:4])}"'

    def _variable(self) -> str:
        name = self.random.choice(("room", "k", "k", *[f"v_{self.event}"] * 3))
        datatypes = ("integer", "integer", "integer", "decimal", "string")
        is_typed = self.random.random() < (0.8 if name == "k" else 0.15)
        return f"${name}" + (f"^^<{XSD}{self.random.choice(datatypes)}>" if is_typed else "")


def random_subscriptions(
    random: Random,
    scope: str,
    capabilities: EngineCapabilities,
    count: int,
    *,
    intervals: bool = True,
    xml: XmlVocabulary | None = None,
) -> list[syntax.Subscription]:
    """Subscriptions for one log; sometimes the first derives events for the others, and the second derives from those;
    sometimes two differ only in their names.
    """
    share = (1 if xml.mappings else 0.6) if xml else 0.3  # of the cases whose events are derived
    derived_classes = DERIVED[: random.choice((1, 1, 2))] if random.random() < share else ()
    subscriptions: list[syntax.Subscription] = []
    for number in range(1, count + 1):
        name = f"{scope}-{number}"
        generator = SubscriptionGenerator(
            random,
            scope,
            capabilities,
            "".join(derived_classes[number - 1 : number]),
            derived_classes[: number - 1],
            intervals,
            xml,
        )
        is_copy = number > 3 and random.random() < 0.18
        subscriptions.append(replace(subscriptions[-1], name=name) if is_copy else random_subscription(generator, name))
    return _without_cycle(subscriptions, xml) if xml else subscriptions


def _without_cycle(subscriptions: list[syntax.Subscription], xml: XmlVocabulary) -> list[syntax.Subscription]:
    """The subscriptions, the second without CONSTRUCT if its documents feed a leaf of the first."""
    if not cyclic_names(build_plan([syntax.with_mappings(each, xml.mappings) for each in subscriptions])):
        return subscriptions
    first, second, *others = subscriptions
    return [first, replace(second, delivery=syntax.Select()), *others]


def random_subscription(generator: SubscriptionGenerator, name: str) -> syntax.Subscription:
    """A subscription that the language accepts; with UNBOUNDED only if it is required."""
    random = generator.random
    depths = (
        (0, 1, 1, 2) if generator.derived_class else (1, 1, 1, 1, 2, 2, MAX_DEPTH)
    )  # upstream subscriptions should have occurrences
    pattern = generator.pattern(random.choice(depths))
    if random.random() < 0.3:
        pattern = syntax.Within(pattern, random.randint(6, 20) * SECOND)
    since = BEGIN + random.randint(0, LAST_START // 2) * SECOND if random.random() < 0.15 else None
    delivery, context = generator.delivery(pattern), random.choice(tuple(syntax.Context))
    return _checked(
        syntax.Subscription(name, tuple(generator.events), pattern, context, delivery=delivery, since=since)
    )


def _checked(subscription: syntax.Subscription) -> syntax.Subscription:
    try:
        check(subscription, "")
    except SubscriptionError:
        subscription = replace(subscription, unbounded=True)
        check(subscription, "")
    return subscription


@lru_cache(maxsize=65536)
def parse_event(text: str, name: str, prologue: str = "") -> syntax.Event:
    [subscription] = parse(f"PREFIX ex: <{EX}> {prologue}SUBSCRIPTION s {text} WHEN {name}")
    return subscription.events[0]


@lru_cache(maxsize=1024)
def parse_condition(text: str) -> syntax.Expression:
    variables = " ".join(f"?e <urn:p> {word} ." for word in text.split() if word.startswith("?"))
    text_ = f"SUBSCRIPTION s EVENT e {{ ?e <urn:p> ?room , ?k . {variables} }} WHEN e FILTER({text})"
    [subscription] = parse(text_)
    assert isinstance(subscription.pattern, syntax.Filter)
    return subscription.pattern.condition


@lru_cache(maxsize=1024)
def parse_template(text: str, variables: frozenset[str]) -> syntax.Template:
    bound = "?e <urn:p> ?room" if "room" in variables else ""
    [subscription] = parse(f"PREFIX ex: <{EX}> SUBSCRIPTION s EVENT e {{ {bound} }} WHEN e CONSTRUCT {{ {text} }}")
    assert isinstance(subscription.delivery, syntax.Construct)
    template = subscription.delivery.templates[0]
    assert isinstance(template, syntax.Template), "it is written so"
    return template


@lru_cache(maxsize=4096)
def parse_xml_template(text: str, variables: Sequence[str], prologue: str) -> syntax.XmlTemplate:
    bound = " ".join(f"?e <urn:p> ?{name} ." for name in variables)
    [subscription] = parse(f"{prologue}SUBSCRIPTION s EVENT e {{ {bound} }} WHEN e CONSTRUCT XML {{ {text} }}")
    assert isinstance(subscription.delivery, syntax.Construct)
    template = subscription.delivery.templates[0]
    assert isinstance(template, syntax.XmlTemplate), "it is written so"
    return template
