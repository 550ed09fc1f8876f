"""`motet lint`: report subscriptions that never match, are redundant, need much state, or look like a mistake."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING

from motet.cli import output
from motet.cli.arguments import add_ontology_files, add_syntax_argument, load_ontology

if TYPE_CHECKING:
    from motet.lint.diagnostics import LocatedDiagnostic

HELP = "report subscriptions that never match, are redundant, need much state or look like a mistake"
EXAMPLES = """\
  motet lint fire.motet
  motet lint *.motet --ontology building.ttl
  motet lint fire.motet --json

status: 1 when a subscription can never match, 0 with only warnings and hints
equal subscriptions are always reported, contained ones among up to 200
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="subscription files, compared with each other")
    add_ontology_files(parser, "OWL or RDFS files to check the subscriptions against")
    add("--json", action="store_true", help="print the diagnostics as JSON")
    add_syntax_argument(parser)


def run(args: argparse.Namespace) -> int:
    from motet.jobs.subscription_files import load_documents
    from motet.lint.diagnostics import Severity
    from motet.lint.lint import SubscriptionDocument, lint

    documents = [SubscriptionDocument(*document) for document in load_documents(args.files, syntax=args.syntax)]
    diagnostics = lint(documents, load_ontology(args) if args.ontology else None)
    if args.json:
        output.print_json([diagnostic.to_json() for diagnostic in diagnostics])
    else:
        _show(diagnostics, sum(len(document.subscriptions) for document in documents))
    return 1 if any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics) else 0


def _show(diagnostics: tuple[LocatedDiagnostic, ...], subscriptions: int) -> None:
    for diagnostic in diagnostics:
        print(f"{diagnostic}\n")
    counts = Counter(diagnostic.severity.value for diagnostic in diagnostics)
    summary = ", ".join(f"{counts[name]} {name}{'s' * (counts[name] != 1)}" for name in ("error", "warning", "hint"))
    print(f"{subscriptions} subscription{'s' * (subscriptions != 1)}: {summary if diagnostics else 'no diagnostics'}")
