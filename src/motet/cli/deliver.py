"""`motet deliver`: publish the notifications of a lake to subjects of a NATS server."""

from __future__ import annotations

import argparse
import time

from motet.cli import output
from motet.cli.shutdown import graceful_shutdown

HELP = "publish a lake's notifications to a NATS JetStream server"
EXAMPLES = """\
  motet deliver --lake building --nats nats://127.0.0.1:4222 --subject 'motet.{subscription}'
  motet deliver --lake building --nats nats://127.0.0.1:4222 --subject alarms --once --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lake", metavar="DIR", required=True, help="the lake whose notifications are delivered")
    add("--nats", metavar="URL", required=True, help="the server, such as nats://127.0.0.1:4222")
    add(
        "--subject",
        default="motet.{subscription}",
        help="the subject to publish to; {subscription} is replaced by the subscription's name (default: %(default)s)",
    )
    add("--consumer", metavar="NAME", help="the name of the cursor in the lake (default: nats:SUBJECT)")
    add("--once", action="store_true", help="deliver the notifications that the lake holds now, then stop")
    add("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.connectors.nats import SubjectSink, deliver
    from motet.lake import Lake

    lake = Lake.open(args.lake, create=False)
    consumer = args.consumer or f"nats:{args.subject}"
    delivered, started = 0, time.perf_counter()
    with graceful_shutdown() as stop_requested, output.status_line("delivering") as show:

        def on_delivered(count: int) -> None:
            nonlocal delivered
            delivered += count
            show(f"{delivered} notifications")

        sink = SubjectSink(args.nats, args.subject, consumer)
        deliver(
            lake, sink, on_delivered=on_delivered, report=output.warn, stop_requested=stop_requested, once=args.once
        )
    fields = {
        "delivered": delivered,
        "consumer": consumer,
        "cursor": lake.cursor(consumer),
        "seconds": round(time.perf_counter() - started, 3),
    }
    output.print_json(fields) if args.json else output.print_fields(fields)
    return 0
