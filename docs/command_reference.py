"""Writes the reference of the `motet` command as Markdown, from the parsers of its subcommands."""

import argparse
from collections.abc import Iterator
from textwrap import dedent

from motet.cli.main import COMMANDS, make_parser


def command_reference() -> str:
    """One section per command: what it does, how it is called, its arguments and examples."""
    parser = make_parser(())
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return "\n".join(line for name in COMMANDS for line in section(name, commands.choices[name]))


def section(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## motet {name}\n\n{parser.description}\n\n```\n{parser.format_usage().removeprefix('usage: ')}```\n"
    yield from arguments(parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner, choice in action.choices.items():
                yield f"### motet {name} {inner}\n\n{choice.description or ''}\n"
                yield f"```\n{choice.format_usage().removeprefix('usage: ')}```\n"
                yield from arguments(choice)
    if parser.epilog:
        yield f"```\n{dedent(parser.epilog.removeprefix('examples:')).strip()}\n```\n"


def arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    """A table of the arguments, without --help."""
    shown = [
        action
        for action in parser._actions
        if action.help is not argparse.SUPPRESS
        and not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
    ]
    if shown:
        yield "| argument | meaning |\n|---|---|"
        yield from (f"| `{signature(action)}` | {text(action, parser)} |" for action in shown)
        yield ""


def signature(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices is not None:
        value = ", ".join(map(str, action.choices))
    if not action.option_strings:
        return str(value)
    return ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {value}")


def text(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    written = (action.help or "") % (vars(action) | {"prog": parser.prog}) if action.help else ""
    return written.replace("|", "\\|").replace("<", "&lt;")
