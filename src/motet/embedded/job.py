"""What `motet run` is asked to do, loaded and checked before any event is read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.model.errors import UsageError
from motet.model.tables import Triple
from motet.ontology.catalogue import read_catalogue
from motet.ontology.load import load


@dataclass(frozen=True)
class Job:
    """Subscriptions first, then all events in the given order, then the end of time."""

    subscriptions: tuple[Subscription, ...]
    events: tuple[str, ...]  # paths
    background: frozenset[Triple]
    entailment: str
    arrival: int  # the time of events that carry none


@dataclass(frozen=True)
class Summary:
    """What a run did."""

    events: int
    duplicates: int
    rejected: int
    notifications: int
    tasks: int = 1  # that took part in reading the events


def load_job(
    subscriptions: Sequence[str],
    events: Sequence[str],
    *,
    ontology: Sequence[str] = (),
    catalogue: str | None = None,
    entailment: str | None = None,
    arrival: int | None = None,
    syntax: str = "motet",
) -> Job:
    """Read everything but the events; what is wrong with the request is found here."""
    for path in events:
        _existing(path, "event file")
    return Job(
        subscriptions=load_subscriptions(subscriptions, syntax=syntax),
        events=tuple(events),
        background=_background(ontology, catalogue),
        entailment=entailment or ("owl-rl" if ontology else "none"),
        arrival=time.time_ns() // 1000 if arrival is None else arrival,
    )


def _background(ontology: Sequence[str], catalogue: str | None) -> frozenset[Triple]:
    files = [_existing(path, "ontology file") for path in ontology]
    return frozenset(load(files, catalogue=read_catalogue(catalogue) if catalogue else None).triples)


def load_subscriptions(paths: Sequence[str], *, syntax: str = "motet") -> tuple[Subscription, ...]:
    """The subscriptions of several files; a name belongs to one of them only."""
    return tuple(one for _, subscriptions, _ in load_documents(paths, syntax=syntax) for one in subscriptions)


def load_documents(paths: Sequence[str], *, syntax: str = "motet") -> list[tuple[str, tuple[Subscription, ...], str]]:
    """For each file its text, its subscriptions and its path; a name belongs to one file only."""
    homes: dict[str, str] = {}
    found: list[tuple[str, tuple[Subscription, ...], str]] = []
    for path in paths:
        text = _text(_existing(path, "subscription file"))
        subscriptions = parse(text, syntax=syntax, source=path)
        for subscription in subscriptions:
            if subscription.name in homes:
                raise UsageError(
                    f"{path}: subscription {subscription.name!r} is also in {homes[subscription.name]}",
                    advice="Give one of them another name.",
                )
            homes[subscription.name] = path
        found.append((text, subscriptions, path))
    return found


def _existing(path: str, what: str) -> Path:
    if not Path(path).is_file():
        raise UsageError(f"there is no {what} {path!r}", advice="Check the path; directories are not read.")
    return Path(path)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}", advice="Save the file as UTF-8.") from None
