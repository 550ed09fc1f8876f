"""`motet ontology`: check, show and classify an ontology, encode its classes, and find topics."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import output
from motet.cli.arguments import add_import_arguments, load_ontology
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.ontology.hierarchy import Hierarchy
    from motet.ontology.load import Ontology

CodeSummary = dict[str, object]
CodeRow = dict[str, object]

HELP = "check, show and classify ontologies, encode their classes, and find topics"
EXAMPLES = """\
  motet ontology check examples/video/ontology.ttl
  motet ontology show examples/video/ontology.ttl --svg video.svg
  motet ontology classify examples/video/ontology.ttl --json
  motet ontology codes examples/video/ontology.ttl --code prime
  motet ontology topics examples/video/ontology.ttl --description examples/video/wanted.ttl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = _add_action(actions, "check", _check, "report missing imports, inconsistencies and unsatisfiable classes")
    show = _add_action(actions, "show", _show, "print or draw the class hierarchy")
    show.add_argument("--svg", metavar="OUT", help="write a drawing to this file instead")
    show.add_argument("--labels", metavar="LANG", help="name classes by their rdfs:label in this language")
    classify = _add_action(actions, "classify", _classify, "print the parents and equivalents of each class")
    codes = _add_action(actions, "codes", _codes, "print the code of each class")
    codes.add_argument("--code", choices=["interval", "prime", "digit"], default="interval")
    topics = _add_action(
        actions, "topics", _topics, "infer the classes of a described individual, and a subscription or event for them"
    )
    topics.add_argument(
        "--description",
        metavar="FILE",
        required=True,
        help="RDF that describes what a subscriber wants or a publisher has",
    )
    topics.add_argument(
        "--individual", metavar="IRI", help="the individual to classify, if the description has several"
    )
    topics.add_argument(
        "--as", dest="role", choices=["subscriber", "publisher"], default="subscriber",
        help="print a subscription (default) or an event to publish",
    )  # fmt: skip
    for action in (check, show, classify, codes, topics):
        add_import_arguments(action)
        action.add_argument("--json", action="store_true", help="print JSON")


def _add_action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    act: Callable[[argparse.Namespace], int],
    help_: str,
) -> argparse.ArgumentParser:
    action = actions.add_parser(name, help=help_, description=help_[0].upper() + help_[1:] + ".")
    action.add_argument("files", nargs="+", metavar="FILE", help="OWL or RDFS: Turtle, RDF/XML, JSON-LD, N-Triples")
    action.set_defaults(act=act)
    return action


def run(args: argparse.Namespace) -> int:
    return int(args.act(args))


def _check(args: argparse.Namespace) -> int:
    from motet.ontology.explain import check_ontology

    report = check_ontology(load_ontology(args, args.files))
    fields = dataclasses.asdict(report)
    if args.json:
        output.print_json(fields | {"ok": not report.problems})
    else:
        kinds = ("missing_imports", "contradictions", "unsatisfiable")
        output.print_fields(fields | {kind: len(fields[kind]) for kind in kinds})
        for problem in report.problems:
            output.warn("\n      ".join([problem.message, *problem.axioms]))
    return 1 if report.problems else 0


def _show(args: argparse.Namespace) -> int:
    from motet.ontology.drawing import as_svg, as_text, labels_of

    ontology, hierarchy = _load_classified(args)
    labels = labels_of(ontology.triples, args.labels) if args.labels else None
    if args.svg:
        output.write_svg(args.svg, as_svg(hierarchy, labels))
    if args.json:
        output.print_json(_tree(hierarchy))
    elif not args.svg:
        print(as_text(hierarchy, labels))
    return 0


def _tree(hierarchy: Hierarchy) -> dict[str, object]:
    """Each group of equivalent classes by its first name, with its direct subclasses."""
    first = [group[0][1:-1] for group in hierarchy.groups]
    children = {first[node]: [first[child] for child in below] for node, below in enumerate(hierarchy.children)}
    return {"roots": [first[node] for node in hierarchy.roots], "children": children}


def _classify(args: argparse.Namespace) -> int:
    _, hierarchy = _load_classified(args)
    names = _names(args, hierarchy)
    rows = []
    for name, node in sorted(hierarchy.node_of.items()):
        parents = [names[parent] for above in hierarchy.parents[node] for parent in hierarchy.groups[above]]
        equivalents = [names[member] for member in hierarchy.groups[node] if member != name]
        rows.append([names[name], parents, equivalents, name not in hierarchy.unsatisfiable])
    headers = ["class", "parents", "equivalents", "satisfiable"]
    if args.json:
        output.print_json([dict(zip(headers, row, strict=True)) for row in rows])
    else:
        output.print_table(rows, headers=headers)
    return 0


def _codes(args: argparse.Namespace) -> int:
    _, hierarchy = _load_classified(args)
    names = _names(args, hierarchy)
    fields, rows = list_codes(hierarchy, args.code)
    listing = {names[name]: rows[node] for name, node in sorted(hierarchy.node_of.items())}
    if args.json:
        output.print_json(fields | {"classes": listing})
        return 0
    output.print_fields(fields)
    output.print_table(
        ([name, *row.values()] for name, row in listing.items()), headers=["class", *next(iter(rows), {})]
    )
    return 0


def list_codes(hierarchy: Hierarchy, code: str) -> tuple[CodeSummary, list[CodeRow]]:
    """A summary of the codes, and the code of each node.

    Numbers are text: they exceed the 53 bits that other languages read exactly, and prime codes have any size.

    >>> from motet.ontology.hierarchy import hierarchy_from_parents
    >>> list_codes(hierarchy_from_parents({"Film": ["Video"]}), "prime")
    ({'code': 'prime', 'bits': 3}, [{'prime': 2, 'code': '0x2'}, {'prime': 3, 'code': '0x6'}])
    """
    return {"interval": _interval_codes, "prime": _prime_codes, "digit": _digit_codes}[code](hierarchy)


def _interval_codes(hierarchy: Hierarchy) -> tuple[CodeSummary, list[CodeRow]]:
    from motet.ontology.codes import interval

    codes = interval.encode(hierarchy)
    summary: CodeSummary = {"code": "interval", "bits": codes.bits, "most_intervals": codes.cover.max_intervals}
    rows: list[CodeRow] = [
        {"number": str(low), "intervals": [f"{first}..{stop - 1}" for first, stop in intervals]}
        for (low, _), intervals in zip(codes.tree_intervals, codes.intervals, strict=True)
    ]
    return summary, rows


def _prime_codes(hierarchy: Hierarchy) -> tuple[CodeSummary, list[CodeRow]]:
    from motet.ontology.codes import prime

    codes = prime.encode(hierarchy)
    pairs = zip(codes.primes, codes.codes, strict=True)
    return {"code": "prime", "bits": codes.bits}, [
        {"prime": node_prime, "code": hex(code)} for node_prime, code in pairs
    ]


def _digit_codes(hierarchy: Hierarchy) -> tuple[CodeSummary, list[CodeRow]]:
    from motet.ontology.codes import digit

    codes = digit.encode(hierarchy)
    summary: CodeSummary = {"code": "digit", "bits": codes.bits, "digit_bits": codes.b, "digits": codes.length}
    padded = ((*digits, *[0] * (codes.length - len(digits))) for digits in codes.digits)
    return summary, [{"digits": ".".join(map(str, digits))} for digits in padded]


def _topics(args: argparse.Namespace) -> int:
    from motet.ontology.entailment import Reasoner
    from motet.ontology.load import read_ontology_file
    from motet.ontology.topics import event_for, find_topics, most_specific, subscription_for

    ontology, hierarchy = _load_classified(args)
    description = read_ontology_file(Path(args.description)).triples
    individual = _individual(args, description)
    classes = find_topics(Reasoner(ontology.triples), hierarchy, description, individual)
    specific = most_specific(hierarchy, classes)
    if not specific:
        output.warn(f"the ontology infers no class for {individual}")
        return 1
    offer = subscription_for(*specific) if args.role == "subscriber" else event_for(description, individual)
    if args.json:
        names = {"topics": [topic[1:-1] for topic in classes], "most_specific": [topic[1:-1] for topic in specific]}
        output.print_json({"individual": individual[1:-1], "offer": offer} | names)
        return 0
    print(f"# {individual} is in these classes, the most specific first:")
    print("\n".join(f"#   {topic}" for topic in classes))
    print(offer)
    return 0


def _individual(args: argparse.Namespace, description: tuple[tuple[str, str, str], ...]) -> str:
    from motet.model.terms import iri
    from motet.ontology.topics import described_individuals

    roots = described_individuals(description)
    if args.individual is None and len(roots) == 1:
        return roots[0]
    if args.individual is not None and any(iri(args.individual) in (s, o) for s, _, o in description):
        return iri(args.individual)
    problem = f"does not describe <{args.individual}>" if args.individual else f"describes {len(roots)} individuals"
    raise UsageError(
        f"{args.description} {problem}",
        advice=f"name one with --individual: {', '.join(root[1:-1] for root in roots[:5])}" if roots else None,
    )


def _load_classified(args: argparse.Namespace) -> tuple[Ontology, Hierarchy]:
    from motet.ontology.hierarchy import classify

    ontology = load_ontology(args, args.files)
    return ontology, classify(ontology)


def _names(args: argparse.Namespace, hierarchy: Hierarchy) -> dict[str, str]:
    """IRIs for JSON, otherwise the shortest unique name of each class."""
    from motet.ontology.drawing import unique_names

    return {name: name[1:-1] for name in hierarchy.node_of} if args.json else unique_names(hierarchy.node_of)
