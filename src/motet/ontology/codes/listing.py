"""Lists the class codes of a hierarchy for people and programs.

Numbers are text: they exceed the 53 bits that other languages read exactly, and prime codes have any size.
"""

from __future__ import annotations

from motet.ontology.codes import digit, interval, prime
from motet.ontology.hierarchy import Hierarchy

CodeSummary = dict[str, object]
CodeRow = dict[str, object]


def list_codes(hierarchy: Hierarchy, code: str) -> tuple[CodeSummary, list[CodeRow]]:
    """A summary of the codes, and the code of each node.

    >>> from motet.ontology.hierarchy import hierarchy_from_parents
    >>> list_codes(hierarchy_from_parents({"Film": ["Video"]}), "prime")
    ({'code': 'prime', 'bits': 3}, [{'prime': 2, 'code': '0x2'}, {'prime': 3, 'code': '0x6'}])
    """
    return {"interval": _interval, "prime": _prime, "digit": _digit}[code](hierarchy)


def _interval(hierarchy: Hierarchy) -> tuple[CodeSummary, list[CodeRow]]:
    codes = interval.encode(hierarchy)
    summary: CodeSummary = {"code": "interval", "bits": codes.bits, "most_intervals": codes.cover.max_intervals}
    rows: list[CodeRow] = [
        {"number": str(low), "intervals": [f"{first}..{stop - 1}" for first, stop in intervals]}
        for (low, _), intervals in zip(codes.tree_intervals, codes.intervals, strict=True)
    ]
    return summary, rows


def _prime(hierarchy: Hierarchy) -> tuple[CodeSummary, list[CodeRow]]:
    codes = prime.encode(hierarchy)
    pairs = zip(codes.primes, codes.codes, strict=True)
    return {"code": "prime", "bits": codes.bits}, [
        {"prime": node_prime, "code": hex(code)} for node_prime, code in pairs
    ]


def _digit(hierarchy: Hierarchy) -> tuple[CodeSummary, list[CodeRow]]:
    codes = digit.encode(hierarchy)
    summary: CodeSummary = {"code": "digit", "bits": codes.bits, "digit_bits": codes.b, "digits": codes.length}
    padded = ((*digits, *[0] * (codes.length - len(digits))) for digits in codes.digits)
    return summary, [{"digits": ".".join(map(str, digits))} for digits in padded]
