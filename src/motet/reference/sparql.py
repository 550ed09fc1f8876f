"""SPARQL for the reference engine: solutions of a group over triples, and conditions over bindings.

pyoxigraph evaluates, except where its store would change what it is given: it keeps the value of a number, boolean or
date and loses the lexical form (`"01"^^xsd:integer` becomes `1`), so a constant would match what is another RDF term.
Whenever a literal in the data or the query is not in the form the store gives back, rdflib evaluates instead, held to
what pyoxigraph does: comparisons, IN among them, are pyoxigraph's, and what is computed is written as its store writes
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from motet.model import terms
from motet.reference.occurrences import Bindings

if TYPE_CHECKING:
    import pyoxigraph
    import rdflib
    from rdflib.plugins.sparql.parserutils import CompValue

Triple = tuple[str, str, str]

_STRING = r"\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\\n\r]|\\.)*\"|'(?:[^'\\\n\r]|\\.)*'"
_SKIPPED = r"<[^<>\s]*>|[?$]\w+|_:[\w.\-]+|[^\W\d]\w*"
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(rf"({_STRING})(@[A-Za-z0-9\-]+|\^\^<[^>]*>)?|({_SKIPPED})|({_NUMBER})", re.DOTALL)


@lru_cache(maxsize=4096)
def solutions(triples: frozenset[Triple], group: str, variables: frozenset[str]) -> frozenset[Bindings]:
    """The distinct solutions of a group graph pattern, written without braces, over some triples.

    >>> solutions(frozenset({("<urn:s>", "<urn:p>", '"01"^^<urn:t>')}), "?s <urn:p> ?o", frozenset({"o"}))
    frozenset({(('o', '"01"^^<urn:t>'),)})
    """
    query = f"SELECT DISTINCT {' '.join(sorted(f'?{name}' for name in variables))} WHERE {{ {group} }}"
    if _faithful(triples, query):
        return _oxigraph_select(triples, query)
    return _rdflib_select(triples, query)


@lru_cache(maxsize=65536)
def holds(condition: str, bindings: Bindings, variables: frozenset[str]) -> bool:
    """“evaluates a SPARQL expression over the joined bindings; an error is false”

    >>> holds("?x > 3", (("x", terms.literal("4", datatype=terms.XSD + "integer")),), frozenset({"x"}))
    True
    """

    names = sorted(variables)
    values = dict(bindings)
    row = " ".join(values.get(name, "UNDEF") for name in names)
    header = " ".join(f"?{name}" for name in names)
    query = f"ASK {{ VALUES ( {header} ) {{ ( {row} ) }} FILTER( {condition} ) }}"
    if _faithful(frozenset(), query):
        return bool(_store(frozenset()).query(query))
    return _rdflib_ask(query)


def _oxigraph_select(triples: frozenset[Triple], query: str) -> frozenset[Bindings]:
    import pyoxigraph

    results = _store(triples).query(query)
    assert isinstance(results, pyoxigraph.QuerySolutions)
    names = [variable.value for variable in results.variables]
    return frozenset(
        tuple((name, str(term)) for name, term in zip(names, row, strict=True) if term is not None) for row in results
    )


@lru_cache(maxsize=512)
def _store(triples: frozenset[Triple]) -> pyoxigraph.Store:
    """A store of these triples, which is only read: every leaf is asked of the same few events."""
    import pyoxigraph

    store = pyoxigraph.Store()
    text = "".join(f"{subject} {predicate} {value} .\n" for subject, predicate, value in triples)
    store.load(text, format=pyoxigraph.RdfFormat.N_TRIPLES)
    return store


def _faithful(triples: frozenset[Triple], query: str) -> bool:
    """Whether the store gives back every literal of the data and of the query as it was given."""
    return all(_stored(literal) == literal for literal in _literals(triples, query))


def _literals(triples: frozenset[Triple], query: str) -> frozenset[str]:
    """Every literal of the data and of the query."""
    return _literals_of(triples) | _literals_in(query)


@lru_cache(maxsize=4096)
def _literals_of(triples: frozenset[Triple]) -> frozenset[str]:
    return frozenset(term for triple in triples for term in triple if term.startswith('"'))


@lru_cache(maxsize=16384)
def _literals_in(query: str) -> frozenset[str]:
    found = {match[1] + (match[2] or "") if match[1] else match[4] for match in _TOKEN.finditer(query)}
    return frozenset(_parsed(literal) for literal in found if literal)


@lru_cache(maxsize=4096)
def _parsed(literal: str) -> str:
    """A literal as it stands in a query or in Turtle, as a term."""
    import pyoxigraph

    (given,) = pyoxigraph.parse(f"<urn:s> <urn:p> {literal} .", format=pyoxigraph.RdfFormat.TURTLE)
    return str(given.object)


@lru_cache(maxsize=4096)
def _stored(literal: str) -> str:
    """What the store gives back for a literal."""
    import pyoxigraph

    subject = pyoxigraph.NamedNode("urn:s")
    store = pyoxigraph.Store()
    store.add(pyoxigraph.Quad(subject, subject, terms.to_oxigraph(literal)))
    (stored,) = store
    return str(stored.object)


def _rdflib_select(triples: frozenset[Triple], query: str) -> frozenset[Bindings]:
    """What is neither in the data nor in the query has been computed, and is written as the store writes it."""
    given = _literals(triples, query)

    def written(term: str) -> str:
        return term if terms.is_iri(term) or term in given else _stored(term)

    return frozenset(
        tuple(sorted((str(name), written(as_term(term))) for name, term in row.asdict().items()))
        for row in _rdflib_query(triples, query)
    )


def _rdflib_ask(query: str) -> bool:
    return bool(_rdflib_query((), query).askAnswer)


def _rdflib_query(triples: Iterable[Triple], query: str) -> rdflib.query.Result:
    """Evaluated at once, since the lexical forms are kept only while the switch is off."""
    import rdflib

    before, rdflib.NORMALIZE_LITERALS = rdflib.NORMALIZE_LITERALS, False
    try:
        graph = rdflib.Graph(bind_namespaces="none")
        for triple in triples:
            subject, predicate, value = (_to_rdflib(term) for term in triple)
            graph.add((subject, predicate, value))
        result = graph.query(_algebra(query))
        if result.type == "SELECT":
            result.bindings = list(result.bindings)
        return result
    finally:
        rdflib.NORMALIZE_LITERALS = before


@lru_cache(maxsize=16384)
def _algebra(query: str) -> rdflib.plugins.sparql.sparql.Query:
    """A query as rdflib evaluates it; to be read while the switch is off."""
    from rdflib.plugins.sparql.algebra import translateQuery, traverse
    from rdflib.plugins.sparql.parser import parseQuery

    return translateQuery(traverse(parseQuery(_TOKEN.sub(_plain, query)), visitPost=_with_our_comparisons))


def _with_our_comparisons(node: CompValue) -> CompValue | None:
    """A comparison evaluated by pyoxigraph; `x IN (a, b)` is `x = a || x = b`. None leaves a node as it is."""
    from rdflib.namespace import RDF
    from rdflib.plugins.sparql import operators
    from rdflib.plugins.sparql.parserutils import Expr

    if getattr(node, "name", None) != "RelationalExpression" or node.op is None or node.other == RDF.nil:
        return None
    if node.op not in ("IN", "NOT IN"):
        return Expr("RelationalExpression", _compared, expr=node.expr, op=node.op, other=node.other)
    sign = "=" if node.op == "IN" else "!="
    first, *others = (Expr("RelationalExpression", _compared, expr=node.expr, op=sign, other=v) for v in node.other)
    if not others:
        return first
    if sign == "=":
        return Expr("ConditionalOrExpression", operators.ConditionalOrExpression, expr=first, other=others)
    return Expr("ConditionalAndExpression", operators.ConditionalAndExpression, expr=first, other=others)


def _compared(node: CompValue, _: object) -> rdflib.Literal:
    import rdflib
    from rdflib.plugins.sparql.sparql import SPARQLError

    answer = _comparison(as_term(node.expr), str(node.op), as_term(node.other))
    if answer is None:
        raise SPARQLError("these terms cannot be compared")
    return rdflib.Literal(answer)


@lru_cache(maxsize=4096)
def _comparison(left: str, sign: str, right: str) -> bool | None:
    """Whether a comparison of two terms holds; None: it is an error."""
    import pyoxigraph

    results = pyoxigraph.Store().query(f"SELECT ({left} {sign} {right} AS ?answer) WHERE {{ }}")
    assert isinstance(results, pyoxigraph.QuerySolutions)
    (row,) = results
    return None if row["answer"] is None else row["answer"].value == "true"


def _plain(token: re.Match[str]) -> str:
    """rdflib takes a string with the datatype xsd:string for another term than one without."""
    return token[1] if token[2] == f"^^<{terms.XSD}string>" else token[0]


def _to_rdflib(term: str) -> rdflib.term.Identifier:
    import rdflib

    if terms.is_iri(term):
        return rdflib.URIRef(terms.iri_value(term))
    text, datatype, language = terms.literal_parts(term)
    if language or datatype == terms.XSD + "string":
        return rdflib.Literal(text, lang=language)
    return rdflib.Literal(text, datatype=rdflib.URIRef(datatype))


def as_term(term: object) -> str:
    """An rdflib term as a string; a variable or blank node of a query as ``?name``, a path as ``?``."""
    import rdflib

    match term:
        case rdflib.Literal():
            datatype = str(term.datatype) if term.datatype else None
            return terms.literal(str(term), datatype=datatype, language=term.language)
        case rdflib.URIRef():
            return terms.iri(str(term))
        case rdflib.Variable() | rdflib.BNode():
            return f"?{term}"
        case _:
            return "?"
