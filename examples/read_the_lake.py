"""Query the files of a lake with DuckDB: the log is Parquet, which can be read without Motet.

Run: python examples/read_the_lake.py     (needs `pip install duckdb`)
"""

import tempfile

import duckdb

import motet
from motet.demo import building


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        with motet.open(directory) as cloud:
            cloud.publish("".join(building.day(events=300)))
            cloud.lake.compact()  # small appends are inline in commit files until they are compacted
            files = [str(path) for path in cloud.lake.snapshot().segment_paths()]
        rooms = duckdb.sql(
            """
            SELECT triple.object AS room, count(*) AS events
            FROM (SELECT unnest(triples) AS triple FROM read_parquet($files) WHERE kind = 'event')
            WHERE triple.predicate = '<http://example.org/building#room>'
            GROUP BY room ORDER BY events DESC, room LIMIT 3
            """,
            params={"files": files},
        )
        print(rooms)


if __name__ == "__main__":
    main()
