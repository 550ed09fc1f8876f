"""The demo: a day in a building as RDF and its orders as XML, with an ontology, a mapping and subscriptions."""
