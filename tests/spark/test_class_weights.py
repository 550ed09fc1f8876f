"""Class weights from a lake's history, counted by Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from motet.codec.decode import decode_bytes
from motet.lake import Lake
from motet.ontology.load import load
from motet.spark.class_weights import weigh_classes

EXAMPLE = Path(__file__).parents[2] / "examples" / "video"
VIDEO = "<http://example.org/video#{}>".format


def test_weights_follow_history_and_subscriptions(spark: SparkSession, tmp_path: Path) -> None:
    """Events count for the most specific classes the axioms give them, subscriptions for those they name."""
    lake = Lake.open(tmp_path / "lake", lateness=None)
    for part in decode_bytes((EXAMPLE / "events.trig").read_bytes(), "application/trig"):
        lake.append(part.events)
    lake.subscribe("gone", f"SUBSCRIPTION gone EVENT e : {VIDEO('Genre')} WHEN e")
    lake.subscribe("films", f"SUBSCRIPTION films EVENT e : {VIDEO('Film')} WHEN e")
    lake.unsubscribe("gone")
    hierarchy, tree = weigh_classes(spark, tmp_path / "lake", load([EXAMPLE / "ontology.ttl"]))
    weights = {hierarchy.groups[node][0]: weight for (node,), weight in zip(tree.members, tree.weights, strict=True)}
    # one each: an action film in English counts twice, a film, a video, something in English; one more for each class
    events = {"ActionFilm": 1, "Film": 1, "Video": 1, "InEnglish": 2}
    others = ("ActionGenre", "Genre", "Language")
    expected = {
        VIDEO(name): (events.get(name, 0) + 1) / 13 / 2 + ((name == "Film") + 1) / 9 / 2 for name in (*events, *others)
    }
    thing = "<http://www.w3.org/2002/07/owl#Thing>"
    assert weights == pytest.approx(expected | {thing: 1 / 13 / 2 + 1 / 9 / 2})
    assert sum(tree.weights) == pytest.approx(1)
