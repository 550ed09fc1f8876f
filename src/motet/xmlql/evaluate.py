"""The solutions of one block on one parsed document, by the definitions of language page, section 8.

The reference engine uses it on whole documents, the engine at the elements that its index has found. First the
structure of a pattern is tested (names, texts, comparisons, casts, nested patterns), then its variables are bound, so
that elements outside the structure can cost nothing. Repeated solutions count once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized

from lxml import etree

from motet.model.errors import LimitError
from motet.model.terms import RDF, literal
from motet.model.xml_document import canonical_form
from motet.sparql.operators import CASTS
from motet.sparql.values import ExpressionError, decode
from motet.xmlql.blocks import Block, ElementPattern, NestedPattern, NumberComparison, TypedVariable, trim
from motet.xmlql.write import escape_text

MAX_SOLUTIONS = 10_000  # of a block on one document, and of any pattern inside it on one element
XML_LITERAL = RDF + "XMLLiteral"

BlockSolution = frozenset[tuple[str, str]]  # variables with their terms
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_STRING = etree.XPath("string()", smart_strings=False)
_START = re.compile(r"<([^\s>]+)")
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
}


def solutions(block: Block, root: etree._Element) -> list[dict[str, str]]:
    """The distinct solutions of a block: the terms of its variables.

    >>> from motet.xmlql.parse import parse_block
    >>> solutions(parse_block("<id>$i</id>"), etree.XML("<a><id>1</id><id> 2 </id><id>1</id></a>"))
    [{'i': '"1"'}, {'i': '"2"'}]
    """
    elements = [root] if block.is_anchored else root.iter("*")
    return Evaluation().solutions_at(block.element, elements)


class Evaluation:
    """The evaluation of patterns on one document; what it finds at an element is computed once."""

    def __init__(self) -> None:
        self._children: dict[etree._Element, dict[str, list[etree._Element]]] = {}
        self._matches: dict[tuple[int, etree._Element], bool] = {}  # by identity of the pattern
        self._solutions: dict[tuple[int, etree._Element], set[BlockSolution]] = {}

    def solutions_at(self, pattern: ElementPattern, elements: Iterable[etree._Element]) -> list[dict[str, str]]:
        """The distinct solutions of a pattern at some elements, in document order."""
        distinct: dict[BlockSolution, None] = {}
        for element in elements:
            if self.is_match(pattern, element):
                found = self._bindings(pattern, element)
                distinct.update(dict.fromkeys(sorted(found, key=sorted) if len(found) > 1 else found))
                _check_size(distinct)
        return [dict(sorted(solution)) for solution in distinct]

    def accept(self, patterns: Iterable[ElementPattern], element: etree._Element) -> None:
        """Take it as known that an element has the structure of some patterns."""
        for pattern in patterns:
            self._matches[id(pattern), element] = True

    def is_match(self, pattern: ElementPattern, element: etree._Element) -> bool:
        """Whether an element has the structure of a pattern; equal values of equal variables are no part of it."""
        if not pattern.nested:
            return has_own_structure(pattern, element)
        key = id(pattern), element
        is_match = self._matches.get(key)
        if is_match is None:
            is_match = has_own_structure(pattern, element)
            for nested in pattern.nested if is_match else ():
                if not self.has_inside(nested, element):
                    is_match = False
                    break
            self._matches[key] = is_match
        return is_match

    def has_inside(self, nested: NestedPattern, element: etree._Element) -> bool:
        """Whether an element inside another has the structure of a nested pattern."""
        pattern, is_match = nested.element, self.is_match
        for inner in self.inside(nested, element):  # noqa: SIM110  (twice as fast as any)
            if is_match(pattern, inner):
                return True
        return False

    def inside(self, nested: NestedPattern, element: etree._Element) -> Iterable[etree._Element]:
        """The elements inside another that a nested pattern may match by their names, in document order."""
        names = nested.element.names
        if nested.is_descendant:
            return element.iterdescendants(*names or ("*",))
        if len(names) == 1:
            return self.children(element).get(names[0], ())
        return element.iterchildren(*names or ("*",))

    def children(self, element: etree._Element) -> Mapping[str, Sequence[etree._Element]]:
        """The children of an element by their names."""
        found = self._children.get(element)
        if found is None:
            found = self._children[element] = {}
            for child in element:
                name = child.tag  # of a comment or a processing instruction no text
                if name in found:
                    found[name].append(child)
                else:
                    found[name] = [child]
        return found

    def _bindings(self, pattern: ElementPattern, element: etree._Element) -> set[BlockSolution]:
        """The solutions of a pattern at an element that has its structure."""
        if not pattern.nested:
            return {own} if (own := _own_bindings(pattern, element)) is not None else set()
        key = id(pattern), element
        joined = self._solutions.get(key)
        if joined is None:
            own = _own_bindings(pattern, element)
            joined = set() if own is None else {own}
            for nested in pattern.nested if joined else ():
                if nested.element.has_variables:
                    joined = _join(joined, self._bindings_inside(nested, element))
            self._solutions[key] = joined
        return joined

    def _bindings_inside(self, nested: NestedPattern, element: etree._Element) -> set[BlockSolution]:
        inside: set[BlockSolution] = set()
        for inner in self.inside(nested, element):
            if self.is_match(nested.element, inner):
                inside |= self._bindings(nested.element, inner)
                _check_size(inside)
        return inside


def has_own_structure(pattern: ElementPattern, element: etree._Element) -> bool:
    """Whether an element has the names, attributes and text of a pattern, whatever is nested."""
    if pattern.names and element.tag not in pattern.names:
        return False
    for attribute in pattern.attributes:
        value = element.get(attribute.name)
        if value is None:
            return False
        if isinstance(attribute.value, str):
            if trim(value) != attribute.value:
                return False
        elif cast(trim(value), attribute.value) is None:
            return False
    return (pattern.text is None or text_of(element) == pattern.text) and (
        pattern.value is None or _is_value(element, pattern.value)
    )


def text_of(element: etree._Element) -> str:
    """The text of an element: XPath ``string()``, trimmed."""
    if not len(element):
        return trim(element.text or "")
    return trim(str(_STRING(element)))


def as_number(text: str) -> float | None:
    """The number that a text is; None for any other text."""
    return float(text) if _NUMBER.fullmatch(text) else None


def cast(text: str, variable: TypedVariable) -> str | None:
    """The term that a text is for a variable; None if the cast fails."""
    term = literal(text)
    if variable.datatype is None:
        return term
    try:
        return CASTS[variable.datatype](decode(term)).term
    except ExpressionError:
        return None


def canonical_content(element: etree._Element, *, is_isolated: bool = False) -> str:
    """The content of an element: the texts and the canonical forms of the children.

    Isolated content means the same below any element: it takes no default namespace from there.
    """
    parts = [escape_text(element.text or "")]
    for child in element:
        if isinstance(child.tag, str):
            text = canonical_form(child).decode()
            parts.append(
                _START.sub(r'<\1 xmlns=""', text, count=1) if is_isolated and None not in child.nsmap else text
            )
        elif child.tag is etree.ProcessingInstruction:
            parts.append(etree.tostring(child, with_tail=False, encoding="unicode"))
        parts.append(escape_text(child.tail or ""))
    return "".join(parts)


def _is_value(element: etree._Element, value: TypedVariable | NumberComparison) -> bool:
    """Whether the text of an element can be cast, and is a number for which the comparison holds."""
    if isinstance(value, TypedVariable):
        return value.datatype is None or cast(text_of(element), value) is not None
    text = text_of(element)
    number = as_number(text)
    if number is None or cast(text, value.variable) is None:
        return False
    return _COMPARE[value.operator](number, float(value.number))


def _own_bindings(pattern: ElementPattern, element: etree._Element) -> BlockSolution | None:
    """What the element itself binds; None if one variable would have two values."""
    terms = frozenset(_own_terms(pattern, element))
    return terms if len(terms) < 2 or len(dict(terms)) == len(terms) else None


def _own_terms(pattern: ElementPattern, element: etree._Element) -> list[tuple[str, str]]:
    terms: list[tuple[str, str]] = []
    if pattern.tag_variable is not None:
        terms.append((pattern.tag_variable, literal(element.tag)))
    for attribute in pattern.attributes:
        if isinstance(attribute.value, TypedVariable):
            terms.append((attribute.value.variable, _term(element.get(attribute.name) or "", attribute.value)))
    if pattern.value is not None:
        variable = pattern.value.variable if isinstance(pattern.value, NumberComparison) else pattern.value
        terms.append((variable.variable, _term(text_of(element), variable)))
    for name in pattern.element_as:
        terms.append((name, literal(canonical_form(element).decode(), datatype=XML_LITERAL)))
    for name in pattern.content_as:
        terms.append((name, literal(canonical_content(element), datatype=XML_LITERAL)))
    return terms


def _term(text: str, variable: TypedVariable) -> str:
    term = cast(trim(text), variable)
    assert term is not None, "the structure of the element has been tested"
    return term


def _join(left: set[BlockSolution], right: set[BlockSolution]) -> set[BlockSolution]:
    joined: set[BlockSolution] = set()
    for one in left:
        for two in right:
            union = one | two
            if len(dict(union)) == len(union):
                joined.add(union)
        _check_size(joined)
    return joined


def _check_size(solutions: Sized) -> None:
    if len(solutions) > MAX_SOLUTIONS:
        raise LimitError(
            f"a block has more than {MAX_SOLUTIONS} solutions on one document",
            advice="Give its nested patterns fewer independent variables.",
        )
