"""Class codes: numbers from which subsumption can be read without the ontology.

Three of them behind one interface (``interface.Codes``): ``interval`` (the default), ``prime`` and ``digit``. Each
module has ``encode(hierarchy)``.
"""
