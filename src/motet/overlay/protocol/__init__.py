"""The protocols of the overlay: state machines without I/O, clock or randomness."""
