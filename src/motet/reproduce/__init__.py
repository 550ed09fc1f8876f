"""Experiments of the published systems, repeated on this one."""
