"""Tests of `motet.sparql.term_columns`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from motet.model.terms import XSD
from motet.sparql.term_columns import term_columns, typed_columns

NUMBERS = [
    "1", "01", "-0", "+3", "0", "-0.0", "1.5", ".5", "5.", "123456789012345", "12345678901234567", "9007199254740993",
    "1e5", "-1E-05", "1e99", "1e-99", "1e400", "3e-320", "INF", "-INF", "NaN", "999999999.999999", "9999999999.123456",
    "0.0000001", " 1 ", "x",
]  # fmt: skip
TIMES = [
    "2026-01-01T00:00:00Z", "2024-02-29T12:00:00Z", "2026-02-29T00:00:00Z", "2026-04-31T00:00:00Z",
    "2026-01-31T24:00:00Z", "2026-01-31T23:59:59.1Z", "2026-01-31T23:59:59.123456Z", "2026-01-31T23:59:59.1234567Z",
    "2026-01-31T23:59:60Z", "2026-01-31T00:00:00+01:00", "2026-01-31T00:00:00", "1969-12-31T23:59:59.5Z",
    "0001-01-01T00:00:00Z", "-0044-03-15T00:00:00Z", "12026-01-01T00:00:00Z",
]  # fmt: skip
OTHERS = ["<urn:a>", "_:b", '"x"', '"x\\"y"', '""', '"a"@en-GB', '"a\\n"@en', '"<urn:a>"', '"x"^^<urn:type>']


@pytest.mark.parametrize("datatype", ["integer", "int", "decimal", "double", "float", "boolean", "dateTime", "date"])
def test_columns_of_many_terms_are_those_of_each(datatype: str) -> None:
    """Common forms, which are read by columns, have the kinds and values that the evaluator gives them."""
    terms = [*(f'"{text}"^^<{XSD}{datatype}>' for text in (*NUMBERS, *TIMES, "true")), *OTHERS]
    columns = typed_columns(pa.array(terms))
    found = zip(*(columns[name].to_pylist() for name in ("okind", "onum", "ots")), strict=True)
    assert list(map(repr, found)) == [repr(tuple(term_columns(term))) for term in terms]  # repr: -0.0 is not 0.0
