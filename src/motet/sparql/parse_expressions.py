"""From rdflib's expression trees to the algebra's. Only `parse` uses it; it knows rdflib's node names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from motet.model.errors import SubscriptionError
from motet.model.terms import RDF, XSD
from motet.sparql import algebra

_NAMES = (
    "ABS CEIL CONCAT CONTAINS DATATYPE DAY ENCODE_FOR_URI FLOOR HOURS IRI ISBLANK ISIRI ISLITERAL ISNUMERIC LANG "
    "LANGMATCHES LCASE MD5 MINUTES MONTH REGEX REPLACE ROUND SAMETERM SECONDS SHA1 SHA256 SHA384 SHA512 STR STRAFTER "
    "STRBEFORE STRDT STRENDS STRLANG STRLEN STRSTARTS SUBSTR TIMEZONE TZ UCASE YEAR"
)
_DATATYPES = (
    "boolean date dateTime dayTimeDuration decimal double duration float gDay gMonth gMonthDay gYear gYearMonth "
    "integer string time yearMonthDuration"
)
FUNCTIONS = frozenset(_NAMES.split())
CASTS = frozenset(XSD + name for name in _DATATYPES.split())
_SYNONYMS = {"URI": "IRI", "ISURI": "ISIRI"}
_CHANGING = frozenset({"NOW", "RAND", "UUID", "STRUUID", "BNODE"})
_NIL = RDF + "nil"

Refuse = Callable[[str, str, str | None], SubscriptionError]


class ExpressionReader:
    """Translates one expression; terms, nested groups and refusals are the group reader's business."""

    def __init__(self, term: Callable[[Any], str], group: Callable[[Any], algebra.Algebra], refuse: Refuse) -> None:
        self._term = term
        self._group = group
        self._refuse = refuse

    def read(self, node: Any) -> algebra.Expr:
        """The algebra's tree for rdflib's."""
        name = str(getattr(node, "name", "")) if not isinstance(node, str) else ""
        if name.startswith("Builtin_"):
            return self._builtin(name.removeprefix("Builtin_").upper(), node)
        if name.startswith("Aggregate_"):
            keyword = name.removeprefix("Aggregate_").upper()
            raise self._refuse(f"{keyword} is an aggregate and not allowed here", keyword, None)
        if name.endswith("Expression"):
            return self._operation(name, node)
        match name:
            case "UnaryNot":
                return algebra.Not(self.read(node.expr))
            case "UnaryMinus" | "UnaryPlus":
                return algebra.Sign("-" if name == "UnaryMinus" else "+", self.read(node.expr))
            case "Function":
                return self._cast(node)
        term = self._term(node)
        variable = algebra.variable_name(term)
        return algebra.Constant(term) if variable is None else algebra.Variable(variable)

    def _operation(self, name: str, node: Any) -> algebra.Expr:
        first = self.read(node.expr)
        if node.other is None:
            return first
        match name:
            case "ConditionalOrExpression":
                return algebra.Or((first, *map(self.read, node.other)))
            case "ConditionalAndExpression":
                return algebra.And((first, *map(self.read, node.other)))
            case "RelationalExpression":
                return self._relation(first, " ".join(node.op.upper().split()), node.other)
            case "AdditiveExpression" | "MultiplicativeExpression":
                for operator, operand in zip(node.op, node.other, strict=True):
                    first = algebra.Arithmetic(operator, first, self.read(operand))
                return first
        raise self._refuse(f"'{name}' is not supported", name, None)

    def _relation(self, left: algebra.Expr, operator: str, right: Any) -> algebra.Expr:
        if operator in ("IN", "NOT IN"):
            choices = algebra.In(left, self._list(right))
            return choices if operator == "IN" else algebra.Not(choices)
        return algebra.Compare(operator, left, self.read(right))

    def _builtin(self, name: str, node: Any) -> algebra.Expr:  # noqa: PLR0911  (one return for each case)
        if name in _CHANGING:
            advice = "notifications must be a function of the log alone; use a value from the event instead"
            raise self._refuse(f"{name} has a different value each time and is not allowed", name, advice)
        match name:
            case "EXISTS":
                return algebra.Exists(self._group(node.graph))
            case "NOTEXISTS":
                return algebra.Not(algebra.Exists(self._group(node.graph)))
            case "BOUND":
                return algebra.Bound(str(node.arg))
            case "IF":
                return algebra.If(self.read(node.arg1), self.read(node.arg2), self.read(node.arg3))
            case "COALESCE":
                return algebra.Coalesce(self._list(node.arg))
            case "CONCAT":
                return algebra.Call(name, self._list(node.arg))
        name = _SYNONYMS.get(name, name)
        if name not in FUNCTIONS:
            raise self._refuse(f"the function {name} is not supported", name, None)
        return algebra.Call(name, tuple(self.read(argument) for argument in node.values()))

    def _cast(self, node: Any) -> algebra.Expr:
        name = self._term(node.iri)[1:-1]
        if name not in CASTS:
            raise self._refuse(f"the function <{name}> is not known", name, "casts to XSD datatypes are the only ones")
        arguments = tuple(self.read(argument) for argument in node.expr or [])
        if len(arguments) != 1 or node.distinct:
            raise self._refuse(f"the cast <{name}> takes one argument", name, None)
        return algebra.Call(name, arguments)

    def _list(self, node: Any) -> tuple[algebra.Expr, ...]:
        if isinstance(node, str) and str(node) == _NIL:
            return ()
        return tuple(self.read(element) for element in node)
