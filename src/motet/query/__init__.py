"""Queries over history and over plain files: data to datasets, answers to the W3C result formats."""
