"""Ontologies: reading them, the classes they define, the codes that classes carry, and what follows from an event."""
