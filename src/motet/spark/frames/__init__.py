"""Patterns over any DataFrame, batch or streaming, without a lake: rows are events, columns their properties.

Spark evaluates conditions, routes rows to buckets and sorts them; behind the shuffle a processor for each bucket finds
what the pattern means. ``motet.spark.detect`` is the entry point.
"""
