"""Pages of settings and of the command line, and `.env.example`, made from `retrieval/settings.py` and the parser.

`python docs/generators/settings_reference.py` writes `.env.example`; the pages are made when the site is built.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

PROJECT = Path(__file__).resolve().parents[2]
if str(PROJECT) not in sys.path:
    sys.path.insert(0, str(PROJECT))

from pydantic import SecretStr  # noqa: E402
from pydantic_settings import NoDecode  # noqa: E402

from local import cli  # noqa: E402
from retrieval import settings  # noqa: E402
from retrieval.settings import Settings  # noqa: E402

EXAMPLE_HEAD = """\
# Settings of the Retrieval Service. Copy this file to `.env` and remove the `#` before what you change; environment
# variables take precedence over the file. Every line shows the default; an empty one means "none". Lists are
# comma-separated, except RETRIEVAL_OIDC_ROLES, which is JSON. A secret may be given as a file: append _FILE to its
# name, and set it to the absolute path.
"""
SETTINGS_HEAD = """\
# Settings

Each process reads its settings once, at its start: from environment variables, from `.env` and from `retrieval.toml`,
in this order of precedence. Both files are in the project's directory; for an installed wheel they are in
`~/.local/share/retrieval-service`. `RETRIEVAL_CONFIG` names another `retrieval.toml`. A value that cannot be read ends
the process with a message that names the setting, never its value. Lists in variables are comma-separated, except
`RETRIEVAL_OIDC_ROLES`, which is JSON.

Each secret may be given as a file, as container platforms mount them: `RETRIEVAL_SECRET_KEY_FILE=/run/secrets/key`
instead of `RETRIEVAL_SECRET_KEY`, and so on. The path is absolute; white space around the content is dropped. Giving
both, or a file that is missing, empty or unreadable, ends the process.

In `retrieval.toml` a setting has its name without the prefix, in lower case. The start warns about a secret in it, by
its name, and about a name that is no setting:

```toml
api_port = 8001
ocr_languages = ["eng", "deu"]
database_url_file = "/etc/retrieval/database_url"

[endpoints.S3]
base_url = "https://minio.internal:9000"
```
"""
COMMANDS_HEAD = """\
# Command line

`make setup` installs the command as `.venv/bin/retrieval`. Exit codes: 0 done, 1 failed, 2 wrong usage or a wrong
setting, 3 something is not up or not ready (`status`, `ready`), 130 interrupted. `ingest` and `retry` print a line
for each document, and end with 1 also where only a part failed.
"""
KINDS = {
    bool: "`true` or `false`",
    int: "whole number",
    float: "number",
    Path: "path",
    SecretStr: "secret, or its file",
    str: "text",
    list: "list",
    dict: "JSON object",
}
JSON_LISTS = {
    name
    for name, field in Settings.model_fields.items()
    if isinstance(field.default, list) and NoDecode not in field.metadata
}
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most"}


def list_settings() -> dict[str, list[tuple[str, str]]]:
    """Return (field, description) of each setting by heading of the module."""
    source = Path(settings.__file__).read_text(encoding="utf-8")
    (body,) = [
        node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == "Settings"
    ]
    headings = {
        number: row[1]
        for number, line in enumerate(source.splitlines(), 1)
        if (row := re.fullmatch(r"    # (.+)", line))
    }
    sections: dict[str, list[tuple[str, str]]] = {}
    for field, docstring in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_setting(field.target.id):
            if not (isinstance(docstring, ast.Expr) and isinstance(docstring.value, ast.Constant)):
                message = f"retrieval/settings.py: {field.target.id} has no description"
                raise ValueError(message)
            heading = headings[max(number for number in headings if number < field.lineno)]
            description = " ".join(str(docstring.value.value).split())
            sections.setdefault(heading, []).append((field.target.id, description))
    return sections


def is_setting(name: str) -> bool:
    return name in Settings.model_fields


def format_default(field: str) -> str:
    """Return a default as an operator would write it; empty for none."""
    value = Settings.model_fields[field].default
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Path):
        return str(value.relative_to(PROJECT))
    if isinstance(value, list):
        return "[]" if field in JSON_LISTS else ",".join(str(entry) for entry in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def describe_values(field: str) -> str:
    """Return the type and bounds of a setting in words."""
    info = Settings.model_fields[field]
    kind: Any = next((k for k in get_args(info.annotation) if type(None) in get_args(info.annotation)), info.annotation)
    if get_origin(kind) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(kind))
    bounds = [
        f"{words} {getattr(constraint, name)}"
        for constraint in info.metadata
        for name, words in BOUNDS.items()
        if getattr(constraint, name, None) is not None
    ]
    return ", ".join([KINDS[get_origin(kind) or kind], *bounds])


def render_example() -> str:
    """Return the text of `.env.example`."""
    lines = [EXAMPLE_HEAD.rstrip()]
    for heading, fields in list_settings().items():
        lines += ["", f"# --- {heading} ---"]
        for field, description in fields:
            choice = get_origin(Settings.model_fields[field].annotation) is Literal
            values = f" Values: {describe_values(field).replace('`', '')}." if choice else ""
            lines += textwrap.wrap(description + values, 118, initial_indent="# ", subsequent_indent="# ",
                                   break_long_words=False, break_on_hyphens=False)  # fmt: skip
            lines.append(f"#RETRIEVAL_{field.upper()}={format_default(field)}")
    return "\n".join(lines) + "\n"


def render_settings() -> str:
    """Return the Markdown of the page of settings."""
    lines = [SETTINGS_HEAD]
    for heading, fields in list_settings().items():
        lines += [f"## {heading}", "", "| Setting | Default | Values | Meaning |", "|---|---|---|---|"]
        for field, description in fields:
            default = f"`{format_default(field)}`" if format_default(field) else "none"
            row = [f"`RETRIEVAL_{field.upper()}`", default, describe_values(field), description]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


class RecordingParser(argparse.ArgumentParser):
    """Parser with lists of arguments and commands, missing in argparse."""

    def __init__(self, **options: Any) -> None:
        self.arguments: list[argparse.Action] = []
        self.commands: RecordedCommands | None = None
        super().__init__(**options)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        self.arguments.append(super().add_argument(*names, **options))
        return self.arguments[-1]

    def add_subparsers(self, **options: Any) -> Any:
        self.commands = RecordedCommands(super().add_subparsers(**options), required=options.get("required", False))
        return self.commands


class RecordedCommands:
    """Commands of a parser by name, with description and parser."""

    def __init__(self, commands: Any, *, required: bool) -> None:
        self.required = required
        self.by_name: dict[str, tuple[str, RecordingParser]] = {}
        self._commands = commands

    def add_parser(self, name: str, *, help: str) -> RecordingParser:  # noqa: A002 - argparse's name
        parser: RecordingParser = self._commands.add_parser(name, help=help)
        self.by_name[name] = (help, parser)
        return parser


def list_commands(parser: RecordingParser, name: str, summary: str = "") -> Iterator[tuple[str, str, RecordingParser]]:
    """Yield name, description and parser of each complete command, including verbs."""
    if not parser.commands or not parser.commands.required:
        yield name, summary, parser
    if parser.commands:
        for verb, (description, subparser) in parser.commands.by_name.items():
            yield from list_commands(subparser, f"{name} {verb}", description)


def format_value(action: argparse.Action) -> str:
    return "{" + ",".join(action.choices) + "}" if action.choices else str(action.metavar or action.dest.upper())


def format_option(action: argparse.Action) -> str:
    return f"{action.option_strings[-1]} {format_value(action)}" if action.nargs != 0 else action.option_strings[-1]


def format_argument(action: argparse.Action) -> str:
    """Return a positional argument, in brackets if optional, with … if repeatable."""
    value = format_value(action)
    return {"?": f"[{value}]", "+": f"{value} […]", None: value}[action.nargs]  # type: ignore[index]


def render_commands() -> str:
    """Return the Markdown of the page of commands."""
    parser = cast("RecordingParser", cli.make_parser(RecordingParser))
    lines = [COMMANDS_HEAD]
    for name, summary, command in list_commands(parser, parser.prog):
        actions = [action for action in command.arguments if action.help != argparse.SUPPRESS and action.dest != "help"]
        arguments = [action for action in actions if not action.option_strings]
        options = [action for action in actions if action.option_strings]
        usage = [name, *(format_argument(action) for action in arguments)]
        usage += [format_option(action) if action.required else f"[{format_option(action)}]" for action in options]
        lines += [f"## {name}", "", f"{summary[0].upper()}{summary[1:]}.", "", "```text", " ".join(usage), "```", ""]
        rows = [
            "| `{}` | {} |".format(format_argument(action).replace("|", "\\|"), action.help) for action in arguments
        ]
        rows += [f"| `{format_option(action)}` | {action.help} |" for action in options]
        lines += ["| Argument or option | Meaning |", "|---|---|", *rows, ""] if rows else []
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    (PROJECT / ".env.example").write_text(render_example(), encoding="utf-8")
