"""Translates SPARQL text to the algebra by rdflib's parser, which no other module uses.

rdflib parses, this module translates its parse tree as section 18.2.2 of SPARQL 1.1 says, and pyoxigraph has the last
word on syntax, because rdflib accepts invalid patterns. Whatever is not understood is refused, never dropped.

rdflib is not trusted with text it would change. Before it parses, strings and numbers are replaced by their position
in a list (it expands tabs, escapes twice, normalises numbers and fails on ``-1.5``); the inverse members of ``!(^p)``,
whose IRI it loses, travel as IRIs that begin with ``!``; and white space before ``^^``, ``@`` and the path modifiers,
which it refuses, is taken out.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from motet.model.errors import LimitError, SubscriptionError
from motet.model.terms import RDF, XSD, iri, literal
from motet.sparql import algebra
from motet.sparql.parse_expressions import ExpressionReader
from motet.sparql.rewrite import join

MAX_LENGTH = 20_000
MAX_OPERATORS = 150  # brackets and operators: they bound the depth of the tree, for rdflib, pyoxigraph and the engine

_STRING = "|".join(
    (
        r'"""(?:"{0,2}(?:[^"\\]|\\.))*"""',
        r"'''(?:'{0,2}(?:[^'\\]|\\.))*'''",
        r'"(?:[^"\\\n\r]|\\.)*"',
        r"'(?:[^'\\\n\r]|\\.)*'",
    )
)
_IRI = r'<[^<>"{}|^`\\\x00-\x20]*>'
_IRIS = re.compile(_IRI)
_OPERATORS = re.compile(r"[(\[{+*/|&!^-]|<<")
_MANTISSA = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_MEMBER = rf"\^?\s*(?:{_IRI}|a\b)"
_TOKENS = re.compile(
    rf"(?P<string>{_STRING})"
    rf"|(?P<negated>!\s*(?:\(\s*{_MEMBER}(?:\s*\|\s*{_MEMBER})*\s*\)|\^\s*(?:{_IRI}|a\b)))"
    rf"|{_IRI}|(?P<comment>#[^\n]*)"
    rf"|[?$]\w+|_:[\w.-]+|@[A-Za-z]+(?:-[A-Za-z0-9]+)*|[^\W\d][\w-]*:[\w.:-]*|[^\W\d]\w*"
    rf"|(?P<double>{_MANTISSA}[eE][+-]?[0-9]+)|(?P<decimal>[0-9]*\.[0-9]+)|(?P<integer>[0-9]+)"
    r"|(?P<gap>\s+(?=\^\^|@[A-Za-z]|\*|\+(?![0-9.])|\?(?!\w))|(?<=\^\^)\s+)",
    re.DOTALL,
)
_INVERSE_MEMBER = re.compile(r"\^\s*(?:<(?P<iri>[^>]*)>|a\b)")
_ESCAPES = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_NAMED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_LIST_FUNCTION = re.compile(r"\b(CONCAT|COALESCE)\s+\(", re.IGNORECASE)  # pyoxigraph wants them without the space
_ERROR_POSITION = re.compile(r"error at (\d+):(\d+)")

_GROUP = ("SELECT * WHERE { {\n", "\n} }")
_FILTER = ("SELECT * WHERE { { FILTER (\n", "\n) } }")
_REFUSED_ELEMENTS = {"GraphGraphPattern": "GRAPH", "ServiceGraphPattern": "SERVICE", "SubSelect": "a subquery"}


def read_group(text: str) -> algebra.Algebra:
    """The algebra of a group graph pattern, given without its outer braces and with all IRIs written out.

    >>> read_group("?e <urn:level> ?l")
    Bgp(triples=(Triple(subject='?e', predicate='<urn:level>', object='?l'),))
    """
    reader = _GroupReader(text)
    pattern = reader.group(_only_group(reader.parse(_GROUP), text))
    _check_syntax(text, _GROUP)
    return pattern


def read_expression(text: str) -> algebra.Expr:
    """The tree of an expression, given without its outer parentheses and with all IRIs written out.

    >>> read_expression("?l > 3")  # doctest: +ELLIPSIS
    Compare(operator='>', left=Variable(name='l'), right=Constant(term='"3"^^<...integer>'))
    """
    reader = _GroupReader(text)
    parts = _only_group(reader.parse(_FILTER), text).part or []
    if len(parts) != 1 or parts[0].name != "Filter":
        raise SubscriptionError("more than one expression stands here", text=text, position=0)
    expression = reader.expressions.read(parts[0].expr)
    _check_syntax(text, _FILTER)
    return expression


@lru_cache(maxsize=4096)
def check_group(text: str) -> None:
    """Refuse a group graph pattern that is not valid SPARQL."""
    _check_length(text)
    _check_syntax(text, _GROUP)


@lru_cache(maxsize=4096)
def check_expression(text: str) -> None:
    """Refuse an expression that is not valid SPARQL."""
    _check_length(text)
    _check_syntax(text, _FILTER)


@lru_cache(maxsize=4096)
def check_template(text: str) -> None:
    """Refuse a text that is not a CONSTRUCT template."""
    import pyoxigraph

    try:
        pyoxigraph.Store().query(f"CONSTRUCT {{ {text} }} WHERE {{ FILTER(false) }}")
    except SyntaxError:
        raise SubscriptionError("not a template of triples", text=text, position=0, advice="no paths here") from None


class _GroupReader:
    """Translates the parse tree of one text; knows its strings and numbers its hidden variables."""

    def __init__(self, text: str) -> None:
        _check_length(text)
        self.text = text
        self.strings: list[str] = []
        self.numbers: list[tuple[str, str]] = []
        self.hidden: dict[str, str] = {}
        self.expressions = ExpressionReader(self.term, self.group, self.refuse)

    def parse(self, frame: tuple[str, str]) -> Any:
        """rdflib's parse tree of the text inside a query."""
        import rdflib
        from pyparsing import ParseException
        from rdflib.plugins.sparql.parser import parseQuery

        shielded = _TOKENS.sub(self._shield, self.text)
        if len(_OPERATORS.findall(_IRIS.sub("", shielded))) > MAX_OPERATORS:
            raise LimitError(
                f"a pattern with more than {MAX_OPERATORS} brackets and operators", advice="split the subscription"
            )
        normalize, rdflib.NORMALIZE_LITERALS = rdflib.NORMALIZE_LITERALS, False  # or it drops a plus sign
        try:
            return parseQuery(frame[0] + shielded + frame[1])[1]
        except ParseException as problem:
            if "service" not in shielded.lower():
                _check_syntax(self.text, frame)  # pyoxigraph knows the place better
            position = self._original_position(problem.loc - len(frame[0]))
            raise SubscriptionError("this is not SPARQL 1.1", text=self.text, position=position) from problem
        except RecursionError as problem:
            raise LimitError("a pattern is nested too deeply", advice="write it with fewer parentheses") from problem
        finally:
            rdflib.NORMALIZE_LITERALS = normalize

    def group(self, group: Any) -> algebra.Algebra:
        pattern, filters = self._parts(group)
        return algebra.Filter(pattern, _conjunction(filters)) if filters else pattern

    def refuse(self, what: str, keyword: str, advice: str | None = None) -> SubscriptionError:
        """The error for something the language does not have, at the first place its keyword stands."""
        occurrence = re.search(rf"\b{re.escape(keyword)}\b", self.text, re.IGNORECASE)
        return SubscriptionError(what, text=self.text, position=occurrence.start() if occurrence else 0, advice=advice)

    def term(self, node: Any) -> str:
        """A term or variable of the algebra."""
        import rdflib

        if isinstance(node, rdflib.Variable):
            return f"?{node}"
        if isinstance(node, rdflib.BNode):
            return self.hidden.setdefault(str(node), f"?.{len(self.hidden)}")
        if isinstance(node, rdflib.URIRef):
            return iri(str(node))
        if isinstance(node, rdflib.Literal):
            boolean = str(node.datatype) == XSD + "boolean"
            return literal(str(node), datatype=XSD + "boolean") if boolean else self._number(str(node))
        if getattr(node, "name", None) == "literal":
            datatype = str(node.datatype) if node.datatype is not None else None
            return literal(self.strings[int(node.string)], datatype=datatype, language=node.lang)
        if getattr(node, "name", None) == "pname":
            name = f"{node.prefix or ''}:{node.localname or ''}"
            raise self.refuse(f"'{name}' is not written out as an IRI", name)
        raise self.refuse(f"'{getattr(node, 'name', node)}' is not supported here", str(node))

    def _parts(self, group: Any) -> tuple[algebra.Algebra, list[algebra.Expr]]:
        """The pattern of a group and, apart from it, its filters: OPTIONAL wants them separately."""
        if group.name != "GroupGraphPatternSub":
            self._refuse_element(group)
        pattern: algebra.Algebra = algebra.EMPTY
        filters: list[algebra.Expr] = []
        for element in group.part or []:
            if element.name == "Filter":
                filters.append(self.expressions.read(element.expr))
            else:
                pattern = self._add(pattern, element)
        return pattern, filters

    def _add(self, pattern: algebra.Algebra, element: Any) -> algebra.Algebra:  # noqa: PLR0911  (one return for each case)
        match element.name:
            case "TriplesBlock":
                return join(pattern, algebra.Bgp(tuple(self._triples(element.triples))))
            case "OptionalGraphPattern":
                right, filters = self._parts(element.graph)
                return algebra.LeftJoin(pattern, right, _conjunction(filters) if filters else None)
            case "MinusGraphPattern":
                return algebra.Minus(pattern, self.group(element.graph))
            case "GroupOrUnionGraphPattern":
                return join(pattern, _unite([self.group(branch) for branch in element.graph]))
            case "Bind":
                return algebra.Extend(pattern, str(element.var), self.expressions.read(element.expr))
            case "InlineData":
                return join(pattern, self._values(element))
        return self._refuse_element(element)

    def _refuse_element(self, element: Any) -> Any:
        keyword = _REFUSED_ELEMENTS.get(element.name, element.name)
        advice = "the body of an event is matched against that event's own graph and the background"
        raise self.refuse(f"{keyword} is not allowed here", keyword.replace("a subquery", "SELECT"), advice)

    def _values(self, element: Any) -> algebra.Values:
        variables = tuple(str(variable) for variable in element.var)
        rows = [[row] if len(variables) == 1 and not _is_row(row) else row for row in element.value or []]
        return algebra.Values(
            variables, tuple(tuple(None if cell == "UNDEF" else self.term(cell) for cell in row) for row in rows)
        )

    def _triples(self, blocks: Any) -> list[algebra.Triple]:
        triples: list[algebra.Triple] = []
        for block in blocks:
            for index in range(0, len(block), 3):
                subject, verb, obj = block[index : index + 3]
                triples += self._triple(self.term(subject), self._verb(verb), self.term(obj))
        return triples

    def _triple(self, subject: str, verb: str | algebra.Path, obj: str) -> list[algebra.Triple]:
        """Links, inverses and sequences become plain triples; the other paths stay."""
        match verb:
            case algebra.Link(name):
                return [algebra.Triple(subject, name, obj)]
            case algebra.Inverse(path):
                return self._triple(obj, path, subject)
            case algebra.Sequence((first, *rest)):
                if not rest:
                    return self._triple(subject, first, obj)
                between = self.hidden.setdefault(f"step {len(self.hidden)}", f"?.{len(self.hidden)}")
                return self._triple(subject, first, between) + self._triple(between, algebra.Sequence(tuple(rest)), obj)
        return [algebra.Triple(subject, verb, obj)]

    def _verb(self, node: Any) -> str | algebra.Path:
        """A variable stays a variable, everything else is a path."""
        path = self._path(node)
        return path.iri if isinstance(path, algebra.Link) and path.iri.startswith("?") else path

    def _path(self, node: Any) -> algebra.Path:
        match getattr(node, "name", None):
            case "PathAlternative":
                parts = tuple(self._path(part) for part in node.part)
                return parts[0] if len(parts) == 1 else algebra.Alternative(parts)
            case "PathSequence":
                parts = tuple(self._path(part) for part in node.part)
                return parts[0] if len(parts) == 1 else algebra.Sequence(parts)
            case "PathEltOrInverse":
                return algebra.Inverse(self._path(node.part))
            case "PathElt":
                return self._repeated(self._path(node.part), node.mod)
            case "PathNegatedPropertySet":
                return _negated([self.term(part) for part in node.part or []])
        return algebra.Link(self.term(node))

    def _repeated(self, path: algebra.Path, modifier: str | None) -> algebra.Path:
        match modifier:
            case None:
                return path
            case "*":
                return algebra.ZeroOrMore(path)
            case "+":
                return algebra.OneOrMore(path)
            case "?":
                return algebra.ZeroOrOne(path)
        raise self.refuse(f"the path modifier '{modifier}' is not supported", str(modifier))

    def _shield(self, token: re.Match[str]) -> str:
        match token.lastgroup:
            case "string":
                self.strings.append(_string_value(token[0]))
                return f'"{len(self.strings) - 1}"'
            case "integer" | "decimal" | "double":
                self.numbers.append((token[0], XSD + token.lastgroup))
                return str(len(self.numbers))  # counted from 1, because there is no minus zero
            case "negated":
                return _INVERSE_MEMBER.sub(_mark_inverse, token[0])
            case "comment" | "gap":
                return ""
        return token[0]

    def _number(self, shielded: str) -> str:
        sign = shielded[0] if shielded[0] in "+-" else ""
        text, datatype = self.numbers[abs(int(shielded)) - 1]
        return literal(sign + text, datatype=datatype)

    def _original_position(self, position: int) -> int:
        """Where a place of the shielded text is in the text as written."""
        shielded = original = 0
        self.strings.clear()
        self.numbers.clear()
        for token in _TOKENS.finditer(self.text):
            before = token.start() - original
            if shielded + before > position:
                break
            shielded += before + len(self._shield(token))
            original = token.end()
        return original + max(0, position - shielded)


def _only_group(query: Any, text: str) -> Any:
    """The group the text is; a text that closes its own braces is refused."""
    parts = (query.where.part or []) if query.name == "SelectQuery" and set(query) == {"where"} else []
    if len(parts) != 1 or parts[0].name != "GroupOrUnionGraphPattern" or len(parts[0].graph) != 1:
        raise SubscriptionError("the braces or parentheses are not balanced", text=text, position=0)
    return parts[0].graph[0]


def _check_length(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise LimitError(f"a pattern of {len(text)} characters; at most {MAX_LENGTH} are allowed")


def _check_syntax(text: str, frame: tuple[str, str]) -> None:
    """Ask pyoxigraph; nothing is evaluated, SERVICE has been refused before."""
    import pyoxigraph

    try:
        pyoxigraph.Store().query(frame[0] + _LIST_FUNCTION.sub(r"\1(", text) + frame[1])
    except SyntaxError as problem:
        match = _ERROR_POSITION.search(str(problem))
        position = _offset(text, int(match[1]) - 1, int(match[2])) if match else 0
        raise SubscriptionError("this is not valid SPARQL", text=text, position=position) from problem


def _offset(text: str, line: int, column: int) -> int:
    """The offset of a line and column, both from 1; columns count UTF-8 bytes."""
    lines = text.split("\n")
    if line > len(lines):
        return 0  # the text as a whole is wrong, not a place in it
    lines = lines[: max(line, 1)]
    last = lines[-1].encode()[: max(column - 1, 0)].decode(errors="ignore")
    return sum(len(before) + 1 for before in lines[:-1]) + len(last)


def _unite(branches: list[algebra.Algebra]) -> algebra.Algebra:
    united = branches[0]
    for branch in branches[1:]:
        united = algebra.Union(united, branch)
    return united


def _conjunction(conditions: list[algebra.Expr]) -> algebra.Expr:
    return conditions[0] if len(conditions) == 1 else algebra.And(tuple(conditions))


def _negated(members: list[str]) -> algebra.NegatedSet:
    forward = tuple(member for member in members if not member.startswith("<!"))
    backward = tuple(iri(member[2:-1]) for member in members if member.startswith("<!"))
    return algebra.NegatedSet(forward if forward or not backward else None, backward or None)


def _is_row(row: Any) -> bool:
    return not isinstance(row, str) and getattr(row, "name", None) != "literal"


def _mark_inverse(member: re.Match[str]) -> str:
    return f"<!{member['iri'] or RDF + 'type'}>"


def _string_value(token: str) -> str:
    quotes = 3 if token[:3] in ('"""', "'''") else 1
    return _ESCAPES.sub(_unescape, token[quotes:-quotes])


def _unescape(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else _NAMED.get(escape[3], escape[0])
