"""Writes SPARQL algebra as SPARQL: what a plan shows of conditions and residues, and what other engines can be given.

The text parses to an equal tree (`motet.sparql.parse`). The empty pattern in front of OPTIONAL, MINUS, BIND
or FILTER is written as nothing, so that a residue reads as what follows the triples it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable

from motet.sparql.algebra import (
    EMPTY,
    Algebra,
    Alternative,
    And,
    Arithmetic,
    Bgp,
    Bound,
    Call,
    Coalesce,
    Compare,
    Constant,
    Exists,
    Expr,
    Extend,
    Filter,
    If,
    In,
    Inverse,
    Join,
    LeftJoin,
    Link,
    Minus,
    NegatedSet,
    Not,
    OneOrMore,
    Or,
    Path,
    Sequence,
    Sign,
    Triple,
    Union,
    Values,
    Variable,
    ZeroOrMore,
    ZeroOrOne,
    is_hidden,
)

_ATOMS = (Variable, Constant, Bound, Call, Coalesce, If, Exists)
_MODIFIERS = {ZeroOrMore: "*", OneOrMore: "+", ZeroOrOne: "?"}


def group_text(pattern: Algebra) -> str:  # noqa: PLR0911  (one return for each kind of node)
    """A group graph pattern, without the outer braces.

    >>> group_text(LeftJoin(EMPTY, Bgp((Triple("?e", "<urn:p>", "?x"),))))
    'OPTIONAL { ?e <urn:p> ?x }'
    """
    match pattern:
        case Bgp(triples):
            return " . ".join(map(_triple, triples))
        case Join(left, right):
            return _after(left, _element(right))
        case LeftJoin(left, right, condition):
            return _after(left, f"OPTIONAL {{ {_optional(right, condition)} }}")
        case Minus(left, right):
            return _after(left, f"MINUS {_braced(right)}")
        case Extend(operand, variable, expression):
            return _after(operand, f"BIND ( {expression_text(expression)} AS {variable_text(variable)} )")
        case Filter(operand, condition):
            return _after(operand, _filter(condition))
        case Union() | Values():
            return _element(pattern)


def expression_text(expression: Expr) -> str:  # noqa: PLR0911  (one return for each kind of node)
    """An expression, without outer parentheses.

    >>> expression_text(And((Compare(">", Variable("x"), Variable("y")), Not(Bound("z")))))
    '( ?x > ?y ) && ( ! BOUND( ?z ) )'
    """
    match expression:
        case Variable(name):
            return variable_text(name)
        case Constant(term):
            return term
        case And(parts) | Or(parts):
            return (" && " if isinstance(expression, And) else " || ").join(map(_operand, parts))
        case Not(Exists(pattern)):
            return f"NOT EXISTS {_braced(pattern)}"
        case Not(operand):
            return f"! {_operand(operand)}"
        case Sign(operator, operand):
            return f"{operator} {_operand(operand)}"
        case Compare(operator, left, right) | Arithmetic(operator, left, right):
            return f"{_operand(left)} {operator} {_operand(right)}"
        case In(operand, choices):
            return f"{_operand(operand)} IN ( {_list(choices)} )"
        case Exists(pattern):
            return f"EXISTS {_braced(pattern)}"
    return _call(expression)


def _call(expression: Expr) -> str:
    match expression:
        case Bound(name):
            return f"BOUND( {variable_text(name)} )"
        case If(condition, then, otherwise):
            return f"IF( {_list((condition, then, otherwise))} )"
        case Coalesce(parts):
            return f"COALESCE( {_list(parts)} )"
        case Call(name, arguments):
            return f"{name if name.isidentifier() else f'<{name}>'}( {_list(arguments)} )"
    raise AssertionError(f"{expression} is no call")


def _operand(expression: Expr) -> str:
    text = expression_text(expression)
    return text if isinstance(expression, _ATOMS) else f"( {text} )"


def _list(expressions: Iterable[Expr]) -> str:
    return " , ".join(map(expression_text, expressions))


def _after(left: Algebra, element: str) -> str:
    """An element that follows the rest of its group; a FILTER of an inner group stays inside."""
    if left == EMPTY:
        return element
    return f"{_braced(left) if isinstance(left, Filter) else group_text(left)} {element}"


def _element(pattern: Algebra) -> str:
    """A pattern as one element of a group."""
    match pattern:
        case Union(left, right):
            first = _element(left) if isinstance(left, Union) else _braced(left)
            return f"{first} UNION {_braced(right)}"
        case Values(variables, rows):
            cells = (" ".join(cell or "UNDEF" for cell in row) for row in rows)
            return (
                f"VALUES ( {' '.join(map(variable_text, variables))} ) {{ {' '.join(f'( {row} )' for row in cells)} }}"
            )
    return _braced(pattern)


def _optional(right: Algebra, condition: Expr | None) -> str:
    """The group of an OPTIONAL: its own FILTER is the condition, that of an inner group is not."""
    if condition is None:
        return _braced(right) if isinstance(right, Filter) else group_text(right)
    return _after(right, _filter(condition))


def _filter(condition: Expr) -> str:
    return f"FILTER ( {expression_text(condition)} )"


def _braced(pattern: Algebra) -> str:
    return f"{{ {group_text(pattern)} }}"


def _triple(triple: Triple) -> str:
    predicate = triple.predicate if isinstance(triple.predicate, str) else _path(triple.predicate)
    return " ".join((_term(triple.subject), _term(predicate), _term(triple.object)))


def _term(term: str) -> str:
    return variable_text(term[1:]) if term.startswith("?") else term


def variable_text(name: str) -> str:
    """
    >>> variable_text("room"), variable_text(".0")
    ('?room', '_:h0')
    """
    return f"_:h{name[1:]}" if is_hidden(name) else f"?{name}"


def _path(path: Path) -> str:
    match path:
        case Link(iri):
            return iri
        case Inverse(inner):
            return f"^({_path(inner)})"
        case Sequence(parts):
            return f"({'/'.join(map(_path, parts))})"
        case Alternative(parts):
            return f"({'|'.join(map(_path, parts))})"
        case NegatedSet(forward, backward):
            return f"!({'|'.join((*(forward or ()), *(f'^{iri}' for iri in backward or ())))})"
        case ZeroOrMore(inner) | OneOrMore(inner) | ZeroOrOne(inner):
            return f"({_path(inner)}){_MODIFIERS[type(path)]}"
