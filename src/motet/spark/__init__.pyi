from motet.spark.frames.detect import detect as detect
from motet.spark.ingestion import ingest as ingest
from motet.spark.ingestion import ingest_batch as ingest_batch
from motet.spark.tables import notifications as notifications
from motet.spark.tables import stored_notifications as stored_notifications

__all__ = ["detect", "ingest", "ingest_batch", "notifications", "stored_notifications"]
