"""Finding differences between an engine and the reference engine: random cases, comparison, shrinking, files."""
