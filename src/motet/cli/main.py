"""The entry point of the `motet` command: finds the subcommand, runs it, and turns errors into exit statuses.

Status 0: success. 1: the command failed, or events were rejected. 2: its arguments were wrong and nothing was done.
3: with `--strict`, events were late, rejected or in conflict. 130: interrupted.
Subcommand modules import heavy libraries inside functions, so that `--help` is printed at once.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

from motet import __version__
from motet.cli.arguments import copy_standard_input
from motet.model.errors import MotetError, UsageError, require_extra

COMMANDS = (
    "demo", "run", "publish", "ingest", "subscribe", "unsubscribe", "subscriptions", "notifications", "background",
    "retract", "stream", "rescale", "submit", "replay", "diff", "verify", "lint", "translate", "explain", "why",
    "why-not", "query", "export", "deliver", "inspect", "tick", "settings", "compact", "upgrade", "ontology", "fuzz",
    "simulate", "reproduce", "overlay", "doctor",
)  # fmt: skip
ON_SPARK = (
    "demo",
    "stream",
    "rescale",
    "submit",
    "fuzz",
    "doctor",
)  # commands that may use Spark without an argument that says so


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    is_program = arguments is None
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    args = make_parser(arguments).parse_args(arguments)
    is_embedded = getattr(args, "engine", None) == "embedded"
    if is_program and (is_embedded or (args.command not in ON_SPARK and getattr(args, "engine", None) != "spark")):
        sys.meta_path.insert(0, _NoPandas())
    try:
        _require_extras(args)
        copy_standard_input(args)
        return int(args.run(args))
    except MotetError as error:
        print(f"motet {args.command}: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        print(f"motet {args.command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output (head, less) has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _require_extras(args: argparse.Namespace) -> None:
    """Refuse a command before it does anything if its engine or its source is not installed."""
    engine = getattr(args, "engine", None)
    if args.command == "stream" and engine == "spark":
        require_extra("spark", "`motet stream`", alternative="use --engine embedded")
    elif args.command == "rescale":
        require_extra("spark", "`motet rescale`")
    elif engine in ("spark", "spark-stream"):
        require_extra("spark", f"`motet {args.command} --engine {engine}`", alternative="use --engine embedded")
    if getattr(args, "metrics_port", None) is not None:
        require_extra("metrics", f"`motet {args.command} --metrics-port`")
    if getattr(args, "nats", None) is not None:
        require_extra("nats", f"`motet {args.command}` with a NATS server")


class _NoPandas(MetaPathFinder):
    """Hides pandas, which Arrow would import with its first array, in 0.2 s."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def make_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the command line; with a command in the arguments only that command's module is imported."""
    parser = argparse.ArgumentParser(
        prog="motet",
        description="A semantic event cloud: publish RDF or XML events, subscribe to patterns of what they mean.",
        epilog="Try `motet demo` first; `motet COMMAND --help` shows examples.",
    )
    parser.add_argument("--version", action="version", version=f"motet {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    requested = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name in [requested] if requested in COMMANDS else COMMANDS:
        _add_command(commands, name, importlib.import_module(f"motet.cli.{name.replace('-', '_')}"))
    return parser


def _add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, module: ModuleType) -> None:
    command = commands.add_parser(
        name,
        help=module.HELP,
        description=module.HELP[0].upper() + module.HELP[1:] + ".",
        epilog=f"examples:\n{module.EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(command)
    command.set_defaults(run=module.run)


if __name__ == "__main__":
    sys.exit(main())
