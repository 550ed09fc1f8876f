"""`motet explain`: show the plan of subscriptions: shared nodes, state, partitioning and matching."""

from __future__ import annotations

import argparse

from motet.cli import output
from motet.cli.arguments import add_ontology_files, add_syntax_argument, load_ontology

HELP = "show the plan of subscriptions: shared nodes, state, partitioning and index lookups"
EXAMPLES = """\
  motet explain fire.motet
  motet explain *.motet --json
  motet explain fire.motet --svg plan.svg
  motet explain fire.motet --dot | dot -Tpdf > plan.pdf
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="subscription files, planned together")
    add_ontology_files(parser, "OWL or RDFS files, to find which subscriptions derived events feed")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, with times in microseconds")
    form.add_argument("--dot", action="store_true", help="print a graph for Graphviz")
    form.add_argument("--svg", metavar="FILE", help="write a drawing to this file")
    add_syntax_argument(parser)


def run(args: argparse.Namespace) -> int:
    from motet.jobs.subscription_files import load_subscriptions
    from motet.model.control import entailment_of
    from motet.ontology.entailment import Entailment, Reasoner
    from motet.plan.builder import build_plan

    plan = build_plan(load_subscriptions(args.files, syntax=args.syntax))
    ontology = frozenset(load_ontology(args).triples)
    reasoner = Reasoner(ontology, Entailment(entailment_of(ontology)))
    if args.json:
        from motet.plan.explain import explain_json

        output.print_json(explain_json(plan, reasoner))
    elif args.dot:
        from motet.plan.drawing import as_dot

        print(as_dot(plan, reasoner), end="")
    elif args.svg is not None:
        from motet.plan.drawing import as_svg

        output.write_svg(args.svg, as_svg(plan, reasoner))
    else:
        from motet.plan.explain import explain_text

        print(explain_text(plan, reasoner), end="")
    return 0
