"""Matches the triples and property paths of a basic graph pattern on one graph, patterns with bound terms first.

The order is planned once for each set of variables that are bound on entry. Paths are safe on cycles, and links keep
SPARQL's multiplicities. Whole groups are evaluated by `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable

from motet.model.errors import LimitError
from motet.sparql import algebra
from motet.sparql.dataset import Graph

Row = dict[str, str]
Step = Callable[[Graph, list[Row]], list[Row]]

MAX_ROWS = 1_000_000


def check_size(rows: list[Row]) -> None:
    """Refuse to go on when a pattern has too many solutions at once."""
    if len(rows) > MAX_ROWS:
        raise LimitError(
            f"a pattern has more than {MAX_ROWS} intermediate solutions",
            advice="join its triples by shared variables",
        )


def compile_bgp(pattern: algebra.Bgp) -> Callable[[Graph, Row], list[Row]]:
    """A function from a graph and given bindings to the bindings that extend them to a match.

    >>> match = compile_bgp(algebra.Bgp((algebra.Triple("?e", "<urn:level>", "?l"),)))
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


def _plan(triples: tuple[algebra.Triple, ...], bound: frozenset[str]) -> list[Step]:
    """Triples by the number of bound terms, most first; ties as written."""
    remaining, steps = list(triples), []
    while remaining:
        best = max(remaining, key=lambda triple: _promise(triple, bound))
        remaining.remove(best)
        steps.append(_triple_step(best, bound) if isinstance(best.predicate, str) else _path_step(best, bound))
        bound |= best.variables()
    return steps


def _promise(triple: algebra.Triple, bound: frozenset[str]) -> int:
    subject, obj = _is_bound(triple.subject, bound), _is_bound(triple.object, bound)
    if not isinstance(triple.predicate, str):
        return 4 * subject + 4 * obj - (1 if subject or obj else 10)
    return 5 * subject + 4 * obj + _is_bound(triple.predicate, bound)


def _is_bound(term: str, bound: frozenset[str]) -> bool:
    name = algebra.variable_name(term)
    return name is None or name in bound


def _triple_step(triple: algebra.Triple, bound: frozenset[str]) -> Step:
    assert isinstance(triple.predicate, str)
    terms = (triple.subject, triple.predicate, triple.object)
    names = tuple(algebra.variable_name(term) for term in terms)
    constants = tuple(None if name else term for name, term in zip(names, terms, strict=True))
    bound_names = tuple(name if name in bound else None for name in names)
    free = [(name, index) for index, name in enumerate(names) if name is not None and name not in bound]
    if len({name for name, _ in free}) < len(free):
        return _repeated_step(constants, bound_names, free)
    return _lookup_step(constants, bound_names, free)


TripleTerms = tuple[str | None, ...]


def _lookup_step(constants: TripleTerms, bound_names: TripleTerms, free: list[tuple[str, int]]) -> Step:
    (s, p, o), (bound_s, bound_p, bound_o) = constants, bound_names

    def step(graph: Graph, rows: list[Row]) -> list[Row]:
        result: list[Row] = []
        for row in rows:
            triples = graph.match(
                row[bound_s] if bound_s else s, row[bound_p] if bound_p else p, row[bound_o] if bound_o else o
            )
            if not triples:
                continue
            if not free:
                result.append(row)
            elif len(free) == 1:
                name, index = free[0]
                result += [{**row, name: triple[index]} for triple in triples]
            else:
                result += [row | {name: triple[index] for name, index in free} for triple in triples]
            check_size(result)
        return result

    return step


def _repeated_step(constants: TripleTerms, bound_names: TripleTerms, free: list[tuple[str, int]]) -> Step:
    """A free variable stands twice, as in ``?x <p> ?x``: both positions must have the same term."""
    first = dict(reversed(free))
    lookup = _lookup_step(constants, bound_names, [(f"{index} {name}", index) for name, index in free])

    def step(graph: Graph, rows: list[Row]) -> list[Row]:
        result = []
        for row in rows:
            for solution in lookup(graph, [row]):
                values = {name: solution[f"{index} {name}"] for name, index in first.items()}
                if all(solution[f"{index} {name}"] == values[name] for name, index in free):
                    result.append(row | values)
        return result

    return step


def _path_step(triple: algebra.Triple, bound: frozenset[str]) -> Step:
    assert not isinstance(triple.predicate, str)
    forward, backward = compile_path(triple.predicate), compile_path(triple.predicate, backwards=True)
    subject, obj = algebra.variable_name(triple.subject), algebra.variable_name(triple.object)
    know_subject, know_object = _is_bound(triple.subject, bound), _is_bound(triple.object, bound)

    def pairs(graph: Graph, start: str, end: str) -> list[tuple[str, str]]:
        """The pairs of nodes the path joins, given which of its ends are bound."""
        if know_subject:
            return [(start, target) for target in forward(graph, start) if not know_object or target == end]
        if know_object:
            return [(source, end) for source in backward(graph, end)]
        return [(node, target) for node in graph.nodes() for target in forward(graph, node)]

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


Ends = Callable[[Graph, str], list[str]]


def compile_path(path: algebra.Path, backwards: bool = False) -> Ends:  # noqa: PLR0911  (one case for each kind of path)
    """A function from a graph and a start to the ends (or back), as often as SPARQL counts them.

    >>> graph = Graph([("<urn:a>", "<urn:p>", "<urn:b>"), ("<urn:b>", "<urn:p>", "<urn:a>")])
    >>> compile_path(algebra.OneOrMore(algebra.Link("<urn:p>")))(graph, "<urn:a>")
    ['<urn:b>', '<urn:a>']
    """
    match path:
        case algebra.Link(name):
            return _backward_link(name) if backwards else _forward_link(name)
        case algebra.Inverse(inner):
            return compile_path(inner, not backwards)
        case algebra.Sequence(parts):
            steps = [compile_path(part, backwards) for part in parts]
            return _chain(steps[::-1] if backwards else steps)
        case algebra.Alternative(parts):
            branches = [compile_path(part, backwards) for part in parts]
            return lambda graph, start: [end for branch in branches for end in branch(graph, start)]
        case algebra.ZeroOrMore(inner) | algebra.OneOrMore(inner):
            return _closure(compile_path(inner, backwards), isinstance(path, algebra.ZeroOrMore))
        case algebra.ZeroOrOne(inner):
            once = compile_path(inner, backwards)
            return lambda graph, start: list(dict.fromkeys([start, *once(graph, start)]))
        case algebra.NegatedSet(forward, backward):
            return _negated_ends(backward, forward) if backwards else _negated_ends(forward, backward)


def _forward_link(name: str) -> Ends:
    return lambda graph, start: [triple[2] for triple in graph.match(start, name, None)]


def _backward_link(name: str) -> Ends:
    return lambda graph, start: [triple[0] for triple in graph.match(None, name, start)]


def _chain(steps: list[Ends]) -> Ends:
    def ends(graph: Graph, start: str) -> list[str]:
        nodes = [start]
        for step in steps:
            nodes = [end for node in nodes for end in step(graph, node)]
        return nodes

    return ends


def _closure(step: Ends, with_start: bool) -> Ends:
    def ends(graph: Graph, start: str) -> list[str]:
        visited: dict[str, None] = {start: None} if with_start else {}
        newest = [start]
        while newest:
            ends = dict.fromkeys(end for node in newest for end in step(graph, node))
            newest = [node for node in ends if node not in visited]
            visited.update(dict.fromkeys(newest))
        return list(visited)

    return ends


def _negated_ends(forward: tuple[str, ...] | None, backward: tuple[str, ...] | None) -> Ends:
    def ends(graph: Graph, start: str) -> list[str]:
        ends: list[str] = []
        if forward is not None:
            ends += [triple[2] for triple in graph.match(start, None, None) if triple[1] not in forward]
        if backward is not None:
            ends += [triple[0] for triple in graph.match(None, None, start) if triple[1] not in backward]
        return ends

    return ends
