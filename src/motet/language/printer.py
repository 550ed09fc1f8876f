"""Writes syntax trees as text of the `motet` surface, so that ``parse(to_text(tree)) == (tree,)``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from motet.language import syntax
from motet.model.errors import check_type
from motet.model.times import format_datetime, format_duration
from motet.sparql.tokens import Document, tokenise

_LOCAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

# How tightly each rule of the grammar binds; an operand that binds less tightly than its place needs parentheses.
_PATTERN, _GUARDED, _XOR, _OR, _AND, _TIMED, _REPEATED, _PRIMARY = range(8)


def to_text(
    subscriptions: syntax.Subscription | Iterable[syntax.Subscription], prefixes: Mapping[str, str] | None = None
) -> str:
    """The text of one or several subscriptions; ``prefixes`` (name to IRI) shorten it.

    >>> subscription = syntax.Subscription("any", (syntax.Event("e", "urn:C"),), syntax.Leaf("e"))
    >>> print(to_text(subscription, {"u": "urn:"}), end="")
    PREFIX u: <urn:>
    <BLANKLINE>
    SUBSCRIPTION any
      EVENT e : u:C
      WHEN e
    """
    check_type("the subscription", subscriptions, syntax.Subscription, Iterable)
    several = (subscriptions,) if isinstance(subscriptions, syntax.Subscription) else tuple(subscriptions)
    for one in several:
        check_type("a subscription", one, syntax.Subscription)
    iris = ShortIris(prefixes or {})
    writer = _Writer(iris)
    return iris.document([writer.subscription(subscription) for subscription in several])


def pattern_text(pattern: syntax.Pattern) -> str:
    """
    >>> pattern_text(syntax.And(syntax.Leaf("a"), syntax.Or(syntax.Leaf("b"), syntax.Leaf("c"))))
    'a AND (b OR c)'
    """
    return _Writer(ShortIris({})).pattern(pattern)


class ShortIris:
    """Writes IRIs with prefixes, and the prologue of those that were used."""

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        self.prefixes = prefixes
        self._used: set[str] = set()

    def write(self, iri: str) -> str:
        for name, start in self.prefixes.items():
            if iri.startswith(start) and _LOCAL.fullmatch(iri, len(start)):
                self._used.add(name)
                return f"{name}:{iri[len(start) :]}"
        return f"<{iri}>"

    def document(self, blocks: list[str]) -> str:
        """The texts of subscriptions as one document, with the prologue."""
        prologue = [f"PREFIX {name}: <{iri}>\n" for name, iri in self.prefixes.items() if name in self._used]
        return "\n".join(["".join(prologue), *blocks] if prologue else blocks)


class _Writer:
    """Writes the parts of subscriptions."""

    def __init__(self, iris: ShortIris) -> None:
        self._iris = iris

    def subscription(self, subscription: syntax.Subscription) -> str:
        since = f" SINCE {_quoted(format_datetime(subscription.since))}" if subscription.since is not None else ""
        lines = [f"SUBSCRIPTION {subscription.name}{since}"]
        lines += [f"  {self.event(event)}" for event in subscription.events]
        lines += [f"  WHEN {self.pattern(subscription.pattern)}"]
        if subscription.context is not syntax.Context.RECENT or subscription.unbounded:
            lines += [f"  CONTEXT {subscription.context.value}{' UNBOUNDED' if subscription.unbounded else ''}"]
        lines += [f"  {clause}" for clause in self.delivery(subscription.delivery)]
        return "\n".join(lines) + "\n"

    def event(self, event: syntax.Event) -> str:
        parts = [f"EVENT {event.name}"]
        parts += [f": {self._iris.write(event.class_iri)}"] if event.class_iri is not None else []
        parts += [f"DURING ?{event.times[0]} ?{event.times[1]}"] if event.times else []
        parts += [f"{{ {self.sparql(event.body.text)} }}"] if event.body else []
        parts += [f"XML {{ {event.xml.text} }}"] if event.xml else []
        return " ".join(parts)

    def delivery(self, delivery: syntax.Delivery) -> list[str]:
        match delivery:
            case syntax.Select(variables=None):
                return []
            case syntax.Select(variables=variables):
                return ["SELECT " + " ".join(f"?{name}" for name in variables or ())]
            case syntax.Construct(templates=templates):
                return [f"CONSTRUCT {self._template(template)}" for template in templates]
            case syntax.Signal() | syntax.Events():
                return [type(delivery).__name__.upper()]

    def _template(self, template: syntax.Template | syntax.XmlTemplate) -> str:
        if isinstance(template, syntax.XmlTemplate):
            return f"XML {{ {template.text} }}"
        return f"{{ {self.sparql(template.text)} }}"

    def pattern(self, node: syntax.Pattern, needed: int = _PATTERN) -> str:
        text, binding = self._written(node)
        return text if binding >= needed else f"({text})"

    def _written(self, node: syntax.Pattern) -> tuple[str, int]:
        """The text of a node, and how tightly it binds."""
        match node:
            case syntax.Leaf():
                written = node.name, _PRIMARY
            case syntax.No():
                written = f"NO {self.pattern(node.operand, _PRIMARY)} FOR {format_duration(node.duration)}", _PRIMARY
            case syntax.Times() | syntax.Run():
                written = self._iteration(node), _REPEATED
            case syntax.Within():
                written = f"{self.pattern(node.operand, _GUARDED)} WITHIN {format_duration(node.bound)}", _PATTERN
            case syntax.Unless() | syntax.Without() | syntax.Filter():
                written = f"{self.pattern(node.operand, _GUARDED)} {self._guard(node)}", _GUARDED
            case syntax.Xor():
                left, right = self.pattern(node.left, _OR), self.pattern(node.right, _OR)
                written = f"{left} XOR {right} WITHIN {format_duration(node.window)}", _XOR
            case syntax.Or() | syntax.And() | syntax.Timed() | syntax.Alongside():
                written = self._chain(node)
        return written

    def _iteration(self, node: syntax.Times | syntax.Run) -> str:
        sign = f"{{{node.count}}}" if isinstance(node, syntax.Times) else "+"
        gap = "" if node.gap is None else f" EVERY {format_duration(node.gap)}"
        return self.pattern(node.operand, _PRIMARY) + sign + gap

    def _guard(self, node: syntax.Unless | syntax.Without | syntax.Filter) -> str:
        match node:
            case syntax.Unless():
                return f"UNLESS {self.pattern(node.absent, _XOR)} WITHIN {format_duration(node.window)}"
            case syntax.Without():
                return f"WITHOUT {self.pattern(node.absent, _XOR)}"
            case syntax.Filter():
                return f"FILTER({self.sparql(node.condition.text)})"

    def _chain(self, node: syntax.Or | syntax.And | syntax.Timed | syntax.Alongside) -> tuple[str, int]:
        """Left-associative: the left operand may bind as tightly, the right one must bind more tightly."""
        if isinstance(node, syntax.Timed):
            sign, binding = node.relation.value, _TIMED
        else:
            sign, binding = (
                type(node).__name__.upper(),
                {syntax.Or: _OR, syntax.And: _AND, syntax.Alongside: _TIMED}[type(node)],
            )
        return f"{self.pattern(node.left, binding)} {sign} {self.pattern(node.right, binding + 1)}", binding

    def sparql(self, text: str) -> str:
        """Normalised SPARQL with its IRIs shortened."""
        if not self._iris.prefixes:
            return text
        written, position = "", 0
        for token in tokenise(Document(text)):
            if token.kind == "IRIREF":
                written += text[position : token.position] + self._iris.write(token.text[1:-1])
                position = token.end
        return written + text[position:]


def _quoted(lexical: str) -> str:
    return f'"{lexical}"'
