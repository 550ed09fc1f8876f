"""Patterns over any DataFrame, batch or streaming, without a lake: rows are events, columns their properties.

Spark evaluates conditions, spreads rows over buckets and sorts them; behind the shuffle a kernel for each bucket finds
what the pattern means. ``motet.spark.detect`` is the door.
"""
