"""Stream the notifications of a lake to any Spark sink: here `foreachBatch` to Parquet, one directory per batch.

Run: python examples/notifications_to_parquet.py
"""

import tempfile

from pyspark.sql import DataFrame

import motet
from motet.demo import building
from motet.spark import notifications
from motet.spark.session import session


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        lake, table = f"{directory}/lake", f"{directory}/table"
        with motet.open(lake, ontology=[building.ontology_path()]) as cloud:
            cloud.subscribe(building.subscriptions_path().read_text(), lambda notification: None)
            cloud.publish("".join(building.day(events=600)))

        def write(batch: DataFrame, number: int) -> None:  # repeated after a crash, it writes the same rows
            batch.write.mode("overwrite").parquet(f"{table}/batch={number}")

        spark = session()
        stream = notifications(spark, lake).writeStream.foreachBatch(write)
        stream = stream.option("checkpointLocation", f"{directory}/checkpoint").trigger(availableNow=True)
        stream.start().awaitTermination()
        spark.read.parquet(table).groupBy("subscription").count().orderBy("subscription").show()


if __name__ == "__main__":
    main()
