"""Writes the algebra of leaf bodies as SPARQL: what a plan shows of conditions and residues, and what other engines can
be given. Whole queries are not written back.

The text parses to an equal tree (`motet.sparql.parse`). The empty pattern in front of OPTIONAL, MINUS, BIND
or FILTER is written as nothing, so that a residue reads as what follows the triples it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable

from motet.sparql import algebra

_ATOMS = (algebra.Variable, algebra.Constant, algebra.Bound, algebra.Call, algebra.Coalesce, algebra.If, algebra.Exists)
_MODIFIERS = {algebra.ZeroOrMore: "*", algebra.OneOrMore: "+", algebra.ZeroOrOne: "?"}


def group_text(pattern: algebra.Algebra) -> str:  # noqa: PLR0911  (one return for each kind of node)
    """A group graph pattern, without the outer braces.

    >>> group_text(algebra.LeftJoin(algebra.EMPTY, algebra.Bgp((algebra.Triple("?e", "<urn:p>", "?x"),))))
    'OPTIONAL { ?e <urn:p> ?x }'
    """
    match pattern:
        case algebra.Bgp(triples):
            return " . ".join(map(_triple, triples))
        case algebra.Join(left, right):
            return _after(left, _element(right))
        case algebra.LeftJoin(left, right, condition):
            return _after(left, f"OPTIONAL {{ {_optional(right, condition)} }}")
        case algebra.Minus(left, right):
            return _after(left, f"MINUS {_braced(right)}")
        case algebra.Extend(operand, variable, expression):
            return _after(operand, f"BIND ( {expression_text(expression)} AS {variable_text(variable)} )")
        case algebra.Filter(operand, condition):
            return _after(operand, _filter(condition))
        case algebra.Union() | algebra.Values():
            return _element(pattern)
    raise AssertionError(f"{type(pattern).__name__} is no part of a leaf body")


def expression_text(expression: algebra.Expr) -> str:  # noqa: PLR0911  (one return for each kind of node)
    """An expression, without outer parentheses.

    >>> greater = algebra.Compare(">", algebra.Variable("x"), algebra.Variable("y"))
    >>> expression_text(algebra.And((greater, algebra.Not(algebra.Bound("z")))))
    '( ?x > ?y ) && ( ! BOUND( ?z ) )'
    """
    match expression:
        case algebra.Variable(name):
            return variable_text(name)
        case algebra.Constant(term):
            return term
        case algebra.And(parts) | algebra.Or(parts):
            return (" && " if isinstance(expression, algebra.And) else " || ").join(map(_operand, parts))
        case algebra.Not(algebra.Exists(pattern)):
            return f"NOT EXISTS {_braced(pattern)}"
        case algebra.Not(operand):
            return f"! {_operand(operand)}"
        case algebra.Sign(operator, operand):
            return f"{operator} {_operand(operand)}"
        case algebra.Compare(operator, left, right) | algebra.Arithmetic(operator, left, right):
            return f"{_operand(left)} {operator} {_operand(right)}"
        case algebra.In(operand, choices):
            return f"{_operand(operand)} IN ( {_list(choices)} )"
        case algebra.Exists(pattern):
            return f"EXISTS {_braced(pattern)}"
    return _call(expression)


def _call(expression: algebra.Expr) -> str:
    match expression:
        case algebra.Bound(name):
            return f"BOUND( {variable_text(name)} )"
        case algebra.If(condition, then, otherwise):
            return f"IF( {_list((condition, then, otherwise))} )"
        case algebra.Coalesce(parts):
            return f"COALESCE( {_list(parts)} )"
        case algebra.Call(name, arguments):
            return f"{name if name.isidentifier() else f'<{name}>'}( {_list(arguments)} )"
    raise AssertionError(f"{expression} is no call")


def _operand(expression: algebra.Expr) -> str:
    text = expression_text(expression)
    return text if isinstance(expression, _ATOMS) else f"( {text} )"


def _list(expressions: Iterable[algebra.Expr]) -> str:
    return " , ".join(map(expression_text, expressions))


def _after(left: algebra.Algebra, element: str) -> str:
    """An element that follows the rest of its group; a FILTER of an inner group stays inside."""
    if left == algebra.EMPTY:
        return element
    return f"{_braced(left) if isinstance(left, algebra.Filter) else group_text(left)} {element}"


def _element(pattern: algebra.Algebra) -> str:
    """A pattern as one element of a group."""
    match pattern:
        case algebra.Union(left, right):
            first = _element(left) if isinstance(left, algebra.Union) else _braced(left)
            return f"{first} UNION {_braced(right)}"
        case algebra.Values(variables, rows):
            cells = (" ".join(cell or "UNDEF" for cell in row) for row in rows)
            return (
                f"VALUES ( {' '.join(map(variable_text, variables))} ) {{ {' '.join(f'( {row} )' for row in cells)} }}"
            )
    return _braced(pattern)


def _optional(right: algebra.Algebra, condition: algebra.Expr | None) -> str:
    """The group of an OPTIONAL: its own FILTER is the condition, that of an inner group is not."""
    if condition is None:
        return _braced(right) if isinstance(right, algebra.Filter) else group_text(right)
    return _after(right, _filter(condition))


def _filter(condition: algebra.Expr) -> str:
    return f"FILTER ( {expression_text(condition)} )"


def _braced(pattern: algebra.Algebra) -> str:
    return f"{{ {group_text(pattern)} }}"


def _triple(triple: algebra.Triple) -> str:
    predicate = triple.predicate if isinstance(triple.predicate, str) else _path(triple.predicate)
    return " ".join((_term(triple.subject), _term(predicate), _term(triple.object)))


def _term(term: str) -> str:
    return variable_text(term[1:]) if term.startswith("?") else term


def variable_text(name: str) -> str:
    """
    >>> variable_text("room"), variable_text(".0")
    ('?room', '_:h0')
    """
    return f"_:h{name[1:]}" if algebra.is_hidden(name) else f"?{name}"


def _path(path: algebra.Path) -> str:
    match path:
        case algebra.Link(iri):
            return iri
        case algebra.Inverse(inner):
            return f"^({_path(inner)})"
        case algebra.Sequence(parts):
            return f"({'/'.join(map(_path, parts))})"
        case algebra.Alternative(parts):
            return f"({'|'.join(map(_path, parts))})"
        case algebra.NegatedSet(forward, backward):
            return f"!({'|'.join((*(forward or ()), *(f'^{iri}' for iri in backward or ())))})"
        case algebra.ZeroOrMore(inner) | algebra.OneOrMore(inner) | algebra.ZeroOrOne(inner):
            return f"({_path(inner)}){_MODIFIERS[type(path)]}"
