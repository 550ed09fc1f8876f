"""Random subscriptions over the small vocabulary of ``logs``: every operator, context, delivery and kind of leaf.

Few classes, rooms and values, so that most subscriptions find something. Texts of leaves are read by the language's own
parser, once each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random

from motet.fuzz.case import BEGIN, LAST, SECOND, TAG, tag
from motet.fuzz.files import EX
from motet.language.check import check
from motet.language.parse import parse
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
    Xor,
)
from motet.language.visibility import iterated_names, leaf_variables
from motet.model.errors import SubscriptionError
from motet.model.intervals import Relation

CLASSES = ("A", "B", "C")
DERIVED = ("D", "E")  # the classes of derived events: no published event has them; who makes E may ask for D
MAX_DEPTH = 3

# {e} is the event's name. ?room and ?k are shared by the events of a subscription, ?v_… belong to one of them.
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
    "?{e} ex:cause ?e1",  # another event, or itself
    "OPTIONAL {{ ?{e} ex:cause ?e2 }}",
)
FREQUENT = 5  # of the bodies, at the head, are used most of the time
TIMES = " DURING ?from_{e} ?to_{e}"

CONDITIONS = ("?k > 1", "?k < 3 || BOUND(?room)", "?room != <http://example.org/r1>", "!BOUND(?k)", 'STR(?room) > "r"')


SIDES = ("left", "right")
PAIRINGS = (And, Alongside, Relation.BEFORE, *Relation)
# Of points these relations never hold: which sides must last.
LASTING = {
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
class Abilities:
    """What the engine in question can be given."""

    logs: bool = True
    shares: bool = False  # many cases in one run, so that each must keep to its own events


@dataclass
class Writer:
    """Writes one subscription; remembers the events it has declared."""

    random: Random
    scope: str
    abilities: Abilities
    derives: str  # the class of the events this subscription makes, if any
    fed: tuple[str, ...]  # those of the events that others make
    intervals: bool = True  # events may last
    events: list[Event] = field(default_factory=list)

    def pattern(self, depth: int) -> Pattern:
        if depth == 0 or self.random.random() < (0.55 if self.events else 0.08):
            return self.leaf()
        kinds: list[Callable[[int], Pattern]] = [
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

    def leaf(self) -> Leaf:
        name = f"e{len(self.events) + 1}"
        self.events.append(self._event(name))
        return Leaf(name)

    def pair(self, depth: int) -> Pattern:
        kind = self.random.choice(PAIRINGS)
        lasting = () if self.intervals or not isinstance(kind, Relation) else LASTING.get(kind, ())
        left, right = (self.lasting() if side in lasting else self.pattern(depth) for side in SIDES)
        return Timed(kind, left, right) if isinstance(kind, Relation) else kind(left, right)

    def lasting(self) -> Pattern:
        """Something that lasts, made of events that may be points."""
        kind = self.random.randrange(8)
        if kind == 0:
            return No(self.leaf(), self._short())
        if kind == 1:
            return Run(self.leaf(), self._short())
        if kind == 2:
            return Times(self.leaf(), self.random.choice((2, 3, 4)))
        left, right = self.leaf(), self.leaf()
        return And(left, right) if kind < 6 else Timed(Relation.BEFORE, left, right)

    def either(self, depth: int) -> Pattern:
        left = self.pattern(depth)
        return Or(left, left if self.random.random() < 0.1 else self.pattern(depth))

    def exclusive(self, depth: int) -> Pattern:
        return Xor(self.pattern(depth), self.pattern(depth), self._short())

    def bounded(self, depth: int) -> Pattern:
        return Within(self.pair(depth), self._long())

    def unless(self, depth: int) -> Pattern:
        return Unless(self.pattern(depth), self.pattern(depth), self._short())

    def without(self, depth: int) -> Pattern:
        """Over a pair, as the language demands; seen through a bound or another guard."""
        operand = self.pair(depth)
        for _ in range(self.random.choice((0, 0, 1))):
            operand = self.random.choice((self._within, self._guard, self._condition))(operand)
        return Without(operand, self.pattern(depth))

    def filtered(self, depth: int) -> Pattern:
        return self._condition(self.random.choice((self.pair, self.pattern))(depth))

    def absence(self, depth: int) -> Pattern:
        return No(self.pattern(depth), self._duration())

    def times(self, depth: int) -> Pattern:
        gap = self._duration() if self.random.random() < 0.5 else None
        iteration = Times(self.pattern(depth), self.random.choice((1, 2, 2, 2, 3, 3, 5)), gap)
        return self._within(iteration) if self.random.random() < 0.3 else iteration

    def run(self, depth: int) -> Pattern:
        iteration = Run(self.pattern(depth), self._duration())
        return self._within(iteration) if self.random.random() < 0.6 else iteration

    def delivery(self, pattern: Pattern) -> Delivery:
        variables = set().union(*map(leaf_variables, self.events)) - iterated_names(pattern)
        if self.derives:
            return Construct(tuple(self._template(variables) for _ in range(self.random.choice((1, 1, 2)))))
        chosen = self.random.sample(sorted(variables), min(len(variables), self.random.randint(1, 2)))
        choices: list[Delivery] = [Select(), Select(), Signal(), Events()]
        choices += [Select(tuple(chosen))] if chosen else []
        return self.random.choice(choices)

    def _event(self, name: str) -> Event:
        class_ = self.random.choice((*CLASSES * 2, *self.fed))
        typed = f": ex:{class_}" if self.derives or self.random.random() < 0.85 else ""
        times = TIMES.format(e=name) if self.random.random() < 0.05 else ""
        body = self.random.choice(BODIES[:FREQUENT] if self.random.random() < 0.7 else BODIES).format(e=name)
        own = f"?{name} <{TAG}> <{tag(self.scope)}> . {body}" if self.abilities.shares else body
        return read_event(f"EVENT {name} {typed}{times} {{ {own} }}", name)

    def _template(self, variables: set[str]) -> Template:
        room = "; ex:room ?room" if "room" in variables and self.random.random() < 0.7 else ""
        own = f"; <{TAG}> <{tag(self.scope)}>" if self.abilities.shares else ""
        return read_template(f"?this a ex:{self.derives} {room} {own}", frozenset(variables))

    def _within(self, pattern: Pattern) -> Pattern:
        return Within(pattern, self._duration())

    def _guard(self, pattern: Pattern) -> Pattern:
        return Unless(pattern, self.leaf(), self._duration())

    def _condition(self, pattern: Pattern) -> Pattern:
        """A condition on what the events so far can bind; none when they bind nothing it speaks of."""
        bound = set().union(*map(leaf_variables, self.events))
        private = sorted(name for name in bound if name.startswith("v_"))
        texts = [*CONDITIONS, *(f"?{name} > 1" for name in private), *(f"?k < ?{name}" for name in private)]
        known = [found for text in texts if (found := read_condition(text)).variables <= bound]
        return Filter(pattern, self.random.choice(known)) if known else pattern

    def _duration(self) -> int:
        return self.random.randint(1, 8) * SECOND if self.random.random() < 0.98 else 1

    def _long(self) -> int:
        return self._duration() + 2 * SECOND

    def _short(self) -> int:
        """For windows in which something must not be: in long ones there always is."""
        return self.random.choice((SECOND // 2, SECOND // 2, SECOND, SECOND, 2 * SECOND, 4 * SECOND))


def random_subscriptions(
    random: Random, scope: str, abilities: Abilities, count: int, *, intervals: bool = True
) -> list[Subscription]:
    """Subscriptions for one log; sometimes the first one makes events that the others see, and the second one makes
    others of them; sometimes two are alike.
    """
    derived = DERIVED[: random.choice((1, 1, 2))] if random.random() < 0.3 else ()
    found: list[Subscription] = []
    for number in range(1, count + 1):
        name = f"{scope}-{number}"
        writer = Writer(
            random, scope, abilities, "".join(derived[number - 1 : number]), derived[: number - 1], intervals
        )
        alike = number > 3 and random.random() < 0.18
        found.append(replace(found[-1], name=name) if alike else random_subscription(writer, name))
    return found


def random_subscription(writer: Writer, name: str) -> Subscription:
    """A subscription that the language accepts; unbounded only when it must be."""
    random = writer.random
    depths = (
        (0, 1, 1, 2) if writer.derives else (1, 1, 1, 1, 2, 2, MAX_DEPTH)
    )  # who feeds others should have something to say
    pattern = writer.pattern(random.choice(depths))
    if random.random() < 0.3:
        pattern = Within(pattern, random.randint(6, 20) * SECOND)
    since = BEGIN + random.randint(0, LAST // 2) * SECOND if random.random() < 0.15 else None
    delivery, context = writer.delivery(pattern), random.choice(tuple(Context))
    return _accepted(Subscription(name, tuple(writer.events), pattern, context, delivery=delivery, since=since))


def _accepted(subscription: Subscription) -> Subscription:
    try:
        check(subscription, "")
    except SubscriptionError:
        subscription = replace(subscription, unbounded=True)
        check(subscription, "")
    return subscription


@lru_cache(maxsize=65536)
def read_event(text: str, name: str) -> Event:
    [subscription] = parse(f"PREFIX ex: <{EX}> SUBSCRIPTION s {text} WHEN {name}")
    return subscription.events[0]


@lru_cache(maxsize=1024)
def read_condition(text: str) -> Expression:
    variables = " ".join(f"?e <urn:p> {word} ." for word in text.split() if word.startswith("?"))
    text_ = f"SUBSCRIPTION s EVENT e {{ ?e <urn:p> ?room , ?k . {variables} }} WHEN e FILTER({text})"
    [subscription] = parse(text_)
    assert isinstance(subscription.pattern, Filter)
    return subscription.pattern.condition


@lru_cache(maxsize=1024)
def read_template(text: str, variables: frozenset[str]) -> Template:
    bound = "?e <urn:p> ?room" if "room" in variables else ""
    [subscription] = parse(f"PREFIX ex: <{EX}> SUBSCRIPTION s EVENT e {{ {bound} }} WHEN e CONSTRUCT {{ {text} }}")
    assert isinstance(subscription.delivery, Construct)
    return subscription.delivery.templates[0]
