"""From what a kernel remembers to its state as data, and back; what that looks like in bytes is in `detect/saving`."""

from __future__ import annotations

from collections.abc import Iterator

from motet.engine.backgrounds import Backgrounds
from motet.engine.lives import Life, facts_of, life_of
from motet.engine.memory import Memory
from motet.engine.sharing import Sharing
from motet.engine.state.restore import fill_dictionary, state_rows
from motet.engine.state.rows import canonical_rows
from motet.engine.state.snapshot import StateSnapshot


def saved(memory: Memory, sharing: Sharing, backgrounds: Backgrounds, lateness: int | None) -> StateSnapshot:
    """The state; equal ones are equal bytes, whatever was planned before."""
    facts = {
        "lateness": lateness,
        "entailment": backgrounds.requested_entailment,
        "frontier": memory.frontier,
        "last": memory.last,
        "has events": memory.has_events,
        "derived": sharing.derived,
        "deriving": sorted(memory.deriving),
        "with triples": sharing.names.events.with_triples,
        "shown": {name: dict(sorted(life.shown.items())) for name, life in memory.lives.items() if life.shown},
    }
    lives = {name: facts_of(life) for name, life in memory.lives.items()}
    rows = canonical_rows(state_rows(memory.tables(sharing.builder.digests), sharing.names))
    return StateSnapshot(facts, lives, dict(memory.controls.retractions), backgrounds.graphs(), rows)


def resume(state: StateSnapshot, memory: Memory, sharing: Sharing) -> None:
    """Let an empty memory know what a state says but for the lives and the tables, which go by what is planned."""
    facts = state.header
    memory.frontier, memory.last, memory.has_events = facts["frontier"], facts["last"], facts["has events"]
    memory.deriving, memory.controls.retractions = set(facts["deriving"]), dict(state.retractions)
    sharing.derived = facts["derived"]
    fill_dictionary(sharing.names, state.rows, with_triples=facts["with triples"])


def lives_of(state: StateSnapshot) -> Iterator[Life]:
    """The subscriptions in force, in the order they were registered."""
    shown = state.header.get("shown", {})
    for name, facts in sorted(state.subscriptions.items(), key=lambda one: one[1]["offset"]):
        life = life_of(name, facts)
        life.shown = dict(shown.get(name, {}))
        yield life
