"""The W3C test suites of SPARQL 1.0 and 1.1, run on our engines: `make w3c`. The suites are not in here."""
