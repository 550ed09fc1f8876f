"""SPARQL over history on Spark against Spark SQL written by hand for the same answers over the same zone files.

The clock of a query starts with its text and ends when all its rows are there as terms. Both sides share a session,
in which every query has run before, and take turns. The SQL is as an engineer writes it who knows the data: nothing is
left to find out at run time. Its answers are those of SPARQL: each triple of the default graph counts once, sums and
averages are exact; their last digits may be rounded in another way. The rows of both sides are compared.

    python benchmarks/spark_sql.py --quads 1000000 --rounds 9
    python benchmarks/spark_sql.py --directory /tmp/quads --queries "star, a class" --plans
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))  # for running it by path

from benchmarks.measurement.figures import Seconds, machine_load, print_clock
from benchmarks.measurement.quads import EX, TRIPLES_PER_EVENT, background
from benchmarks.sparql import QUERIES, load_lake

from motet.lake import Lake
from motet.lake.zones import quad_zones
from motet.model.terms import RDF_TYPE, XSD, literal_parts

GOAL = 1.15
TITLES = ("ours", "by hand", "ratio", "CPU ours", "by hand", "ratio")

# An average whose digits do not depend on the order of the rows: whole numbers are summed, for doubles the two parts of
# 32 bits after the point, for decimals hundredths. The result is a double if one of the numbers is.
_AVERAGE = """SELECT {key} CASE WHEN doubles > 0
        THEN concat('"', CAST(total AS DOUBLE) / n, '"^^<XSDdouble>')
        ELSE concat('"', CAST(CAST(total AS DECIMAL(38, 19)) / n AS DECIMAL(38, 18)), '"^^<XSDdecimal>') END
    FROM (SELECT {key} n, doubles, whole + coalesce(hundredths, 0) / 100BD
        + coalesce(CAST(high AS DECIMAL(34, 18)) / 4294967296BD, 0)
        + coalesce(CAST(low AS DECIMAL(34, 18)) / 18446744073709551616BD, 0) AS total
        FROM (SELECT {group} count(*) AS n, count_if(is_double) AS doubles, sum(CAST(v AS BIGINT)) AS whole,
            sum(CASE WHEN NOT is_double THEN CAST(round(100 * (v % 1)) AS BIGINT) END) AS hundredths,
            sum(CASE WHEN is_double THEN CAST(4294967296 * (v % 1) AS BIGINT) END) AS high,
            sum(CASE WHEN is_double THEN CAST(4294967296 * (4294967296 * (v % 1) % 1) AS BIGINT) END) AS low
            FROM ({values}) {grouped}))"""

# q has the rows of the zones, each triple once, b the background. Recursion takes seconds for each level of "path".
HAND_WRITTEN = {
    "subject": "SELECT p, o FROM q WHERE s = '<EXobs/5007>'",
    "subject and predicate": "SELECT o FROM q WHERE s = '<EXobs/5007>' AND p = '<EXvalue>'",
    "object": "SELECT s, p FROM q WHERE o = '<EXsensor/700>'",
    "predicate and object": "SELECT s FROM q WHERE p = '<EXsensor>' AND o = '<EXsensor/700>'",
    "star, a class": """SELECT a.s, b.o, c.o, d.o FROM q a, q b, q c, q d WHERE a.s = b.s AND a.s = c.s AND a.s = d.s
        AND a.p = 'TYPE' AND a.o = '<EXC37>' AND b.p = '<EXsensor>' AND c.p = '<EXvalue>' AND d.p = '<EXat>'""",
    "star, one sensor": """SELECT a.s, b.o, c.o, d.o FROM q a, q b, q c, q d WHERE a.s = b.s AND a.s = c.s AND a.s = d.s
        AND a.p = '<EXsensor>' AND a.o = '<EXsensor/700>' AND b.p = 'TYPE' AND c.p = '<EXvalue>' AND d.p = '<EXat>'""",
    "two hops": """SELECT b.s, c.o FROM q a, q b, q c WHERE a.p = '<EXinRoom>' AND a.o = '<EXroom/190>'
        AND b.p = '<EXsensor>' AND b.o = a.s AND c.p = '<EXvalue>' AND c.s = b.s""",
    "group and average": _AVERAGE.format(
        key="key,", group="key,", grouped="GROUP BY key",
        values="""SELECT a.o AS key, b.onum AS v, endswith(b.o, 'XSDdouble>') AS is_double FROM q a, q b
        WHERE a.s = b.s AND a.p = '<EXsensor>' AND b.p = '<EXvalue>'""",
    ),
    "average": _AVERAGE.format(
        key="", group="", grouped="",
        values="SELECT onum AS v, endswith(o, 'XSDdouble>') AS is_double FROM q WHERE p = '<EXvalue>'",
    ),
    "range of times": """SELECT s, o FROM q WHERE p = '<EXat>' AND ots >= unix_micros(timestamp'2026-01-01 06:00:00Z')
        AND ots < unix_micros(timestamp'2026-01-01 06:30:00Z')""",
    "OPTIONAL and REGEX": """SELECT a.s, b.o FROM (SELECT s FROM q WHERE p = 'TYPE' AND o = '<EXC37>') a LEFT JOIN
        (SELECT s, o FROM q WHERE p = '<EXlabel>' AND rlike(o, '^"[^"]*(pump|fan)')) b ON a.s = b.s""",
    "REGEX over labels": """SELECT s FROM q WHERE p = '<EXlabel>' AND rlike(o, '^"cold [^"]*pump"')""",
    "COUNT DISTINCT": """SELECT concat('"', count(DISTINCT o), '"^^<XSDinteger>') FROM q WHERE p = '<EXsensor>'""",
    "path to a constant": """WITH RECURSIVE r(x) AS (SELECT s FROM b WHERE p = '<EXpartOf>' AND o = '<EXfloor/2>'
        UNION ALL SELECT b.s FROM b, r WHERE b.p = '<EXpartOf>' AND b.o = r.x)
        SELECT q.s FROM q, r WHERE q.p = '<EXinRoom>' AND q.o = r.x""",
}  # fmt: skip

Run = Callable[[], list[tuple[Any, ...]]]


class Pair(NamedTuple):
    """The runs of both sides, in turns."""

    rows: int
    same: bool
    ours: list[Seconds]
    by_hand: list[Seconds]

    def ratio(self, place: int) -> float:
        """Our median divided by the other one; of wall time (0) or processor time (1)."""
        return median(self.ours, place) / median(self.by_hand, place)


def median(runs: Sequence[Seconds], place: int) -> float:
    return statistics.median(run[place] for run in runs)


def processor_time() -> float:
    """The processor time of this process and of those below it: the JVM and Python workers."""
    return sum(map(_processor_time_of, [os.getpid(), *_processes_below(os.getpid())]))


def _processor_time_of(process: int) -> float:
    try:
        return time.clock_gettime((~process << 3) | 2)  # the clock of another process (Linux)
    except OSError:  # it has ended
        return 0.0


def _processes_below(process: int) -> Iterator[int]:
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            yield child
            yield from _processes_below(child)


def timed(run: Run) -> Seconds:
    wall, processor = time.perf_counter(), processor_time()
    run()
    return Seconds(time.perf_counter() - wall, processor_time() - processor)


def compare(ours: Run, by_hand: Run, warm_ups: int, rounds: int) -> Pair:
    rows = [Counter(map(_values, side())) for side in (ours, by_hand)]
    for _ in range(warm_ups):
        ours(), by_hand()
    runs = [(timed(ours), timed(by_hand)) for _ in range(rounds)]
    return Pair(rows[0].total(), rows[0] == rows[1], *map(list, zip(*runs, strict=True)))


def _values(row: Sequence[str | None]) -> tuple[object, ...]:
    """The row with the first 14 digits of its computed numbers, which have several spellings."""
    numbers = (f"^^<{XSD}double>", f"^^<{XSD}decimal>")
    return tuple(
        f"{float(literal_parts(term)[0]):.13e}" if term is not None and term.endswith(numbers) else term for term in row
    )


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


def hand_written(name: str) -> str:
    return HAND_WRITTEN[name].replace("TYPE", RDF_TYPE).replace("<EX", f"<{EX}").replace("XSD", XSD)


def create_views(spark: Any, lake: Lake) -> None:
    """The views q and b."""
    from motet.spark.query_engine import QUAD_SCHEMA

    files = [str(lake.store.path(zone.name).absolute()) for zone in quad_zones(lake.snapshot())]
    spark.read.schema(QUAD_SCHEMA).parquet(*files).where("first").createOrReplaceTempView("q")
    spark.createDataFrame(background(), "s string, p string, o string").createOrReplaceTempView("b")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quads", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--warm-ups", type=int, default=5)
    parser.add_argument("--queries", nargs="+", metavar="NAME", help="only these")
    parser.add_argument("--directory", type=Path, help="where loaded data is kept for the next run")
    parser.add_argument("--plans", action="store_true", help="print the physical plans of both sides")
    args = parser.parse_args()
    from motet.spark.query_engine import query
    from motet.spark.session import session

    with ExitStack() as stack:
        folder = args.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        lake = load_lake(folder / "lake", args.quads // TRIPLES_PER_EVENT)
        lake.build_zones()
        spark = session()
        create_views(spark, lake)
        print_clock("a query", "its text", "the last row as terms", "median of the rounds, milliseconds")
        print(f"{'query':<24}{'rows':>8}{'same':>6}" + "".join(f"{name:>9}" for name in TITLES))
        for chosen in QUERIES:
            if chosen.name not in (args.queries or HAND_WRITTEN):
                continue
            sql, text = hand_written(chosen.name), chosen.text
            if args.plans:
                for frame in (query(spark, lake, text), spark.sql(sql)):
                    frame.explain("formatted")
            pair = compare(
                lambda text=text: rows_of(query(spark, lake, text)),  # type: ignore[misc]
                lambda sql=sql: rows_of(spark.sql(sql)),  # type: ignore[misc]
                args.warm_ups,
                args.rounds,
            )
            print(line(chosen.name, pair), flush=True)
        print(f"the goal is a ratio of at most {GOAL}; {machine_load()}")


def line(name: str, pair: Pair) -> str:
    figures = "".join(
        f"{1000 * median(pair.ours, place):>9.0f}{1000 * median(pair.by_hand, place):>9.0f}{pair.ratio(place):>9.2f}"
        for place in (0, 1)
    )
    return f"{name:<24}{pair.rows:>8}{'yes' if pair.same else 'NO':>6}{figures}"


if __name__ == "__main__":
    main()
