"""`motet translate`: subscriptions from one way of writing them to another."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.language.syntax import Subscription
    from motet.model.tables import Triple

HELP = "write subscriptions in another syntax, or as RDF"
EXAMPLES = """\
  motet translate --from jtang --to motet alarms.jtang
  motet translate --from motet --to turtle fire.motet > fire.ttl
  motet translate --from rdf --to motet fire.ttl --prefix ex=http://example.org/building#
"""
SOURCES = ("motet", "sparql", "jtang", "cecube", "rdf")
TARGETS = ("motet", "turtle", "ntriples", "rdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument(
        "--from", dest="source", choices=SOURCES, default="motet", metavar="SYNTAX",
        help=f"how the files are written: {', '.join(SOURCES)} (any RDF format, by the file's name); default: motet",
    )  # fmt: skip
    parser.add_argument(
        "--to", dest="target", choices=TARGETS, default="motet", metavar="SYNTAX",
        help=f"one of {', '.join(TARGETS)} (rdf is turtle); default: motet",
    )  # fmt: skip
    parser.add_argument(
        "--prefix", action="append", default=[], metavar="NAME=IRI", help="shorten IRIs in motet and turtle; repeatable"
    )


def run(args: argparse.Namespace) -> int:
    subscriptions = _from_rdf(args.files) if args.source == "rdf" else _from_text(args.files, args.source)
    prefixes = _prefixes(args.prefix)
    print(_written(subscriptions, args.target, prefixes), end="")
    return 0


def _from_text(paths: Sequence[str], syntax: str) -> tuple[Subscription, ...]:
    from motet.jobs.subscription_files import load_subscriptions

    return load_subscriptions(paths, syntax=syntax)


def _from_rdf(paths: Sequence[str]) -> tuple[Subscription, ...]:
    from motet.language.rdf import from_rdf
    from motet.ontology.load import read_ontology_file

    found: dict[str, Subscription] = {}
    for path in paths:
        for triples in _apart(read_ontology_file(Path(path)).triples, path):
            subscription = from_rdf(triples)
            if subscription.name in found:
                message = f"{path}: there is another subscription {subscription.name!r}"
                raise UsageError(message, advice="Give one of them another name.")
            found[subscription.name] = subscription
    return tuple(found.values())


def _apart(triples: Iterable[Triple], path: str) -> list[list[Triple]]:
    """The triples of each subscription: those that can be reached from it."""
    from motet.language.rdf_writer import term
    from motet.model.terms import RDF_TYPE

    about: defaultdict[str, list[Triple]] = defaultdict(list)
    for triple in triples:
        about[triple[0]].append(triple)
    kind = term("Subscription")
    roots = [name for name, found in about.items() if any((p, o) == (RDF_TYPE, kind) for _, p, o in found)]
    if not roots:
        raise UsageError(f"{path} describes no subscription", advice=f"Something must have the type {kind}.")
    return [_reachable(root, about) for root in sorted(roots)]


def _reachable(root: str, about: dict[str, list[Triple]]) -> list[Triple]:
    found: list[Triple] = []
    seen, waiting = {root}, [root]
    while waiting:
        own = about.get(waiting.pop(), [])
        found += own
        fresh = {o for _, _, o in own} - seen
        seen |= fresh
        waiting += sorted(fresh)
    return found


def _prefixes(pairs: Sequence[str]) -> dict[str, str]:
    wrong = next((pair for pair in pairs if "=" not in pair), None)
    if wrong is not None:
        raise UsageError(f"--prefix {wrong!r} is not NAME=IRI", advice="Write for example ex=http://example.org/#")
    return dict(pair.split("=", 1) for pair in pairs)


def _written(subscriptions: Sequence[Subscription], target: str, prefixes: dict[str, str]) -> str:
    if target == "motet":
        from motet.language.printer import to_text

        return to_text(subscriptions, prefixes)
    from motet.language.rdf import to_rdf

    lines = "".join(f"{s} {p} {o} .\n" for one in subscriptions for s, p, o in to_rdf(one))
    return lines if target == "ntriples" else _turtle(lines, prefixes)


def _turtle(lines: str, prefixes: dict[str, str]) -> str:
    import pyoxigraph

    from motet.language.rdf_writer import NAMESPACE
    from motet.model.terms import RDF, XSD

    triples = (quad.triple for quad in pyoxigraph.parse(lines, format=pyoxigraph.RdfFormat.N_TRIPLES))
    known = {"m": NAMESPACE, "rdf": RDF, "xsd": XSD, **prefixes}
    try:
        written = pyoxigraph.serialize(triples, format=pyoxigraph.RdfFormat.TURTLE, prefixes=known)
    except ValueError as error:
        raise UsageError(f"--prefix: {error}", advice="Write for example ex=http://example.org/#") from None
    assert written is not None  # only None when it is written to a file
    return written.decode()
