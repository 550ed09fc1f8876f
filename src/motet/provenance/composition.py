"""The composition tree of a subscription over some events: which of its operators and EVENTs are true.

A node is true when it has an occurrence, and the root when the subscription has a notification (language page,
section 4). The reference engine counts them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from motet.language.scope import children
from motet.language.syntax import Construct, Leaf, Pattern, Subscription
from motet.plan.text import delivery_text, template_text
from motet.provenance.text import operator_title
from motet.reference.contexts import PatternResult


@dataclass
class Compositions:
    """Counts the occurrences of each node while the reference engine evaluates subscriptions."""

    occurrences: dict[tuple[str, Pattern], set[object]] = field(default_factory=dict)

    def observe(self, name: str, pattern: Pattern, results: Sequence[PatternResult]) -> None:
        """Take the results of a node of the subscription of this name."""
        found = self.occurrences.setdefault((name, pattern), set())
        found.update(result.occurrence for result in results)

    def lines(self, subscriptions: Iterable[Subscription], notifications: Counter[str]) -> Iterator[str]:
        """The trees; ``notifications`` are the numbers of notifications by subscription."""
        for subscription in subscriptions:
            yield f"{subscription.name}: {subscription.context.value}"
            root = _value(notifications[subscription.name], "notification")
            delivery = subscription.delivery
            if isinstance(delivery, Construct):
                yield f"└─ CONSTRUCT  {root}"
                yield from (f"   │     {template_text(template)}" for template in delivery.templates)
            else:
                yield f"└─ {delivery_text(delivery)}  {root}"
            yield from self._tree(subscription.name, subscription.pattern, "   ", is_last=True)
            yield ""

    def _tree(self, name: str, pattern: Pattern, indent: str, *, is_last: bool) -> Iterator[str]:
        count = len(self.occurrences.get((name, pattern), ()))
        yield f"{indent}{'└─ ' if is_last else '├─ '}{_title(pattern)}  {_value(count, 'occurrence')}"
        operands = children(pattern)
        for index, operand in enumerate(operands):
            inner = f"{indent}{'   ' if is_last else '│  '}"
            yield from self._tree(name, operand, inner, is_last=index == len(operands) - 1)

    def to_json(self, subscriptions: Iterable[Subscription], notifications: Counter[str]) -> list[dict[str, Any]]:
        """The trees for programs."""
        return [
            {
                "subscription": subscription.name,
                "notifications": notifications[subscription.name],
                "pattern": self._node_json(subscription.name, subscription.pattern),
            }
            for subscription in subscriptions
        ]

    def _node_json(self, name: str, pattern: Pattern) -> dict[str, Any]:
        count = len(self.occurrences.get((name, pattern), ()))
        operands = [self._node_json(name, operand) for operand in children(pattern)]
        return {"node": _title(pattern), "true": count > 0, "occurrences": count, "operands": operands}


def _title(pattern: Pattern) -> str:
    return f"EVENT {pattern.name}" if isinstance(pattern, Leaf) else operator_title(pattern)


def _value(count: int, noun: str) -> str:
    return f"true, {count} {noun}{'' if count == 1 else 's'}" if count else "false"
