"""What `motet.model.xml_document` promises: safe documents are parsed, others are refused with limit and position."""

import subprocess
import sys

import pytest
from lxml import etree

from motet.model.errors import DecodeError
from motet.model.xml_document import (
    XmlLimits,
    canonical_document,
    canonical_form,
    encode_document,
    parse_stored_xml,
    parse_xml,
)

ENTITIES = b'<!DOCTYPE a [<!ENTITY b "x"><!ENTITY c "&b;&b;&b;">]><a>&c;</a>'
EXTERNAL = b'<!-- note -->\n<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>'
PARAMETER = b'<?xml version="1.0"?>\n  <!DOCTYPE a [<!ENTITY % p SYSTEM "http://example.org/">%p;]><a/>'


def refusal(data: bytes, limits: XmlLimits | None = None) -> tuple[str, int | None, int | None]:
    with pytest.raises(DecodeError) as caught:
        parse_xml(data, limits)
    assert caught.value.advice
    return caught.value.reason, caught.value.line, caught.value.column


@pytest.mark.parametrize(("data", "position"), [(ENTITIES, (1, 1)), (EXTERNAL, (2, 1)), (PARAMETER, (2, 3))])
def test_a_document_type_declaration_is_refused(data: bytes, position: tuple[int, int]) -> None:
    """Nothing of a DOCTYPE is read: neither its entities nor what it refers to."""
    assert refusal(data) == ("the XML has a document type declaration", *position)


def test_the_word_doctype_in_text_is_no_declaration() -> None:
    """Comments and CDATA sections may have it."""
    root = parse_xml(b"<a><!-- <!DOCTYPE x> --><![CDATA[<!DOCTYPE a>]]></a>")
    assert root.xpath("string()") == "<!DOCTYPE a>"


LIMITS = XmlLimits(
    max_bytes=400, max_depth=3, max_elements=9, max_attributes=8, max_attributes_of_element=2, max_attribute_bytes=40,
    max_text_bytes=60, max_namespaces=2, max_name_bytes=20,
)  # fmt: skip


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"<a>" + b"x" * 400 + b"</a>", ("the XML document is larger than 400 bytes", None, None)),
        (b"<a><b>\n<c>\n<d/></c></b></a>", ("the XML has elements nested deeper than 3", 3, None)),
        (b"<a>" + b"<b/>" * 9 + b"</a>", ("the XML has more than 9 elements", None, None)),
        (b"<a>" + b"<b c='1'/>" * 8 + b"<d e='1'/></a>", ("the XML has more than 9 elements", None, None)),
        (b"<a b='1' c='2'>\n<d e='1' f='2'/>" + b"<g h='1' i='2'/>" * 3 + b"</a>", None),
        (b"<a>\n<b c='1' d='2' e='3'/></a>", ("the XML has an element with more than 2 attributes", 2, None)),
        (b"<a>\n<b c='" + b"x" * 41 + b"'/></a>", ("the XML has an attribute longer than 40 characters", 2, None)),
        (b"<a>\n<b>" + b"x" * 61 + b"</b></a>", ("the XML has a text longer than 60 characters", 2, None)),
        (
            b"<a xmlns='urn:a'><b xmlns='urn:b'><c xmlns='urn:c'/></b></a>",
            ("the XML has more than 2 namespaces in scope", None, None),
        ),
        (b"<a>\n<" + b"b" * 21 + b"/></a>", ("the XML has a name longer than 20 bytes", 2, None)),
        (b"<a>\n<?php exec?></a>", ("the XML has a processing instruction <?php …?>", 2, None)),
        (b"<?php exec?><a/>", ("the XML has a processing instruction <?php …?>", 1, None)),
        (b"<a/><?php exec?>", ("the XML has a processing instruction <?php …?>", 1, None)),
        (b"<a><?xml-stylesheet href='x'?></a>", ("the XML has a processing instruction <?xml-stylesheet …?>", 1, None)),
    ],
)  # fmt: skip
def test_each_limit_refuses_with_its_name(data: bytes, expected: tuple[str, int | None, int | None] | None) -> None:
    """The reason names the limit, the line is that of the first element beyond it."""
    if expected is None:
        assert refusal(data, LIMITS)[0] == "the XML has more than 8 attributes"
    else:
        assert refusal(data, LIMITS) == expected


def test_what_is_within_the_limits_is_parsed() -> None:
    """The limits are inclusive."""
    assert parse_xml(b"<a><b><c d='1' e='2'/></b></a>", LIMITS).tag == "a"
    assert parse_xml(b"<a xmlns='urn:a'><b xmlns='urn:b'/><b xmlns='urn:c'/></a>", LIMITS).tag == "{urn:a}a"


def test_what_exceeds_the_parser_itself_is_refused() -> None:
    """The parser has limits of its own, beyond which ours cannot be set."""
    reason, line, _ = refusal(b"<a>" * 300 + b"</a>" * 300, XmlLimits(max_depth=1000))
    assert (reason, line) == ("the XML exceeds a limit of its parser: Excessive depth in document: 256", 1)


@pytest.mark.parametrize(
    "data", [b"", b"  ", b"<a>", b"<a></b>", b"<a>\0</a>", b"<a>&undefined;</a>", b"<a b='1' b='2'/>"]
)
def test_what_is_not_well_formed_is_refused_with_its_position(data: bytes) -> None:
    """Nothing is recovered from a damaged document."""
    reason, line, column = refusal(data)
    assert reason.startswith("not well-formed XML: ")
    assert line == 1
    assert column is not None


@pytest.mark.parametrize("encoding", ["utf-8", "us-ascii", "iso-8859-1", "iso-8859-15", "windows-1252", "utf-16"])
def test_common_encodings_are_read(encoding: str) -> None:
    """The declaration names the encoding; UTF-16 has a byte order mark."""
    text = "é" if encoding != "us-ascii" else "e"
    data = f'<?xml version="1.0" encoding="{encoding}" standalone="yes"?>\n<a>{text}</a>'.encode(encoding)
    assert parse_xml(data).text == text
    assert canonical_document(data) == f"<a>{text}</a>".encode()


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b'<?xml version="1.0" encoding="UTF-7"?><a/>', "UTF-7"),
        (b'<?xml version="1.0" encoding="utf-16"?><a/>', "utf-16"),
        ("<a/>".encode("utf-32"), "UTF-32"),
    ],
)
def test_other_encodings_are_refused(data: bytes, encoding: str) -> None:
    """Also a document that is in another encoding than it declares."""
    assert refusal(data)[0] == f"the encoding {encoding} of the XML is not read"


def test_bytes_outside_the_encoding_are_refused() -> None:
    """Wrong bytes are never replaced."""
    assert refusal("<a>é</a>".encode("latin-1"))[0] == "not well-formed XML: Invalid bytes in character encoding"
    data = '<?xml version="1.0" encoding="us-ascii"?><a>é</a>'.encode()
    assert refusal(data)[0] == "the XML is not us-ascii: ordinal not in range(128) at byte 44"


def test_the_canonical_form_is_that_of_exclusive_c14n() -> None:
    """Attributes are sorted, comments and unused namespaces left out, text after an element does not belong to it."""
    data = (
        b'<?xml-stylesheet href="x"?><r xmlns:u="urn:u" xmlns:v="urn:v"><v:a  z="1" b=\'2\'><!-- c -->t</v:a>tail</r>'
    )
    root = parse_stored_xml(data)
    expected = b'<v:a xmlns:v="urn:v" b="2" z="1">t</v:a>'
    assert canonical_form(root[0]) == expected
    assert canonical_document(data) == b"<r>" + expected + b"tail</r>"
    assert canonical_form(etree.fromstring(canonical_document(data))) == canonical_document(data)


def test_text_is_encoded_as_it_declares() -> None:
    """A document given as text has no encoding yet; what the encoding lacks is refused."""
    for encoding in ("utf-8", "iso-8859-1", "utf-16"):
        data = encode_document(f'<?xml version="1.0" encoding="{encoding}"?><a>é</a>')
        assert parse_xml(data).text == "é"
    with pytest.raises(DecodeError, match="character 44 of the XML is not in the encoding us-ascii"):
        encode_document('<?xml version="1.0" encoding="us-ascii"?><a>é</a>')


NEW_NAMES = """
import resource
import motet.model.xml_document as xml

xml.BYTES_OF_ONE_PARSER = 1 << 20
for first in range(0, 1_000_000, 20_000):
    root = xml.parse_xml(b"<a>%s</a>" % b"".join(b"<e%d/>" % name for name in range(first, first + 20_000)))
    assert len(root) == 20_000 and next(root.iter(f"e{first}")) is root[0]
    if first == 200_000:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_names_of_earlier_documents_take_no_memory() -> None:
    """Documents with ever new names, 800 000 of which would take 50 MiB, do not fill the memory of a process."""
    run = subprocess.run([sys.executable, "-c", NEW_NAMES], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 16


def test_parsers_of_the_process_are_left_alone() -> None:
    """A document does not change which parser lxml uses by default, not even when the parser of documents is new."""
    parser = etree.XMLParser(remove_comments=True)
    etree.set_default_parser(parser)
    try:
        parse_xml(b"<a/>")
        assert etree.get_default_parser() is parser
    finally:
        etree.set_default_parser(None)
