"""Motet, a semantic event cloud: publish RDF events, subscribe to what they mean and how they combine in time."""

__version__ = "0.1.0"
