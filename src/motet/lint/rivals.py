"""Which subscriptions are equal to another one, or tell nothing that another one does not tell?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from motet.language.syntax import Construct, Select, Subscription
from motet.lint.covering import Coverage, Subsumes, same_class
from motet.lint.findings import Found, Severity
from motet.plan.builder import build_plan
from motet.plan.graph import Root

MAX_PAIRS = 40_000  # subscriptions are compared two by two; beyond this only equal ones are found


def rivals(
    subscriptions: Sequence[Subscription], subsumes: Subsumes = same_class
) -> Iterator[tuple[Subscription, Found]]:
    """Each subscription that repeats an earlier one or is covered by another one, with what was found.

    >>> from motet.language.parse import parse
    >>> text = "SUBSCRIPTION one EVENT a : <urn:C> WHEN a SUBSCRIPTION two EVENT b : <urn:C> WHEN b"
    >>> [(subscription.name, found.rule) for subscription, found in rivals(parse(text))]
    [('two', 'same-as-another')]
    """
    repeated = dict(_repeated(subscriptions))
    for subscription in subscriptions:
        if subscription.name in repeated:
            yield subscription, repeated[subscription.name]
    rest = [one for one in subscriptions if one.name not in repeated]
    if len(rest) ** 2 <= MAX_PAIRS:
        yield from _covered(rest, subsumes)


def _repeated(subscriptions: Sequence[Subscription]) -> Iterator[tuple[str, Found]]:
    first: dict[tuple[object, ...], Root] = {}
    for root in build_plan(subscriptions).roots:
        subscription = root.subscription
        earlier = first.setdefault((root.node, subscription.since, _delivered(root)), root)
        if earlier is not root:
            message = f"this is the same as '{earlier.subscription.name}', up to names and order"
            advice = "remove one of them; both would tell the same things twice"
            yield subscription.name, Found("same-as-another", Severity.WARNING, subscription.position, message, advice)


def _delivered(root: Root) -> object:
    """What is delivered, in the plan's own variables; a template counts as it is written."""
    delivery, own = root.subscription.delivery, {name: variable for variable, name in root.renaming}
    if isinstance(delivery, Select):
        return frozenset(own.get(name) for name in (own if delivery.variables is None else delivery.variables))
    return delivery if isinstance(delivery, Construct) else type(delivery).__name__


def _covered(subscriptions: Sequence[Subscription], subsumes: Subsumes) -> Iterator[tuple[Subscription, Found]]:
    coverage = Coverage(subscriptions, subsumes)
    for place, narrower in enumerate(subscriptions):
        for other, wider in enumerate(subscriptions):
            why = coverage.reason(other, place) if other != place else None
            if why is None or (other > place and coverage.reason(place, other)):
                continue  # two that find the same are told at the later one
            message = f"whenever this tells something, '{wider.name}' tells of the same events: {why}"
            advice = f"one of them may be enough; filter what '{wider.name}' delivers if you need this part apart"
            yield narrower, Found("covered-by-another", Severity.HINT, narrower.position, message, advice)
            break
