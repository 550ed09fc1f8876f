"""Fuzzing of engines: random cases, comparison with the reference engine, shrinking, and case files."""
