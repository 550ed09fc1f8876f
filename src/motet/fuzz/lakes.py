"""Writes the log of a case to a lake, one commit for each record."""

from __future__ import annotations

from pathlib import Path

from motet import reference
from motet.codec.decode import decode_bytes
from motet.fuzz.case import Case
from motet.fuzz.files import nquads
from motet.lake import Lake
from motet.language.printer import to_text


def write_lake(log: Case, directory: Path) -> Lake:
    """Write the log of a case to a lake."""
    lake = Lake.open(directory, lateness=log.lateness, ahead=None, durable=False)
    if log.ontology:
        lake.background(added=sorted(log.ontology))
    for record in log.records:
        match record:
            case reference.EventRecord():
                for decoded in decode_bytes(nquads(record).encode(), "application/n-quads"):
                    lake.append(decoded.events, partial=True)
            case reference.TickRecord(instant=instant):
                lake.tick(instant)
            case reference.BackgroundRecord(added=added, removed=removed):
                lake.background(added=sorted(added), removed=sorted(removed))
            case reference.RetractRecord(event=event):
                lake.retract(event)
            case reference.SubscribeRecord(subscription=subscription):
                lake.subscribe(subscription.name, to_text(subscription))
            case reference.UnsubscribeRecord(name=name):
                lake.unsubscribe(name)
    return lake
