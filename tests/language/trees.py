"""Random subscriptions that may be registered: Hypothesis strategies for round trips and fuzzing.

Every tree is one that ``parse`` could have produced: its SPARQL is normalised and its variables are those in scope.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from tests.xmlql import trees as xml_trees

from motet.language.check import check
from motet.language.motet_lexer import KEYWORDS
from motet.language.scope import iterated_names, leaf_variables
from motet.language.syntax import (
    Alongside,
    And,
    Construct,
    Context,
    Delivery,
    Event,
    Events,
    Expression,
    Filter,
    GroupPattern,
    Leaf,
    No,
    Or,
    Pattern,
    Run,
    Select,
    Signal,
    Subscription,
    Template,
    Timed,
    Times,
    Unless,
    Within,
    Without,
    XmlBlock,
    XmlTemplate,
    Xor,
)
from motet.model.errors import SubscriptionError
from motet.model.intervals import Relation
from motet.xmlql.write import block_text, template_text

NAMES = ("a", "b", "c", "smoke", "heat_2", "_d", "min", "recent", "E9")
IRIS = (
    "urn:C",
    "http://example.org/building#SmokeAlarm",
    "http://example.org/a/b?q=1#é",
    "http://example.org/building#",
)
_BODIES = {
    "?{e} <urn:room> ?room": {"{e}", "room"},
    "?{e} <urn:room> ?room ; <urn:level> ?level . FILTER ( ?level > 3 )": {"{e}", "room", "level"},
    "?{e} a <urn:C> OPTIONAL {{ ?{e} <urn:p>* ?x }}": {"{e}", "x"},
    "{{ ?{e} <urn:p> ?x }} UNION {{ ?{e} <urn:q> ?y , -5 }}": {"{e}", "x", "y"},
    '?{e} <urn:says> """a\n\'b\' # }} """@en , \'x\'^^<urn:t>': {"{e}"},
    "?{e} <urn:p> ?x BIND ( ?x + 1 AS ?y ) MINUS {{ ?{e} <urn:q> ?z }}": {"{e}", "x", "y"},
    "VALUES ?x {{ 1 2.5 'three' }}": {"x"},
    "": set(),
}
_CONDITIONS = ("?{v} > 3", "BOUND( ?{v} ) && ?{v} != ?{w}", "STRLEN( STR( ?{v} ) ) < 5 || ! ( ?{w} IN ( 1 , 'x' ) )")
_TEMPLATES = ("", "?{v} <urn:p> ?{w}", "[ ] a <urn:Alarm> ; <urn:of> ?{v} , ?{w} .")

durations = st.one_of(
    st.sampled_from((1, 1_000, 500_000, 1_000_000, 300_000_000, 86_400_000_000)),
    st.integers(1, 36_525 * 86_400_000_000),
)
subscription_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,12}", fullmatch=True).filter(
    lambda name: name.upper() not in KEYWORDS
)


@st.composite
def events(draw: st.DrawFn, name: str, *, with_xml: bool = False) -> Event:
    text, variables = draw(st.sampled_from(sorted(_BODIES.items(), key=lambda item: item[0])))
    body = GroupPattern(text.format(e=name), frozenset(variable.format(e=name) for variable in variables))
    times = draw(st.sampled_from((None, None, (f"{name}_from", f"{name}_to"))))
    class_iri = draw(st.sampled_from((None, *IRIS)))
    if with_xml and draw(st.booleans()):
        block = draw(xml_trees.blocks())
        return Event(name, class_iri, None, times=times, xml=XmlBlock(block_text(block), block.variables))
    return Event(name, class_iri, draw(st.sampled_from((None, body))), times=times)


@st.composite
def patterns(draw: st.DrawFn, names: tuple[str, ...], variables: tuple[str, ...]) -> Pattern:
    """A pattern that uses exactly these event names, each once except below OR."""
    if len(names) == 1:
        node: Pattern = Leaf(names[0])
    else:
        cut = draw(st.integers(1, len(names) - 1))
        left, right = draw(patterns(names[:cut], variables)), draw(patterns(names[cut:], variables))
        node = draw(_joined(left, right))
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 1, 2)))):
        node = draw(_wrapped(node, variables))
    return node


@st.composite
def _joined(draw: st.DrawFn, left: Pattern, right: Pattern) -> Pattern:
    kind = draw(st.sampled_from((And, Alongside, Timed, Timed, Or, Xor, Unless, Without)))
    if kind is Timed:
        return Timed(draw(st.sampled_from(list(Relation))), left, right)
    if kind is Xor:
        return Xor(left, right, draw(durations))
    if kind is Unless:
        return Unless(left, right, draw(durations))
    if kind is Without:
        return Without(left, right) if _is_pair(left) else Or(left, draw(st.sampled_from((right, Or(right, left)))))
    return kind(left, right)


def _is_pair(node: Pattern) -> bool:
    while isinstance(node, Unless | Without | Within):
        node = node.operand
    return isinstance(node, And | Alongside | Timed)


@st.composite
def _wrapped(draw: st.DrawFn, node: Pattern, variables: tuple[str, ...]) -> Pattern:
    kind = draw(st.sampled_from((Within, Within, Filter, No, Times, Run)))
    if kind is Filter:
        return Filter(node, draw(_conditions(variables)))
    if kind is Times:
        return Times(node, draw(st.integers(1, 1_000_000)), draw(st.one_of(st.none(), durations)))
    return kind(node, draw(durations))


@st.composite
def _conditions(draw: st.DrawFn, variables: tuple[str, ...]) -> Expression:
    text, used = draw(_filled(_CONDITIONS, variables))
    return Expression(text, used)


@st.composite
def _filled(draw: st.DrawFn, texts: tuple[str, ...], variables: tuple[str, ...]) -> tuple[str, frozenset[str]]:
    text, v, w = draw(st.sampled_from(texts)), draw(st.sampled_from(variables)), draw(st.sampled_from(variables))
    used = frozenset(name for sign, name in (("{v}", v), ("{w}", w)) if sign in text)
    return text.format(v=v, w=w), used


@st.composite
def deliveries(
    draw: st.DrawFn, variables: tuple[str, ...], selectable: tuple[str, ...], *, with_xml: bool = False
) -> Delivery:
    kind = draw(st.sampled_from((Select, Select, Construct, Signal, Events)))
    if kind is Select:
        chosen = draw(st.lists(st.sampled_from(selectable), unique=True)) if selectable else []
        return Select(tuple(chosen) or None)
    if kind is Construct:
        filled = draw(st.lists(_filled(_TEMPLATES, variables), min_size=1, max_size=3))
        templates: list[Template | XmlTemplate] = [Template(text, used) for text, used in filled]
        xml = draw(xml_trees.templates())
        if with_xml and xml.variables <= set(variables):
            templates.append(XmlTemplate(template_text(xml), xml.variables))
        return Construct(tuple(templates))
    return Signal() if kind is Signal else Events()


@st.composite
def subscriptions(draw: st.DrawFn, *, with_xml: bool = False) -> Subscription:
    """A subscription that passes every check; UNBOUNDED is set where it has to be."""
    names = tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True)))
    declared = tuple(draw(events(name, with_xml=with_xml)) for name in names)
    variables = tuple(sorted(set().union(*(leaf_variables(event) for event in declared))))
    pattern = draw(patterns(names, variables))
    selectable = tuple(name for name in variables if name not in iterated_names(pattern))
    subscription = Subscription(
        draw(subscription_names),
        tuple(draw(st.permutations(declared))),
        pattern,
        draw(st.sampled_from(list(Context))),
        draw(st.booleans()),
        draw(deliveries(variables, selectable, with_xml=with_xml)),
        draw(st.one_of(st.none(), st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))),
    )
    try:
        check(subscription, "")
    except SubscriptionError:
        return replace(subscription, unbounded=True)
    return subscription
