"""The growth of memory over a stream that is a thousand windows long.

Patterns of every family of operators, each bounded by 10 s, run over a stream with ever new keys. After each window of
10 s the resident memory, the rows of state and the strings in the dictionary are counted. The plot is written to
build/bench/memory.svg.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))  # for running it by path

from benchmarks.measurement.figures import machine_load, print_figure
from benchmarks.measurement.records import CLASSES, KEY, batches, events, newest_end, repeated_names
from benchmarks.streams import WITHIN, Intervals, keyed_intervals

from motet.engine.runtime.processor import Processor
from motet.language.parse import parse
from motet.language.syntax import Context
from motet.model.batches import Records, event_records
from motet.model.terms import RDF_TYPE

FIRST_WINDOWS = 10  # ignored: the state fills
FLAT = 1.2
PATTERNS = (
    *(f"a BEFORE b WITHIN 10 s CONTEXT {context.value}" for context in Context),
    *(f"a {relation} b WITHIN 10 s" for relation in ("OVERLAPS", "DURING", "ALONGSIDE", "AND")),
    "a OVERLAPS b WITHIN 10 s CONTEXT unrestricted",
    "(a BEFORE b) BEFORE c WITHIN 10 s",
    "(a AND b WITHIN 10 s) FILTER(?k != <urn:none>)",
    "a OR b",
    "a XOR b WITHIN 10 s",
    "a UNLESS b WITHIN 10 s",
    "(a BEFORE b WITHIN 10 s) WITHOUT c",
    "NO a FOR 1 s",
    "a{3} EVERY 5 s WITHIN 10 s",
    "a+ EVERY 500 ms WITHIN 10 s",
)


class Sample(NamedTuple):
    megabytes: float
    rows: int
    strings: int


def document() -> str:
    declared = {
        name: f"EVENT {name} : {class_} {{ ?{name} {KEY} ?k }}" for name, class_ in zip("abc", CLASSES, strict=True)
    }
    return "\n".join(
        f"SUBSCRIPTION s{number} {' '.join(text for name, text in declared.items() if name in _used(pattern))} "
        f"WHEN {pattern}"
        for number, pattern in enumerate(PATTERNS)
    )


def _used(pattern: str) -> set[str]:
    return {name for name in "abc" if any(word.strip("(){3}+") == name for word in pattern.split())}


def log(windows: int, each: int) -> pa.RecordBatch:
    """``each`` events per window; a key is used in a few windows and never again."""
    keys = 20
    longer = keyed_intervals(windows * each * 5 // 4, keys, gap=keys * WITHIN / each)  # the last keys are incomplete
    made = Intervals(*(column[: windows * each] for column in longer))
    window = (made.end - made.end[0]) // WITHIN
    kind = np.where(np.arange(len(made.kind)) % 7 == 0, 2, made.kind)
    stream = Intervals(made.key + keys * (window // 3), kind, made.start, made.end)
    kinds = pa.array(CLASSES).take(pa.array(stream.kind))
    return event_records(events(stream, {RDF_TYPE: kinds, KEY: repeated_names("<urn:k/", stream.key, ">")}), 0)


def samples(windows: int, each: int) -> list[Sample]:
    processor = Processor()
    processor.activate(parse(document()))
    taken = []
    for batch in batches(log(windows, each), each):
        processor.advance(Records(columns=batch), newest_end(batch))
        gc.collect(0)
        rows = processor.statistics()["rows"]
        strings = len(processor.dictionary.terms) + len(processor.dictionary.events)
        taken.append(Sample(_resident(), rows, strings))
    return taken


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def plot(values: Sequence[float], width: int = 100) -> str:
    """A bar chart of the values in one line of text.

    >>> plot([1, 2, 8], width=3)
    '▁▂█'
    """
    bars = "▁▂▃▄▅▆▇█"
    maxima = [max(section) for section in np.array_split(np.asarray(values), min(width, len(values)))]
    return "".join(bars[min(7, int(8 * value / max(maxima)))] for value in maxima)


def svg(series: Mapping[str, Sequence[float]]) -> str:
    """The curves below each other, each from zero to its maximum."""
    width, height, margin = 900, 160, 40
    elements = []
    for index, (name, values) in enumerate(series.items()):
        top, maximum = index * (height + margin) + margin, max(values)
        step = (width - 2 * margin) / max(1, len(values) - 1)
        points = " ".join(
            f"{margin + x * step:.1f},{top + height * (1 - value / maximum):.1f}" for x, value in enumerate(values)
        )
        elements += [
            f'<text x="{margin}" y="{top - 8}">{name}: at most {maximum:,.0f}</text>',
            f'<path d="M{margin} {top}V{top + height}H{width - margin}" fill="none" stroke="gray"/>',
            f'<polyline points="{points}" fill="none" stroke="steelblue"/>',
        ]
    total_height = len(series) * (height + margin) + margin
    body = "\n".join(elements)
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total_height}" font-family="sans-serif">'
    return f"{opening}\n{body}\n</svg>\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=1_000)
    parser.add_argument("--each", type=int, default=200, help="events per window")
    options = parser.parse_args()
    print(machine_load())
    taken = samples(options.windows, options.each)
    names = ("resident megabytes", "rows of state", "strings in the dictionary")
    series = dict(zip(names, map(list, zip(*taken, strict=True)), strict=True))
    print(f"{options.windows:,} windows of {options.each} events, {len(PATTERNS)} patterns; sampled after each window")
    for name, values in series.items():
        later = np.array(values[FIRST_WINDOWS:])
        growth = later[len(later) // 2 :].max() / later[: len(later) // 2].max()
        print(plot(values))
        span = f"{later.min():,.0f} to {later.max():,.0f}, max/min {later.max() / later.min():.2f}"
        print_figure(f"{name}: {span}", f"second half {growth:.2f} × first", f"flat, ≤ {FLAT} ×", FLAT / growth)
    target = Path("build/bench/memory.svg")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(svg(series))
    print(f"{target}; {machine_load()}")


if __name__ == "__main__":
    main()
