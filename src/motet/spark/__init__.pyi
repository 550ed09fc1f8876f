from motet.spark.frames.detect import detect as detect
from motet.spark.frames.detect import detect_end as detect_end
from motet.spark.frames.pandas_frames import detect_pandas as detect_pandas
from motet.spark.ingestion import ingest as ingest
from motet.spark.ingestion import ingest_batch as ingest_batch
from motet.spark.query_engine import query as query
from motet.spark.tables import notifications as notifications
from motet.spark.tables import stored_notifications as stored_notifications

__all__ = [
    "detect", "detect_end", "detect_pandas", "ingest", "ingest_batch", "notifications", "query", "stored_notifications",
]  # fmt: skip
