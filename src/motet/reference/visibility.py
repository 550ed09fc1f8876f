"""The variables visible outside a sub-pattern (language page, section 4).

> A variable is **visible** outside a sub-pattern if it occurs in a leaf or FILTER outside it, or in the delivery
> clause, or is the name of an event that is not iterated; `SELECT *` makes every variable visible except outside an
> iteration. What an iteration hides stays hidden.

``outside`` is always the set of variables that occur in a leaf or FILTER outside the sub-pattern or in the delivery
clause. “Occurs in a leaf” counts the event's own name, the variables its body can bind and those of DURING.
"""

from __future__ import annotations

from dataclasses import dataclass

from motet.language import syntax

Variables = frozenset[str]


def body_variables(event: syntax.Event) -> Variables:
    """The event's name and the variables its body can bind."""
    body = event.body or event.xml
    return frozenset({event.name}) | (body.variables if body else frozenset())


def leaf_variables(event: syntax.Event) -> Variables:
    """Those of the body, and those of ``DURING ?start ?end``."""
    return body_variables(event) | frozenset(event.times or ())


@dataclass(frozen=True)
class Visibility:
    """The rule of section 4 for the patterns of one subscription."""

    subscription: syntax.Subscription

    @property
    def selects_all(self) -> bool:
        """SELECT *"""
        return self.subscription.delivery == syntax.Select(None)

    def delivery_variables(self) -> Variables:
        """The variables of the delivery clause.

        The name of an iterated event in a template is not one value but one per member, so it is left out here.
        """
        match self.subscription.delivery:
            case syntax.Select(tuple(variables)):
                return frozenset(variables)
            case syntax.Construct(templates):
                names = frozenset(name for template in templates for name in template.variables)
                return names - iterated_names(self.subscription.pattern)
            case _:
                return frozenset()

    def occurring(self, pattern: syntax.Pattern) -> Variables:
        """The variables that occur in a leaf or FILTER inside a pattern."""
        match pattern:
            case syntax.Leaf(name):
                return leaf_variables(self.subscription.event(name))
            case syntax.Filter(operand, condition):
                return self.occurring(operand) | condition.variables
            case _:
                return frozenset().union(*(self.occurring(child) for child in children(pattern)))

    def leaf(self, name: str, outside: Variables, *, inside_iteration: bool) -> Variables:
        """The visible variables of a leaf."""
        variables = leaf_variables(self.subscription.event(name))
        unprojected = frozenset() if inside_iteration else frozenset({name})
        return variables if self.selects_all else variables & (outside | unprojected)

    def visible(self, pattern: syntax.Pattern, outside: Variables, *, inside_iteration: bool) -> Variables:
        """The variables an occurrence of the pattern may bind and that are visible outside it."""
        if isinstance(pattern, syntax.Leaf):
            return self.leaf(pattern.name, outside, inside_iteration=inside_iteration)
        if isinstance(pattern, syntax.Times | syntax.Run):
            return self.visible(pattern.operand, outside, inside_iteration=True) & outside
        bound = self._bound_by_operands(pattern, outside, inside_iteration=inside_iteration)
        unprojected = frozenset() if inside_iteration else event_names(pattern) - iterated_names(pattern)
        return bound if self.selects_all else bound & (outside | unprojected)

    def _bound_by_operands(self, pattern: syntax.Pattern, outside: Variables, *, inside_iteration: bool) -> Variables:
        """The variables visible outside the operands; outside of one are the operator's outside and the other."""
        match pattern:
            case syntax.Within(operand):
                operands = [(operand, outside)]
            case syntax.Filter(operand, condition):
                operands = [(operand, outside | condition.variables)]
            case syntax.Unless(operand, absent) | syntax.Without(operand, absent):
                operands = [(operand, outside | self.occurring(absent))]
            case (
                syntax.And(left, right)
                | syntax.Alongside(left, right)
                | syntax.Or(left, right)
                | syntax.Xor(left, right)
                | syntax.Timed(_, left, right)
            ):
                operands = [(left, outside | self.occurring(right)), (right, outside | self.occurring(left))]
            case _:  # NO binds nothing
                operands = []
        visible = (self.visible(operand, around, inside_iteration=inside_iteration) for operand, around in operands)
        return frozenset().union(*visible)


def children(pattern: syntax.Pattern) -> tuple[syntax.Pattern, ...]:
    match pattern:
        case syntax.Leaf():
            return ()
        case (
            syntax.And(left, right)
            | syntax.Alongside(left, right)
            | syntax.Or(left, right)
            | syntax.Xor(left, right)
            | syntax.Timed(_, left, right)
        ):
            return left, right
        case syntax.Unless(operand, absent) | syntax.Without(operand, absent):
            return operand, absent
        case (
            syntax.Filter(operand)
            | syntax.Within(operand)
            | syntax.No(operand)
            | syntax.Times(operand)
            | syntax.Run(operand)
        ):
            return (operand,)


def event_names(pattern: syntax.Pattern) -> Variables:
    """The event names in a pattern."""
    if isinstance(pattern, syntax.Leaf):
        return frozenset({pattern.name})
    return frozenset().union(*(event_names(child) for child in children(pattern)))


def iterated_names(pattern: syntax.Pattern) -> Variables:
    """The names of the events that are inside an iteration."""
    if isinstance(pattern, syntax.Times | syntax.Run):
        return event_names(pattern)
    return frozenset().union(*(iterated_names(child) for child in children(pattern)))
