"""Decoders and encoders of event formats: bytes to Arrow batches of events and back.

``decode`` reads, ``encode`` writes. This file imports nothing, so that importing the package is cheap.
"""
