"""The reference engine: the language page transcribed as directly as Python allows, the oracle of every other engine.

Slow and obvious on purpose: no indexes, nothing incremental, and no code shared with the engines it is compared to.
Each function quotes the rule it transcribes.

    records      the records of a log, its commits, and the frontier that their writer computes
    occurrences  occurrences, joins, completion order
    visibility   the variables visible outside a sub-pattern
    sparql       SPARQL over triples and over bindings
    leaves       the solutions of a leaf in one event
    contexts     the partners a pairing operator chooses
    iterations   the members of an iteration
    operators    the occurrences of a pattern
    finality     lags: how far behind the frontier occurrences are final
    derivation   the events derived by CONSTRUCT clauses
    log          the notifications of a whole log
"""

from motet.reference.log import evaluate, evaluate_emissions, evaluate_written
from motet.reference.records import (
    BackgroundRecord,
    EventRecord,
    Record,
    RetractRecord,
    SettingsRecord,
    SubscribeRecord,
    TickRecord,
    UnsubscribeRecord,
    WrittenLog,
    write_log,
)

__all__ = [
    "BackgroundRecord",
    "EventRecord",
    "Record",
    "RetractRecord",
    "SettingsRecord",
    "SubscribeRecord",
    "TickRecord",
    "UnsubscribeRecord",
    "WrittenLog",
    "evaluate",
    "evaluate_emissions",
    "evaluate_written",
    "write_log",
]
