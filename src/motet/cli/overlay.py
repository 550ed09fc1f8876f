"""`motet overlay`: run a network of nodes on this machine, look at it, and make certificates."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motet.cli import output
from motet.model.errors import MotetError, UsageError, require_extra

if TYPE_CHECKING:
    from motet.overlay.net.local_network import AddressBook, BookEntry, LocalNetwork, RouteKey
    from motet.overlay.net.node_directory import NodeDirectory, NodeSettings

HELP = "run a network of overlay nodes, look at it, and make the certificates of its members"
EXAMPLES = """\
  motet overlay up --nodes 8                         # until Ctrl-C; 8 processes that know each other
  motet overlay status                               # in another terminal
  motet overlay route building/7 --json              # the node responsible for a key, and the hops to it
  motet overlay up --protocol can --dimensions 2     # a CAN instead of a ring
  motet overlay route building 7                     # the peer whose zone has a point
  motet overlay run churn.yaml --speed 20            # a scenario of `motet simulate`, on processes
  motet overlay keys --directory keys --member 10.0.0.5:4711 --operator
  motet overlay node --directory keys/members/10.0.0.5_4711 --address 10.0.0.5:4711 --network lab --begin
"""
DIRECTORY = "motet-overlay"
MAX_NODES = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    up = _add_action(actions, "up", _up, "start a network of processes on this machine, until Ctrl-C")
    up.add_argument("--nodes", type=int, metavar="N", help="number of nodes (default: 8, or those that are there)")
    up.add_argument("--plain", action="store_true", help="without TLS: anybody on this machine can connect")
    _add_protocol(up)
    status = _add_action(actions, "status", _status, "print the state of each node of a network")
    route = _add_action(actions, "route", _route, "find the node responsible for a key, and the hops to it")
    route.add_argument(
        "key",
        metavar="KEY",
        nargs="+",
        help="a text, whose hash is the key, or 0x and 32 hexadecimal digits; in a CAN a coordinate for each dimension",
    )
    route.add_argument("--picture", metavar="FILE", help="draw the network and the way into a file (SVG or PNG)")
    route.add_argument("--from", dest="start", metavar="NODE", help="name or address (default: the first that answers)")
    for action in (up, status, route):
        action.add_argument(
            "--directory", default=DIRECTORY, metavar="DIR", help=f"the network's directory (default: {DIRECTORY})"
        )
    scenario = _add_action(actions, "run", _run_scenario, "run a scenario of `motet simulate` on processes")
    scenario.add_argument("scenario", metavar="FILE", help="YAML or JSON, as for `motet simulate`")
    scenario.add_argument("--seed", type=int, default=1, metavar="N", help="for lookups and choices (default: 1)")
    scenario.add_argument("--speed", type=float, default=10, metavar="X", help="of the nodes' clocks (default: 10)")
    scenario.add_argument("--plain", action="store_true", help="without TLS")
    scenario.add_argument(
        "--directory", metavar="DIR", help="keep the nodes' directories and logs here (default: they are deleted)"
    )
    keys = _add_action(actions, "keys", _keys, "make a certificate authority, and certificates of members")
    keys.add_argument("--directory", required=True, metavar="DIR", help="where the authority is, or is made")
    keys.add_argument(
        "--member", action="append", default=[], metavar="HOST:PORT", help="a member by its address; repeatable"
    )
    keys.add_argument("--operator", action="store_true", help="also make an operator's certificate")
    keys.add_argument("--days", type=int, default=365, metavar="N", help="validity of the certificates (default: 365)")
    keys.add_argument("--renew", action="store_true", help="replace certificates that are there")
    for action in (up, status, route, scenario, keys):
        action.add_argument("--json", action="store_true", help="print JSON")
    node = _add_action(actions, "node", _node, "run one node, until Ctrl-C or SIGTERM")
    node.add_argument("--directory", required=True, metavar="DIR", help="the node's directory, with its certificate")
    node.add_argument("--address", metavar="HOST:PORT", help="of the node; needed the first time")
    node.add_argument("--network", metavar="NAME", help="of the network; needed the first time")
    node.add_argument(
        "--contact", action="append", default=[], metavar="HOST:PORT", help="a node to join by; repeatable"
    )
    node.add_argument("--plain", action="store_true", help="without TLS, on this machine only")
    _add_protocol(node)
    node.add_argument("--begin", action="store_true", help="begin a new overlay instead of joining one")
    node.add_argument("--follow-input", action="store_true", help="stop at the end of standard input")
    node.add_argument("--listener", type=int, help=argparse.SUPPRESS)  # an inherited socket


def _add_protocol(action: argparse.ArgumentParser) -> None:
    action.add_argument("--protocol", choices=["pastry", "can"], help="of the network (default: pastry)")
    action.add_argument("--dimensions", type=int, metavar="N", help="of the space of a CAN (default: 4)")


def _add_action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    act: Callable[[argparse.Namespace], int],
    help_: str,
) -> argparse.ArgumentParser:
    action = actions.add_parser(name, help=help_, description=help_[0].upper() + help_[1:] + ".")
    action.set_defaults(act=act)
    return action


def run(args: argparse.Namespace) -> int:
    require_extra("overlay", "`motet overlay`")
    return int(args.act(args))


def _up(args: argparse.Namespace) -> int:
    from motet.overlay.net.local_network import AddressBook, LocalNetwork
    from motet.overlay.net.node_directory import NodeSettings

    directory = Path(args.directory)
    if args.nodes is not None and not 1 <= args.nodes <= MAX_NODES:
        raise UsageError(f"--nodes must be between 1 and {MAX_NODES}, not {args.nodes}")
    book = AddressBook(directory) if (directory / "network.json").exists() else None
    if book is None and directory.exists() and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty and is no network's", advice="Choose another --directory.")
    protocol, dimensions = _protocol(args, book)
    settings = NodeSettings(address="", network="", is_plain=args.plain, protocol=protocol, dimensions=dimensions)
    network = LocalNetwork.create(directory, args.nodes or (len(book.entries) if book else 8), settings)
    return asyncio.run(_serve(network, args))


def _protocol(args: argparse.Namespace, present: AddressBook | NodeSettings | None) -> tuple[str, int]:
    """The protocol and the dimensions that are asked for, else those that are there, else the defaults."""
    from motet.overlay.sim.scenario import CAN, PASTRY, parse_setting

    protocol = args.protocol or (present.protocol if present else PASTRY)
    if args.dimensions is None:
        return protocol, present.dimensions if present else 4
    if protocol != CAN:
        raise UsageError("--dimensions is for a CAN", advice="Add --protocol can, or omit it.")
    return protocol, parse_setting("dimensions", args.dimensions, "the option")


async def _serve(network: LocalNetwork, args: argparse.Namespace) -> int:
    """Start the network, print its nodes, and stop it on a signal; a node that ends by itself is reported."""
    stop_requested = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop_requested.set)
    serving = asyncio.create_task(_start_and_watch(network, args))
    stopping = asyncio.create_task(stop_requested.wait())
    try:
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            await serving
        else:
            serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await serving
    finally:
        stopping.cancel()
        await network.stop()
        output.warn("stopped")
    return 0


async def _start_and_watch(network: LocalNetwork, args: argparse.Namespace) -> None:
    entries = network.book.entries
    with output.record_progress("nodes that have joined", len(entries)) as advance:
        await network.start(lambda name, event: advance(1) if event == "joined" else None)
    rows = [(entry.name, entry.address, network.processes[entry.name].pid) for entry in entries]
    if args.json:
        nodes = [dict(zip(("name", "address", "pid"), row, strict=True)) for row in rows]
        output.print_json({"directory": str(network.book.path), "network": network.book.network, "nodes": nodes})
    else:
        output.print_table([(*row[:2], str(row[2])) for row in rows], headers=["node", "address", "process"])
    output.warn(f"{len(entries)} nodes have joined; Ctrl-C stops them. Try: motet overlay status{_option(args)}")
    while network.processes:
        name = await network.wait_for_end()
        log_path = network.book.node_directory(network.book.entry(name)).log_path
        output.warn(f"{name} has ended; the others go on. Its log is {log_path}")


def _option(args: argparse.Namespace) -> str:
    return "" if args.directory == DIRECTORY else f" --directory {args.directory}"


def _status(args: argparse.Namespace) -> int:
    from motet.overlay.net.local_network import AddressBook

    book = AddressBook(Path(args.directory))
    states = asyncio.run(_states(book))
    if args.json:
        output.print_json({"network": book.network, "is_plain": book.is_plain, "nodes": states})
    else:
        headers, facts = STATUS_COLUMNS[book.protocol]
        headers = [*headers, "peers"]
        rows = [_status_row(state, len(headers), facts) for state in states]
        output.print_table(rows, headers=["node", "address", "process", "state", *headers])
        for state in states:
            if "error" in state:
                output.warn(f"{state['name']}: {state['error']}")
            for name, reason in state.get("cut_off", {}).items():
                output.warn(f"{state['name']} has cut off {name}: {reason}")
    return 0 if all("error" not in state for state in states) else 1


async def _states(book: AddressBook) -> list[dict[str, Any]]:
    credentials = book.credentials()

    async def state(entry: BookEntry) -> dict[str, Any]:
        facts: dict[str, Any] = {"name": entry.name, "address": entry.address}
        try:
            async with book.operate(entry.address, credentials) as operator:
                return facts | await operator.request("place") | await operator.request("status")
        except MotetError as error:
            return facts | {"error": error.message}

    return await asyncio.gather(*map(state, book.entries))


STATUS_COLUMNS: dict[str, tuple[list[str], Callable[[dict[str, Any]], list[object]]]] = {
    "pastry": (["leaves"], lambda state: [len(state["leaves"])]),
    "can": (
        ["share", "neighbours", "values"],
        lambda state: [f"{state['share']:.2%}", len(state["neighbours"]), state["values"]],
    ),
}
"""By protocol, what `status` prints of a node's place, and how it is read: the share is that of the space."""


def _status_row(state: dict[str, Any], columns: int, facts: Callable[[dict[str, Any]], list[object]]) -> list[object]:
    if "error" in state:
        return [state["name"], state["address"], None, "no answer", *[None] * columns]
    peers = state["network"].get("peers connected", 0)
    return [state["name"], state["address"], str(state["pid"]), state["state"], *facts(state), peers]


def _route(args: argparse.Namespace) -> int:
    from motet.overlay.net.local_network import AddressBook, text_of_key, trace_route
    from motet.overlay.protocol.identifiers import format_identifier, identifier_of
    from motet.overlay.sim.drawing import check_picture, write_picture

    book = AddressBook(Path(args.directory))
    key = _key(args.key, book)
    if args.picture:
        check_picture(Path(args.picture))
    start = book.entry(args.start) if args.start else _first_that_answers(book)
    route, answer = asyncio.run(trace_route(book, key, start))
    names = {entry.address: entry.name for entry in book.entries}
    if args.picture:
        write_picture(Path(args.picture), _picture_of(book, key, route))
    if args.json:
        responsible = {"name": names.get(answer.address), "address": answer.address}
        facts: dict[str, Any] = {"key": args.key}
        if isinstance(key, int):
            facts = {"key": args.key[0], "identifier": format_identifier(key)}
            responsible["identifier"] = format_identifier(identifier_of(answer.address))
        facts["hops"] = [{"name": names.get(address), "address": address} for address in route]
        output.print_json(facts | {"responsible": responsible, "milliseconds": answer.milliseconds})
        return 0
    rows = [("start" if n == 0 else f"hop {n}", names.get(address), address) for n, address in enumerate(route)]
    output.print_table(rows, headers=["", "node", "address"])
    what = "a key" if isinstance(key, int) else "a point"
    owner = names.get(answer.address) or answer.address
    print(f"{text_of_key(key)} is {what} of {owner}; a lookup took {answer.milliseconds:.1f} ms")
    return 0


def _picture_of(book: AddressBook, key: RouteKey, route: list[str]) -> str:
    """The nodes that answer, and the way of a key: on the ring with the leaf set at its end, or through the zones."""
    from motet.overlay.net.overlay_kinds import zones_of
    from motet.overlay.protocol.identifiers import identifier_of
    from motet.overlay.protocol.zones import Space
    from motet.overlay.sim.drawing import draw_ring, draw_zones

    states = {state["address"]: state for state in asyncio.run(_states(book)) if "error" not in state}
    names = {entry.address: entry.name for entry in book.entries}
    if not isinstance(key, int):
        zones = {names[address]: zones_of(state["zones"]) for address, state in states.items()}
        loads = {names[address]: float(state["values"]) for address, state in states.items()}
        return draw_zones(
            Space(book.dimensions), zones, loads=loads, path=[names[address] for address in route if address in states]
        )
    return draw_ring(
        map(identifier_of, {*states, *route}),
        node=identifier_of(route[-1]),
        leaves=map(identifier_of, states.get(route[-1], {}).get("leaves", ())),
        route=list(map(identifier_of, route)),
        key=key,
        names={identifier_of(address): names.get(address, address) for address in [*states, *route]},
    )


def _key(texts: list[str], book: AddressBook) -> RouteKey:
    """The key that the arguments name: a point of a CAN, or one text for a ring."""
    from motet.overlay.protocol.identifiers import identifier_of

    if book.protocol == "can":
        if len(texts) != book.dimensions:
            raise UsageError(
                f"a point has {book.dimensions} coordinates, not {len(texts)}",
                advice='Write one for each dimension; "" is the lowest.',
            )
        return tuple(texts)
    if len(texts) > 1:
        raise UsageError(f"{len(texts)} keys; the network is a ring", advice="Put a key with spaces in quotes.")
    (text,) = texts
    if not text.startswith("0x"):
        return identifier_of(text)
    try:
        if len(text) == 34:
            return int(text, 16)
    except ValueError:
        pass
    raise UsageError(f"{text!r} is no key", advice="Write 0x and 32 hexadecimal digits, or any other text.")


def _first_that_answers(book: AddressBook) -> BookEntry:
    states = asyncio.run(_states(book))
    for entry, state in zip(book.entries, states, strict=True):
        if "error" not in state:
            return entry
    raise UsageError(
        f"no node of {book.path} answers: {states[0]['error'] if states else 'the address book is empty'}",
        advice="Start them with `motet overlay up`.",
    )


def _run_scenario(args: argparse.Namespace) -> int:
    from motet.overlay.net.scenario_processes import make_process_run
    from motet.overlay.sim.scenario import load_scenario

    scenario = load_scenario(Path(args.scenario))
    if not 0.1 <= args.speed <= 100:
        raise UsageError(f"--speed must be between 0.1 and 100, not {args.speed:g}")
    with contextlib.ExitStack() as stack:
        show = stack.enter_context(output.status_line(args.scenario))
        path = Path(args.directory or stack.enter_context(tempfile.TemporaryDirectory(prefix="motet-overlay-")))
        run = make_process_run(scenario, path, seed=args.seed, speed=args.speed, is_plain=args.plain)
        result = asyncio.run(run.run(show))
    facts = {"violations": list(result.violations), "seconds": round(result.seconds, 1), **result.figures}
    if args.json:
        output.print_json(facts)
    else:
        output.print_fields(facts | {"violations": len(result.violations)})
        for violation in result.violations:
            print(f"violated: {violation}")
    return 1 if result.violations else 0


def _keys(args: argparse.Namespace) -> int:
    from motet.overlay.net.certificates import CertificateAuthority, split_address

    directory = Path(args.directory)
    for address in args.member:
        split_address(address)
    if args.days < 1:
        raise UsageError(f"--days must be at least 1, not {args.days}")
    is_new = not (directory / "authority.pem").exists()
    authority = CertificateAuthority(directory)
    rows: list[tuple[str, str, str]] = [("authority", "made" if is_new else "unchanged", str(directory))]
    for address in args.member:
        path = directory / "members" / address.replace(":", "_")
        is_kept = (path / "certificate.pem").exists() and not args.renew
        if not is_kept:
            authority.issue_member(address, path, days=args.days)
        rows.append((address, "unchanged" if is_kept else "made", str(path)))
    if args.operator:
        path = directory / "operator"
        is_kept = (path / "certificate.pem").exists() and not args.renew
        if not is_kept:
            authority.issue_operator(path, days=args.days)
        rows.append(("operator", "unchanged" if is_kept else "made", str(path)))
    if args.json:
        output.print_json([dict(zip(("name", "state", "directory"), row, strict=True)) for row in rows])
    else:
        output.print_table(rows, headers=["for", "", "directory"])
    return 0


def _node(args: argparse.Namespace) -> int:
    from motet.overlay.net.node_directory import NodeDirectory
    from motet.overlay.net.node_process import run_node

    directory = NodeDirectory(Path(args.directory))
    if args.address or args.network or args.contact or args.plain or args.protocol or args.dimensions is not None:
        _change_settings(directory, args)
    return run_node(directory, begins=args.begin, listener=args.listener, follows_input=args.follow_input)


def _change_settings(directory: NodeDirectory, args: argparse.Namespace) -> None:
    """Write what the arguments say into a node's directory, if it agrees with the certificate there."""
    from motet.overlay.net.certificates import load_credentials, split_address
    from motet.overlay.net.connection import require_loopback_or_tls
    from motet.overlay.net.node_directory import NodeSettings
    from motet.overlay.net.transport import require_own_certificate

    present = directory.settings() if (directory.path / "node.json").exists() else None
    address = args.address or (present and present.address)
    network = args.network or (present and present.network)
    if not address or not network:
        raise UsageError(f"{directory.path} is not a node's yet", advice="Name its --address and its --network.")
    contacts = tuple(args.contact) or (present.contacts if present else ())
    is_plain = args.plain or (present is not None and present.is_plain)
    for contact in (address, *contacts):
        if not split_address(contact)[1]:
            raise UsageError(f"{contact} has no port", advice="Write HOST:PORT with the port that the node uses.")
    credentials = None if is_plain else load_credentials(directory.path)
    require_loopback_or_tls(address, credentials)
    require_own_certificate(address, credentials)
    protocol, dimensions = _protocol(args, present)
    settings = present or NodeSettings(address=address, network=network, is_plain=is_plain)
    settings = replace(settings, address=address, network=network, is_plain=is_plain, contacts=contacts)
    directory.create(replace(settings, protocol=protocol, dimensions=dimensions))
