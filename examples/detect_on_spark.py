# %% [markdown]
# # Patterns over any DataFrame
#
# `motet.spark.detect` finds patterns of rows: sequences, absences, repetitions. It takes any DataFrame with a
# timestamp, batch or streaming, and returns a DataFrame of matches.
#
# Run: `python examples/detect_on_spark.py`, or open the notebook beside it.

# %%
import tempfile

from pyspark.sql import functions as f

from motet.spark import detect
from motet.spark.session import session

spark = session(app_name="detect")
ROWS = [
    (1, "10:00:00", "lab", "smoke", 4.0),
    (2, "10:01:30", "lab", "heat", 58.0),
    (3, "10:02:00", "hall", "smoke", 5.0),
    (4, "10:03:00", "hall", "heat", 61.0),
    (5, "10:05:00", "hall", "drill", None),
    (6, "10:06:00", "lab", "heat", 71.0),
    (7, "10:07:00", "lab", "heat", 85.0),
]
readings = spark.createDataFrame(ROWS, "n int, time string, room string, kind string, value double")
readings = readings.withColumn("time", f.concat(f.lit("2026-11-15 "), "time").cast("timestamp"))
readings.show()

# %% [markdown]
# Conditions in Spark SQL select the rows of each event; the pattern combines the events. Here: smoke, then heat in the
# same room within five minutes, and no drill there in the ten minutes after.

# %%
alarms = {"smoke": "kind = 'smoke' AND value > 3", "heat": "kind = 'heat'", "drill": "kind = 'drill'"}
fire = "(smoke BEFORE heat WITHIN 5 min) UNLESS drill WITHIN 10 min"
detect(readings, fire, events=alarms, by="room", start="time", id="n").orderBy("start").show()

# %% [markdown]
# A match has its interval, the ids of its rows, the columns `by`, and the row of each event. The columns of an event
# are variables, to compare and to select: `?first_value` is the `value` of the row that matches `first`.

# %%
rise = "(first BEFORE second WITHIN 5 min) FILTER(?second_value > ?first_value + 10) SELECT ?first_value ?second_value"
heat = f.col("kind") == "heat"  # a condition can also be a Column
heats = {"first": heat, "second": heat}
detect(readings, rise, events=heats, by="room", start="time", id="n").orderBy("start").show()

# %% [markdown]
# Three times within ten minutes:

# %%
detect(readings, "heat{3} WITHIN 10 min", events={"heat": heat}, by="room", start="time", id="n").show()

# %% [markdown]
# A whole subscription works as well: its EVENTs test columns, and shared variables join. Here a drill counts in any
# room.

# %%
text = """
EVENT smoke { ?smoke :kind "smoke" ; :room ?room ; :value ?level }
EVENT heat  { ?heat :kind "heat" ; :room ?room ; :value ?celsius . FILTER(?celsius > 55) }
EVENT drill { ?drill :kind "drill" }
WHEN (smoke BEFORE heat WITHIN 5 min) UNLESS drill WITHIN 3 min
SELECT ?room ?level ?celsius
"""
detect(readings, text, start="time", id="n").orderBy("start").show()

# %% [markdown]
# The same call on a stream. A match that depends on the *absence* of rows is emitted when the watermark has passed its
# window, so the last rows of a stream stay open. Here a row of the next day moves the watermark.

# %%
folder = tempfile.TemporaryDirectory()
tomorrow = readings.limit(1).withColumn("time", f.expr("time + INTERVAL 1 DAY")).withColumn("kind", f.lit("nothing"))
readings.union(tomorrow).coalesce(1).write.mode("overwrite").parquet(folder.name)
stream = spark.readStream.schema(readings.schema).parquet(folder.name)
matches = detect(stream, fire, events=alarms, by="room", start="time", id="n", lateness="1 minute")
query = matches.writeStream.format("memory").queryName("fires").trigger(availableNow=True).start()
query.awaitTermination()
spark.table("fires").show()
folder.cleanup()
