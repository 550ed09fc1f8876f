"""EXML-QL: element patterns over XML documents, the templates of XML events, and their text. No I/O."""
