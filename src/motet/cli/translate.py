"""`motet translate`: convert subscriptions between the surface syntaxes and RDF."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from motet.cli.arguments import add_prefix_argument, prefixes_of
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.language.comments import Comment
    from motet.language.syntax import Subscription

HELP = "convert subscriptions to another syntax, or to RDF, with their prefixes and comments"
EXAMPLES = """\
  motet translate --from jtang --to motet alarms.jtang
  motet translate --from motet --to turtle fire.motet > fire.ttl
  motet translate --from motet --to jtang alarms.motet --prefix ex=http://example.org/building#
  motet translate --from exmlql --to motet pay.exmlql
  motet translate --from exmlql --to xml-ql pay.exmlql
  motet translate --from rdf --to motet fire.ttl --prefix ex=http://example.org/building#
"""
SOURCES = ("motet", "sparql", "jtang", "cecube", "exmlql", "xml-ql", "rdf")
TARGETS = ("motet", "jtang", "cecube", "xml-ql", "turtle", "ntriples", "rdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="subscription files")
    add(
        "--from", dest="source", choices=SOURCES, default="motet", metavar="SYNTAX",
        help=f"the syntax of the files: {', '.join(SOURCES)} (rdf: any RDF format, by the file name); default: motet",
    )  # fmt: skip
    add(
        "--to", dest="target", choices=TARGETS, default="motet", metavar="SYNTAX",
        help=f"the syntax to write: {', '.join(TARGETS)} (rdf is turtle); default: motet. "
        "What jtang, cecube and xml-ql cannot express is refused.",
    )  # fmt: skip
    add_prefix_argument(parser, "shorten IRIs, as the prefixes that the files declare do; repeatable")


def run(args: argparse.Namespace) -> int:
    from motet.jobs.subscription_files import declared_prefixes, load_documents, load_rdf_subscriptions, rdf_prefixes

    comments: list[Comment] = []
    if args.source == "rdf":
        subscriptions, declared = load_rdf_subscriptions(args.files), rdf_prefixes(args.files)
    else:
        from motet.language.comments import read_comments

        documents = load_documents(args.files, syntax=args.source)
        subscriptions, declared = tuple(each for _, read, _ in documents for each in read), declared_prefixes(documents)
        for text, read, _ in documents:
            comments += read_comments(text, read, args.source)
    given = prefixes_of(args)
    prefixes = given | {name: iri for name, iri in declared.items() if name not in given}
    print(_with_comments(_to_text(subscriptions, args.target, prefixes), args.target, comments), end="")
    return 0


def _with_comments(text: str, target: str, comments: Sequence[Comment]) -> str:
    """The text with the comments of the files; in RDF they stand before everything else."""
    if not comments:
        return text
    if target in ("motet", "jtang", "cecube", "xml-ql"):
        from motet.language.comments import write_comments

        return write_comments(text, comments, target)
    names = (f"{comment.place[0]}: " if comment.place else "" for comment in comments)
    lines = [f"# {name}{comment.text[1:].strip()}\n" for name, comment in zip(names, comments, strict=True)]
    return "".join([*lines, "\n", text])


def _to_text(subscriptions: Sequence[Subscription], target: str, prefixes: dict[str, str]) -> str:
    if target == "motet":
        from motet.language.printer import to_text

        return to_text(subscriptions, prefixes)
    if target == "jtang":
        from motet.language.jtang_surface import to_jtang

        return to_jtang(subscriptions, prefixes)
    if target == "cecube":
        from motet.language.cecube_surface import to_cecube

        return to_cecube(subscriptions, prefixes)
    if target == "xml-ql":
        from motet.language.exmlql_surface import to_xml_ql

        return to_xml_ql(subscriptions, prefixes)
    from motet.language.rdf import to_rdf

    lines = "".join(f"{s} {p} {o} .\n" for subscription in subscriptions for s, p, o in to_rdf(subscription))
    return lines if target == "ntriples" else _turtle(lines, prefixes)


def _turtle(lines: str, prefixes: dict[str, str]) -> str:
    import pyoxigraph

    from motet.language.rdf import NAMESPACE
    from motet.model.terms import RDF, XSD

    triples = (quad.triple for quad in pyoxigraph.parse(lines, format=pyoxigraph.RdfFormat.N_TRIPLES))
    all_prefixes = {"m": NAMESPACE, "rdf": RDF, "xsd": XSD, **prefixes}
    try:
        turtle = pyoxigraph.serialize(triples, format=pyoxigraph.RdfFormat.TURTLE, prefixes=all_prefixes)
    except ValueError as error:
        raise UsageError(f"--prefix: {error}", advice="Write for example ex=http://example.org/#") from None
    assert turtle is not None, "serialize returns None only when it writes to a file"
    return turtle.decode()
