"""Prints figures about the structure and the words of src/motet: size, cycles, class names, old words, one trace.

Run: python -m tests.house [--json] [--no-trace] [--package NAME]

`--package engine/match` lists the old words of that package, file by file, instead of the figures.
"""

import argparse
import ast
import io
import json
import re
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import FrameType

SOURCE = Path(__file__).parent.parent / "src" / "motet"

# Words that no identifier should contain, each with the plain word in its place (docs/glossary.md has the concepts).
OLD_WORDS = {
    "one other others own some somebody nobody whoever whom": "the element: subscription, row, left, right, event_ids",
    "found": "the result: matches, rows, occurrences",
    "place places placed": "index, position, triple_position, offset, path",
    "number numbers numbered": "term_id, node_id, index, count",
    "life lives living": "active, subscription, registration",
    "known": "cached, existing, decided_at",
    "told tell tells telling heard": "notifications, emit, deliver, on_commit, on_progress",
    "seen sees": "visible, emitted_before",
    "waiting waits": "pending, stack, queue",
    "keep keeps kept keeping": "retain, cache, persist, store",
    "wanted": "required, requested",
    "asked asks ask asking": "requested, referenced, pair_test, stop_requested",
    "past": "backfill, earlier_records",
    "say says said spoken speak words wording complain": "describe_*, *_text, format_*, warn",
    "shown": "displayed, projected, consumed_derived",
    "deriving": "computing (notifications), inferring (triples)",
    "reach reached": "frontier_after, processed_to, consequences, time_radius",
    "offer offers offered": "request, template_triples",
    "plain": "has_only_bindings, is_index_decided, compares_terms, is_nquads",
    "most longest": "max_*",
    "way ways": "alternatives, column_map",
    "come comes came gone goes": "added, removed",
    "loose": "nullable_variables, unattributed",
    "settle settled unsettled settler": "persist, reset_threshold, freeze_heap, open_checkpoint, stable",
    "spread spreading": "route, partition",
    "stretch stretches": "slice, fragment, member_run, byte_range",
    "few": "small, small_batch",
    "anew": "rebuild, spawn",
    "borrow borrowed lent": "reuse, reuse_compiled",
    "tidy sweep forget forgotten remember remembered": "prune, compact, evict",
    "hindrance hindrances": "obstacle, obstacles",
    "hopeful": "extendable, optimistic",
    "rivals rival": "ties, redundant",
    "elsewhere here nowhere": "the place itself: in_process, NO_FRONTIER",
    "spoiled hard suspects": "rejected, uncertain, possible_duplicates",
    "look looks": "stamp, check",
    "alike": "equal, equivalent",
    "gather gathering crowded": "combine, should_compact",
}

# Words with one meaning in the field: right where the identifier has that meaning, wrong elsewhere.
AMBIGUOUS_WORDS = {
    "part parts": "split, slice, alternative, operand (right: Path.parts, PARTS of a standard)",
    "names": "dictionary, renaming, prefixes (right: a list of names)",
    "fact facts": "header, summary, fields, triples (right: in why)",
    "source sources": "origin, column_map, binding_source (right: ingestion)",
    "span spans": "interval, row_range, byte_range",
    "code codes": "hash, hashes (right: class codes, exit codes)",
    "fed feed feeds feeding feeder": "derivation edge, upstream, ingest (right: the verb of the language page)",
    "take taken taker": "consume, ingest (right: select rows, as in Arrow)",
    "running": "operator_node, cached_processor (right: a query that runs)",
    "history": "replay_view, earlier_records (right: the log of a lake before now)",
    "derive derived derivation": "compute, infer (right: derived events)",
    "emitted": "emission_offset",
    "kernel kernels": "processor (right: a function compiled by Numba)",
}

# Words of personification: counted in comments, docstrings and messages.
PROSE_WORDS = (
    *("told", "tells", "telling", "somebody", "nobody", "whoever", "remembers", "remembered", "forgets", "forgotten"),
    *("forgot", "asks", "asked", "hears", "heard", "speaks", "spoken", "anew", "alike"),
)

# Identifiers of libraries and of Python itself.
FOREIGN = {"keepends", "tell", "keep_order", "keepalive", "other_properties", "keep_default_na", "SO_KEEPALIVE"}

# Class names that the field uses at more than one level: syntax, algebra, operator.
FIELD_NAMES = {"And", "Or", "Not", "Filter", "Optional", "Union", "Values", "Bind", "Group", "Triple"}

PREFIXES = "PREFIX ex: <http://example.org/>"
TRACED = {
    "single EVENT": (f"{PREFIXES} SUBSCRIPTION s EVENT e {{ ?e ex:p ?v FILTER(?v > 30) }} WHEN e", ("p",)),
    "a BEFORE b": (
        f"{PREFIXES} SUBSCRIPTION s EVENT a {{ ?a ex:p ?v }} EVENT b {{ ?b ex:q ?v }} WHEN a BEFORE b WITHIN 5 min",
        ("p", "q"),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Figures about the structure and the words of src/motet.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--no-trace", action="store_true", help="leave out the trace of one published event")
    parser.add_argument("--package", metavar="NAME", help="list the old words of one package, such as engine/match")
    args = parser.parse_args()
    if args.package:
        print_lines(listing(args.package))
        return
    figures: dict[str, object] = {
        "lines of code": lines_of_code(),
        "statements": statements(),
        "modules": len(modules()),
        "package cycles": cycles(package_graph()),
        "module cycles": cycles(module_graph()),
        "class names defined twice": duplicate_classes(),
        "test files without a module": unmirrored_tests(),
        "old words": word_counts(OLD_WORDS),
        "ambiguous words": word_counts(AMBIGUOUS_WORDS),
        "words of personification in prose": prose_counts(),
    }
    if not args.no_trace:
        figures["trace of one published event"] = {name: trace(*case) for name, case in TRACED.items()}
    print_lines([json.dumps(figures, indent=1)] if args.json else as_text(figures))


# Size


def lines_of_code() -> int:
    """Lines that hold a token which is no comment, without docstrings; lines inside other strings count."""
    return sum(len(code_lines(path)) for path in files())


def statements() -> int:
    """Statements without docstrings: unlike lines they do not grow when a longer name wraps one."""
    return sum(
        isinstance(node, ast.stmt) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for path in files()
        for node in ast.walk(tree(path))
    )


def code_lines(path: Path) -> set[int]:
    ignored = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines = {
        line for token in tokens(path) if token.type not in ignored for line in range(token.start[0], token.end[0] + 1)
    }
    return lines - docstring_lines(path)


def docstring_lines(path: Path) -> set[int]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        line
        for node in ast.walk(tree(path))
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }


def modules() -> list[Path]:
    """The files that are no `__init__.py`."""
    return [path for path in files() if path.name != "__init__.py"]


# Cycles


def module_graph() -> dict[str, set[str]]:
    """For every module the modules it imports, at the top or inside functions."""
    by_name = {module_name(path): path for path in files()}
    return {name: set(imported_modules(path, by_name)) - {name} for name, path in by_name.items()}


def package_graph() -> dict[str, set[str]]:
    """The same between packages: every directory is one."""
    package = {module_name(path): module_name(path.parent / "__init__.py") for path in files()}
    edges: dict[str, set[str]] = defaultdict(set)
    for name, imported in module_graph().items():
        edges[package[name]] |= {package[target] for target in imported} - {package[name]}
    return dict(edges)


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one node."""
    reachable = {node: reachable_from(node, graph) for node in graph}
    components = {
        tuple(sorted({node} | {target for target in reachable[node] if node in reachable.get(target, ())}))
        for node in graph
    }
    return sorted(list(component) for component in components if len(component) > 1)


def reachable_from(node: str, graph: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    stack = list(graph[node])
    while stack:
        target = stack.pop()
        if target not in reached:
            reached.add(target)
            stack.extend(graph.get(target, ()))
    return reached


def module_name(path: Path) -> str:
    return ".".join(["motet", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")


def imported_modules(path: Path, by_name: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in by_name)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module in by_name:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in by_name else node.module for name in inner)


# Names


def duplicate_classes() -> dict[str, list[str]]:
    """The names of more than one public class or type alias, with the files that define them."""
    defined: dict[str, list[str]] = defaultdict(list)
    for path in files():
        for name in class_names(tree(path)):
            defined[name].append(path.relative_to(SOURCE).as_posix())
    return {name: paths for name, paths in sorted(defined.items()) if len(paths) > 1 and name not in FIELD_NAMES}


def unmirrored_tests() -> dict[str, list[str]]:
    """Per folder of tests the files test_x.py for which there is no module x.py in the folder of the same name."""
    tests = Path(__file__).parent
    result: dict[str, list[str]] = defaultdict(list)
    for path in sorted(tests.rglob("test_*.py")):
        folder = path.parent.relative_to(tests)
        module = SOURCE / folder / path.name.removeprefix("test_")
        if (SOURCE / folder).is_dir() and folder.parts and not module.exists():
            result[folder.as_posix()].append(path.name)
    return dict(result)


def class_names(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            name = target.id if isinstance(target, ast.Name) else ""
        else:
            continue
        if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name):
            yield name


def word_counts(words: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """Per row of words: the plain word, and how often identifiers contain one of them, in all and per package."""
    counts: Counter[tuple[str, str]] = Counter()
    for path in files():
        for token in tokens(path):
            if token.type == tokenize.NAME and token.string not in FOREIGN:
                counts.update((word, package_of(path)) for word in words_of(token.string))
    result: dict[str, dict[str, object]] = {}
    for row, plain in words.items():
        packages: Counter[str] = Counter()
        for (word, package), count in counts.items():
            if word in row.split():
                packages[package] += count
        result[row] = {"plain": plain, "uses": packages.total(), "packages": dict(packages.most_common())}
    return result


def prose_counts() -> dict[str, int]:
    """Per package: how often comments and strings contain a word of personification."""
    counts: Counter[str] = Counter()
    for path in files():
        counts[package_of(path)] += sum(1 for _ in prose(path))
    return {package: count for package, count in counts.most_common() if count}


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The words of personification in the comments and strings of a file, each with its line."""
    pattern = re.compile(rf"\b({'|'.join(PROSE_WORDS)})\b", re.IGNORECASE)
    for token in tokens(path):
        if token.type in (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)):
            for match in pattern.finditer(token.string):
                yield token.start[0] + token.string.count("\n", 0, match.start()), match[0].lower()


def listing(package: str) -> Iterator[str]:
    """The identifiers of a package with an old word: file, first line, uses, and the plain word."""
    plain = {
        word: advice
        for table, mark in ((OLD_WORDS, ""), (AMBIGUOUS_WORDS, "perhaps "))
        for row, text in table.items()
        for word, advice in ((word, mark + text) for word in row.split())
    }
    top = SOURCE / package.removeprefix("src/motet/").replace(".", "/")
    for path in (path for path in files() if path.is_relative_to(top) or path.with_suffix("") == top):
        uses: dict[str, list[int]] = defaultdict(list)
        for token in tokens(path):
            if token.type == tokenize.NAME and token.string not in FOREIGN:
                uses[token.string].append(token.start[0])
        name = path.relative_to(SOURCE.parent.parent).as_posix()
        for identifier, lines in sorted(uses.items(), key=lambda item: item[1]):
            advice = [plain[word] for word in words_of(identifier) if word in plain]
            if advice:
                yield f"{name}:{lines[0]} {identifier} ×{len(lines)} → {'; '.join(advice)}"
        yield from (f"{name}:{line} prose: {word}" for line, word in prose(path))


def words_of(identifier: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)}


def package_of(path: Path) -> str:
    return path.parent.relative_to(SOURCE).as_posix().replace(".", "motet")


# The way of one event


def trace(subscription: str, properties: tuple[str, ...]) -> dict[str, int]:
    """What runs in src/motet while a warm cloud publishes the last event of a match.

    Kernels are left out, with all that they call: compiled, they are machine code, which a profiler does not see.
    """
    import motet
    from motet.jit.compiled import Kernel

    calls: list[tuple[str, int]] = []
    kernel_call = Kernel.__call__.__code__
    kernels: list[FrameType] = []  # those that run now, one inside the other

    def on_call(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and kernels and frame is kernels[-1]:
            kernels.pop()
        elif event == "call" and not kernels and frame.f_code.co_filename.startswith(str(SOURCE)):
            if frame.f_code is kernel_call:
                kernels.append(frame)
            else:
                calls.append((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    with tempfile.TemporaryDirectory() as directory, motet.open(directory) as cloud:
        cloud.subscribe(subscription, lambda _: None)
        for index in range(20):
            cloud.publish(nquad(index, properties[index % len(properties)]))
        event = nquad(20, properties[-1])
        sys.setprofile(on_call)
        try:
            cloud.publish(event)
        finally:
            sys.setprofile(None)
    paths = [path for path, _ in calls]
    changes = sum(before != after for before, after in pairwise(paths))
    return {"calls": len(calls), "functions": len(set(calls)), "files": len(set(paths)), "changes of file": changes}


def nquad(index: int, name: str) -> str:
    value = '"35"^^<http://www.w3.org/2001/XMLSchema#integer>'
    return f"<urn:e:{index}> <http://example.org/{name}> {value} <urn:e:{index}> .\n"


# Output


def as_text(figures: Mapping[str, object]) -> Iterator[str]:
    for name, value in figures.items():
        match value:
            case int():
                yield heading(name, value)
            case dict() if name.endswith("words"):
                yield heading(name, sum(row["uses"] for row in value.values()))
                for words, row in sorted(value.items(), key=lambda item: -item[1]["uses"]):
                    yield f"  {row['uses']:>5}  {words} → {row['plain']}\n         {described(row['packages'])}"
            case dict() if name.endswith("prose"):
                yield f"{heading(name, sum(value.values()))}\n         {described(value)}"
            case dict() if name.startswith("test files"):
                yield heading(name, sum(map(len, value.values())))
                yield from (f"  {key}: {described(detail)}" for key, detail in value.items())
            case dict():
                yield heading(name, len(value))
                yield from (f"  {key}: {described(detail)}" for key, detail in value.items())
            case list():
                yield heading(name, len(value))
                yield from (f"  {' ⇄ '.join(cycle)}" for cycle in value)


def heading(name: str, figure: int) -> str:
    return f"{name:<34}{figure:>7,}".replace(",", " ")


def described(detail: Mapping[str, int] | list[str]) -> str:
    return ", ".join(detail if isinstance(detail, list) else (f"{key} {value}" for key, value in detail.items()))


def print_lines(lines: Iterator[str] | list[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


# Files


@cache
def files() -> tuple[Path, ...]:
    return tuple(sorted(SOURCE.rglob("*.py")))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def tokens(path: Path) -> tuple[tokenize.TokenInfo, ...]:
    return tuple(tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline))


if __name__ == "__main__":
    main()
