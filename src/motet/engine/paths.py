"""Property paths: from a node to the nodes at the other end. Safe on cycles; links keep SPARQL's multiplicities."""

from __future__ import annotations

from collections.abc import Callable

from motet.engine.graph import Graph
from motet.language.algebra import (
    Alternative,
    Inverse,
    Link,
    NegatedSet,
    OneOrMore,
    Path,
    Sequence,
    ZeroOrMore,
    ZeroOrOne,
)

Ends = Callable[[Graph, str], list[str]]


def compile_path(path: Path, backwards: bool = False) -> Ends:  # noqa: PLR0911  (one case for each kind of path)
    """A function from a graph and a start to the ends (or back), as often as SPARQL counts them.

    >>> graph = Graph([("<urn:a>", "<urn:p>", "<urn:b>"), ("<urn:b>", "<urn:p>", "<urn:a>")])
    >>> compile_path(OneOrMore(Link("<urn:p>")))(graph, "<urn:a>")
    ['<urn:b>', '<urn:a>']
    """
    match path:
        case Link(name):
            return _backward_link(name) if backwards else _forward_link(name)
        case Inverse(inner):
            return compile_path(inner, not backwards)
        case Sequence(parts):
            steps = [compile_path(part, backwards) for part in parts]
            return _chain(steps[::-1] if backwards else steps)
        case Alternative(parts):
            branches = [compile_path(part, backwards) for part in parts]
            return lambda graph, start: [end for branch in branches for end in branch(graph, start)]
        case ZeroOrMore(inner) | OneOrMore(inner):
            return _closure(compile_path(inner, backwards), isinstance(path, ZeroOrMore))
        case ZeroOrOne(inner):
            once = compile_path(inner, backwards)
            return lambda graph, start: list(dict.fromkeys([start, *once(graph, start)]))
        case NegatedSet(forward, backward):
            return _others(backward, forward) if backwards else _others(forward, backward)


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
        reached: dict[str, None] = {start: None} if with_start else {}
        border = [start]
        while border:
            found = dict.fromkeys(end for node in border for end in step(graph, node))
            border = [node for node in found if node not in reached]
            reached.update(dict.fromkeys(border))
        return list(reached)

    return ends


def _others(forward: tuple[str, ...] | None, backward: tuple[str, ...] | None) -> Ends:
    def ends(graph: Graph, start: str) -> list[str]:
        found: list[str] = []
        if forward is not None:
            found += [triple[2] for triple in graph.match(start, None, None) if triple[1] not in forward]
        if backward is not None:
            found += [triple[0] for triple in graph.match(None, None, start) if triple[1] not in backward]
        return found

    return ends
