"""Subscriptions as RDF, so that they can be stored, queried and exchanged like any other data.

The vocabulary is ``urn:motet:ns#`` (prefix ``m:``); docs/vocabulary.md explains it. In short::

    <urn:motet:subscription:real-fire> a m:Subscription ; m:name "real-fire" ; m:context "chronicle" ;
        m:events ( [ a m:Event ; m:name "smoke" ; m:class ex:SmokeAlarm ; m:body "…" ] … ) ;
        m:pattern [ a m:Unless ; m:operand […] ; m:absent […] ; m:window "PT600S"^^xsd:dayTimeDuration ] ;
        m:delivery [ a m:Select ; m:variables ( "room" "level" ) ] .

Each kind of pattern node is a class of the name it has in the syntax tree, its fields are properties. Nodes have IRIs
below the subscription's own, never blank nodes, so that equal subscriptions have equal triples.
"""

from __future__ import annotations

from motet.language.rdf_reader import from_rdf
from motet.language.rdf_writer import to_rdf

__all__ = ["from_rdf", "to_rdf"]
