"""Random datasets and SELECT queries over them, for comparing evaluators.

Everything is small, so that things meet: a few names, a few values. Literals are written canonically, because
pyoxigraph's store changes them otherwise, and there are no blank nodes in the data.
"""

from __future__ import annotations

from random import Random

from motet.sparql.graph import Triple

NODES = [f"<urn:n{index}>" for index in range(5)]
LINKS = [f"<urn:p{index}>" for index in range(3)]
XSD = "http://www.w3.org/2001/XMLSchema#"
LITERALS = [
    f'"1"^^<{XSD}integer>',
    f'"2"^^<{XSD}integer>',
    f'"1.5"^^<{XSD}decimal>',
    '"a"',
    '"b"@en',
    f'"true"^^<{XSD}boolean>',
    f'"2026-01-02T03:04:05Z"^^<{XSD}dateTime>',
]
GRAPHS = ["<urn:g0>", "<urn:g1>"]
VARIABLES = ["?a", "?b", "?c", "?d"]


def random_graphs(random: Random) -> dict[str | None, list[Triple]]:
    """A default graph, under None, and two named ones."""
    return {
        name: list(dict.fromkeys(random_triple(random) for _ in range(random.randint(0, 8))))
        for name in (None, *GRAPHS)
    }


def random_triple(random: Random) -> Triple:
    return random.choice(NODES), random.choice(LINKS), random.choice(NODES + LITERALS)


class RandomQuery:
    """Builds one query; ``computes`` allows expressions with computed values, which evaluators write differently."""

    def __init__(self, random: Random, *, computes: bool) -> None:
        self.random = random
        self.computes = computes
        self.fresh = 0

    def text(self) -> str:
        body = self.group(2)
        if self.random.random() < 0.3:
            return self.grouped(body)
        distinct = self.random.choice(["", "", "DISTINCT "])
        return f"SELECT {distinct}{' '.join(VARIABLES)} {{ {body} }}"

    def grouped(self, body: str) -> str:
        key, other = self.random.sample(VARIABLES, 2)
        distinct = self.random.choice(["", "DISTINCT "])
        aggregates = [f"COUNT({distinct}{other})", "COUNT(*)"]
        if self.computes:
            number = f"IF(ISNUMERIC({other}), {other}, 0)"  # the order of other kinds is everybody's own
            aggregates += [f"{name}({distinct}{number})" for name in ("SUM", "AVG", "MIN", "MAX")]
            aggregates += [f"SUM({other})", f"AVG({other})"]
        aggregate = self.random.choice(aggregates)
        having = self.random.choice(["", "", " HAVING (COUNT(*) > 1)"])
        if self.random.random() < 0.3:
            return f"SELECT ({aggregate} AS ?x) {{ {body} }}{having}"
        return f"SELECT {key} ({aggregate} AS ?x) {{ {body} }} GROUP BY {key}{having}"

    def group(self, depth: int) -> str:
        elements = [self.triples()]
        for _ in range(self.random.randint(0, 2)):
            elements.append(self.element(depth))
        if self.random.random() < 0.2:
            self.random.shuffle(elements)
        return " ".join(elements)

    def triples(self) -> str:
        return " . ".join(self.triple() for _ in range(self.random.randint(1, 2))) + " ."

    def triple(self) -> str:
        predicate = self.path(2) if self.random.random() < 0.25 else self.random.choice([*LINKS, *LINKS, "?p"])
        return f"{self.node()} {predicate} {self.node(literals=True)}"

    def node(self, *, literals: bool = False) -> str:
        if self.random.random() < 0.7:
            return self.random.choice(VARIABLES)
        return self.random.choice(NODES + (LITERALS if literals else []))

    def path(self, depth: int) -> str:  # noqa: PLR0911  (one return for each kind)
        if depth == 0 or self.random.random() < 0.4:
            return self.random.choice(LINKS)
        inner = self.path(depth - 1)
        kinds = ("star", "plus", "optional", "inverse", "sequence", "alternative", "negated")
        match self.random.choice(kinds):
            case "star":
                return f"({inner})*"
            case "plus":
                return f"({inner})+"
            case "optional":
                return f"({inner})?"
            case "inverse":
                return f"^({inner})"
            case "sequence":
                return f"({inner}/{self.path(depth - 1)})"
            case "alternative":
                return f"({inner}|{self.path(depth - 1)})"
        return f"!({self.random.choice(LINKS)}|{self.random.choice(LINKS)})"

    def element(self, depth: int) -> str:  # noqa: PLR0911  (one return for each kind)
        simple = ["filter", "bind", "values", "triples"]
        nested = ["optional", "union", "minus", "graph", "exists", "subquery", "group"]
        kind = self.random.choice(simple + (nested if depth else []))
        match kind:
            case "filter":
                return f"FILTER ({self.condition()})"
            case "bind":
                self.fresh += 1
                return f"BIND ({self.expression()} AS ?v{self.fresh})"
            case "values":
                rows = " ".join(self.random.choice([*NODES, *LITERALS]) for _ in range(self.random.randint(1, 3)))
                return f"VALUES {self.random.choice(VARIABLES)} {{ {rows} {self.random.choice(['', '', 'UNDEF'])} }}"
            case "triples":
                return self.triples()
            case "optional":
                return f"OPTIONAL {{ {self.group(depth - 1)} }}"
            case "union":
                return f"{{ {self.group(depth - 1)} }} UNION {{ {self.group(depth - 1)} }}"
            case "minus":
                return f"MINUS {{ {self.group(depth - 1)} }}"
            case "graph":
                return f"GRAPH {self.random.choice([*GRAPHS, '?g'])} {{ {self.group(depth - 1)} }}"
            case "exists":
                return f"FILTER {self.random.choice(['', 'NOT '])}EXISTS {{ {self.triples()} }}"
            case "subquery":
                chosen = " ".join(self.random.sample(VARIABLES, 2))
                return f"{{ SELECT {self.random.choice(['', 'DISTINCT '])}{chosen} {{ {self.group(depth - 1)} }} }}"
        return f"{{ {self.group(depth - 1)} }}"

    def condition(self) -> str:
        left = self.random.choice(VARIABLES)
        right = self.random.choice([*VARIABLES, *NODES, *LITERALS])
        atom = self.random.choice(
            [
                f"{left} {self.random.choice(['=', '!=', '<', '>=', '='])} {right}",
                f"BOUND({left})",
                f"ISIRI({left})",
                f"ISLITERAL({left})",
                f"{left} IN ({right}, {self.random.choice(LITERALS)})",
                f"SAMETERM({left}, {right})",
                f"STR({left}) > 'b'",
                f"LANG({left}) = 'en'",
                f"DATATYPE({left}) = <{XSD}integer>",
            ]
        )
        match self.random.randint(0, 5):
            case 0:
                return f"!({atom})"
            case 1:
                return f"{atom} && {self.condition()}"
            case 2:
                return f"{atom} || {self.condition()}"
        return atom

    def expression(self) -> str:
        variable = self.random.choice(VARIABLES)
        plain = [variable, f"STR({variable})", f"COALESCE({variable}, 1)", f"IF({self.condition()}, {variable}, 'no')"]
        computed = [
            f"{variable} + 1",
            f"{variable} * 2.5",
            f"-{variable}",
            f"STRLEN(STR({variable}))",
            f"YEAR({variable})",
        ]
        return self.random.choice(plain + (computed if self.computes else []))
