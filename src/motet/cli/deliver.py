"""`motet deliver`: the notifications of a lake to subjects of a NATS server."""

from __future__ import annotations

import argparse
import time

from motet.cli import output
from motet.cli.stopping import until_asked_to_stop

HELP = "publish a lake's notifications to a NATS JetStream server"
EXAMPLES = """\
  motet deliver --lake building --nats nats://127.0.0.1:4222 --subject 'motet.{subscription}'
  motet deliver --lake building --nats nats://127.0.0.1:4222 --subject alarms --once --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lake", metavar="DIR", required=True)
    parser.add_argument("--nats", metavar="URL", required=True, help="the server, such as nats://127.0.0.1:4222")
    parser.add_argument(
        "--subject",
        default="motet.{subscription}",
        help="where to; {subscription} is the subscription's name (default: %(default)s)",
    )
    parser.add_argument("--consumer", metavar="NAME", help="the cursor in the lake (default: nats:SUBJECT)")
    parser.add_argument("--once", action="store_true", help="stop when everything there is has been delivered")
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.connectors.nats import Subjects, deliver
    from motet.lake import Lake

    lake = Lake.open(args.lake, create=False)
    consumer = args.consumer or f"nats:{args.subject}"
    delivered, started = 0, time.perf_counter()
    with until_asked_to_stop() as asked, output.counting("delivering") as show:

        def told(count: int) -> None:
            nonlocal delivered
            delivered += count
            show(f"{delivered} notifications")

        subjects = Subjects(args.nats, args.subject, consumer)
        deliver(lake, subjects, told=told, say=output.complain, stopped=asked.is_set, once=args.once)
    facts = {
        "delivered": delivered,
        "consumer": consumer,
        "cursor": lake.cursor(consumer),
        "seconds": round(time.perf_counter() - started, 3),
    }
    output.print_json(facts) if args.json else output.print_facts(facts)
    return 0
