"""Matching the triples of a basic graph pattern, bound places first.

The order is planned once for each set of variables that are bound on entry. Not for whole groups: see `solve`.
"""

from __future__ import annotations

from collections.abc import Callable

from motet.engine.graph import Graph
from motet.engine.paths import compile_path
from motet.language.algebra import Bgp, Triple, variable_name
from motet.model.errors import LimitError

Row = dict[str, str]
Step = Callable[[Graph, list[Row]], list[Row]]

MOST_ROWS = 1_000_000


def check_size(rows: list[Row]) -> None:
    """Refuse to go on when a pattern has too many solutions at once."""
    if len(rows) > MOST_ROWS:
        raise LimitError(
            f"a pattern has more than {MOST_ROWS} intermediate solutions on one event",
            advice="join its triples by shared variables",
        )


def compile_bgp(pattern: Bgp) -> Callable[[Graph, Row], list[Row]]:
    """A function from a graph and given bindings to the bindings that extend them to a match.

    >>> match = compile_bgp(Bgp((Triple("?e", "<urn:level>", "?l"),)))
    >>> match(Graph([("<urn:e>", "<urn:level>", '"5"')]), {})
    [{'e': '<urn:e>', 'l': '"5"'}]
    """
    variables = frozenset().union(*(triple.variables() for triple in pattern.triples))
    plans: dict[frozenset[str], list[Step]] = {}

    def matches(graph: Graph, row: Row) -> list[Row]:
        bound = variables.intersection(row)
        steps = plans.get(bound)
        if steps is None:
            steps = plans[bound] = _plan(pattern.triples, bound)
        rows = [row]
        for step in steps:
            rows = step(graph, rows)
            if not rows:
                break
        return rows

    return matches


def _plan(triples: tuple[Triple, ...], bound: frozenset[str]) -> list[Step]:
    """Take the triple with the best bound places, then the next; ties as written."""
    remaining, steps = list(triples), []
    while remaining:
        best = max(remaining, key=lambda triple: _promise(triple, bound))
        remaining.remove(best)
        steps.append(_triple_step(best, bound) if isinstance(best.predicate, str) else _path_step(best, bound))
        bound |= best.variables()
    return steps


def _promise(triple: Triple, bound: frozenset[str]) -> int:
    subject, obj = _is_bound(triple.subject, bound), _is_bound(triple.object, bound)
    if not isinstance(triple.predicate, str):
        return 4 * subject + 4 * obj - (1 if subject or obj else 10)
    return 5 * subject + 4 * obj + _is_bound(triple.predicate, bound)


def _is_bound(term: str, bound: frozenset[str]) -> bool:
    name = variable_name(term)
    return name is None or name in bound


def _triple_step(triple: Triple, bound: frozenset[str]) -> Step:
    assert isinstance(triple.predicate, str)
    places = (triple.subject, triple.predicate, triple.object)
    names = tuple(variable_name(term) for term in places)
    constants = tuple(None if name else term for name, term in zip(names, places, strict=True))
    known = tuple(name if name in bound else None for name in names)
    free = [(name, place) for place, name in enumerate(names) if name is not None and name not in bound]
    if len({name for name, _ in free}) < len(free):
        return _repeated_step(constants, known, free)
    return _lookup_step(constants, known, free)


Places = tuple[str | None, ...]


def _lookup_step(constants: Places, known: Places, free: list[tuple[str, int]]) -> Step:
    (s, p, o), (known_s, known_p, known_o) = constants, known

    def step(graph: Graph, rows: list[Row]) -> list[Row]:
        result: list[Row] = []
        for row in rows:
            found = graph.match(
                row[known_s] if known_s else s, row[known_p] if known_p else p, row[known_o] if known_o else o
            )
            if not found:
                continue
            if not free:
                result.append(row)
            elif len(free) == 1:
                name, place = free[0]
                result += [{**row, name: triple[place]} for triple in found]
            else:
                result += [row | {name: triple[place] for name, place in free} for triple in found]
            check_size(result)
        return result

    return step


def _repeated_step(constants: Places, known: Places, free: list[tuple[str, int]]) -> Step:
    """A free variable stands twice, as in ``?x <p> ?x``: both places must have the same term."""
    first = dict(reversed(free))
    lookup = _lookup_step(constants, known, [(f"{place} {name}", place) for name, place in free])

    def step(graph: Graph, rows: list[Row]) -> list[Row]:
        result = []
        for row in rows:
            for found in lookup(graph, [row]):
                values = {name: found[f"{place} {name}"] for name, place in first.items()}
                if all(found[f"{place} {name}"] == values[name] for name, place in free):
                    result.append(row | values)
        return result

    return step


def _path_step(triple: Triple, bound: frozenset[str]) -> Step:
    assert not isinstance(triple.predicate, str)
    forward, backward = compile_path(triple.predicate), compile_path(triple.predicate, backwards=True)
    subject, obj = variable_name(triple.subject), variable_name(triple.object)
    know_subject, know_object = _is_bound(triple.subject, bound), _is_bound(triple.object, bound)

    def pairs(graph: Graph, start: str, end: str) -> list[tuple[str, str]]:
        """The pairs of nodes the path joins, given what is known of its ends."""
        if know_subject:
            return [(start, found) for found in forward(graph, start) if not know_object or found == end]
        if know_object:
            return [(found, end) for found in backward(graph, end)]
        return [(node, found) for node in graph.nodes() for found in forward(graph, node)]

    def step(graph: Graph, rows: list[Row]) -> list[Row]:
        result: list[Row] = []
        for row in rows:
            start = triple.subject if subject is None else row.get(subject, "")
            end = triple.object if obj is None else row.get(obj, "")
            if subject is not None and obj is not None and not _in_graph(graph, start, end):
                continue
            joined = pairs(graph, start, end)
            if subject == obj and subject is not None:
                joined = [(left, right) for left, right in joined if left == right]
            result += [row | _named(subject, left) | _named(obj, right) for left, right in joined]
            check_size(result)
        return result

    return step


def _in_graph(graph: Graph, *terms: str) -> bool:
    """Between two variables, a path of length zero joins only the nodes of the graph."""
    return all(graph.has_node(term) for term in terms if term)


def _named(name: str | None, term: str) -> Row:
    return {} if name is None else {name: term}
