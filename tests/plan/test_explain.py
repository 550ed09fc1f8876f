"""A plan explained: its state, as text, JSON, Graphviz and a picture."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import combinations

import pytest

from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.model.intervals import Interval, Relation
from motet.plan.builder import build_plan
from motet.plan.drawing import as_dot, as_svg
from motet.plan.explain import StateBound, explain_json, explain_text, state_bounds
from motet.plan.graph import Kind, Plan

FIRST_LOOK = """
PREFIX ex: <http://example.org/building#>

SUBSCRIPTION real-fire
  EVENT smoke : ex:SmokeAlarm  { ?smoke ex:room ?room ; ex:level ?level . FILTER(?level > 3) }
  EVENT heat  : ex:HeatAlarm   { ?heat  ex:room ?room }
  EVENT drill : ex:FireDrill   { ?drill ex:room ?room }
  WHEN (smoke BEFORE heat WITHIN 5 min) UNLESS drill WITHIN 10 min
  CONTEXT chronicle
  SELECT ?room ?level
"""
SECOND = """
SUBSCRIPTION fire-or-flood
  EVENT s : ex:SmokeAlarm { ?s ex:room ?r ; ex:level ?l . FILTER(?l > 3) }
  EVENT h : ex:HeatAlarm  { ?h ex:room ?r }
  EVENT w { ?w ex:kind "water" ; ex:place/ex:room ?r OPTIONAL { ?w ex:depth ?d } FILTER(?d > 1) }
  WHEN ((s BEFORE h WITHIN 5 min) FILTER(?l > 4)) OR w
  CONTEXT chronicle
  SELECT ?r ?l
"""


@pytest.fixture(scope="module")
def two() -> Plan:
    return build_plan(parse(FIRST_LOOK + SECOND.replace("WITHIN 5 min) FILTER(?l > 4))", "WITHIN 5 min))")))


def test_the_first_example_of_the_language_page() -> None:
    """The whole explanation of the page's first subscription."""
    assert (
        explain_text(build_plan(parse(FIRST_LOOK)))
        == """\
real-fire: chronicle, SELECT ?room ?level
└─ [4] UNLESS within 10 min
   │     joins on ?room
   │     keeps pending occurrences and the occurrences that contradict them per ?room, for 10 min
   │     final 10 min after its end
   ├─ [2] BEFORE within 5 min, chronicle
   │  │     joins on ?room
   │  │     keeps open occurrences of the left side per ?room, for 5 min
   │  ├─ [0] EVENT smoke
   │  │        index: class SmokeAlarm, ?level > 3
   │  │        binds ?level from level, ?room from room
   │  └─ [1] EVENT heat
   │           index: class HeatAlarm
   │           binds ?room from room
   └─ [3] EVENT drill
            index: class FireDrill
            binds ?room from room

partitioning
  [2] [4] of real-fire
    by ?room: bound in all occurrences of its leaves, and every operator joins on it

1 subscription, 5 nodes (0 shared), 3 distinct event patterns
"""
    )


def test_shared_nodes_are_displayed_once(two: Plan) -> None:
    """The second subscription refers to the pair above and explains only its other nodes."""
    assert (
        explain_text(two).split("\n\n")[1]
        == """\
fire-or-flood: chronicle, SELECT ?r ?l
└─ [6] OR
   │     keeps nothing
   ├─ [2] BEFORE within 5 min, chronicle, shared by 2 subscriptions, see above
   └─ [5] EVENT w
            index: kind is "water"
            binds _:h1 from place
            joins _:h1 room ?r
            then each candidate is verified: OPTIONAL { ?w depth ?d } FILTER ( ?d > 1 )"""
    )


def test_a_filter_and_a_late_start_are_explained() -> None:
    """A condition has the names of the subscription; a start after the first offset is displayed."""
    plan = build_plan(parse(FIRST_LOOK + SECOND)[1:], start_offsets={"fire-or-flood": 17})
    assert explain_text(plan).splitlines()[:11] == [
        "fire-or-flood: chronicle, SELECT ?r ?l, from offset 17",
        "└─ [5] OR",
        "   │     keeps nothing",
        "   │     from offset 17",
        "   ├─ [3] FILTER",
        "   │  │     filter ?l > 4",
        "   │  │     keeps nothing",
        "   │  │     from offset 17",
        "   │  └─ [2] BEFORE within 5 min, chronicle",
        "   │     │     joins on ?r",
        "   │     │     keeps open occurrences of the left side per ?r, for 5 min",
    ]


def test_leaves_keep_their_names_where_they_are_hidden() -> None:
    """Two events of one kind, one of them iterated, have their own names."""
    text = "SUBSCRIPTION s EVENT d : <urn:D> EVENT f : <urn:D> WHEN d AND f{2} WITHIN 5 s SIGNAL"
    shown = [line.strip("│├└─ ") for line in explain_text(build_plan(parse(text))).splitlines() if "] EVENT" in line]
    assert sorted(shown) == ["[0] EVENT d", "[1] EVENT f"]


def test_json_has_the_whole_plan(two: Plan) -> None:
    """Terms are complete, durations are in microseconds."""
    explained = json.loads(json.dumps(explain_json(two)))
    assert list(explained) == ["subscriptions", "nodes", "leaves", "feeds", "components"]
    pair = explained["nodes"][2]
    assert (pair["operator"], pair["bound"], pair["subscriptions"]) == (
        "BEFORE",
        300_000_000,
        ["real-fire", "fire-or-flood"],
    )
    assert explained["leaves"][1] == {
        "id": 1,
        "classes": ["<http://example.org/building#HeatAlarm>"],
        "equalities": [],
        "reads": [{"predicate": "<http://example.org/building#room>", "variable": "v1"}],
        "joins": "",
        "ranges": [],
        "choices": [],
        "prefixes": [],
        "during": None,
        "residue": "",
        "matching": ["index: class HeatAlarm", "binds ?room from room"],
    }


def test_dot_has_every_node_and_edge(two: Plan) -> None:
    """One line for each node, operand and subscription."""
    lines = as_dot(two).splitlines()
    edges = sum(len(node.children) for node in two.nodes) + len(two.roots)
    assert sum(" -> " in line for line in lines) == edges
    assert sum("[label=" in line for line in lines) == len(two.nodes) + len(two.roots)


def test_the_boxes_of_the_drawing_do_not_overlap(two: Plan) -> None:
    """Well-formed XML, one box for each node inside the drawing, without overlaps."""
    picture = ET.fromstring(as_svg(two))  # noqa: S314  (our own text)
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    _, *rectangles = picture.iter("{http://www.w3.org/2000/svg}rect")
    boxes = [tuple(float(box.attrib[name]) for name in ("x", "y", "width", "height")) for box in rectangles]
    assert len(boxes) == len(two.nodes)
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
    overlapping = [
        (one, other)
        for one, other in combinations(boxes, 2)
        if one[0] < other[0] + other[2]
        and other[0] < one[0] + one[2]
        and one[1] < other[1] + other[3]
        and other[1] < one[1] + one[3]
    ]
    assert overlapping == []


def test_an_empty_plan_can_be_explained() -> None:
    """A plan without subscriptions is no error."""
    empty = build_plan(())
    assert explain_text(empty) == "partitioning\n\n0 subscriptions, 0 nodes (0 shared), 0 distinct event patterns\n"
    assert as_svg(empty).startswith("<svg")


Write = Callable[..., Subscription]
PAIR = "a:A room?r; b:B room?r"
TRIPLE = f"{PAIR}; c:C room?r"


def words(subscription: Subscription) -> str:
    """The state of the pattern's topmost operator."""
    plan = build_plan([subscription])
    root = plan.roots[0]
    return state_bounds(plan)[root.node].text(dict(root.renaming))


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("unrestricted", "every occurrence of both sides per ?r, for 5 min"),
        ("recent", "the latest occurrence of the left side per ?r, for 5 min"),
        ("chronicle", "open occurrences of the left side per ?r, for 5 min"),
        ("continuous", "open occurrences of the left side per ?r, for 5 min"),
        ("cumulative", "open occurrences of the left side per ?r, for 5 min"),
    ],
)
def test_the_context_decides_the_state_of_a_pair(write: Write, context: str, expected: str) -> None:
    """Per value of the joined variables, for the length of the bound."""
    assert words(write(PAIR, "a BEFORE b WITHIN 5 min", context)) == expected


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("unrestricted", "every occurrence of both sides, forever"),
        ("recent", "the latest occurrence of each side, forever"),
        ("chronicle", "open occurrences of both sides, forever"),
    ],
)
def test_without_a_bound_state_is_kept_forever(write: Write, context: str, expected: str) -> None:
    """UNBOUNDED state grows, and the explanation reports it."""
    assert words(write("a:A; b:B", "a AND b", f"{context} UNBOUNDED")) == expected


@pytest.mark.parametrize("relation", list(Relation))
def test_only_the_side_that_completes_first_is_kept(write: Write, relation: Relation) -> None:
    """In completion order, (end, start), the side that always completes later pairs with the open one."""
    intervals = [Interval(start, end) for start in range(4) for end in range(start, 4)]
    pairs = [(a, b) for a in intervals for b in intervals if relation.holds(a, b)]
    first = {(a.end, a.start) < (b.end, b.start) for a, b in pairs if a != b}
    side = {frozenset({True}): "the left side", frozenset({False}): "the right side"}.get(
        frozenset(first), "both sides"
    )
    kept = words(write("a:A; b:B", f"a {relation.value} b WITHIN 5 s"))
    assert kept == f"open occurrences of {side}, for 5 s"


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("a OR b", "nothing"),
        ("(a OR b) WITHIN 5 min", "nothing"),
        ("(a OR b) FILTER(?r > 1)", "nothing"),
        ("a XOR b WITHIN 5 min", "occurrences of both sides per ?r, for 5 min"),
        ("a UNLESS b WITHIN 5 min", "pending occurrences and the occurrences that contradict them per ?r, for 5 min"),
        ("(a AND b WITHIN 5 min) WITHOUT c", "occurrences of the right side per ?r, for 5 min"),
        ("(a AND b) WITHOUT c", "occurrences of the right side per ?r, forever"),
        ("NO a FOR 5 min", "start points and the occurrences of the operand, for 5 min"),
        ("a{3}", "up to 2 counted per ?r, forever"),
        ("a{3} EVERY 5 min", "up to 2 counted per ?r, for 10 min"),
        ("a{3} EVERY 5 min WITHIN 8 min", "up to 2 counted per ?r, for 8 min"),
        ("a{1}", "nothing"),
        ("a+ EVERY 30 s WITHIN 5 min", "the open run per ?r, until a gap of 30 s, at most 5 min"),
        ("a+ EVERY 30 s", "the open run per ?r, until a gap of 30 s, without a limit"),
    ],
)
def test_the_state_of_every_operator(write: Write, when: str, expected: str) -> None:
    """Windows, counts and gaps limit the state."""
    events = "; ".join(event for event in TRIPLE.split("; ") if event[0] in when.replace("FILTER", ""))
    assert words(write(events, when, deliver="SELECT ?r")) == expected


def test_a_leaf_keeps_nothing(write: Write) -> None:
    """Matching has no state."""
    assert words(write("a:A", "a")) == "nothing"


@pytest.mark.parametrize(("context", "expected"), [("recent", "the last 2"), ("chronicle", "up to 2 counted")])
def test_counting_slides_or_tumbles_with_the_context(write: Write, context: str, expected: str) -> None:
    """Sliding keeps the last members, tumbling those counted so far."""
    assert words(write("a:A", "a{3} WITHIN 5 s", context)) == f"{expected}, for 5 s"


def test_a_lag_extends_the_state_of_the_partner(write: Write) -> None:
    """The partner of an operand with a lag is kept that much longer."""
    plan = build_plan([write(TRIPLE, "((a UNLESS b WITHIN 10 min) BEFORE c) WITHIN 5 min")])
    by_kind = {node.kind: state for node, state in zip(plan.nodes, state_bounds(plan), strict=True)}
    minute = 60_000_000
    assert by_kind[Kind.UNLESS].lag == 10 * minute
    assert by_kind[Kind.TIMED] == StateBound("open occurrences of the left side", ("v1",), 15 * minute, 10 * minute)
