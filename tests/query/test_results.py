"""Answers in the W3C result formats, written and read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.model.errors import UsageError
from motet.model.terms import XSD, iri, literal
from motet.query.results import plain_text, read_answer, write_answer
from motet.sparql.dataset import Graph
from motet.sparql.evaluate import SolutionSequence

TABLE = SolutionSequence(
    ("a", "b"),
    [
        {"a": "<urn:x?y=1&z>", "b": '"say \\"hi\\",\\n<b>"'},
        {"b": '"chat"@fr'},
        {"a": "_:n1", "b": f'"05"^^<{XSD}integer>'},
        {},
    ],
)

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\ufffe\uffff"), max_size=8)
SAFE = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="\ufffe\uffff"), max_size=8)


def terms(texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.sampled_from(["<urn:a>", "<http://example.org/b?c=d&e>", "_:b0", "_:b1"]),
        texts.map(literal),
        st.builds(lambda text, tag: literal(text, language=tag), texts, st.sampled_from(["en", "de-at"])),
        st.builds(lambda text, name: literal(text, datatype=XSD + name), texts, st.sampled_from(["integer", "date"])),
    )


def tables(texts: st.SearchStrategy[str]) -> st.SearchStrategy[SolutionSequence]:
    row = st.dictionaries(st.sampled_from(["x", "y"]), terms(texts))
    return st.lists(row, max_size=4).map(lambda rows: SolutionSequence(("x", "y"), rows))


@settings(deadline=None)
@given(table=tables(TEXTS), syntax=st.sampled_from(["json", "tsv"]))
def test_json_and_tsv_give_back_what_was_written(table: SolutionSequence, syntax: str) -> None:
    """Every term keeps its kind and its lexical form."""
    assert read_answer(write_answer(table, syntax), syntax) == table


@settings(deadline=None)
@given(table=tables(SAFE))
def test_xml_gives_back_what_was_written(table: SolutionSequence) -> None:
    """As far as XML has the characters."""
    assert read_answer(write_answer(table, "xml"), "xml") == table


@settings(deadline=None)
@given(table=tables(SAFE))
def test_csv_gives_back_the_texts(table: SolutionSequence) -> None:
    """CSV has no kinds of terms, and no difference between the empty string and an unbound variable."""
    read = read_answer(write_answer(table, "csv"), "csv")
    assert isinstance(read, SolutionSequence)
    expected = [{name: plain_text(term) for name, term in row.items() if plain_text(term)} for row in table.rows]
    assert [{name: plain_text(term) for name, term in row.items()} for row in read.rows] == expected


def test_the_formats_are_those_of_the_recommendations() -> None:
    """The text of one table in each format."""
    assert json.loads(write_answer(TABLE, "json"))["results"]["bindings"][1] == {
        "b": {"type": "literal", "value": "chat", "xml:lang": "fr"}
    }
    assert write_answer(TABLE, "csv") == 'a,b\r\nurn:x?y=1&z,"say ""hi"",\n<b>"\r\n,chat\r\n_:n1,05\r\n,\r\n'
    assert write_answer(TABLE, "tsv").split("\n")[1] == '<urn:x?y=1&z>\t"say \\"hi\\",\\n<b>"'
    assert "<uri>urn:x?y=1&amp;z</uri>" in write_answer(TABLE, "xml")


def test_a_single_unbound_cell_is_a_line_of_its_own() -> None:
    """The table of one variable keeps its rows without a value."""
    table = SolutionSequence(("x",), [{}, {"x": '"a"'}])
    assert write_answer(table, "csv") == "x\r\n\r\na\r\n"
    assert [read_answer(write_answer(table, syntax), syntax) for syntax in ("csv", "tsv")] == [table, table]


@pytest.mark.parametrize("syntax", ["json", "xml"])
@pytest.mark.parametrize("truth", [True, False])
def test_truth(syntax: str, truth: bool) -> None:
    """The answer of ASK has two formats."""
    assert read_answer(write_answer(truth, syntax), syntax) is truth


def test_tsv_is_read_as_sparql_writes_terms() -> None:
    """Numbers and booleans may stand without quotes."""
    assert read_answer("?x\t?y\n1.5\ttrue\n'a'@en\t<urn:b>\n", "tsv") == SolutionSequence(
        ("x", "y"),
        [
            {"x": literal("1.5", datatype=XSD + "decimal"), "y": literal("true", datatype=XSD + "boolean")},
            {"x": '"a"@en', "y": iri("urn:b")},
        ],
    )


def test_graphs_keep_lexical_forms() -> None:
    """N-Triples and Turtle write what the graph has."""
    graph = Graph([("_:b", "<urn:p>", f'"05"^^<{XSD}integer>'), ("<urn:a>", "<urn:p>", "_:b")])
    assert write_answer(graph, "nt").splitlines()[1] == "<urn:a> <urn:p> _:b ."
    assert "05" in write_answer(graph, "ttl")


@pytest.mark.parametrize(
    ("answer", "syntax", "message"),
    [
        (TABLE, "nt", "a table of solutions cannot be written as 'nt'"),
        (True, "csv", "the answer of ASK cannot be written as 'csv'"),
        (Graph(()), "json", "a graph cannot be written as 'json'"),
        (SolutionSequence(("x",), [{"x": '"\\u0001"'}]), "xml", "XML cannot have a control character"),
    ],
)
def test_what_a_format_cannot_say_is_refused(
    answer: SolutionSequence | bool | Graph, syntax: str, message: str
) -> None:
    """With the formats that can."""
    with pytest.raises(UsageError, match=message) as caught:
        write_answer(answer, syntax)
    assert caught.value.advice


@pytest.mark.parametrize(
    ("text", "syntax"),
    [("[]", "json"), ("{", "json"), ("<a", "xml"), ("<!DOCTYPE a []><a/>", "xml"), ("?x\n1\t2", "tsv"), ("", "csv")],
)
def test_what_is_no_result_is_refused(text: str, syntax: str) -> None:
    """Reading never fails in another way."""
    with pytest.raises(UsageError):
        read_answer(text, syntax)
