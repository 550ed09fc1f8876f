"""The notebook about patterns over DataFrames shows what its cells print."""

import runpy
from pathlib import Path

from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]


def test_the_notebook_is_up_to_date(spark: SparkSession) -> None:
    """examples/detect_on_spark.ipynb is what `python docs/notebook.py` writes when it runs the example."""
    written = runpy.run_path(str(ROOT / "docs" / "notebook.py"))["notebook"]()
    assert (ROOT / "examples" / "detect_on_spark.ipynb").read_text(encoding="utf-8") == written
