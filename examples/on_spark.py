"""A live cloud whose notifications are computed by Spark.

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
            cloud.publish(event)  # stored when this returns; Spark processes the events since its last batch
        cloud.flush()  # wait for the last notification


if __name__ == "__main__":
    main()
