"""SPARQL: tokens, grammar, algebra, parser, printer, functions and the evaluator of group graph patterns. No I/O."""
