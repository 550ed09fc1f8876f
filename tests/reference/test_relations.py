"""The thirteen time relations as operators (language page, section 6)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

ROWS: dict[str, Callable[[Any, Any], bool]] = {
    "BEFORE": lambda a, b: a[1] < b[0],
    "MEETS": lambda a, b: a[1] == b[0] and a[0] < b[0] and a[1] < b[1],
    "OVERLAPS": lambda a, b: a[0] < b[0] < a[1] < b[1],
    "STARTS": lambda a, b: a[0] == b[0] and a[1] < b[1],
    "DURING": lambda a, b: a[0] > b[0] and a[1] < b[1],
    "FINISHES": lambda a, b: a[0] > b[0] and a[1] == b[1],
    "EQUALS": lambda a, b: a == b,
}
INVERSES = {
    "AFTER": "BEFORE",
    "MET BY": "MEETS",
    "OVERLAPPED BY": "OVERLAPS",
    "STARTED BY": "STARTS",
    "INCLUDES": "DURING",
    "FINISHED BY": "FINISHES",
}
Bounds = tuple[int, int]

INTERVALS = [(start, end) for start in range(1, 5) for end in range(start, 5)]  # points included


def holds(relation: str, a: Bounds, b: Bounds) -> bool:
    return ROWS[relation](a, b) if relation in ROWS else ROWS[INVERSES[relation]](b, a)


@pytest.mark.parametrize("relation", [*ROWS, *INVERSES])
def test_relation_in_its_written_direction(story: Any, relation: str) -> None:
    """`A <Allen> B`: every `a ⋈ b` where the relation of section 6 holds, whichever of them completes first."""
    left = {f"a{i}": interval for i, interval in enumerate(INTERVALS)}
    right = {f"b{i}": interval for i, interval in enumerate(INTERVALS)}
    events = "; ".join(f"{name}@{start}-{end}" for name, (start, end) in {**left, **right}.items())
    expected = sorted(f"{a} {b}" for a, b in product(left, right) if holds(relation, left[a], right[b]))
    assert story.detect(f"a {relation} b", events) == expected


@pytest.mark.parametrize(
    ("relation", "events"),
    [
        ("BEFORE", "a1@1; b1@2"),
        ("AFTER", "b1@1; a1@2"),
        ("MEETS", "a1@1-3; b1@3-5"),
        ("OVERLAPS", "a1@1-3; b1@2-5"),
        ("STARTS", "a1@1; b1@1-5"),
        ("STARTED BY", "b1@1; a1@1-5"),
        ("DURING", "a1@2; b1@1-5"),
        ("INCLUDES", "b1@2; a1@1-5"),
        ("FINISHES", "a1@5; b1@1-5"),
        ("FINISHED BY", "b1@5; a1@1-5"),
        ("EQUALS", "a1@4; b1@4"),
    ],
)
@pytest.mark.parametrize("context", ["unrestricted", "recent", "chronicle", "continuous", "cumulative"])
def test_relation_in_every_context(story: Any, relation: str, events: str, context: str) -> None:
    """A single pair that fits is found in every context, points and intervals alike."""
    assert story.detect(f"a {relation} b WITHIN 9 us", events, context=context) == ["a1 b1"]
