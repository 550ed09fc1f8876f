"""Which subscriptions of a single EVENT does an event match? A predicate index over all of them."""
