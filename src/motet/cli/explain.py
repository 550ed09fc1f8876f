"""`motet explain`: show the plan of subscriptions, or how a query over a lake is answered."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from motet.cli import output
from motet.cli.arguments import add_map_argument, add_ontology_files, add_syntax_argument, load_ontology, read_mapping
from motet.cli.query import add_history_arguments, complete_notifications, history_options
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.model.settings import Settings

HELP = "show the plan of subscriptions, or the SQL, zones and bytes of a query over a lake"
EXAMPLES = """\
  motet explain fire.motet
  motet explain fire.motet --lake building                 # with the lateness and the mappings of a lake
  motet explain pay.exmlql --syntax exmlql --events *.xml  # which operators and EVENTs are true over these events
  motet explain *.motet --json
  motet explain fire.motet --svg plan.svg
  motet explain fire.motet --dot | dot -Tpdf > plan.pdf
  motet explain --query 'SELECT ?e { ?e a <urn:Smoke> }' --lake building --from 2026-11-14T00:00:00Z
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="subscription files, planned together")
    parser.add_argument("--query", metavar="TEXT", help="a SPARQL query to explain instead of subscriptions")
    add_ontology_files(parser, "OWL or RDFS files, to find which subscriptions derived events feed")
    parser.add_argument(
        "--lake",
        metavar="DIR",
        help="the lake that is queried, or whose lateness decides when notifications come (5 s)",
    )
    parser.add_argument(
        "--events",
        nargs="+",
        metavar="FILE",
        help="event files: show instead which operators and EVENTs of each subscription are true over their events",
    )
    add_map_argument(parser)
    add_history_arguments(parser.add_argument_group("what an explained query sees"))
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, with times in microseconds")
    form.add_argument("--dot", action="store_true", help="print a graph for Graphviz")
    form.add_argument("--svg", metavar="FILE", help="write a drawing to this file")
    add_syntax_argument(parser)


def _settings(lake: str | None) -> Settings:
    """The settings of a lake, or those of a new one."""
    if lake is None:
        from motet.model.settings import Settings

        return Settings()
    from motet.lake import Lake

    return Lake.open(lake, create=False).snapshot().settings


def run(args: argparse.Namespace) -> int:
    if args.query is not None:
        return _explain_query(args)
    if not args.files:
        raise UsageError("nothing to explain", advice="Name subscription files, or give --query and --lake.")
    if any(value is not None for value in (args.as_of, args.span_from, args.span_to, args.entailment)):
        raise UsageError(
            "--as-of, --from, --to and --entailment are for queries", advice="Leave them out, or give --query."
        )
    from motet.jobs.subscription_files import load_subscriptions
    from motet.language.syntax import with_mappings
    from motet.model.control import entailment_of
    from motet.ontology.entailment import Entailment, Reasoner
    from motet.plan.builder import build_plan

    if args.events is not None:
        return _explain_over_events(args)
    if args.map is not None:
        raise UsageError("--map is for the documents of --events", advice="Leave it out, or give --events.")
    settings = _settings(args.lake)
    subscriptions = load_subscriptions(args.files, syntax=args.syntax)
    plan = build_plan([with_mappings(each, settings.mappings) for each in subscriptions])
    ontology = frozenset(load_ontology(args).triples)
    reasoner = Reasoner(ontology, Entailment(entailment_of(ontology)))
    if args.json:
        from motet.plan.explain import explain_json

        output.print_json(explain_json(plan, reasoner, settings=settings))
    elif args.dot:
        from motet.plan.drawing import as_dot

        print(as_dot(plan, reasoner), end="")
    elif args.svg is not None:
        from motet.plan.drawing import as_svg

        output.write_svg(args.svg, as_svg(plan, reasoner))
    else:
        from motet.plan.explain import explain_text

        print(explain_text(plan, reasoner, settings=settings), end="")
    return 0


def _explain_over_events(args: argparse.Namespace) -> int:
    """Print the composition trees of the subscriptions over the events of files."""
    from motet.jobs.run import compose, load_job

    if args.lake is not None or args.dot or args.svg is not None:
        raise UsageError(
            "--events shows composition trees, as text or with --json", advice="Leave out --lake, --dot and --svg."
        )
    job = load_job(
        args.files, args.events, ontology=load_ontology(args), syntax=args.syntax, mapping=read_mapping(args)
    )
    compositions, notifications = compose(job, output.Rejections(None))
    if args.json:
        output.print_json({"subscriptions": compositions.to_json(job.subscriptions, notifications)})
    else:
        print("\n".join(compositions.lines(job.subscriptions, notifications)).rstrip("\n"))
    return 0


def _explain_query(args: argparse.Namespace) -> int:
    if args.lake is None or args.files:
        raise UsageError("a query is explained on a lake", advice="Give --query and --lake, and no files.")
    if args.dot or args.svg is not None:
        raise UsageError("a query has no drawing", advice="Leave out --dot and --svg.")
    from motet.lake import Lake
    from motet.query.lake_query import explain_query

    lake = Lake.open(args.lake, create=False)
    explanation = explain_query(lake, args.query, history_options(args), lambda: complete_notifications(lake))
    if args.json:
        output.print_json(explanation.to_json())
    else:
        print(explanation.to_text(), end="")
    return 0
