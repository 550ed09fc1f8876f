"""XML documents as bytes: parses them within limits, refuses what is unsafe, and writes the canonical form.

Nothing is fetched, no entity is declared or expanded, and no processing instruction is followed.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NoReturn, cast

from lxml import etree

from motet.model.errors import DecodeError

MIB = 1 << 20
ENCODINGS = {  # that a document may declare, and the codec of each
    "utf-8": "utf-8",
    "us-ascii": "ascii",
    "iso-8859-1": "latin-1",
    "iso-8859-15": "iso8859-15",
    "windows-1252": "cp1252",
    "utf-16": "utf-16",
}
MOTET_NAMESPACE = "urn:motet:ns#"
STYLESHEET = "xml-stylesheet"  # the one processing instruction that is left alone; it is never followed

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_UTF_32 = (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff", b"<\x00\x00\x00", b"\x00\x00\x00<")
_DECLARATION = re.compile(
    r"\ufeff?<\?xml\s[^>]*?(?P<all>\sencoding\s*=\s*[\"'](?P<name>[A-Za-z0-9._-]+)[\"'])[^>]*?\?>"
)
_NAMESPACE = re.compile(rb"xmlns(?::[^\s=]+)?\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_NAMESPACE_NAME = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\&]*)?")
_XML_DECLARATION = re.compile(rb"(?:\xef\xbb\xbf)?<\?xml\s")
_DOCTYPE = re.compile(rb"(?:[\xef\xbb\xbf\s]|<\?(?:(?!\?>).)*+\?>|<!--(?:(?!-->).)*+-->)*+<!DOCTYPE", re.DOTALL)

BYTES_OF_ONE_PARSER = 16 * MIB
_LXML_KEY = "_ParserDictionaryContext"
_PARSER_KEY = "motet.model.xml_document"
_borrowed_dictionary = ctypes.PYFUNCTYPE(ctypes.py_object)(("PyThreadState_GetDict", ctypes.pythonapi))
_add_reference = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))


@dataclass(frozen=True)
class XmlLimits:
    """Upper limits for one XML document; what exceeds them is rejected.

    The parser itself has two more: 256 levels, and 10 million bytes for one text or attribute.
    """

    max_bytes: int = 16 * MIB
    max_depth: int = 200  # levels of elements
    max_elements: int = 500_000
    max_attributes: int = 250_000  # in the document, namespace declarations included
    max_attributes_of_element: int = 256
    max_attribute_bytes: int = MIB
    max_text_bytes: int = 8 * MIB  # of one text node
    max_namespaces: int = 256  # in scope at one element
    max_name_bytes: int = 1_000


def parse_xml(data: bytes, limits: XmlLimits | None = None) -> etree._Element:
    """The root of a document from outside; raises DecodeError, with line and column, for one that is refused.

    >>> parse_xml(b"<order><pay>finished</pay></order>").findtext("pay")
    'finished'
    >>> parse_xml(b"<!DOCTYPE a><a/>")
    Traceback (most recent call last):
    motet.model.errors.DecodeError: input, line 1, column 1: the XML has a document type declaration
      remove the DOCTYPE, and write the text of its entities in place
    """
    limits = limits or XmlLimits()
    if len(data) > limits.max_bytes:
        _refuse(f"the XML document is larger than {limits.max_bytes} bytes", "publish it in parts")
    text = _as_utf8(data)
    _check_bytes(text, limits)
    root = _parse(text)
    _refuse_doctype(root)
    _check_tree(root, text, limits)
    return root


def parse_stored_xml(data: bytes) -> etree._Element:
    """The root of a document that `parse_xml` has accepted before: its limits are not checked again."""
    return _parse(_as_utf8(data))


def canonical_form(element: etree._Element) -> bytes:
    """An element as Exclusive Canonical XML 1.0 without comments, and without the text that follows it.

    >>> canonical_form(parse_xml(b'<a  y="2" x="1"><!-- note --></a>'))
    b'<a x="1" y="2"></a>'
    """
    return etree.tostring(element, method="c14n", exclusive=True, with_comments=False, with_tail=False)


def canonical_document(data: bytes) -> bytes:
    """The canonical form of the root of a document: equal for documents that differ in white space inside tags, order
    of attributes, quotes, comments, encoding, unused namespaces, or anything outside the root.
    """
    return canonical_form(parse_stored_xml(data))


def _thread_dictionary() -> dict[str, Any]:
    """The dictionary in which extensions store what belongs to the thread."""
    dictionary: dict[str, Any] = _borrowed_dictionary()
    _add_reference(dictionary)  # the call returns none
    return dictionary


class _Parser:
    """A parser, with a table of names of its own."""

    def __init__(self) -> None:
        self.parser = etree.XMLParser(
            resolve_entities=False, no_network=True, load_dtd=False, dtd_validation=False, huge_tree=False
        )
        self.names: object = None  # made by the first document
        self.bytes_left = BYTES_OF_ONE_PARSER


def _parse_in_thread(text: bytes) -> etree._Element:
    """The root of a document, whose names are stored apart from those of the process, and are removed in time.

    lxml 6 has one table of names for all parsers of a thread, and never removes a name: documents with ever new names
    would fill the memory. It finds the table in the dictionary of the thread, where it is exchanged while a document is
    parsed. A document has its table for as long as it is used. (In lxml 7 every parser has a table.)
    """
    thread = _thread_dictionary()
    own: _Parser | None = thread.get(_PARSER_KEY)
    if own is None or own.bytes_left < 0:
        own = thread[_PARSER_KEY] = _Parser()
    own.bytes_left -= len(text)
    others, thread[_LXML_KEY] = thread.get(_LXML_KEY), own.names
    if own.names is None:
        del thread[_LXML_KEY]
    try:
        return etree.fromstring(text, own.parser)
    finally:
        own.names = thread.pop(_LXML_KEY, None)
        if others is not None:
            thread[_LXML_KEY] = others


def _parse(text: bytes) -> etree._Element:
    try:
        return _parse_in_thread(text)
    except etree.XMLSyntaxError as error:
        reason = (error.msg or "it is empty").partition(", line ")[0].strip()
        line, column = error.position
        if "XML_PARSE_HUGE" in reason:
            reason = reason.partition(", use XML_PARSE_HUGE")[0].partition(", try XML_PARSE_HUGE")[0]
            _refuse(f"the XML exceeds a limit of its parser: {reason}", "make it smaller or flatter", line, column)
        _refuse(f"not well-formed XML: {reason}", "correct it and publish it again", line, column)
    except ValueError as error:  # characters that no XML has
        _refuse(f"not well-formed XML: {error}", "correct it and publish it again")


def _refuse_doctype(root: etree._Element) -> None:
    if root.getroottree().docinfo.internalDTD is not None:
        _refuse("the XML has a document type declaration", _DOCTYPE_ADVICE)


_DOCTYPE_ADVICE = "remove the DOCTYPE, and write the text of its entities in place"


def _as_utf8(data: bytes) -> bytes:
    """The document in UTF-8; of another encoding, with spaces in place of its declaration."""
    if data[:1] == b"<" and data[1:2] not in (b"?", b"\x00"):  # it declares none
        return data
    if data.startswith(_UTF_32):
        _refuse_encoding("UTF-32")
    if data.startswith((b"<\x00", b"\x00<")):
        _refuse_encoding("UTF-16 without a byte order mark")
    is_utf_16 = data.startswith(_UTF_16)
    head = data[:1024].decode("utf-16-be" if data[:1] == b"\xfe" else "utf-16-le", "replace")
    declared = _DECLARATION.match(head if is_utf_16 else data[:512].decode("latin-1").removeprefix("ï»¿"))
    name = declared["name"].lower() if declared else "utf-16" if is_utf_16 else "utf-8"
    if is_utf_16 and name in ("utf-16le", "utf-16be"):
        name = "utf-16"
    if name not in ENCODINGS or is_utf_16 != (name == "utf-16"):
        _refuse_encoding(declared["name"] if declared else name)
    if name == "utf-8":
        return data
    codec = ENCODINGS[name]
    try:
        text = data.decode(codec)
    except UnicodeDecodeError as error:
        _refuse(f"the XML is not {name}: {error.reason} at byte {error.start}", "send it in the encoding it declares")
    if declared:
        blank = " " * len(declared["all"])
        text = text.replace(declared["all"], blank, 1)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        _refuse(f"the XML is not {name}: {error.reason}", "send it in the encoding it declares")


def encode_document(text: str) -> bytes:
    """The bytes of a document that is given as text: in the encoding that it declares, so that both agree.

    >>> encode_document('<?xml version="1.0" encoding="iso-8859-1"?><a>é</a>')[-5:]
    b'\xe9</a>'
    """
    declared = _DECLARATION.match(text)
    name = declared["name"].lower() if declared else "utf-8"
    try:
        return text.encode(ENCODINGS.get(name, "utf-8"))
    except UnicodeEncodeError as error:
        what = f"character {error.start} of the XML is not in the encoding {name} that it declares"
        _refuse(what, "remove the declaration")


def _refuse_encoding(name: str) -> NoReturn:
    _refuse(f"the encoding {name} of the XML is not read", f"send it as one of {', '.join(ENCODINGS)}")


def _check_bytes(text: bytes, limits: XmlLimits) -> None:
    """Refuse what would be costly to parse: what the bytes show is an upper bound of what the document has."""
    if b"<!DOCTYPE" in text and (match := _DOCTYPE.match(text)):
        position = _position(text, match.end() - len("<!DOCTYPE"))
        _refuse("the XML has a document type declaration", _DOCTYPE_ADVICE, *position)
    if text.count(b"<") - text.count(b"</") > limits.max_elements:
        _refuse(f"the XML has more than {limits.max_elements} elements", "publish it in parts")
    attributes = min(text.count(b"="), (text.count(b'"') + text.count(b"'")) // 2)
    if attributes > limits.max_attributes:
        _refuse(f"the XML has more than {limits.max_attributes} attributes", "publish it in parts")


def _position(text: bytes, index: int) -> tuple[int, int]:
    before = text[:index]
    return before.count(b"\n") + 1, index - (before.rfind(b"\n") + 1) + 1


def _check_tree(root: etree._Element, text: bytes, limits: XmlLimits) -> None:
    """Refuse what exceeds a limit; a document too small for a limit is not searched."""
    tags = text.count(b"<")
    if tags > limits.max_depth:
        _refuse_first(root, _deeper_than(limits.max_depth), f"elements nested deeper than {limits.max_depth}")
    if text.count(b"=") > limits.max_attributes_of_element:
        count = limits.max_attributes_of_element
        _refuse_first(root, f"(//*[count(@*) > {count}])[1]", f"an element with more than {count} attributes")
    if len(text) > limits.max_attribute_bytes:
        size = limits.max_attribute_bytes
        _refuse_first(root, f"(//*[@*[string-length() > {size}]])[1]", f"an attribute longer than {size} characters")
    if len(text) > limits.max_text_bytes:
        size = limits.max_text_bytes
        _refuse_first(root, f"(//*[text()[string-length() > {size}]])[1]", f"a text longer than {size} characters")
    if text.count(b"<?") > bool(_XML_DECLARATION.match(text)):
        _check_instructions(root)
    names = [first or second for first, second in _NAMESPACE.findall(text)]
    if len(names) > limits.max_namespaces or not all(map(_is_namespace_name, set(names))):
        _check_namespaces(root, limits.max_namespaces)
    if len(text) > limits.max_name_bytes:
        _check_names(root, limits.max_name_bytes)


def _check_instructions(root: etree._Element) -> None:
    """Refuse processing instructions but those of style sheets beside the root; XPath would sort them slowly."""
    before, after = (root.itersiblings(tag=etree.PI, preceding=each) for each in (True, False))
    beside = cast(Iterator[etree._ProcessingInstruction], chain(before, after))
    inside = cast(Iterator[etree._ProcessingInstruction], root.iter(etree.PI))
    for instruction in chain(inside, (each for each in beside if each.target != STYLESHEET)):
        target = str(instruction.target)[:100]
        advice = f"remove it; only {STYLESHEET} before the root is left alone"
        _refuse(f"the XML has a processing instruction <?{target} …?>", advice, _line(instruction))


def _check_namespaces(root: etree._Element, limit: int) -> None:
    declarations = etree.iterwalk(root, events=("start-ns", "end-ns"))
    in_scope = 0
    for event, declared in declarations:
        in_scope += 1 if event == "start-ns" else -1
        if event == "start-ns" and not _NAMESPACE_NAME.fullmatch(declared[1]):
            _refuse(
                f"the namespace {declared[1][:100]!r} is no absolute IRI without &", "use one such as urn:example:a"
            )
        if in_scope > limit:
            _refuse(f"the XML has more than {limit} namespaces in scope", "declare each namespace once, at the root")


def _is_namespace_name(name: bytes) -> bool:
    """Whether a namespace has a canonical form: that of others is not defined, or not written correctly."""
    return _NAMESPACE_NAME.fullmatch(name.decode("utf-8", "replace")) is not None


def _check_names(root: etree._Element, limit: int) -> None:
    where = f"(//*[string-length(name()) > {limit} or @*[string-length(name()) > {limit}]"
    _refuse_first(
        root, f"{where} or string-length(namespace-uri()) > {limit}])[1]", f"a name longer than {limit} bytes"
    )


@lru_cache(maxsize=16)
def _deeper_than(depth: int) -> str:
    return f"(/{'/'.join('*' * (depth + 1))})[1]"


def _refuse_first(root: etree._Element, path: str, what: str) -> None:
    """Refuse the document if the path selects an element of it."""
    for element in cast(list[etree._Element], root.xpath(path)):
        _refuse(f"the XML has {what}", "make it smaller or flatter", _line(element))


def _line(node: etree._Element) -> int | None:
    return cast(int | None, node.sourceline)


def _refuse(reason: str, advice: str, line: int | None = None, column: int | None = None) -> NoReturn:
    raise DecodeError(reason, line=line, column=column, advice=advice)
