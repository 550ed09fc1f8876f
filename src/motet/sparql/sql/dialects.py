"""One generator for each SQL dialect: how DuckDB and Spark write the nodes of a compiled query."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.generators.spark import SparkGenerator

from motet.model.terms import XSD
from motet.sparql.sql import nodes

DialectName = Literal["duckdb", "spark"]


def _quoted(generator: Any, node: nodes.Text) -> str:
    return "'" + node.this.replace("'", "''") + "'"


def _escaped(generator: Any, node: nodes.Text) -> str:
    """Spark reads escapes, and replaces ``${…}`` before it parses."""
    value = node.this.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
    return f"'{value}'"


def _arguments(generator: Any, node: exp.Expression) -> str:
    return ", ".join(map(generator.sql, (node.this, *node.expressions)))


def _array(generator: Any, node: exp.Expression) -> str:
    return f"CAST(array({generator.expressions(node, flat=True)}) AS ARRAY<STRING>)"


def _lexical_text(generator: Any, node: nodes.LexicalText) -> str:
    term = generator.sql(node, "this")
    return f"substr({term}, 2, length({term}) - 1 - instr(reverse({term}), '\"'))"


def _call(name: str) -> Any:
    return lambda generator, node: f"{name}({generator.expressions(node, flat=True)})"


def _text_test(names: dict[str, str]) -> Any:
    return lambda generator, node: (
        f"{names[node.args['name']]}({generator.sql(node, 'this')}, {generator.sql(node, 'expression')})"
    )


def _least_by(least: str, greatest: str) -> Any:
    return lambda generator, node: (
        f"{greatest if node.args.get('greatest') else least}"
        f"({generator.sql(node, 'this')}, {generator.sql(node, 'expression')})"
    )


class _DuckDbGenerator(DuckDBGenerator):
    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        **DuckDBGenerator.TRANSFORMS,
        nodes.Text: _quoted,
        nodes.EvaluateTerm: lambda self, node: f"sparql_term({_arguments(self, node)})",
        nodes.EvaluateTruth: lambda self, node: f"sparql_truth({_arguments(self, node)})",
        nodes.OrderKey: lambda self, node: f"sparql_order({self.sql(node, 'this')})",
        nodes.AggregateTerms: lambda self, node: (
            f"sparql_aggregate({self.sql(node, 'description')}, list(coalesce({self.sql(node, 'this')}, '')))"
        ),
        nodes.ListOf: lambda self, node: f"[{self.expressions(node, flat=True)}]",
        nodes.SameOrNull: lambda self, node: (
            f"{self.sql(node, 'this')} IS NOT DISTINCT FROM {self.sql(node, 'expression')}"
        ),
        nodes.InstantTerm: lambda self, node: (
            f"strftime(make_timestamp({self.sql(node, 'this')}), '\"%Y-%m-%dT%H:%M:%S.%fZ\"^^<{XSD}dateTime>')"
        ),
        nodes.FreshId: lambda self, node: "CAST(uuid() AS VARCHAR)",
        nodes.FreshNumber: lambda self, node: "random()",
        nodes.LexicalText: _lexical_text,
        nodes.RegexMatch: lambda self, node: (
            f"regexp_matches({self.sql(node, 'this')}, {self.sql(node, 'expression')}"
            + (", 'i')" if node.args.get("ignore_case") else ")")
        ),
        nodes.TextTest: _text_test({"CONTAINS": "contains", "STRSTARTS": "starts_with", "STRENDS": "ends_with"}),
        nodes.RegexReplace: lambda self, node: (
            f"regexp_replace({self.sql(node, 'this')}, {self.sql(node, 'pattern')}, {self.sql(node, 'expression')}"
            + (", 'g')" if node.args.get("everywhere") else ")")
        ),
        nodes.WholePart: lambda self, node: f"CAST(trunc({self.sql(node, 'this')}) AS BIGINT)",
        nodes.Fraction: lambda self, node: f"({self.sql(node, 'this')} - trunc({self.sql(node, 'this')}))",
        nodes.WholeSum: lambda self, node: f"CAST(sum({self.sql(node, 'this')}) AS VARCHAR)",  # of 128 bits
        nodes.LeastBy: _least_by("arg_min", "arg_max"),
        nodes.TermsOf: lambda self, node: (
            f"list({self.sql(node, 'this')}) FILTER (WHERE {self.sql(node, 'this')} IS NOT NULL)"
        ),
        nodes.Total: _call("sparql_total"),
        nodes.Extreme: lambda self, node: (
            f"sparql_extreme({self.sql(node, 'name')}, [{self.expressions(node, flat=True)}])"
        ),
    }


_IN_PYTHON = (nodes.EvaluateTerm, nodes.OrderKey)  # EvaluateTruth is one of the first


def _call_only_where(call: exp.Expression, condition: exp.Expression) -> None:
    call.set("this", nodes.case((condition, call.this)))


def _copy(node: exp.Expression) -> exp.Expression:
    return node.copy()


class _SparkGenerator(SparkGenerator):
    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        **SparkGenerator.TRANSFORMS,
        nodes.Text: _escaped,
        nodes.EvaluateTerm: lambda self, node: f"sparql_term({self.sql(node, 'this')}, {_array(self, node)})",
        nodes.EvaluateTruth: lambda self, node: f"sparql_truth({self.sql(node, 'this')}, {_array(self, node)})",
        nodes.OrderKey: lambda self, node: f"sparql_order({self.sql(node, 'this')})",
        nodes.AggregateTerms: lambda self, node: (
            f"sparql_aggregate({self.sql(node, 'description')}, collect_list(coalesce({self.sql(node, 'this')}, '')))"
        ),
        nodes.ListOf: _array,
        nodes.SameOrNull: lambda self, node: f"{self.sql(node, 'this')} <=> {self.sql(node, 'expression')}",
        nodes.InstantTerm: lambda self, node: (
            f"concat('\"', replace(substr(CAST(timestampadd(MICROSECOND, {self.sql(node, 'this')}, "
            f"TIMESTAMP_NTZ'1970-01-01 00:00:00') AS STRING), 1, 19), ' ', 'T'), '.', "
            f"lpad(CAST(pmod({self.sql(node, 'this')}, 1000000) AS STRING), 6, '0'), 'Z\"^^<{XSD}dateTime>')"
        ),
        nodes.FreshId: lambda self, node: "uuid()",
        nodes.FreshNumber: lambda self, node: "rand()",
        nodes.LexicalText: _lexical_text,
        nodes.RegexMatch: lambda self, node: (
            f"rlike({self.sql(node, 'this')}, "
            + ("concat('(?iu)', " if node.args.get("ignore_case") else "(")
            + f"{self.sql(node, 'expression')}))"
        ),
        nodes.TextTest: _text_test({"CONTAINS": "contains", "STRSTARTS": "startswith", "STRENDS": "endswith"}),
        nodes.RegexReplace: lambda self, node: (  # always every match: patterns for one are anchored
            f"regexp_replace({self.sql(node, 'this')}, {self.sql(node, 'pattern')}, {self.sql(node, 'expression')})"
        ),
        nodes.WholePart: lambda self, node: f"CAST({self.sql(node, 'this')} AS BIGINT)",
        nodes.Fraction: lambda self, node: f"(({self.sql(node, 'this')}) % 1D)",
        nodes.WholeSum: lambda self, node: (  # sums of 64 bits, which are faster than those of decimals
            f"CAST(CAST(sum(shiftright({self.sql(node, 'this')}, 22)) AS DECIMAL(38, 0)) * 4194304 "
            f"+ sum({self.sql(node, 'this')} & 4194303) AS STRING)"
        ),
        nodes.LeastBy: _least_by("min_by", "max_by"),
        nodes.TermsOf: lambda self, node: f"collect_list({self.sql(node, 'this')})",
        nodes.Total: _call("sparql_total"),
        nodes.Extreme: lambda self, node: f"sparql_extreme({self.sql(node, 'name')}, {_array(self, node)})",
    }

    def case_sql(self, expression: exp.Case) -> str:
        """Spark calls a function in Python for every row, whatever branch it stands in: where another branch is taken,
        the function gets NULL as its first argument and returns at once.
        """
        if any(branch.this.find(*_IN_PYTHON) for branch in expression.args["ifs"]):
            return super().case_sql(expression)
        guarded = expression.copy()
        taken: list[exp.Expression] = []
        for branch in guarded.args["ifs"]:
            if isinstance(branch.args["true"], _IN_PYTHON):
                _call_only_where(branch.args["true"], branch.this.copy())
            taken.append(branch.this)
        if isinstance(guarded.args.get("default"), _IN_PYTHON):
            none = exp.Not(this=exp.Coalesce(this=nodes.either(map(_copy, taken)), expressions=[exp.false()]))
            _call_only_where(guarded.args["default"], none)
        return super().case_sql(guarded)

    def cte_sql(self, expression: exp.CTE) -> str:
        expression.set("materialized", None)  # Spark decides that itself
        return super().cte_sql(expression)


_GENERATORS: dict[str, tuple[Any, Any]] = {"duckdb": (_DuckDbGenerator, DuckDB), "spark": (_SparkGenerator, Spark)}


def write_sql(query: exp.Query, dialect: DialectName, *, pretty: bool = False) -> str:
    """The text of a query.

    >>> write_sql(nodes.select([nodes.alias(nodes.text("it's"), "x")]), "spark")
    "SELECT 'it\\\\'s' AS x"
    """
    generator, language = _GENERATORS[dialect]
    return generator(dialect=language(), pretty=pretty, normalize_functions=False).generate(query, copy=False)
