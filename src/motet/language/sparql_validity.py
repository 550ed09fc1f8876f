"""Is this a valid SPARQL query that can be understood, and which variables does it bind?

pyoxigraph judges the syntax, since rdflib accepts much that is not SPARQL; rdflib must understand the result, since
evaluation starts from its tree. Queries come with a FILTER(false) that keeps pyoxigraph from planning them, which
takes minutes for long ones. They must not contain SERVICE: callers refuse it first.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rdflib.plugins.sparql.parserutils import CompValue

_AT = re.compile(r"error at (\d+):(\d+): (.*)", re.DOTALL)


class Fault(Exception):  # noqa: N818  (never leaves this package: it becomes a SubscriptionError with a place)
    """What is wrong with a query, at an offset of its text."""

    def __init__(self, reason: str, offset: int, advice: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset
        self.advice = advice


@lru_cache(maxsize=4096)  # subscriptions made by programs repeat their bodies
def variables_in_scope(query: str) -> frozenset[str]:
    """The variables a valid query's pattern can bind, or a Fault.

    >>> sorted(variables_in_scope("SELECT * WHERE { FILTER(false) ?a <urn:p> ?b FILTER(?c > 1) }"))
    ['a', 'b']
    """
    _judge_syntax(query)
    return frozenset(_in_scope(_translated(query)))


def _judge_syntax(query: str) -> None:
    import pyoxigraph  # noqa: PLC0415  (heavy; only needed when a subscription has SPARQL in it)

    try:
        pyoxigraph.Store().query(query)
    except SyntaxError as error:
        found = _AT.match(str(error))
        line, column, reason = (int(found[1]), int(found[2]), found[3]) if found else (1, 1, str(error))
        offset = sum(len(part) + 1 for part in query.split("\n")[: line - 1]) + column - 1
        raise Fault(f"not valid SPARQL: {_reason(reason)}", offset) from None
    except RuntimeError as error:
        raise Fault(f"not usable SPARQL: {error}", 0) from None


def _reason(reason: str) -> str:
    """pyoxigraph lists what it would have liked; a list that holds a mere space says nothing."""
    return "something is missing or out of place here" if "[_]" in reason or "unreported" in reason else reason


def _translated(query: str) -> CompValue:
    from pyparsing import ParseException  # noqa: PLC0415  (comes with rdflib)
    from rdflib.plugins.sparql.algebra import translateQuery  # noqa: PLC0415  (heavy)
    from rdflib.plugins.sparql.parser import parseQuery  # noqa: PLC0415

    try:
        return translateQuery(parseQuery(query)).algebra.p
    except ParseException as error:
        raise Fault("this SPARQL is not supported", error.loc) from None
    except RecursionError:
        raise Fault("too many triples or nested brackets in one stretch of SPARQL", 0) from None
    except Exception as error:  # rdflib raises a bare Exception for what it cannot translate
        raise Fault(f"this SPARQL is not supported: {error}", 0) from error


def _in_scope(node: CompValue) -> set[str]:
    """The variables an algebra node can bind (SPARQL 1.1, section 18.2.1); a FILTER binds none."""
    from rdflib import Variable  # noqa: PLC0415  (heavy)

    match node.name:
        case "BGP":
            return {str(term) for triple in node.triples for term in triple if isinstance(term, Variable)}
        case "Join" | "LeftJoin" | "Union":
            return _in_scope(node.p1) | _in_scope(node.p2)
        case "Minus":
            return _in_scope(node.p1)
        case "Extend":
            return _in_scope(node.p) | {str(node.var)}
        case "ToMultiSet" if node.p.name == "values":
            return {str(variable) for row in node.p.res for variable in row}
        case _:
            return _in_scope(node.p)
