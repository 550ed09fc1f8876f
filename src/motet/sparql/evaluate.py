"""Evaluates SPARQL patterns and whole queries on one graph or one dataset in memory, exactly.

This is the engine's evaluator for leaf bodies, the verifier of whatever an index has pre-selected, and the oracle of
engines that compile queries. Given bindings are *substituted*: their variables are constants in the whole pattern,
inner groups, FILTER and MINUS included, as SPARQL does for EXISTS; of a subquery's variables only the projected ones
are. Groups are evaluated bottom-up as SPARQL defines; a right side is started from the solutions of the left one only
where that cannot change the result. GRAPH needs the graph of a dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from motet.sparql.aggregates import aggregate
from motet.sparql.algebra import (
    Aggregate,
    Algebra,
    AskQuery,
    Bgp,
    Call,
    ConstructQuery,
    DescribeQuery,
    Distinct,
    Expr,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    Minus,
    NamedGraph,
    OrderBy,
    OrderCondition,
    Project,
    Query,
    Reduced,
    SelectQuery,
    Slice,
    Triple,
    Union,
    Values,
    is_hidden,
    variable_name,
)
from motet.sparql.basic_patterns import Row, check_size, compile_bgp
from motet.sparql.dataset import Dataset, DatasetGraph, Graph
from motet.sparql.dataset import Triple as Terms
from motet.sparql.expressions import Compute, ExpressionError, Solution, compile_expression, test
from motet.sparql.scope import certainly_bound, has_exists, in_scope, mentioned, operands
from motet.sparql.values import order_key

__all__ = ["Graph", "Solve", "compile_group", "solve"]

Solve = Callable[[Graph, Row], list[Row]]
_NOTHING: Mapping[str, str] = {}


def solve(algebra: Algebra, graph: Graph, initial: Mapping[str, str] = _NOTHING) -> Iterator[dict[str, str]]:
    """The solutions, as often as SPARQL has them; each contains the given bindings.

    >>> from motet.sparql.parse_cache import parse_group
    >>> graph = Graph([("<urn:e>", "<urn:level>", '"5"^^<http://www.w3.org/2001/XMLSchema#integer>')])
    >>> [sorted(solution) for solution in solve(parse_group("?e <urn:level> ?l FILTER(?l > 3)"), graph)]
    [['e', 'l']]
    """
    yield from compile_group(algebra)(graph, dict(initial))


@lru_cache(maxsize=10_000)
def compile_group(algebra: Algebra) -> Solve:
    """A function from a graph and given bindings to the list of solutions, without hidden variables."""
    run = _compile(algebra)
    hidden = [name for name in in_scope(algebra) if is_hidden(name)]
    if not hidden:
        return run
    return lambda graph, given: [
        {name: term for name, term in row.items() if name not in hidden} for row in run(graph, given)
    ]


def _compile(pattern: Algebra) -> Solve:  # noqa: PLR0911, PLR0912  (one case for each kind of node)
    match pattern:
        case Bgp():
            return compile_bgp(pattern)
        case Join(left, right):
            return _join(_compile(left), _Right(right, left))
        case LeftJoin(left, right, condition):
            return _left_join(_compile(left), _Right(right, left), condition)
        case Union(left, right):
            left_solve, right_solve = _compile(left), _compile(right)
            return lambda graph, given: left_solve(graph, given) + right_solve(graph, given)
        case Minus(left, right):
            return _minus(_compile(left), _compile(right), certainly_bound(left) & certainly_bound(right))
        case Filter(operand, condition):
            return _filter(_compile(operand), condition)
        case Extend(operand, variable, expression):
            if _makes_blank_nodes(expression):
                return _extend_with_blank_nodes(pattern)
            return _extend(_compile(operand), variable, expression)
        case Values():
            return _values(pattern)
        case NamedGraph(name, inner):
            return _named_graph(name, _compile(inner))
        case Group():
            return _group(pattern)
        case OrderBy(operand, conditions):
            return _order_by(_compile(operand), conditions)
        case Project(operand, variables):
            return _project(_compile(operand), variables)
        case Distinct(operand):
            all_rows = _compile(operand)
            return lambda graph, given: _without_duplicates(all_rows(graph, given))
        case Reduced(operand):
            return _compile(operand)
        case Slice(operand, offset, limit):
            rows = _compile(operand)
            end = None if limit is None else offset + limit
            return lambda graph, given: rows(graph, given)[offset:end]


class _Right:
    """The right side of a join: started from each left solution if that is safe, else evaluated once and compared.

    What is evaluated once is looked up by the variables that both sides bind in every solution.
    """

    def __init__(self, pattern: Algebra, left: Algebra) -> None:
        self._solve = _compile(pattern)
        self._correlated = _is_transparent(pattern)
        self._keys = sorted(certainly_bound(pattern) & certainly_bound(left))

    def matches(self, graph: Graph, given: Row) -> Callable[[Row], list[Row]]:
        """For given bindings, a function from a left solution to its joined solutions."""
        if self._correlated:
            return lambda left: self._solve(graph, left)
        rows: dict[tuple[str, ...], list[Row]] = {}
        for row in self._solve(graph, given):
            rows.setdefault(tuple(row[name] for name in self._keys), []).append(row)
        return lambda left: [
            {**left, **right}
            for right in rows.get(tuple(left[name] for name in self._keys), ())
            if _compatible(left, right)
        ]


def _is_transparent(pattern: Algebra) -> bool:
    """Whether bindings from outside only select among the pattern's solutions."""
    match pattern:
        case Bgp() | Values():
            return True
        case Join(left, right) | Union(left, right):
            return _is_transparent(left) and _is_transparent(right)
        case Filter(operand, condition):
            is_local = mentioned(condition) <= certainly_bound(operand) and not has_exists(condition)
            return is_local and _is_transparent(operand)
        case NamedGraph(_, inner):
            return _is_transparent(inner)
    return False


def _compatible(left: Row, right: Row) -> bool:
    """Equal wherever both are bound."""
    small, large = (left, right) if len(left) < len(right) else (right, left)
    return all(large.get(name, term) == term for name, term in small.items())


def _join(left: Solve, right: _Right) -> Solve:
    def run(graph: Graph, given: Row) -> list[Row]:
        lefts = left(graph, given)
        if not lefts:
            return []
        matches = right.matches(graph, given)
        result: list[Row] = []
        for row in lefts:
            result += matches(row)
            check_size(result)
        return result

    return run


def _left_join(left: Solve, right: _Right, condition: Expr | None) -> Solve:
    holds = test(condition, _exist) if condition is not None else None

    def run(graph: Graph, given: Row) -> list[Row]:
        lefts = left(graph, given)
        if not lefts:
            return []
        matches = right.matches(graph, given)
        result: list[Row] = []
        for row in lefts:
            joined = matches(row)
            if holds is not None:
                joined = [both for both in joined if holds(both, graph)]
            result += joined or [row]
            check_size(result)
        return result

    return run


def _minus(left: Solve, right: Solve, certain: frozenset[str]) -> Solve:
    """Right solutions are looked up by the variables that both sides bind in every solution."""

    def run(graph: Graph, given: Row) -> list[Row]:
        lefts = left(graph, given)
        if not lefts:
            return []
        keys = [name for name in certain if name not in given]
        removed: dict[tuple[str, ...], list[Row]] = {}
        for right_row in right(graph, given):
            own = {name: term for name, term in right_row.items() if name not in given}
            removed.setdefault(tuple(own[name] for name in keys), []).append(own)
        return [
            row
            for row in lefts
            if not any(
                _shares(row, own) and _compatible(row, own)
                for own in removed.get(tuple(row[name] for name in keys), ())
            )
        ]

    return run


def _shares(left: Row, right: Row) -> bool:
    return not left.keys().isdisjoint(right)


def _filter(operand: Solve, condition: Expr) -> Solve:
    holds = test(condition, _exist)
    return lambda graph, given: [row for row in operand(graph, given) if holds(row, graph)]


def _extend(operand: Solve, variable: str, expression: Expr) -> Solve:
    compute = compile_expression(expression, _exist)

    def extended(row: Row, graph: Graph) -> Row | None:
        try:
            term = compute(row, graph)
        except ExpressionError:
            return row
        return {**row, variable: term} if row.get(variable, term) == term else None

    def run(graph: Graph, given: Row) -> list[Row]:
        return [new for row in operand(graph, given) if (new := extended(row, graph)) is not None]

    return run


def _values(pattern: Values) -> Solve:
    rows = [
        {name: term for name, term in zip(pattern.variables, row, strict=True) if term is not None}
        for row in pattern.rows
    ]
    return lambda graph, given: [{**given, **row} for row in rows if _compatible(given, row)]


def _exist(pattern: Algebra) -> Callable[[Mapping[str, str], Graph], bool]:
    run = _compile(pattern)
    return lambda bindings, graph: bool(run(graph, dict(bindings)))


# Whole queries.


def _makes_blank_nodes(expression: Expr) -> bool:
    """Whether BNODE with an argument occurs: its nodes belong to a solution, not to a single BIND."""
    if isinstance(expression, Call) and expression.name == "BNODE" and expression.arguments:
        return True
    return any(map(_makes_blank_nodes, operands(expression)))


def _extend_with_blank_nodes(pattern: Algebra) -> Solve:
    """Successive BINDs as one step, so that they share the blank nodes of a solution."""
    chain: list[tuple[str, Compute]] = []
    while isinstance(pattern, Extend):
        chain.insert(0, (pattern.variable, compile_expression(pattern.expression, _exist)))
        pattern = pattern.operand
    operand = _compile(pattern)

    def extended(row: Row, graph: Graph) -> Row | None:
        solution = Solution(row)
        for variable, compute in chain:
            try:
                term = compute(solution, graph)
            except ExpressionError:
                continue
            if solution.setdefault(variable, term) != term:
                return None
        return dict(solution)

    def run(graph: Graph, given: Row) -> list[Row]:
        return [new for row in operand(graph, given) if (new := extended(row, graph)) is not None]

    return run


def _named_graph(name: str, inner: Solve) -> Solve:
    variable = variable_name(name)

    def run(graph: Graph, given: Row) -> list[Row]:
        named = graph.dataset.named if isinstance(graph, DatasetGraph) else {}
        chosen = name if variable is None else given.get(variable)
        if chosen is not None:
            return inner(named[chosen], given) if chosen in named else []
        assert variable is not None
        result: list[Row] = []
        for graph_name, member in named.items():
            rows = inner(member, given)
            result += [{**row, variable: graph_name} for row in rows if row.get(variable, graph_name) == graph_name]
            check_size(result)
        return result

    return run


def _group(pattern: Group) -> Solve:
    operand, keys = _compile(pattern.operand), pattern.keys
    columns = [(name, node, _column(node)) for name, node in pattern.aggregates]

    def run(graph: Graph, given: Row) -> list[Row]:
        groups: dict[tuple[str | None, ...], list[Row]] = {} if keys else {(): []}
        for row in operand(graph, given):
            groups.setdefault(tuple(row.get(name) for name in keys), []).append(row)
        result = []
        for key, rows in groups.items():
            solution = given | {name: term for name, term in zip(keys, key, strict=True) if term is not None}
            for name, node, column in columns:
                try:
                    solution[name] = aggregate(node.name, column(rows, graph), node.distinct, node.separator)
                except ExpressionError:
                    continue
            result.append(solution)
        return result

    return run


def _column(node: Aggregate) -> Callable[[list[Row], Graph], list[str | None]]:
    """What an aggregate is computed from, one value for each solution; of ``COUNT(DISTINCT *)`` the solutions."""
    if node.argument is None and not node.distinct:
        return lambda rows, graph: [""] * len(rows)
    if node.argument is None:
        return lambda rows, graph: [repr(sorted(_visible(row).items())) for row in rows]
    compute = compile_expression(node.argument, _exist)

    def value(row: Row, graph: Graph) -> str | None:
        try:
            return compute(row, graph)
        except ExpressionError:
            return None

    return lambda rows, graph: [value(row, graph) for row in rows]


def _order_by(operand: Solve, conditions: tuple[OrderCondition, ...]) -> Solve:
    keys = [(compile_expression(condition.expression, _exist), condition.descending) for condition in conditions]

    def run(graph: Graph, given: Row) -> list[Row]:
        rows = operand(graph, given)
        for compute, descending in reversed(keys):

            def key(row: Row, compute: Compute = compute) -> object:
                try:
                    return order_key(compute(row, graph))
                except ExpressionError:
                    return order_key(None)

            rows = sorted(rows, key=key, reverse=descending)  # type: ignore[arg-type]  # tuples that compare
        return rows

    return run


def _project(operand: Solve, variables: tuple[str, ...]) -> Solve:
    def run(graph: Graph, given: Row) -> list[Row]:
        known = {name: given[name] for name in variables if name in given}
        return [given | {name: row[name] for name in variables if name in row} for row in operand(graph, known)]

    return run


def _without_duplicates(rows: list[Row]) -> list[Row]:
    """Each solution once, where it first occurs."""
    distinct: dict[frozenset[tuple[str, str]], Row] = {}
    for row in rows:
        distinct.setdefault(frozenset(_visible(row).items()), row)
    return list(distinct.values())


def _visible(row: Row) -> Row:
    return {name: term for name, term in row.items() if not is_hidden(name)}


# Answers: solutions, a yes or no, or a graph


@dataclass(frozen=True, slots=True)
class SolutionSequence:
    """The rows of a SELECT query in order; a variable that is not in a row is unbound."""

    variables: tuple[str, ...]
    rows: list[Row]


Answer = SolutionSequence | bool | Graph


def answer(query: Query, dataset: Dataset) -> Answer:
    """
    >>> from motet.sparql.parse import read_query
    >>> answer(read_query("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), Dataset([("<urn:a>", "<urn:p>", "<urn:b>")])).rows
    [{'n': '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'}]
    """
    chosen = dataset.selected(query.dataset)
    rows = compile_group(query.pattern)(chosen.default, {})

    def triples_of(subjects: list[str]) -> list[Terms]:
        return [triple for subject in subjects for triple in chosen.default.match(subject, None, None)]

    return answer_from_rows(query, rows, chosen.blank_node, triples_of)


def answer_from_rows(
    query: Query, rows: list[Row], blank_node: Callable[[], str], triples_of: Callable[[list[str]], Iterable[Terms]]
) -> Answer:
    """The answer to a query whose pattern has these solutions.

    ``blank_node`` gives a new one at each call, ``triples_of`` the triples of the default graph with some subjects.
    """
    match query:
        case SelectQuery(variables=variables):
            return SolutionSequence(variables, rows)
        case AskQuery():
            return bool(rows)
        case ConstructQuery(template=template):
            return Graph(triple for row in rows for triple in _instances(template, row, blank_node))
        case DescribeQuery(targets=targets):
            return Graph(_descriptions(_described(targets, rows), triples_of))


def _instances(template: tuple[Triple, ...], row: Row, blank_node: Callable[[], str]) -> Iterator[Terms]:
    """The triples of the template for one solution, without those that would not be RDF."""
    nodes: dict[str, str] = {}

    def filled(place: str) -> str | None:
        name = variable_name(place)
        if name is None:
            return place
        if is_hidden(name):
            return nodes[name] if name in nodes else nodes.setdefault(name, blank_node())
        return row.get(name)

    for triple in template:
        assert isinstance(triple.predicate, str)
        subject, predicate, obj = filled(triple.subject), filled(triple.predicate), filled(triple.object)
        if subject is None or predicate is None or obj is None:
            continue
        if not subject.startswith('"') and predicate.startswith("<"):
            yield subject, predicate, obj


def _described(targets: tuple[str, ...], rows: list[Row]) -> list[str]:
    """The terms to describe, each once."""
    names = [(target, variable_name(target)) for target in targets]
    constants = [target for target, name in names if name is None]
    values = [row[name] for row in rows for _, name in names if name is not None and name in row]
    return list(dict.fromkeys(constants + values))


def _descriptions(nodes: list[str], triples_of: Callable[[list[str]], Iterable[Terms]]) -> Iterator[Terms]:
    """The concise bounded description of nodes: their triples, and those of the blank nodes these lead to."""
    newest, seen = nodes, set(nodes)
    while newest:
        found = list(triples_of(newest))
        yield from found
        newest = [node for node in dict.fromkeys(obj for _, _, obj in found) if node[:2] == "_:" and node not in seen]
        seen.update(newest)
