"""SPARQL for the reference engine: solutions of a group over triples, and conditions over bindings.

pyoxigraph evaluates, except where its store would change a literal: it keeps the value of a number, boolean or date and
loses the lexical form (`"01"^^xsd:integer` becomes `1`), so a constant would match another RDF term. Whenever a literal
in the data or the query is not in the form the store returns, rdflib evaluates instead, adapted to pyoxigraph:
comparisons, IN among them, are evaluated by pyoxigraph, and computed literals have the form its store returns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from motet.model import terms
from motet.reference.occurrences import SortedBindings

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
def solutions(triples: frozenset[Triple], group: str, variables: frozenset[str]) -> frozenset[SortedBindings]:
    """The distinct solutions of a group graph pattern, written without braces, over some triples.

    >>> solutions(frozenset({("<urn:s>", "<urn:p>", '"01"^^<urn:t>')}), "?s <urn:p> ?o", frozenset({"o"}))
    frozenset({(('o', '"01"^^<urn:t>'),)})
    """
    query = f"SELECT DISTINCT {' '.join(sorted(f'?{name}' for name in variables))} WHERE {{ {group} }}"
    if _is_lossless(triples, query):
        return _select_by_oxigraph(triples, query)
    return _select_by_rdflib(triples, query)


@lru_cache(maxsize=65536)
def holds(condition: str, bindings: SortedBindings, variables: frozenset[str]) -> bool:
    """“evaluates a SPARQL expression over the joined bindings; an error is false”

    >>> holds("?x > 3", (("x", terms.literal("4", datatype=terms.XSD + "integer")),), frozenset({"x"}))
    True
    """

    names = sorted(variables)
    values = dict(bindings)
    row = " ".join(values.get(name, "UNDEF") for name in names)
    header = " ".join(f"?{name}" for name in names)
    query = f"ASK {{ VALUES ( {header} ) {{ ( {row} ) }} FILTER( {condition} ) }}"
    if _is_lossless(frozenset(), query):
        return bool(_store(frozenset()).query(query))
    return _ask_rdflib(query)


def _select_by_oxigraph(triples: frozenset[Triple], query: str) -> frozenset[SortedBindings]:
    import pyoxigraph

    results = _store(triples).query(query)
    assert isinstance(results, pyoxigraph.QuerySolutions)
    names = [variable.value for variable in results.variables]
    return frozenset(
        tuple((name, str(term)) for name, term in zip(names, row, strict=True) if term is not None) for row in results
    )


@lru_cache(maxsize=512)
def _store(triples: frozenset[Triple]) -> pyoxigraph.Store:
    """A store of these triples, which is only read: every leaf is evaluated on the same events."""
    import pyoxigraph

    store = pyoxigraph.Store()
    text = "".join(f"{subject} {predicate} {value} .\n" for subject, predicate, value in triples)
    store.load(text, format=pyoxigraph.RdfFormat.N_TRIPLES)
    return store


def _is_lossless(triples: frozenset[Triple], query: str) -> bool:
    """Whether the store returns every literal of the data and of the query unchanged."""
    return all(_store_form(literal) == literal for literal in _literals(triples, query))


def _literals(triples: frozenset[Triple], query: str) -> frozenset[str]:
    """Every literal of the data and of the query."""
    return _literals_of(triples) | _literals_in(query)


@lru_cache(maxsize=4096)
def _literals_of(triples: frozenset[Triple]) -> frozenset[str]:
    return frozenset(term for triple in triples for term in triple if term.startswith('"'))


@lru_cache(maxsize=16384)
def _literals_in(query: str) -> frozenset[str]:
    tokens = {match[1] + (match[2] or "") if match[1] else match[4] for match in _TOKEN.finditer(query)}
    return frozenset(_parsed(literal) for literal in tokens if literal)


@lru_cache(maxsize=4096)
def _parsed(literal: str) -> str:
    """A literal of a query or of Turtle as a term."""
    import pyoxigraph

    (given,) = pyoxigraph.parse(f"<urn:s> <urn:p> {literal} .", format=pyoxigraph.RdfFormat.TURTLE)
    return str(given.object)


@lru_cache(maxsize=4096)
def _store_form(literal: str) -> str:
    """The form in which the store returns a literal."""
    import pyoxigraph

    subject = pyoxigraph.NamedNode("urn:s")
    store = pyoxigraph.Store()
    store.add(pyoxigraph.Quad(subject, subject, terms.to_oxigraph(literal)))
    (stored,) = store
    return str(stored.object)


def _select_by_rdflib(triples: frozenset[Triple], query: str) -> frozenset[SortedBindings]:
    """A literal that is neither in the data nor in the query has been computed: it gets the form the store returns."""
    literals = _literals(triples, query)

    def store_form(term: str) -> str:
        return term if terms.is_iri(term) or term in literals else _store_form(term)

    return frozenset(
        tuple(sorted((str(name), store_form(as_term(term))) for name, term in row.asdict().items()))
        for row in _rdflib_query(triples, query)
    )


def _ask_rdflib(query: str) -> bool:
    return bool(_rdflib_query((), query).askAnswer)


def _rdflib_query(triples: Iterable[Triple], query: str) -> rdflib.query.Result:
    """Evaluates eagerly: lexical forms are kept only while normalization is off."""
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
    """A query in rdflib's algebra; to be translated while normalization is off."""
    from rdflib.plugins.sparql.algebra import translateQuery, traverse
    from rdflib.plugins.sparql.parser import parseQuery

    return translateQuery(
        traverse(parseQuery(_TOKEN.sub(_without_xsd_string, query)), visitPost=_with_oxigraph_comparisons)
    )


def _with_oxigraph_comparisons(node: CompValue) -> CompValue | None:
    """A comparison evaluated by pyoxigraph; `x IN (a, b)` is `x = a || x = b`. None leaves a node as it is."""
    from rdflib.namespace import RDF
    from rdflib.plugins.sparql import operators
    from rdflib.plugins.sparql.parserutils import Expr

    if getattr(node, "name", None) != "RelationalExpression" or node.op is None or node.other == RDF.nil:
        return None
    if node.op not in ("IN", "NOT IN"):
        return Expr("RelationalExpression", _compare_terms, expr=node.expr, op=node.op, other=node.other)
    sign = "=" if node.op == "IN" else "!="
    first, *others = (
        Expr("RelationalExpression", _compare_terms, expr=node.expr, op=sign, other=v) for v in node.other
    )
    if not others:
        return first
    if sign == "=":
        return Expr("ConditionalOrExpression", operators.ConditionalOrExpression, expr=first, other=others)
    return Expr("ConditionalAndExpression", operators.ConditionalAndExpression, expr=first, other=others)


def _compare_terms(node: CompValue, _: object) -> rdflib.Literal:
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


def _without_xsd_string(token: re.Match[str]) -> str:
    """Remove the datatype xsd:string: rdflib treats a string with it and one without as different terms."""
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
