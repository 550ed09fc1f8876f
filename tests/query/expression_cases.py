"""A table of terms and expressions: every engine gives each expression the value that the evaluator gives it."""

from __future__ import annotations

from motet.model.terms import XSD
from motet.sparql.dataset import Dataset

TERMS = [
    "<urn:a>", "<urn:b>", '""', '"a"', '"b"', '"B c"', '"a\\\\b\\"c"', '"é\\n"', '"a"@en', '"a"@en-gb', '"b"@de',
    *(f'"{text}"^^<{XSD}integer>' for text in ("1", "01", "-2", "9007199254740993", "x")),
    *(f'"{text}"^^<{XSD}decimal>' for text in ("1.0", "0.1", "-2.50", ".5", "12345678901.5", "0.1000000000000000001")),
    *(f'"{text}"^^<{XSD}double>' for text in ("1", "1e0", "0.1", "NaN", "INF", "-1.5e-3")),
    *(f'"{text}"^^<{XSD}float>' for text in ("0.1", "16777217")),
    *(f'"{text}"^^<{XSD}boolean>' for text in ("true", "0")),
    *(
        f'"{text}"^^<{XSD}dateTime>'
        for text in (
            "2026-01-02T03:04:05Z", "2026-01-02T04:04:05+01:00", "2026-01-02T03:04:05", "1969-12-31T23:59:59.5Z",
        )
    ),
    f'"2026-01-02"^^<{XSD}date>', f'"P1D"^^<{XSD}dayTimeDuration>', '"x"^^<urn:type>',
    '"a\\tb\\r\\nc"', '"a\\u0001b\\\\n"', '"\\\\\\"b\\nb\\n"@en',
    *(f'"{text}"^^<{XSD}dateTime>' for text in ("1901-02-03T04:05:06.789Z", "1970-01-01T00:00:00Z")),
]  # fmt: skip
DATA = Dataset([("<urn:s>", "<urn:p>", term) for term in TERMS])

OF_ONE = [
    "?a", "STR(?a)", "LANG(?a)", "DATATYPE(?a)", "STRLEN(?a)", "UCASE(?a)", "-?a", "ABS(?a)", "ROUND(?a)", "YEAR(?a)",
    "BOUND(?a)", "ISIRI(?a)", "ISBLANK(?a)", "ISLITERAL(?a)", "ISNUMERIC(?a)", "!?a", "COALESCE(?a + 1, ?a)",
    "IF(?a, 1, 2)", "?a && true", "?a || false", "!(?a > 1)", "?a = 1", "?a != 1", "?a < 1.5", "?a >= 0.1e0",
    '?a = "a"', '?a != "a"', '?a < "b"', '?a = "a"@en', "?a = <urn:a>", "?a != <urn:a>",
    "?a > '2026-01-02T03:04:05Z'^^<http://www.w3.org/2001/XMLSchema#dateTime>", '?a IN (1, "a", <urn:b>)',
    "?a NOT IN (1, 'a')", 'STR(?a) = "a"', 'STR(?a) != "a"', 'STR(?a) > "a"', '"b" > STR(?a)', 'LANG(?a) = "en"',
    'LANG(?a) = ""', 'LANG(?a) != "en"', 'LANGMATCHES(LANG(?a), "en")', 'LANGMATCHES(LANG(?a), "*")',
    f"DATATYPE(?a) = <{XSD}string>", f"DATATYPE(?a) != <{XSD}integer>",
    "DATATYPE(?a) = <http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>",
    'CONTAINS(?a, "b")', 'STRSTARTS(?a, "a")', 'STRENDS(STR(?a), "c")', 'STRSTARTS(STR(?a), "urn")', 'CONTAINS(?a, "")',
    'CONTAINS(?a, "a"@en)', 'REGEX(?a, "b")', 'REGEX(?a, "^A", "i")', 'REGEX(STR(?a), "^urn:.$")', 'REGEX(?a, "a|b")',
    'REGEX(?a, "a.b")', 'REGEX(?a, "en")', 'REGEX(?a, "a$")', 'REGEX(?a, ".b.")', 'REGEX(?a, "^.*$")',
    'REGEX(?a, "a$|^b")', 'REGEX(?a, "b.$")', 'CONTAINS(?a, "n")', 'CONTAINS(STR(?a), "\\n")', 'STRENDS(?a, "\\\\n")',
    'STR(?a) = "a\\tb\\r\\nc"', 'STR(?a) != "é\\n"',
    'CONTAINS(?a, "\\u0001")', 'REGEX(?a, "^(a|b[0-9]*)[a-z ]+|c$", "i")', 'REPLACE(?a, "a", "z")',
    "SUBSTR(?a, 1, 1)", "MD5(?a)", f"<{XSD}integer>(?a)", f"<{XSD}string>(?a)",
    'STRLANG(STR(?a), "fr")', "IRI(?a)", "ENCODE_FOR_URI(?a)",
]  # fmt: skip
OF_TWO = [
    "?a = ?b", "?a != ?b", "?a < ?b", "?a >= ?b", "SAMETERM(?a, ?b)", "?a + ?b", "?a - ?b", "?a * ?b", "?a / ?b",
    "CONCAT(?a, ?b)", "?a = ?b || ?a < ?b", "!(?a = ?b) && ISLITERAL(?a)", "CONTAINS(?a, ?b)", "?a IN (?b, 1)",
]  # fmt: skip
AGGREGATES = [
    f"{name}({distinct}?a)"
    for name in ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT")
    for distinct in ("", "DISTINCT ")
]
DOUBLES = [f'"{text}"^^<{XSD}double>' for text in ("1e16", "1", "-1e16", "1e-9", "0.1", "-1e300", "1e300", "3e-320")]
DECIMALS = [f'"{text}"^^<{XSD}decimal>' for text in ("0.1", "0.0000001", "-123456789.123456", "9999999999.5", "2")]
GROUPS = {  # what is aggregated
    "doubles of all sizes": DOUBLES,
    "decimals of all sizes": DECIMALS,
    "doubles and decimals of all sizes": [*DOUBLES, *DECIMALS],
    "integers": TERMS[11:14],
    "large integers": TERMS[11:15],
    "decimals": TERMS[16:20],
    "integers and decimals": TERMS[11:14] + TERMS[16:20],
    "inexact": TERMS[16:22],
    "doubles": TERMS[22:24],
    "exact kinds": TERMS[11:14] + TERMS[16:20] + TERMS[22:24],
    "with NaN": TERMS[22:28],
    "floats": TERMS[28:30],
    "all numbers": TERMS[11:15] + TERMS[16:30],
    "texts": TERMS[2:11] + TERMS[-5:-2],
    "times": TERMS[32:36] + TERMS[-2:],
    "times with a zone": [*TERMS[32:34], *TERMS[-2:]],
    "all": TERMS,
    "none": [],
}


def expressions_query(expressions: list[str]) -> str:
    """One row for each term, or pair of terms, with one column for each expression."""
    columns = " ".join(f"({expression} AS ?x{index})" for index, expression in enumerate(expressions))
    return f"SELECT ?a ?b {columns} {{ <urn:s> <urn:p> ?a, ?b }}"


def filter_query(expression: str) -> str:
    return f"SELECT ?a ?b {{ <urn:s> <urn:p> ?a, ?b FILTER({expression}) }}"
