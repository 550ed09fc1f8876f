"""What lint is certain about is true: the reference engine finds nothing where it says that nothing can be found."""

from dataclasses import dataclass, replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.language import trees

from motet.fuzz.case import SECOND
from motet.fuzz.cases import random_case
from motet.fuzz.subscriptions import EngineCapabilities, SubscriptionGenerator, parse_condition, parse_event
from motet.language.check import check
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.language.scope import leaf_variables, leaves
from motet.language.syntax import Context, Event, Filter, Leaf, Pattern, Select, Subscription, Unless, Within, Without
from motet.lint.diagnostics import Severity
from motet.lint.lint import SubscriptionDocument, lint
from motet.lint.redundant import containment_reason
from motet.lint.unsatisfiable import pattern_alternatives
from motet.model.notifications import Notification
from motet.reference import evaluate

BODIES = (
    "",
    "?{e} ex:k ?k",
    "?{e} ex:k ?k FILTER(?k > 2)",
    "?{e} ex:k ?k FILTER(?k < 2)",
    "?{e} ex:k ?k FILTER(?k IN (1, 2))",
    "OPTIONAL {{ ?{e} ex:k ?k }} FILTER(!BOUND(?k) || ?k > 2)",
    "OPTIONAL {{ ?{e} ex:k ?k }}",
    "?{e} ex:k ?k FILTER(?k > 1 && ?k < 2)",
    "{{ ?{e} ex:k ?k FILTER(?k > 2) }} UNION {{ ?{e} ex:room ?room }}",
    "VALUES ?k {{ 1 }} ?{e} ex:k ?k",
    "VALUES ?k {{ 1.0 'a' }} ?{e} ex:k ?k",
    "?{e} ex:k ?k FILTER(?k > '1')",
    "?{e} ex:k ?k FILTER(DATATYPE(?k) = <http://www.w3.org/2001/XMLSchema#integer>)",
    "?{e} ex:k ?k FILTER(isIRI(?k))",
    "?{e} ex:room ?k",
    "?{e} ex:room ?room . ?room ex:k ?k",
    "?k ?p_{e} ?o_{e}",
    "?{e} ex:k ?v_{e} BIND(STR(?v_{e}) AS ?k)",
    "?{e} ex:k ?v_{e} BIND(<http://www.w3.org/2001/XMLSchema#decimal>(?v_{e}) AS ?k)",
)
TIMES = ("", "", "", " DURING ?s_{e} ?t_{e}", " DURING ?s ?t_{e}", " DURING ?s_{e} ?s", " DURING ?s ?t")
CONDITIONS = (
    "?k > 2", "?k < 2", "?k = 3 || ?k = 1", "?s < ?t", "?s > ?t", "?t = ?s", "!BOUND(?k)", "?s > 3", "?k = '1'",
    "?k = ?s", "?k > '0'", "CONTAINS(?k, '1')", '?s > "2026-01-01T00:00:00"^^<http://www.w3.org/2001/XMLSchema#dateTime>',
)  # fmt: skip


@dataclass
class Contrary(SubscriptionGenerator):
    """Writes patterns that often contradict themselves."""

    def _event(self, name: str) -> Event:
        class_ = self.random.choice(("", "", " : ex:A"))
        times, body = self.random.choice(TIMES).format(e=name), self.random.choice(BODIES).format(e=name)
        return parse_event(f"EVENT {name}{class_}{times} {{ {body} }}", name)

    def _duration(self) -> int:
        return self.random.choice((1, 2, SECOND, 2 * SECOND, 5 * SECOND))

    def _condition(self, pattern: Pattern) -> Pattern:
        bound = sorted(set().union(*map(leaf_variables, self.events)))
        times = [name for name in bound if name[0] in "st"]
        texts = [f"?{self.random.choice(times)} {sign} ?{self.random.choice(times)}" for sign in "<=>" if times]
        texts += [f"{first} || {second}" for first in texts for second in texts] + list(CONDITIONS)
        known = [found for text in texts if (found := parse_condition(text)).variables <= set(bound)]
        return Filter(pattern, self.random.choice(known)) if known else pattern


def contrary(random: Random, name: str = "s") -> Subscription:
    writer = Contrary(random, "x", EngineCapabilities(), "", ())
    pattern = writer.pattern(random.choice((1, 2, 3)))
    context = random.choice(tuple(Context))
    subscription = Subscription(name, tuple(writer.events), pattern, context, True, Select())
    check(subscription, "")
    return subscription


def notifications(random: Random, *subscriptions: Subscription) -> list[Notification]:
    case = random_case(random, "x", subscriptions, as_log=False, capabilities=EngineCapabilities())
    return list(evaluate(case.records, ontology=case.ontology, lateness=case.lateness))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_what_never_matches_never_does(seed: int) -> None:
    """A pattern without a possible alternative has no notification in a random log."""
    subscription = contrary(Random(seed))
    text = to_text(subscription)
    found = pattern_alternatives(subscription, text)
    if not found.alternatives:
        assert [one.rule for one in found.diagnostics if one.severity.value == "error"]
        assert notifications(Random(seed), subscription) == [], text


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_certain_is_bound(seed: int) -> None:
    """A variable that all alternatives bind is in every notification, and one that none can bind is in none."""
    subscription = contrary(Random(seed))
    parts = pattern_alternatives(subscription, "").alternatives
    certain = frozenset.intersection(*(part.certain for part in parts)) if parts else frozenset()
    possible = frozenset().union(*(part.possible for part in parts))
    for notification in notifications(Random(seed), subscription):
        bound = {name for name, _ in notification.bindings}
        assert certain <= bound <= possible, to_text(subscription)


# Each body asks for more than those before it.
CHAIN = ("", "?{e} ex:k ?k", "?{e} ex:k ?k FILTER(?k > 1)", "?{e} ex:k ?k ; ex:room ?room FILTER(?k > 2)")


@dataclass
class Plain(SubscriptionGenerator):
    """Writes patterns without iterations, over leaves of the chain."""

    def pattern(self, depth: int) -> Pattern:
        if depth == 0:
            return self.leaf()
        return self.random.choice((self.pair, self.pair, self.bounded, self.either, self.unless, self.filtered))(
            depth - 1
        )

    def _event(self, name: str) -> Event:
        return chained(name, self.random.choice(("", " : ex:A")), self.random.randrange(3))

    def _duration(self) -> int:
        return self.random.choice((2, 4, 8)) * SECOND


def chained(name: str, class_: str, place: int) -> Event:
    return parse_event(f"EVENT {name}{class_} {{ {CHAIN[place].format(e=name)} }}", name)


def plain(random: Random) -> Subscription:
    writer = Plain(random, "x", EngineCapabilities(), "", ())
    pattern = writer.pattern(random.choice((0, 1, 2)))
    context = random.choice((Context.UNRESTRICTED, Context.UNRESTRICTED, *Context))
    return Subscription("wider", tuple(writer.events), pattern, context, True, Select())


def narrowed(random: Random, wider: Subscription) -> Subscription:
    """A subscription that mostly requires more than another one."""
    events = tuple(_narrowed(random, event) if random.random() < 0.4 else event for event in wider.events)
    pattern = wider.pattern
    if random.random() < 0.3:
        pattern = Within(pattern, random.choice((SECOND, 3 * SECOND)))
    if random.random() < 0.2:
        guard = parse_event("EVENT guard : ex:B { ?guard ex:room ?room }", "guard")
        events, pattern = (*events, guard), Unless(pattern, Leaf("guard"), SECOND)
    context = random.choice((wider.context, wider.context, *Context))
    return replace(wider, name="narrower", events=events, pattern=pattern, context=context)


def _narrowed(random: Random, event: Event) -> Event:
    asked = next(place for place in range(3) if chained(event.name, "", place).body == event.body)
    return chained(event.name, " : ex:A", min(asked + random.choice((0, 1, 2, -1)), 3) % 4)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_covered_tells_nothing_else(seed: int) -> None:
    """The events of a contained subscription's notifications are those of notifications of the containing one."""
    random = Random(seed)
    wider = plain(random)
    narrower = narrowed(random, wider)
    if containment_reason(wider, narrower):
        told = notifications(Random(seed), wider, narrower)
        events = {
            name: {one.events for one in told if one.subscription == name} for name in (wider.name, narrower.name)
        }
        assert events["narrower"] <= events["wider"], to_text((wider, narrower))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_an_idle_guard_changes_nothing(seed: int) -> None:
    """Without any events of the absent side of a negation without effect, the notifications are the same."""
    random = Random(seed)
    subscription = contrary(random)
    pattern = subscription.pattern
    if not isinstance(pattern, Unless | Without):
        pattern = Unless(pattern, Leaf("guard"), random.choice((1, SECOND)))
        body = random.choice(BODIES).format(e="guard")
        guard = parse_event(f"EVENT guard {random.choice(TIMES).format(e='guard')} {{ {body} }}", "guard")
        subscription = replace(subscription, events=(*subscription.events, guard), pattern=pattern)
        check(subscription, "")
    pattern = replace(pattern, position=1)  # all others have 0
    subscription = replace(subscription, pattern=pattern)
    if ("idle-guard", 1) in {(one.rule, one.position) for one in pattern_alternatives(subscription, "").diagnostics}:
        absent = {leaf.name for leaf in leaves(pattern.absent)}
        events = tuple(
            replace(event, class_iri="urn:nothing") if event.name in absent else event for event in subscription.events
        )
        first, second = (
            notifications(Random(seed), one) for one in (subscription, replace(subscription, events=events))
        )
        assert first == second, to_text(subscription)


@settings(max_examples=100, deadline=None)
@given(trees.subscriptions())
def test_every_subscription_can_be_linted(subscription: Subscription) -> None:
    """Every valid subscription is linted, errors are the patterns without an alternative, positions are valid."""
    text = to_text(subscription)
    parsed = parse(text)
    diagnostics = lint([SubscriptionDocument(text, parsed)])
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity is Severity.ERROR]
    assert bool(errors) == (not pattern_alternatives(parsed[0], text).alternatives)
    assert all(0 < diagnostic.diagnostic.position < len(text) for diagnostic in diagnostics)
