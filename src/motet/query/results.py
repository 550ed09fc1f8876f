"""Writes answers in the W3C result formats and reads them back: SPARQL JSON, XML, CSV and TSV; N-Triples and Turtle.

CSV has lost what kind of term a value is; what is read from it are plain strings. All others give back what was
written. Blank nodes keep the labels of the answer.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

from motet.model.errors import UsageError
from motet.model.terms import from_json, iri_value, is_iri, literal, literal_parts, to_json, to_oxigraph
from motet.sparql.dataset import Graph, Triple
from motet.sparql.evaluate import Answer, SolutionSequence
from motet.sparql.parse_triples import TripleParser
from motet.sparql.tokens import Document, Token, tokenise

_SRX = "http://www.w3.org/2005/sparql-results#"
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"

FORMATS = ("json", "xml", "csv", "tsv", "nt", "ttl")


def write_answer(answer: Answer, syntax: str) -> str:
    """The text of an answer in a format: ``json``, ``xml``, ``csv`` or ``tsv``; a graph as ``nt`` or ``ttl``.

    >>> print(write_answer(SolutionSequence(("x",), [{"x": "<urn:a>"}, {}]), "tsv"), end="")
    ?x
    <urn:a>
    <BLANKLINE>
    """
    writers: Mapping[str, Callable[[Any], str]]  # each takes one kind of answer
    if isinstance(answer, Graph):
        writers, what = _GRAPH_WRITERS, "a graph"
    elif isinstance(answer, bool):
        writers, what = _TRUTH_WRITERS, "the answer of ASK"
    else:
        writers, what = _SOLUTION_WRITERS, "a table of solutions"
    if syntax not in writers:
        raise UsageError(f"{what} cannot be written as {syntax!r}", advice=f"take one of {', '.join(writers)}")
    return writers[syntax](answer)


def read_answer(text: str, syntax: str) -> SolutionSequence | bool:
    """What a text in a format says.

    >>> read_answer('{"head": {}, "boolean": true}', "json")
    True
    """
    if syntax not in _READERS:
        raise UsageError(f"results cannot be read from {syntax!r}", advice=f"take one of {', '.join(_READERS)}")
    try:
        return _READERS[syntax](text)
    except (ValueError, LookupError, TypeError, AttributeError, ElementTree.ParseError) as problem:
        raise UsageError(f"this is not a SPARQL result in {syntax}: {problem}") from problem


# JSON.


def _json(solutions: SolutionSequence) -> str:
    bindings = [{name: _term_json(row[name]) for name in solutions.variables if name in row} for row in solutions.rows]
    document = {"head": {"vars": list(solutions.variables)}, "results": {"bindings": bindings}}
    return json.dumps(document, ensure_ascii=False) + "\n"


def _json_truth(truth: bool) -> str:
    return json.dumps({"head": {}, "boolean": truth}) + "\n"


def _term_json(term: str) -> dict[str, str]:
    return {"type": "bnode", "value": term[2:]} if term.startswith("_:") else to_json(term)


def _read_json(text: str) -> SolutionSequence | bool:
    document = json.loads(text)
    if "boolean" in document:
        return bool(document["boolean"])
    rows = [{name: _json_term(value) for name, value in row.items()} for row in document["results"]["bindings"]]
    return SolutionSequence(tuple(document["head"]["vars"]), rows)


def _json_term(value: Mapping[str, str]) -> str:
    return f"_:{value['value']}" if value["type"] == "bnode" else from_json(value)


# XML.


def _xml(solutions: SolutionSequence) -> str:
    head = "".join(f"<variable name={quoteattr(name)}/>" for name in solutions.variables)
    results = "\n".join(f"<result>{_xml_bindings(row, solutions.variables)}</result>" for row in solutions.rows)
    return _xml_document(f"<head>{head}</head>\n<results>\n{results}\n</results>")


def _xml_truth(truth: bool) -> str:
    return _xml_document(f"<head/>\n<boolean>{str(truth).lower()}</boolean>")


def _xml_document(content: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<sparql xmlns="{_SRX}">\n{content}\n</sparql>\n'


def _xml_bindings(row: Mapping[str, str], variables: Iterable[str]) -> str:
    return "".join(
        f"<binding name={quoteattr(name)}>{_xml_term(row[name])}</binding>" for name in variables if name in row
    )


def _xml_term(term: str) -> str:
    if is_iri(term):
        return f"<uri>{escape(iri_value(term))}</uri>"
    if term.startswith("_:"):
        return f"<bnode>{escape(term[2:])}</bnode>"
    fields = to_json(term)
    text = _xml_text(fields["value"])
    if "xml:lang" in fields:
        return f"<literal xml:lang={quoteattr(fields['xml:lang'])}>{text}</literal>"
    if "datatype" in fields:
        return f"<literal datatype={quoteattr(fields['datatype'])}>{text}</literal>"
    return f"<literal>{text}</literal>"


def _xml_text(text: str) -> str:
    """Text as XML can have it; a control character cannot be written at all."""
    if any((character < " " and character not in "\t\n\r") or character in "\ufffe\uffff" for character in text):
        raise UsageError("XML cannot have a control character of a literal", advice="take another format, such as json")
    return escape(text, {"\r": "&#13;"})


def _read_xml(text: str) -> SolutionSequence | bool:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise UsageError("results in XML have no DOCTYPE")
    root = ElementTree.fromstring(text)  # noqa: S314  (without a DOCTYPE it has no entities)
    boolean = root.find(f"{{{_SRX}}}boolean")
    if boolean is not None:
        return (boolean.text or "").strip() == "true"
    variables = tuple(element.attrib["name"] for element in root.iter(f"{{{_SRX}}}variable"))
    return SolutionSequence(variables, [_read_xml_row(result) for result in root.iter(f"{{{_SRX}}}result")])


def _read_xml_row(result: ElementTree.Element) -> dict[str, str]:
    return {binding.attrib["name"]: _read_xml_term(binding[0]) for binding in result}


def _read_xml_term(element: ElementTree.Element) -> str:
    text = element.text or ""
    match element.tag.removeprefix(f"{{{_SRX}}}"):
        case "uri":
            return f"<{text}>"
        case "bnode":
            return f"_:{text}"
        case "literal":
            return literal(text, datatype=element.get("datatype"), language=element.get(_XML_LANG))
    raise UsageError(f"<{element.tag}> is no term")


# CSV and TSV.


def _csv(solutions: SolutionSequence) -> str:
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\r\n")
    writer.writerow(solutions.variables)
    for row in solutions.rows:
        cells = [plain_text(row[name]) if name in row else "" for name in solutions.variables]
        if cells == [""]:
            target.write("\r\n")  # the writer would quote it
        else:
            writer.writerow(cells)
    return target.getvalue()


def plain_text(term: str) -> str:
    """A term as a person reads it: an IRI without brackets, a literal without quotes, language or datatype.

    >>> plain_text('"5"^^<http://www.w3.org/2001/XMLSchema#integer>')
    '5'
    """
    if is_iri(term):
        return iri_value(term)
    return term if term.startswith("_:") else literal_parts(term)[0]


def _read_csv(text: str) -> SolutionSequence:
    rows = list(csv.reader(io.StringIO(text, newline="")))
    variables = tuple(rows[0])
    return SolutionSequence(
        variables,
        [
            {name: _csv_term(cell) for name, cell in zip(variables, row or [""], strict=True) if cell}
            for row in rows[1:]
        ],
    )


def _csv_term(cell: str) -> str:
    return cell if cell.startswith("_:") else literal(cell)


def _tsv(solutions: SolutionSequence) -> str:
    lines = ["\t".join(f"?{name}" for name in solutions.variables)]
    lines += ["\t".join(row.get(name, "") for name in solutions.variables) for row in solutions.rows]
    return "".join(f"{line}\n" for line in lines)


def _read_tsv(text: str) -> SolutionSequence:
    header, *lines = text.removesuffix("\n").split("\n")
    variables = tuple(name.strip()[1:] for name in header.split("\t")) if header else ()
    rows = []
    for line in lines:
        cells = line.rstrip("\r").split("\t")
        rows.append({name: read_term(cell) for name, cell in zip(variables, cells, strict=True) if cell})
    return SolutionSequence(variables, rows)


def read_term(text: str) -> str:
    """A term in the syntax of SPARQL, numbers without quotes included; IRIs are written out.

    >>> read_term("5")
    '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    """
    document = Document(text)
    parser = TripleParser(document, tokenise(document), _written_out)
    term = parser.term()
    parser.need_end()
    return term


def _written_out(token: Token) -> str:
    return token.text[1:-1]


# Graphs.


def _ntriples(graph: Iterable[Triple]) -> str:
    return "".join(f"{subject} {predicate} {obj} .\n" for subject, predicate, obj in graph)


def _turtle(graph: Iterable[Triple]) -> str:
    import pyoxigraph

    def node(term: str) -> Any:
        return pyoxigraph.BlankNode(term[2:]) if term.startswith("_:") else to_oxigraph(term)

    triples = [pyoxigraph.Triple(node(subject), node(predicate), node(obj)) for subject, predicate, obj in graph]
    data = pyoxigraph.serialize(triples, format=pyoxigraph.RdfFormat.TURTLE)
    assert data is not None
    return data.decode()


Writers = dict[str, Callable[[Any], str]]

_SOLUTION_WRITERS: Writers = {"json": _json, "xml": _xml, "csv": _csv, "tsv": _tsv}
_TRUTH_WRITERS: Writers = {"json": _json_truth, "xml": _xml_truth}
_GRAPH_WRITERS: Writers = {"nt": _ntriples, "ttl": _turtle}
_READERS: dict[str, Callable[[str], SolutionSequence | bool]] = {
    "json": _read_json,
    "xml": _read_xml,
    "csv": _read_csv,
    "tsv": _read_tsv,
}
