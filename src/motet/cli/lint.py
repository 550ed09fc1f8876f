"""`motet lint`: subscriptions that never match, repeat others, hold much state, or look like a slip."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING

from motet.cli import output

if TYPE_CHECKING:
    from motet.lint.findings import Finding

HELP = "find subscriptions that never match, repeat others, hold much state or look like a slip (status 1: never match)"
EXAMPLES = """\
  motet lint fire.motet
  motet lint *.motet --ontology building.ttl
  motet lint fire.motet --json

status: 1 when a subscription can never match, 0 with only warnings and hints
equal subscriptions are always found, covered ones among up to 200
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="subscription files; they are compared with each other"
    )
    parser.add_argument("--ontology", nargs="+", metavar="FILE", default=[], help="OWL or RDFS files to check against")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--syntax", default="motet", metavar="NAME", help="how the files are written; default: motet")


def run(args: argparse.Namespace) -> int:
    from motet.jobs.subscription_files import load_documents
    from motet.lint.findings import Severity
    from motet.lint.lint import Document, lint
    from motet.ontology.load import load

    documents = [Document(*document) for document in load_documents(args.files, syntax=args.syntax)]
    findings = lint(documents, load(args.ontology) if args.ontology else None)
    if args.json:
        output.print_json([finding.to_json() for finding in findings])
    else:
        _show(findings, sum(len(document.subscriptions) for document in documents))
    return 1 if any(finding.severity is Severity.ERROR for finding in findings) else 0


def _show(findings: tuple[Finding, ...], subscriptions: int) -> None:
    for finding in findings:
        print(f"{finding}\n")
    counts = Counter(finding.severity.value for finding in findings)
    said = ", ".join(f"{counts[name]} {name}{'s' * (counts[name] != 1)}" for name in ("error", "warning", "hint"))
    print(f"{subscriptions} subscription{'s' * (subscriptions != 1)}: {said if findings else 'nothing to remark'}")
