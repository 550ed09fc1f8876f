"""A program as Spark users write it: an ordinary session, batch and stream. Started by `test_ordinary_session`."""

import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

sys.path.insert(0, sys.argv[1])  # the workers do not have it

from pyspark.sql import SparkSession

from motet.spark import detect, ingest_batch

settings: dict[str, bool | float | int | str | None] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
folder = Path(mkdtemp())
readings = spark.range(600).selectExpr(
    "id AS n",
    "timestamp_seconds(1700000000 + 10 * id) AS time",
    "if(id % 2 = 0, 'smoke', 'heat') AS kind",
    "id DIV 2 % 10 AS room",
)
events = {"smoke": "kind = 'smoke'", "heat": "kind = 'heat' AND n % 3 = 0"}
arguments: dict[str, Any] = {"events": events, "by": "room", "start": "time", "id": "n"}
pattern = "smoke UNLESS heat WITHIN 1 min"
matches = detect(readings, pattern, **arguments)
batch = {row.smoke for row in matches.collect()}
readings.write.parquet(str(folder / "in"))
stream = spark.readStream.schema(readings.schema).parquet(str(folder / "in"))
found = detect(stream, pattern, lateness="1 min", buckets=2, **arguments)
writing = found.writeStream.format("memory").queryName("found").option("checkpointLocation", str(folder / "c"))
writing.trigger(availableNow=True).start().awaitTermination()
early = {row.smoke for row in spark.table("found").collect()}
mapping = {"event": {"id": "urn:r:{n}", "time": "time"}, "properties": {"kind": "urn:kind"}}
accepted = ingest_batch(readings, folder / "lake", mapping=mapping).accepted
partitions = len([path for path in (folder / "c" / "state" / "0").iterdir() if path.name.isdigit()])
sys.stdout.write(f"{len(batch)} {len(batch - early) < 10} {early - batch} {partitions} {accepted}\n")
spark.stop()
