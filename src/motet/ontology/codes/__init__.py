"""Class codes: numbers from which subsumption can be read without the ontology.

Three kinds implement ``class_codes.ClassCodes``: ``interval`` (the default), ``prime`` and ``digit``. Each module has a
function ``encode(hierarchy)``.
"""
