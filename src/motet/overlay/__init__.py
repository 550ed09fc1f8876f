"""Peer-to-peer overlays: protocols without I/O, a deterministic simulator for them, and a TCP host."""
