"""Reads the subscriptions of several files, in any surface syntax."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.model.errors import UsageError


def load_subscriptions(paths: Sequence[str], *, syntax: str = "motet") -> tuple[Subscription, ...]:
    """The subscriptions of several files; a name belongs to one of them only."""
    return tuple(one for _, subscriptions, _ in load_documents(paths, syntax=syntax) for one in subscriptions)


def load_documents(paths: Sequence[str], *, syntax: str = "motet") -> list[tuple[str, tuple[Subscription, ...], str]]:
    """For each file its text, its subscriptions and its path; a name belongs to one file only."""
    homes: dict[str, str] = {}
    found: list[tuple[str, tuple[Subscription, ...], str]] = []
    for path in paths:
        text = _text(existing_file(path, "subscription file"))
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


def existing_file(path: str, what: str) -> Path:
    if not Path(path).is_file():
        raise UsageError(f"there is no {what} {path!r}", advice="Check the path; directories are not read.")
    return Path(path)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}", advice="Save the file as UTF-8.") from None
