"""The building demo: an ontology, subscriptions and a seeded generator of a day of events."""
