"""Reads expected results and compares answers with them.

Blank nodes may have other names. Terms are equal when they are the same, or literals of one datatype with equal
values: the suites write computed numbers in several ways (``2``, ``2.0``, ``2.0E0``).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyoxigraph as ox

from motet.codec.formats import format_of_path
from motet.model.terms import literal_parts
from motet.query.files import read_graphs
from motet.query.results import plain_text, read_answer
from motet.sparql.dataset import Graph
from motet.sparql.evaluate import Answer, SolutionSequence
from motet.sparql.values import decode

RS = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#"
_FORMATS = {".srx": "xml", ".srj": "json", ".csv": "csv", ".tsv": "tsv"}

Rows = list[dict[str, str]]


def expected_answer(path: Path) -> tuple[Answer, bool]:
    """What a result file says, and whether the order of its rows counts."""
    if path.suffix in _FORMATS:
        return read_answer(path.read_text(), _FORMATS[path.suffix]), False
    format_of_path(str(path))
    graph = Graph(read_graphs(str(path), "x").get(None, []))
    return _result_set(graph) or (graph, False)


def _result_set(graph: Graph) -> tuple[Answer, bool] | None:
    """A table or truth written in the suites' own vocabulary."""
    truth = graph.match(None, f"<{RS}boolean>", None)
    if truth:
        return "true" in truth[0][2], False
    sets = graph.match(None, None, f"<{RS}ResultSet>")
    if not sets:
        return None
    root = sets[0][0]
    variables = tuple(literal_parts(name)[0] for _, _, name in graph.match(root, f"<{RS}resultVariable>", None))
    rows: list[tuple[int, dict[str, str]]] = []
    for _, _, solution in graph.match(root, f"<{RS}solution>", None):
        index = graph.match(solution, f"<{RS}index>", None)
        row = {
            literal_parts(_one(graph, binding, "variable"))[0]: _one(graph, binding, "value")
            for _, _, binding in graph.match(solution, f"<{RS}binding>", None)
        }
        rows.append((int(literal_parts(index[0][2])[0]) if index else 0, row))
    ordered = any(index for index, _ in rows)
    return SolutionSequence(variables, [row for _, row in sorted(rows, key=lambda pair: pair[0])]), ordered


def _one(graph: Graph, node: str, name: str) -> str:
    return graph.match(node, f"<{RS}{name}>", None)[0][2]


def difference(actual: Answer, expected: Answer, *, ordered: bool, lax: bool, plain: bool) -> str | None:
    """Why two answers differ; None when they are the same. ``plain``: only the text of terms counts, as in CSV."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return None if actual is expected else f"{_short(actual)} instead of {_short(expected)}"
    if isinstance(expected, Graph) or isinstance(actual, Graph):
        return _graph_difference(actual, expected)
    if set(actual.variables) != set(expected.variables):
        return f"variables {actual.variables} instead of {expected.variables}"
    left, right = actual.rows, expected.rows
    if plain:
        left = [{name: _as_plain(term) for name, term in row.items() if plain_text(term)} for row in left]
    if lax:
        left, right = _distinct(left), _distinct(right)
    if len(left) != len(right):
        return f"{len(left)} rows instead of {len(right)}: {_short(left)} instead of {_short(right)}"
    same = _same_sequence(left, right, {}) if ordered else _same_bag(left, right)
    return None if same else f"{_short(left)} instead of {_short(right)}"


def _as_plain(term: str) -> str:
    return term if term.startswith("_:") else '"' + plain_text(term).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _graph_difference(actual: Answer, expected: Answer) -> str | None:
    if not isinstance(actual, Graph) or not isinstance(expected, Graph):
        return "a graph and a table"
    return (
        None
        if _canonical(actual) == _canonical(expected)
        else f"{_short(list(actual))} instead of {_short(list(expected))}"
    )


def _canonical(graph: Graph) -> list[str]:
    text = "".join(f"{s} {p} {o} .\n" for s, p, o in graph)
    dataset = ox.Dataset(ox.parse(text, ox.RdfFormat.N_TRIPLES))
    dataset.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return sorted(str(quad) for quad in dataset)


def _short(value: object) -> str:
    return str(value)[:300]


def _distinct(rows: Rows) -> Rows:
    return [dict(row) for row in dict.fromkeys(tuple(sorted(row.items())) for row in rows)]


def _same_sequence(left: Rows, right: Rows, nodes: dict[str, str]) -> bool:
    for actual, expected in zip(left, right, strict=True):
        found = _match(actual, expected, nodes)
        if found is None:
            return False
        nodes = found
    return True


def _same_bag(left: Rows, right: Rows) -> bool:
    """Rows without blank nodes are counted; the others are matched with every possible naming."""
    return _assign(sorted(left, key=_has_blank), list(right), {})


def _has_blank(row: dict[str, str]) -> int:
    return sum(term.startswith("_:") for term in row.values())


def _assign(left: Rows, right: Rows, nodes: dict[str, str]) -> bool:
    for position, row in enumerate(left):
        candidates = [
            (index, found) for index, other in enumerate(right) if (found := _match(row, other, nodes)) is not None
        ]
        if not candidates:
            return False
        if not _has_blank(row) or len(candidates) == 1:
            index, nodes = candidates[0]
            right = right[:index] + right[index + 1 :]
            continue
        return any(
            _assign(left[position + 1 :], right[:index] + right[index + 1 :], found) for index, found in candidates
        )
    return True


def _match(left: dict[str, str], right: dict[str, str], nodes: dict[str, str]) -> dict[str, str] | None:
    """The naming of blank nodes under which two rows are equal."""
    if left.keys() != right.keys():
        return None
    found = dict(nodes)
    for name, term in left.items():
        other = right[name]
        if term.startswith("_:") != other.startswith("_:"):
            return None
        if not term.startswith("_:"):
            if not _same_term(term, other):
                return None
        elif found.setdefault(term, other) != other or Counter(found.values())[other] > 1:
            return None
    return found


def _same_term(left: str, right: str) -> bool:
    if left == right:
        return True
    if not left.startswith('"') or not right.startswith('"') or literal_parts(left)[1] != literal_parts(right)[1]:
        return False
    a, b = decode(left), decode(right)
    return a.kind == b.kind and a.kind not in ("other", "string", "lang") and a.value == b.value
