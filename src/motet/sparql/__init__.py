"""SPARQL: tokens, parser, algebra, printer, functions and the evaluator of patterns and whole queries. No I/O."""
