"""Reads blocks and templates of EXML-QL from a document, with the position of every error (language page, section 8).

Namespaces are declared by the PREFIX lines of the document, or as in XML by ``xmlns`` attributes. The normal text of a
block or template, written by ``write``, declares all of its own, so that it stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Generic, NamedTuple, NoReturn, TypeVar

from motet.model.terms import XSD
from motet.sparql.operators import CASTS
from motet.sparql.prologue import Prologue
from motet.sparql.tokens import Document, Token
from motet.sparql.values import NUMERIC_RANK
from motet.xmlql.blocks import (
    AttributePattern,
    Block,
    ElementPattern,
    NestedPattern,
    NumberComparison,
    TemplateAttribute,
    TemplateElement,
    TemplateVariable,
    TypedVariable,
    split_name,
    trim,
)

MAX_ELEMENTS = 200  # of a block or a template
MAX_LEVELS = 32
XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"

_NAME_FIRST = "A-Za-z_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"  # noqa: E501
_NAME = rf"[{_NAME_FIRST}][{_NAME_FIRST}0-9.\-\u00b7\u0300-\u036f\u203f\u2040]*"
_QNAME = re.compile(rf"(?:({_NAME}):)?({_NAME})")
_VARIABLE = re.compile(r"\$([A-Za-z_\u00c0-\uffff][A-Za-z0-9_\u00c0-\uffff]*)")
_SPACE = re.compile(r"(?:\s|<!--(?:(?!--).)*-->)*", re.DOTALL)
_STRING = re.compile(r"\"[^\"<]*\"|'[^'<]*'")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_OPERATOR = re.compile(rf"<=|>=|!=|[>=]|<(?![{_NAME_FIRST}$/!?])")
_TEXT = re.compile(r"[^<$]+")
_ENTITY = re.compile(r"&(?:#x([0-9A-Fa-f]{1,6})|#([0-9]{1,7})|(amp|lt|gt|quot|apos));|&")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_CLAUSE = re.compile(r"(ELEMENT_AS|CONTENT_AS)\b", re.IGNORECASE)
_PATH_SIGN = re.compile(r"[*+?.|()]|/(?!>)")
_NO_PATHS = "regular path expressions of XML-QL are no part of EXML-QL, but for '//' and alternatives of names"
_NO_QUERY = "nested queries of XML-QL are no part of EXML-QL"
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


T = TypeVar("T")
Content = tuple[str | TemplateVariable | TemplateElement, ...]


class QName(NamedTuple):
    """A name as it is written."""

    prefix: str
    local: str
    position: int


class ParsedFragment(NamedTuple, Generic[T]):
    tree: T
    end: int  # the position behind it


def read_block(prologue: Prologue, position: int) -> ParsedFragment[Block]:
    """The block that begins at a position.

    >>> prologue = Prologue(Document("<order><id>$i</></order> rest"))
    >>> read_block(prologue, 0).end
    24
    """
    return _Reader(prologue, position).block()


def read_template(prologue: Prologue, position: int) -> ParsedFragment[TemplateElement]:
    """The template of an XML event that begins at a position."""
    return _Reader(prologue, position).template()


@lru_cache(maxsize=4096)
def parse_block(text: str) -> Block:
    """The block of a text that stands alone.

    >>> parse_block("//order").element
    Traceback (most recent call last):
    ...
    motet.model.errors.SubscriptionError: line 1, column 3: an element such as <order>…</order> is missing
      //order
        ^
    """
    return _whole(text, read_block)


@lru_cache(maxsize=4096)
def parse_template(text: str) -> TemplateElement:
    """The template of a text that stands alone."""
    return _whole(text, read_template)


def _whole(text: str, read: Callable[[Prologue, int], ParsedFragment[T]]) -> T:
    document = Document(text)
    tree, end = read(Prologue(document), 0)
    if rest := text[end:].strip():
        raise document.refusal(f"'{rest[:20]}' cannot stand here", len(text) - len(text[end:].lstrip()))
    return tree


class _Reader:
    """Reads from left to right."""

    def __init__(self, prologue: Prologue, position: int) -> None:
        self._prologue = prologue
        self._document = prologue.document
        self._text = prologue.document.text
        self._at = position
        self._elements = 0
        self._used_prefixes: dict[str, str] = {}  # of the prologue

    # Blocks.

    def block(self) -> ParsedFragment[Block]:
        self._space()
        slashes = self._slashes()
        return ParsedFragment(Block(self._element({}, 1), slashes == "/"), self._at)

    def _slashes(self) -> str:
        slashes = re.compile(r"/{0,3}").match(self._text, self._at)
        assert slashes is not None, "the expression matches the empty text"
        if len(slashes[0]) > 2:
            self._refuse("'///' is no path: write '/' for the root or '//' for any depth")
        self._at = slashes.end()
        self._space()
        return slashes[0]

    def _element(self, namespaces: Mapping[str, str], level: int) -> ElementPattern:
        opening = self._open(level)
        names, tag_variable, written_tag = self._tag()
        attributes, declared = self._attributes(self._typed)
        namespaces = {**namespaces, **declared}
        expanded = tuple(self._expand(each, namespaces) for each in names)
        if len(set(expanded)) != len(expanded):
            self._refuse("an alternative stands twice", at=opening)
        patterns = tuple(
            AttributePattern(self._expand_attribute(name, namespaces), _trimmed(value)) for name, value in attributes
        )
        pattern = ElementPattern(expanded, tag_variable, patterns)
        if not self._takes("/>"):
            self._sign(">")
            pattern = self._content(pattern, namespaces, level)
            self._close(written_tag, opening)
        return self._bound(pattern)

    def _content(self, pattern: ElementPattern, namespaces: Mapping[str, str], level: int) -> ElementPattern:
        self._space()
        if self._text.startswith("$", self._at):
            return self._variable_content(pattern)
        at, text = self._at, self._text_run()
        if text.strip():
            self._refuse_query(text, at)
            self._refuse_mixed("text")
            return replace(pattern, text=trim(self._decoded(text, at)))
        nested: list[NestedPattern] = []
        while not self._text.startswith("</", self._at) and self._at < len(self._text):
            nested.append(self._nested(namespaces, level))
            self._space()
        return replace(pattern, nested=tuple(nested))

    def _variable_content(self, pattern: ElementPattern) -> ElementPattern:
        variable = self._typed()
        value: TypedVariable | NumberComparison = variable
        self._space()
        if operator := _OPERATOR.match(self._text, self._at):
            at = self._at
            self._at = operator.end()
            self._space()
            number = _NUMBER.match(self._text, self._at)
            if number is None:
                self._refuse("a comparison in a block needs a number", advice="write <price> $v > 100 </price>")
            self._at = number.end()
            if variable.datatype and variable.datatype not in _NUMERIC:
                self._refuse(f"a value of <{variable.datatype}> is not compared as a number", at=at)
            value = NumberComparison(variable, operator[0], number[0])
            self._space()
        self._refuse_mixed("a variable")
        return replace(pattern, value=value)

    def _nested(self, namespaces: Mapping[str, str], level: int) -> NestedPattern:
        at = self._at
        if self._text.startswith("$", at) or self._text_run().strip():
            self._refuse_mixed("an element", at)
        at, slashes = self._at, self._slashes()
        if slashes == "/":
            self._refuse("'/' stands only before a block: nested patterns are children anyway", at=at)
        if not self._text.startswith("<", self._at):
            if _PATH_SIGN.match(self._text, self._at):
                self._refuse(_NO_PATHS, at=at)
            self._refuse("an element such as <order>…</order> is missing")
        return NestedPattern(self._element(namespaces, level + 1), slashes == "//")

    def _bound(self, pattern: ElementPattern) -> ElementPattern:
        """What ELEMENT_AS and CONTENT_AS after the element bind."""
        variables: dict[str, list[str]] = {"ELEMENT_AS": [], "CONTENT_AS": []}
        while clause := _CLAUSE.match(self._text, self._after_space()):
            self._at = clause.end()
            self._space()
            variables[clause[1].upper()].append(self._variable())
        return replace(pattern, element_as=tuple(variables["ELEMENT_AS"]), content_as=tuple(variables["CONTENT_AS"]))

    # Templates.

    def template(self) -> ParsedFragment[TemplateElement]:
        self._space()
        root = self._template_element({}, 1)
        declared = dict(root.namespaces)
        missing = tuple((prefix, iri) for prefix, iri in sorted(self._used_prefixes.items()) if prefix not in declared)
        namespaces = tuple(sorted((*root.namespaces, *missing)))
        return ParsedFragment(TemplateElement(root.name, root.attributes, root.content, namespaces), self._at)

    def _template_element(self, namespaces: Mapping[str, str], level: int) -> TemplateElement:
        opening = self._open(level)
        names, tag_variable, written_tag = self._tag()
        if len(names) > 1:
            self._refuse("a template has no alternatives: the element needs one name", at=opening)
        attributes, declared = self._attributes(lambda: TemplateVariable(self._variable()))
        namespaces = {**namespaces, **declared}
        expanded = [self._expand(each, namespaces) for each in names]
        name = expanded[0] if tag_variable is None else TemplateVariable(tag_variable)
        values = tuple(TemplateAttribute(self._expand_attribute(each, namespaces), value) for each, value in attributes)
        content: Content = ()
        if not self._takes("/>"):
            self._sign(">")
            content = self._template_content(namespaces, level)
            self._close(written_tag, opening)
        if _CLAUSE.match(self._text, self._after_space()):
            self._space()
            self._refuse("ELEMENT_AS and CONTENT_AS bind in blocks; a template inserts $variable")
        return TemplateElement(name, values, content, tuple(sorted(declared.items())))

    def _template_content(self, namespaces: Mapping[str, str], level: int) -> Content:
        """White space alone separates; other text is kept, but for white space at the ends of the content."""
        items: list[str | TemplateVariable | TemplateElement] = []
        while self._at < len(self._text) and not self._text.startswith("</", self._at):
            at = self._at
            if self._text.startswith("<!--", self._at):
                self._space()
            elif self._text.startswith("$", self._at):
                items.append(TemplateVariable(self._variable()))
                if self._text.startswith("^^", self._at):
                    self._refuse("a template inserts variables as they are: '^^' is for blocks")
            elif self._text.startswith("<", self._at):
                items.append(self._template_element(namespaces, level + 1))
            else:
                text = self._text_run()
                if not text:
                    self._refuse("'/' and '//' are for blocks: a template has elements, texts and variables")
                self._refuse_query(text, at)
                text = text.lstrip() if not items else text
                text = text.rstrip() if self._text.startswith("</", self._at) else text
                if text.strip():
                    items.append(self._decoded(text, at))
        return tuple(items)

    # What both have.

    def _open(self, level: int) -> int:
        opening = self._at
        if not self._text.startswith("<", self._at):
            self._refuse("an element such as <order>…</order> is missing")
        if self._text.startswith(("<?", "<!"), self._at):
            self._refuse("processing instructions, CDATA and declarations cannot stand here", advice="write elements")
        self._elements += 1
        if self._elements > MAX_ELEMENTS:
            self._refuse(f"more than {MAX_ELEMENTS} elements")
        if level > MAX_LEVELS:
            self._refuse(f"elements nested more than {MAX_LEVELS} deep")
        self._at += 1
        return opening

    def _tag(self) -> tuple[list[QName], str | None, str]:
        """The names, or the tag variable; and what was written."""
        begin = self._at
        if self._text.startswith("$", self._at):
            variable = self._variable()
            return [], variable, f"${variable}"
        names: list[QName] = []
        while not names or self._takes("|"):
            at = self._at
            name = _QNAME.match(self._text, at)
            if name is None:
                path = _PATH_SIGN.match(self._text, at)
                self._refuse(_NO_PATHS if path else "the name of an element is missing")
            self._at = name.end()
            names.append(QName(name[1] or "", name[2], at))
        if sign := _PATH_SIGN.match(self._text, self._at):
            self._refuse(_NO_PATHS, at=sign.start())
        return names, None, self._text[begin : self._at]

    def _attributes(self, variable: Callable[[], T]) -> tuple[list[tuple[QName, str | T]], dict[str, str]]:
        """The attributes, and the namespaces that they declare by prefix."""
        attributes: list[tuple[QName, str | T]] = []
        declared: dict[str, str] = {}
        written: set[str] = set()
        self._space()
        while name := _QNAME.match(self._text, self._at):
            at, self._at = self._at, name.end()
            if name[0] in written:
                self._refuse(f"the attribute '{name[0]}' stands twice", at=at)
            written.add(name[0])
            self._space()
            self._sign("=")
            self._space()
            value = self._attribute_value(variable)
            if name[1] == "xmlns" or (name[2] == "xmlns" and not name[1]):
                prefix = name[2] if name[1] else ""
                declared[prefix] = self._namespace(prefix, value, at)
            else:
                attributes.append((QName(name[1] or "", name[2], at), value))
            self._space()
        return attributes, declared

    def _attribute_value(self, variable: Callable[[], T]) -> str | T:
        if self._text.startswith("$", self._at):
            return variable()
        string = _STRING.match(self._text, self._at)
        if string is None:
            self._refuse('an attribute is compared with a "text" or bound to a $variable')
        at, self._at = self._at, string.end()
        return self._decoded(string[0][1:-1], at + 1)

    def _namespace(self, prefix: str, value: object, at: int) -> str:
        if not isinstance(value, str):
            self._refuse("a namespace is a text, not a variable", at=at)
        if prefix in ("xml", "xmlns") or value == XML_NAMESPACE or (prefix and not value):
            self._refuse(f"the prefix '{prefix}' cannot be declared so", at=at)
        return value

    def _expand(self, name: QName, namespaces: Mapping[str, str]) -> str:
        prefix, local, at = name
        if not prefix:
            default = namespaces.get("", "")
            return f"{{{default}}}{local}" if default else local
        if prefix == "xml":
            return f"{{{XML_NAMESPACE}}}{local}"
        if prefix in namespaces:
            return f"{{{namespaces[prefix]}}}{local}"
        namespace = self._prologue.expand(Token("PNAME", f"{prefix}:", at))
        self._used_prefixes[prefix] = namespace
        return f"{{{namespace}}}{local}"

    def _expand_attribute(self, name: QName, namespaces: Mapping[str, str]) -> str:
        return self._expand(name, namespaces) if name.prefix else name.local

    def _close(self, written_tag: str, opening: int) -> None:
        if self._text.startswith("</", self._at):
            self._at += 2
            self._space()
            name = _QNAME.match(self._text, self._at) or _VARIABLE.match(self._text, self._at)
            if name is not None:
                alternatives = re.compile(rf"{re.escape(written_tag)}(?=\s*>)").match(self._text, self._at)
                if alternatives is None:
                    self._refuse(
                        f"</{name[0]}> does not close <{written_tag}>", advice=f"write </{written_tag}> or </>"
                    )
                self._at = alternatives.end()
                self._space()
            self._sign(">")
            return
        self._refuse(f"<{written_tag}> is never closed", at=opening, advice=f"write </{written_tag}> or </>")

    def _typed(self) -> TypedVariable:
        variable = self._variable()
        if not self._text.startswith("^^", self._at):
            return TypedVariable(variable)
        at = self._at = self._at + 2
        iri = re.compile(r"<[^<>\s]*>|[^\s<>=!/]+").match(self._text, at)
        if iri is None:
            self._refuse("a datatype is missing after '^^'")
        self._at = iri.end()
        datatype = self._datatype(iri[0], at)
        if datatype not in CASTS:
            self._refuse(
                f"there is no cast to <{datatype}>", at=at, advice="use a datatype of XML Schema that SPARQL casts to"
            )
        return TypedVariable(variable, None if datatype == XSD + "string" else datatype)

    def _datatype(self, written: str, at: int) -> str:
        if written.startswith("xsd:") and "xsd" not in self._prologue.prefixes:
            return XSD + written[4:]
        return self._prologue.expand(Token("IRIREF" if written.startswith("<") else "PNAME", written, at))

    def _variable(self) -> str:
        variable = _VARIABLE.match(self._text, self._at)
        if variable is None:
            self._refuse("a variable such as $v is missing", advice="a sign '$' in a text is written &#36;")
        self._at = variable.end()
        return variable[1]

    # Signs and texts.

    def _text_run(self) -> str:
        run = _TEXT.match(self._text, self._at)
        if run is None or self._slashes_before_element():
            return ""
        self._at = run.end()
        return run[0]

    def _slashes_before_element(self) -> bool:
        return re.compile(r"\s*/{1,3}\s*<(?!/)").match(self._text, self._at) is not None

    def _decoded(self, text: str, at: int) -> str:
        """A text with its references to characters replaced."""

        def character(match: re.Match[str]) -> str:
            if match[0] == "&":
                message = "'&' begins no reference"
                raise self._document.refusal(
                    message, at + match.start(), "write &amp; for the sign, &lt; &gt; &quot; &apos; or &#36;"
                )
            if match[3]:
                return _NAMED[match[3]]
            code = int(match[1], 16) if match[1] else int(match[2])
            return chr(code) if code <= 0x10FFFF else "\0"

        decoded = _ENTITY.sub(character, text)
        if _ILLEGAL.search(decoded):
            raise self._document.refusal("a character that XML does not allow", at)
        return decoded

    def _refuse_query(self, text: str, at: int) -> None:
        if text.split()[:1] == ["WHERE"] and self._text.startswith("<", self._at):
            self._refuse(_NO_QUERY, at=at + len(text) - len(text.lstrip()))

    def _refuse_mixed(self, first: str, at: int | None = None) -> None:
        """Refuse what follows a content; ``at`` is where it begins, if it is known to follow."""
        if at is not None or (not self._text.startswith("</", self._at) and self._at < len(self._text)):
            self._refuse(
                f"an element of a block contains a text, a variable or elements, and here {first} is not alone",
                at=at,
                advice="match mixed content by ELEMENT_AS or CONTENT_AS",
            )

    def _after_space(self) -> int:
        space = _SPACE.match(self._text, self._at)
        assert space is not None, "the expression matches the empty text"
        return space.end()

    def _space(self) -> None:
        self._at = self._after_space()

    def _takes(self, sign: str) -> bool:
        is_there = self._text.startswith(sign, self._at)
        self._at += len(sign) if is_there else 0
        return is_there

    def _sign(self, sign: str) -> None:
        if not self._takes(sign):
            self._refuse(f"'{sign}' is missing")

    def _refuse(self, message: str, *, at: int | None = None, advice: str | None = None) -> NoReturn:
        position = min(self._at if at is None else at, len(self._text.rstrip()))
        if self._at >= len(self._text.rstrip()) and at is None:
            message = f"the text ends too early: {message}"
        raise self._document.refusal(message, position, advice)


def is_name(text: str) -> bool:
    """Whether a text is the name of an element, as ``{namespace}local`` or ``local``.

    >>> is_name("{urn:o}order"), is_name("an order")
    (True, False)
    """
    namespace, local = split_name(text)
    return re.fullmatch(_NAME, local) is not None and not re.search(r"[\s<>{}]", namespace)


_NUMERIC = frozenset(XSD + kind for kind in NUMERIC_RANK)


def _trimmed(value: str | T) -> str | T:
    return trim(value) if isinstance(value, str) else value
