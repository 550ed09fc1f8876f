"""Batch jobs on Spark: `motet run`, `motet replay` and `motet verify`.

Events are matched where they are read, routed to buckets, and detected after one shuffle.
"""
