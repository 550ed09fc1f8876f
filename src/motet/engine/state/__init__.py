"""State snapshots: the state of a processor as bytes, as a base or as deltas to an earlier state."""
