"""Ontologies: loading, classification, reasoning over events, consistency checks and class codes."""
