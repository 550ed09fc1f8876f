"""How are the codes of a hierarchy written down for people and programs?

Numbers are text: they pass the 53 bits that other languages read exactly, and prime codes pass any size.
"""

from __future__ import annotations

from motet.ontology.codes import digit, interval, prime
from motet.ontology.hierarchy import Hierarchy

Facts = dict[str, object]
Row = dict[str, object]


def spell(hierarchy: Hierarchy, code: str) -> tuple[Facts, list[Row]]:
    """Facts about the codes as a whole, and the code of each node.

    >>> from motet.ontology.hierarchy import hierarchy_from_parents
    >>> spell(hierarchy_from_parents({"Film": ["Video"]}), "prime")
    ({'code': 'prime', 'bits': 3}, [{'prime': 2, 'code': '0x2'}, {'prime': 3, 'code': '0x6'}])
    """
    return {"interval": _interval, "prime": _prime, "digit": _digit}[code](hierarchy)


def _interval(hierarchy: Hierarchy) -> tuple[Facts, list[Row]]:
    codes = interval.encode(hierarchy)
    facts: Facts = {"code": "interval", "bits": codes.bits, "most_intervals": codes.cover.most}
    rows: list[Row] = [
        {"number": str(low), "intervals": [f"{first}..{stop - 1}" for first, stop in found]}
        for (low, _), found in zip(codes.own, codes.intervals, strict=True)
    ]
    return facts, rows


def _prime(hierarchy: Hierarchy) -> tuple[Facts, list[Row]]:
    codes = prime.encode(hierarchy)
    pairs = zip(codes.primes, codes.codes, strict=True)
    return {"code": "prime", "bits": codes.bits}, [{"prime": own, "code": hex(code)} for own, code in pairs]


def _digit(hierarchy: Hierarchy) -> tuple[Facts, list[Row]]:
    codes = digit.encode(hierarchy)
    facts: Facts = {"code": "digit", "bits": codes.bits, "digit_bits": codes.b, "digits": codes.length}
    padded = ((*digits, *[0] * (codes.length - len(digits))) for digits in codes.digits)
    return facts, [{"digits": ".".join(map(str, digits))} for digits in padded]
