"""A plan explained: text, JSON, Graphviz and a picture."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest

from motet.language.parse import parse
from motet.plan.builder import build_plan
from motet.plan.drawing import as_dot, as_svg
from motet.plan.explain import explain_json, explain_text
from motet.plan.graph import Plan

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
