"""The states of a Pastry node, as a table. The diagram in the documentation is drawn from it."""

from __future__ import annotations

from enum import Enum


class PastryState(Enum):
    """The states of a node."""

    IDLE = "idle"
    JOINING = "joining"
    CONFIRMING = "confirming"
    PREPARING = "preparing"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    LEAVING = "leaving"
    LEFT = "left"


class PastryInput(Enum):
    """What changes the state of a node."""

    BEGIN = "no ring to join"
    JOIN = "join, or no reply to it"
    WELCOMED = "join reply"
    CONFIRMED = "all neighbours answered"
    ISOLATED = "no neighbour answered"
    PREPARED = "values transferred"
    STALLED = "not scheduled for long"
    LEAVE = "leave"
    DEPARTED = "departure noted, values handed over"


S, I = PastryState, PastryInput  # noqa: E741  the two columns of the table

TRANSITIONS: dict[tuple[PastryState, PastryInput], tuple[str, PastryState]] = {
    (S.IDLE, I.BEGIN): ("_activate", S.ACTIVE),
    (S.IDLE, I.JOIN): ("_request_join", S.JOINING),
    (S.IDLE, I.LEAVE): ("_stop", S.LEFT),
    (S.JOINING, I.JOIN): ("_request_join", S.JOINING),
    (S.JOINING, I.BEGIN): ("_activate", S.ACTIVE),
    (S.JOINING, I.WELCOMED): ("_confirm", S.CONFIRMING),
    (S.JOINING, I.LEAVE): ("_stop", S.LEFT),
    (S.CONFIRMING, I.CONFIRMED): ("_prepare", S.PREPARING),
    (S.CONFIRMING, I.ISOLATED): ("_retry_join", S.JOINING),
    (S.CONFIRMING, I.LEAVE): ("_depart", S.LEAVING),
    (S.PREPARING, I.PREPARED): ("_activate", S.ACTIVE),
    (S.PREPARING, I.LEAVE): ("_depart", S.LEAVING),
    (S.ACTIVE, I.STALLED): ("_suspend", S.SUSPENDED),
    (S.ACTIVE, I.LEAVE): ("_depart", S.LEAVING),
    (S.SUSPENDED, I.CONFIRMED): ("_resume", S.ACTIVE),
    (S.SUSPENDED, I.ISOLATED): ("_resume", S.ACTIVE),
    (S.SUSPENDED, I.LEAVE): ("_depart", S.LEAVING),
    (S.LEAVING, I.DEPARTED): ("_stop", S.LEFT),
}
"""For each state and input: the method to call and the next state. Other pairs have no effect."""
