"""A deterministic simulator of networks of protocol nodes: one seed, one trace."""
