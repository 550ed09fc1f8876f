"""The reference engine: the language page transcribed as directly as Python allows, the oracle of every other engine.

Slow and obvious on purpose: no indexes, nothing incremental, and nothing shared with the engines it judges. Each
function quotes the rule it transcribes.

    records      what a log consists of, the frontier, lateness
    occurrences  occurrences, joins, completion order
    visibility   which variables leave a sub-pattern
    sparql       SPARQL over triples and over bindings
    leaves       what a leaf matches in one event
    contexts     which partners a pairing operator takes
    iterations   the members of an iteration
    operators    the occurrences of a pattern
    finality     how far behind the frontier they are known
    derivation   what CONSTRUCT makes of a notification
    log          the notifications of a whole log
"""

from motet.reference.log import evaluate, evaluate_emissions
from motet.reference.records import (
    BackgroundRecord,
    EventRecord,
    Record,
    RetractRecord,
    SubscribeRecord,
    TickRecord,
    UnsubscribeRecord,
    stamp,
)

__all__ = [
    "BackgroundRecord",
    "EventRecord",
    "Record",
    "RetractRecord",
    "SubscribeRecord",
    "TickRecord",
    "UnsubscribeRecord",
    "evaluate",
    "evaluate_emissions",
    "stamp",
]
