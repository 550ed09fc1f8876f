"""The live pipeline on Structured Streaming: log → match → shuffle by bucket → detect → notification table.

The source says which offsets a batch has, and every task reads what it needs from the lake itself: rows between the
stages are few and carry whole Arrow batches. Nothing here decides what matches; that is the engine's.
"""
