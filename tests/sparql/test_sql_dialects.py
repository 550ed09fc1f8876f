"""Tests of `motet.sparql.sql.dialects`."""

from __future__ import annotations

from motet.sparql.sql import nodes
from motet.sparql.sql.dialects import write_sql
from motet.sparql.sql.nodes import column


def test_spark_calls_python_only_for_the_rows_of_a_branch() -> None:
    """Spark evaluates a Python function for all rows, so the function gets NULL where another branch is taken."""
    is_small = nodes.equals(column("t", "kind"), nodes.integer(10))
    call = nodes.EvaluateTruth(this=nodes.text("f"), expressions=[column("t", "x")])
    tree = nodes.select([nodes.alias(nodes.case((is_small, nodes.integer(1)), default=call), "y")])
    assert write_sql(tree, "duckdb") == "SELECT CASE WHEN t.kind = 10 THEN 1 ELSE sparql_truth('f', t.x) END AS y"
    guarded = "CASE WHEN NOT COALESCE((t.kind = 10), FALSE) THEN 'f' END"
    assert write_sql(tree, "spark") == (
        f"SELECT CASE WHEN t.kind = 10 THEN 1 ELSE sparql_truth({guarded}, CAST(array(t.x) AS ARRAY<STRING>)) END AS y"
    )
    own = nodes.select([nodes.alias(nodes.case((is_small, nodes.OrderKey(this=column("t", "x")))), "y")])
    assert write_sql(own, "spark") == (
        "SELECT CASE WHEN t.kind = 10 THEN sparql_order(CASE WHEN t.kind = 10 THEN t.x END) END AS y"
    )
