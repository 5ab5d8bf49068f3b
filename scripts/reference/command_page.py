"""The command line: every command with its arguments and options, from typer."""

from __future__ import annotations

import re
from collections.abc import Iterator

import typer
from markdown_text import anchor, cell, inline, joined, table, with_stop
from typer.core import TyperCommand, TyperGroup

from zerofleet.cli import app

HEAD = """# Command line

Every command prints its help with `-h`.
A mistake in what you typed exits with status 2, a failed service with status 1.
This page is generated from the commands by `scripts/reference`.
"""


def render() -> str:
    """Return the page: a list of the commands, then a section for each."""
    overview = table(
        ("Command", "What it does"),
        (
            (f"[`zerofleet {name}`](#{anchor(f'zerofleet {name}')})", cell(_first(command)))
            for name, command in commands()
        ),
    )
    return joined([HEAD, overview, *(_section(name, each) for name, each in commands())])


def commands() -> Iterator[tuple[str, TyperCommand]]:
    """Yield the commands by name, in the order of the help."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert isinstance(command, TyperCommand)
        yield name, command


def _first(command: TyperCommand) -> str:
    return inline((command.help or "").partition("\n\n")[0])


def _section(name: str, command: TyperCommand) -> str:
    context = typer.Context(command, info_name=f"zerofleet {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"## zerofleet {name}\n", f"```sh\nzerofleet {name} {usage}\n```\n"]
    parts += [f"{_prose(each)}\n" for each in (command.help or "").split("\n\n")]
    if command.epilog:
        parts += [f"{_prose(each)}\n" for each in command.epilog.split("\n\n")]
    records = [each.get_help_record(context) for each in command.params]
    rows = [_row(*record) for record in records if record is not None]
    parts.append(table(("Argument or option", "Default", "Meaning"), rows))
    return joined(parts)


def _prose(paragraph: str) -> str:
    """Return a paragraph of a help text; one that begins with a backspace keeps its lines."""
    if paragraph.startswith("\b"):
        return f"```text\n{paragraph[1:].strip()}\n```"
    return inline(paragraph)


def _row(names: str, meaning: str) -> tuple[str, str, str]:
    """Return the row of a parameter, from the two columns that its help has."""
    words, _, notes = meaning.partition("  [")
    default, limits, variable = "", "", ""
    for note in filter(None, notes.removesuffix("]").split("; ")):
        key, colon, value = note.partition(": ")
        if note == "required":
            default = note
        elif colon and key == "default":
            default = f"`{value}`"
        elif colon and key == "env var":
            variable = f" Also set by `{value}`."
        else:
            least, most = re.match(r"(?:(\d+)<=)?x(?:>=(\d+)|<=(\d+))?", note).group(1, 3)
            limits = f" From {least} to {most}." if most else f" At least {note[3:]}."
    if match := re.fullmatch(r"(.+) \[([^]]+)\]\.?", words):
        words, default = match[1], default or cell(match[2])
    names = names.replace("|", ",").replace("<int range>", "<integer>").replace("<str>", "<text>")
    names = ", ".join(f"`{name}`" for name in re.split(r", (?=-)| / ", names))
    return names, default, with_stop(cell(words)) + limits + variable
