"""Compiled code: how functions are compiled by Numba and cached on disk."""
