"""The plan of all active subscriptions: shared operators, derivation edges, finality and partitioning, explained."""
