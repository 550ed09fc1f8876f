"""Compiles SPARQL queries to SQL: the algebra becomes a sqlglot tree, which one generator per dialect writes."""
