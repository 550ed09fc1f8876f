"""The Spark host: a session that starts by itself, events and lakes as data sources, and whole runs in batch.

Nothing here decides what matches; that is the engine's. Spark only brings events to it and notifications away.
"""
