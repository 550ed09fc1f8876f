"""The cost of class codes: time to encode, length, and subsumption tests per second.

The hierarchies are generated trees and DAGs (one class in twenty has a second parent). The tests run on arrays of
random pairs. The baseline is the closure that the reasoner keeps: the set of ancestors of each class, tested pair by
pair.

The second table is the test of matching when every class has one interval: a million class numbers against intervals,
as a ratio to NumPy's comparison of the same arrays, and the same with a lookup of nodes. The repetitions are
interleaved and the figure is the best of them, so that a busy machine slows both alike.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np

from motet.model.errors import LimitError
from motet.ontology.codes import digit, interval, prime
from motet.ontology.codes.class_codes import ClassCodes, Nodes
from motet.ontology.codes.interval_kernels import inside_each
from motet.ontology.hierarchy import Hierarchy, hierarchy_from_parents

SEED = 20261115
SIZES = (100, 1_000, 10_000, 100_000)
PAIRS = 1_000_000
#: Number of pairs where each one costs a step of Python or a division of long numbers.
FEW_PAIRS = 100_000
ENCODERS: dict[str, Callable[[Hierarchy], ClassCodes]] = {
    "interval": interval.encode,
    "digit": digit.encode,
    "prime": prime.encode,
    "prime, the paper's product": lambda hierarchy: prime.encode(hierarchy, literal=True),
}


@dataclass(frozen=True)
class Result:
    shape: str
    classes: int
    code: str
    encode_seconds: float
    bits: int | None
    most_intervals: int | None
    tests_per_second: int | None


@dataclass(frozen=True)
class Ratio:
    question: str
    milliseconds: float
    numpy: str
    numpy_milliseconds: float
    ratio: float


def parents_of(classes: int, *, dag: bool) -> dict[str, list[str]]:
    rng = random.Random(SEED)
    parents = {}
    for number in range(1, classes):
        above = [number // 4 if rng.random() < 0.7 else rng.randrange(number // 8, number // 2 + 1)]
        if dag and rng.random() < 0.05:
            above.append(rng.randrange(number))
        parents[f"c{number}"] = [f"c{parent}" for parent in above]
    return parents


def measure(shape: str, classes: int) -> Iterator[Result]:
    parents = parents_of(classes, dag=shape == "DAG")
    started = time.perf_counter()
    hierarchy = hierarchy_from_parents(parents)
    ancestors = hierarchy.ancestors
    seconds = time.perf_counter() - started
    rng = np.random.default_rng(SEED)
    upper, lower = (rng.integers(0, len(hierarchy.groups), PAIRS) for _ in range(2))
    pairs = list(zip(upper[:FEW_PAIRS].tolist(), lower[:FEW_PAIRS].tolist(), strict=True))
    expected = [a == b or a in ancestors[b] for a, b in pairs]
    test_seconds = _best(lambda: [a == b or a in ancestors[b] for a, b in pairs])
    yield Result(shape, classes, "closure", round(seconds, 4), None, None, round(FEW_PAIRS / test_seconds))
    for name, encode in ENCODERS.items():
        yield _measured(shape, classes, name, lambda encode=encode: encode(hierarchy), (upper, lower), expected)  # type: ignore[misc]


def _measured(
    shape: str,
    classes: int,
    name: str,
    encode: Callable[[], ClassCodes],
    pairs: tuple[Nodes, Nodes],
    expected: list[bool],
) -> Result:
    started = time.perf_counter()
    try:
        codes = encode()
    except LimitError:  # the length at which they are refused is a result
        return Result(shape, classes, name, round(time.perf_counter() - started, 4), None, None, None)
    seconds = time.perf_counter() - started
    count = FEW_PAIRS if name.startswith("prime") else PAIRS
    upper, lower = (nodes[:count] for nodes in pairs)
    assert codes.subsumes(upper, lower)[:FEW_PAIRS].tolist() == expected, f"{name} codes disagree with the closure"
    test_seconds = _best(lambda: codes.subsumes(upper, lower))
    most = codes.cover.max_intervals if isinstance(codes, interval.IntervalCodes | digit.DigitCodes) else None
    return Result(shape, classes, name, round(seconds, 4), codes.bits, most, round(count / test_seconds))


def matching(classes: int) -> Iterator[Ratio]:
    """One interval per class: the codes of a tree."""
    hierarchy = hierarchy_from_parents(parents_of(classes, dag=False))
    codes = interval.encode(hierarchy)
    rng = np.random.default_rng(SEED)
    upper, lower = (rng.integers(0, len(hierarchy.groups), PAIRS) for _ in range(2))
    numbers, low, high = codes.cover.points[lower], codes.cover.low[upper], codes.cover.high[upper]
    bound = int(codes.intervals[1][0][1])
    one_class, pairs, by_node = "one class", "a class for each number", "a class for each number, found by node"
    yield _ratio(one_class, lambda: codes.below(1, numbers), "numbers < bound", lambda: numbers < bound)
    yield _ratio(pairs, lambda: inside_each(numbers, low, high), "numbers < high", lambda: numbers < high)
    yield _ratio(
        pairs,
        lambda: inside_each(numbers, low, high),
        "(low <= numbers) & (numbers < high)",
        lambda: (low <= numbers) & (numbers < high),
    )
    yield _ratio(by_node, lambda: codes.subsumes(upper, lower), "upper < lower", lambda: upper < lower)


def limits() -> dict[str, int]:
    """Where prime codes exceed their maximum length: ancestors of one class, and levels of pairs of classes."""
    bits = np.cumsum(np.log2(prime.first_primes(10_000)))
    levels = 1
    while _lattice_bits(levels) <= prime.BITS_LIMIT:
        levels += 1
    return {"bits": prime.BITS_LIMIT, "ancestors": int(np.searchsorted(bits, prime.BITS_LIMIT)), "levels": levels}


def _lattice_bits(levels: int) -> int:
    """The longest code by the paper's product when each class has both classes of the level above as parents."""
    pairs = {f"{side}{level}": [f"l{level - 1}", f"r{level - 1}"] for level in range(1, levels) for side in "lr"}
    return prime.encode(hierarchy_from_parents(pairs), literal=True, bits_limit=2**30).bits


def _ratio(test: str, run_codes: Callable[[], object], numpy: str, run_numpy: Callable[[], object]) -> Ratio:
    run_codes()  # compile, or load compiled code, before the clock starts
    pairs = [(_seconds(run_codes), _seconds(run_numpy)) for _ in range(30)]
    codes_ms, numpy_ms = (min(times) * 1000 for times in zip(*pairs, strict=True))
    return Ratio(test, round(codes_ms, 3), numpy, round(numpy_ms, 3), round(codes_ms / numpy_ms, 2))


def _best(run: Callable[[], object], repetitions: int = 3) -> float:
    return min(_seconds(run) for _ in range(repetitions))


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=100_000, metavar="N", help="classes of the largest hierarchy")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args()
    sizes = [size for size in SIZES if size <= options.largest]
    results = [result for size in sizes for shape in ("tree", "DAG") for result in measure(shape, size)]
    ratios, ends = list(matching(max(sizes, default=100))), limits()
    if options.json:
        codes, matched = [asdict(row) for row in results], [asdict(row) for row in ratios]
        print(json.dumps({"codes": codes, "matching": matched, "prime_limits": ends}, indent=2))
    else:
        _print(results, ratios, ends)


def _print(results: list[Result], ratios: list[Ratio], ends: dict[str, int]) -> None:
    print("clock of encode: from the hierarchy to its codes; of tests: from arrays of nodes to the result; wall time")
    print(f"{'shape':<6}{'classes':>8}  {'code':<28}{'encode':>10}{'bits':>8}{'intervals':>11}{'tests/s':>14}")
    for r in results:
        cells = ("-" if value is None else f"{value:,}" for value in (r.bits, r.most_intervals, r.tests_per_second))
        bits, most, tests = cells
        print(f"{r.shape:<6}{r.classes:>8,}  {r.code:<28}{r.encode_seconds:>8.3f} s{bits:>8}{most:>11}{tests:>14}")
    print(
        f"\nPrime codes exceed {ends['bits']:,} bits, the limit, at {ends['ancestors']:,} ancestors of one class; by "
        f"the paper's product\nat {ends['levels']} levels of two classes below both classes of the level above."
    )
    print(f"\n{PAIRS:,} tests, one interval per class")
    for ratio in ratios:
        print(f"  {ratio.question}: {ratio.milliseconds:.2f} ms")
        print(f"    NumPy, {ratio.numpy}: {ratio.numpy_milliseconds:.2f} ms; ratio {ratio.ratio:.2f}")


if __name__ == "__main__":
    main()
