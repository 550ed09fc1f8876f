"""Bytes to events and back: ``decode`` reads, ``encode`` writes, ``parts`` cuts large files for parallel work.

Nothing is imported here, so that naming the package costs nothing.
"""
