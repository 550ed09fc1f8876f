"""Batch jobs on Spark: `motet run`, `motet replay` and `motet verify`.

Events are matched where they are read, routed by component and bucket, and detected after one shuffle.
"""
