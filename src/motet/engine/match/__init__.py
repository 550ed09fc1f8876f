"""Matching: the solutions of leaves on events, found by a predicate index over all leaves."""
