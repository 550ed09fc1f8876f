"""The same cloud with its notifications derived by Spark jobs.

Run: python examples/on_spark.py
"""

import tempfile

import motet
from motet.demo import building


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        motet.open(directory, engine="spark", ontology=[building.ontology_path()]) as cloud,
    ):
        cloud.subscribe(building.subscriptions_path().read_text(), print)
        for event in building.day(events=60):
            cloud.publish(event)  # on disk when this returns; Spark takes whatever has come since its last job
        cloud.flush()  # wait for the last notification


if __name__ == "__main__":
    main()
