"""Subscriptions as text and as trees: grammars, syntax tree, printer. No I/O, and no idea how a tree is run."""
