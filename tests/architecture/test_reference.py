"""Settings and commands are described once, in the code: `.env.example` and docs/reference/ are written from there.

`python tests/architecture/test_reference.py --write` writes them.
"""

import argparse
import ast
import re
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args, get_origin

PROJECT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(PROJECT))

import pytest  # noqa: E402
from pydantic import SecretStr  # noqa: E402

from local import cli  # noqa: E402
from retrieval import settings  # noqa: E402
from retrieval.settings import Settings  # noqa: E402

EXAMPLE_HEAD = """\
# Settings of the Retrieval Service. Copy this file to `.env` and remove the `#` before what you change; environment
# variables take precedence over the file. Every line shows the default; an empty one means "none". Lists are JSON.
# A secret may be given as a file: append _FILE to its name, and set it to the absolute path.
"""
SETTINGS_HEAD = """\
# Settings

Read once, at the start of each process, from environment variables and from `.env` in the project's directory, where
environment variables take precedence. Lists are JSON unless said otherwise. A value that cannot be read ends the
process with a sentence that names the setting, never its value.

Each secret may be given as a file, as container platforms mount them: `RETRIEVAL_SECRET_KEY_FILE=/run/secrets/key`
instead of `RETRIEVAL_SECRET_KEY`, and so on. The path is absolute; white space around the content is dropped. Giving
both, or a file that is missing, empty or unreadable, ends the process.

This page is generated from `retrieval/settings.py`.
"""
COMMAND_HEAD = """\
# Command line

`make setup` installs the command as `.venv/bin/retrieval`. Exit codes: 0 done, 1 failed, 2 wrong usage or a wrong
setting, 3 something is not up or not ready (`status`, `ready`), 130 interrupted. `ingest` and `retry` end with 1 also
where only a part failed: they print a line for each document, and what is `ok` can be searched.

This page is generated from the parser in `local/cli.py`.
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
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most"}


def sections():
    """The settings as the module groups them: heading to (field, description)."""
    source = Path(settings.__file__).read_text(encoding="utf-8")
    (body,) = [one.body for one in ast.parse(source).body if isinstance(one, ast.ClassDef) and one.name == "Settings"]
    headings = {
        number: re.sub(r" \([DH0-9, ]+\)$", "", row[1])
        for number, line in enumerate(source.splitlines(), 1)
        if (row := re.fullmatch(r"    # (.+)", line))
    }
    found: dict[str, list[tuple[str, str]]] = {}
    for field, said in pairwise(body):
        if isinstance(field, ast.AnnAssign) and field.target.id in Settings.model_fields:
            assert isinstance(said, ast.Expr), f"retrieval/settings.py: {field.target.id} has no description"
            heading = headings[max(number for number in headings if number < field.lineno)]
            words = re.sub(r" \([DH]\d+(, [DH]\d+)*\)", "", " ".join(said.value.value.split()))
            found.setdefault(heading, []).append((field.target.id, words))
    return found


def default(field):
    """A default as an operator would write it; empty for none."""
    value = Settings.model_fields[field].default
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Path):
        return str(value.relative_to(PROJECT))
    if isinstance(value, list):
        return "[" + ", ".join(f'"{one}"' for one in value) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def values(field):
    """What a setting takes, in words."""
    said = Settings.model_fields[field]
    kind = next((one for one in get_args(said.annotation) if type(None) in get_args(said.annotation)), said.annotation)
    if get_origin(kind) is Literal:
        return " or ".join(f"`{one}`" for one in get_args(kind))
    bounds = [f"{BOUNDS[name]} {bound}" for one in said.metadata for name, bound in vars_of(one) if name in BOUNDS]
    return ", ".join([KINDS[get_origin(kind) or kind], *bounds])


def vars_of(constraint):
    return [(name, getattr(constraint, name)) for name in BOUNDS if getattr(constraint, name, None) is not None]


def example():
    lines = [EXAMPLE_HEAD.rstrip()]
    for heading, fields in sections().items():
        lines += ["", f"# --- {heading} ---"]
        for field, said in fields:
            choice = get_origin(Settings.model_fields[field].annotation) is Literal
            taken = f" Values: {values(field).replace('`', '')}." if choice else ""
            lines += textwrap.wrap(said + taken, 118, initial_indent="# ", subsequent_indent="# ",
                                   break_long_words=False, break_on_hyphens=False)  # fmt: skip
            lines.append(f"#RETRIEVAL_{field.upper()}={default(field)}")
    return "\n".join(lines) + "\n"


def settings_page():
    lines = [SETTINGS_HEAD]
    for heading, fields in sections().items():
        lines += [f"## {heading}", "", "| Setting | Default | Values | Meaning |", "|---|---|---|---|"]
        for field, said in fields:
            shown = f"`{default(field)}`" if default(field) else "none"
            row = [f"`RETRIEVAL_{field.upper()}`", shown, values(field), said]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def commands(parser, name):
    """Each command that can be called, with its parser; those with verbs by verb."""
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not any(action.required for action in nested):
        yield name, parser
    for action in nested:
        for verb, below in action.choices.items():
            yield from commands(below, f"{name} {verb}")


def helps(parser, name=""):
    """The one-line description of each command."""
    found = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= {f"{name}{one.dest}": one.help for one in action._choices_actions if one.help}
            for verb, below in action.choices.items():
                found |= helps(below, f"{name}{verb} ")
    return found


def usage(action):
    value = "{" + ",".join(action.choices) + "}" if action.choices else (action.metavar or action.dest.upper())
    return f"{action.option_strings[-1]} {value}" if action.nargs != 0 else action.option_strings[-1]


def place(action):
    """An argument without a name: in brackets what may be left out, with … what may be repeated."""
    value = "{" + ",".join(action.choices) + "}" if action.choices else (action.metavar or action.dest.upper())
    return {"?": f"[{value}]", "+": f"{value} […]", None: value}[action.nargs]


def command_page():
    parser = cli._parser()
    told = helps(parser)
    lines = [COMMAND_HEAD]
    for name, one in commands(parser, parser.prog):
        hidden = (argparse._HelpAction, argparse._SubParsersAction)
        shown = [
            action for action in one._actions if action.help != argparse.SUPPRESS and not isinstance(action, hidden)
        ]
        places = [action for action in shown if not action.option_strings]
        options = [action for action in shown if action.option_strings]
        line = [name, *(place(one) for one in places)]
        line += [usage(one) if one.required else f"[{usage(one)}]" for one in options]
        said = told[name.removeprefix("retrieval ")]
        lines += [f"## {name}", "", f"{said[0].upper()}{said[1:]}.", "", "```text", " ".join(line), "```", ""]
        rows = ["| `{}` | {} |".format(place(argument).replace("|", "\\|"), argument.help) for argument in places]
        rows += [f"| `{usage(option)}` | {option.help} |" for option in options]
        lines += ["| Argument or option | Meaning |", "|---|---|", *rows, ""] if rows else []
    return "\n".join(lines).rstrip() + "\n"


WRITTEN = {
    ".env.example": example,
    "docs/reference/settings.md": settings_page,
    "docs/reference/cli.md": command_page,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_reference_is_that_of_the_code(name):
    assert (PROJECT / name).read_text(encoding="utf-8") == WRITTEN[name](), (
        f"{name} is out of date: run `python tests/architecture/test_reference.py --write`"
    )


def test_every_setting_is_described():
    assert {field for fields in sections().values() for field, _ in fields} == set(Settings.model_fields)


def test_every_command_and_option_says_what_it_does():
    parser = cli._parser()
    told = helps(parser)
    assert {name.removeprefix("retrieval ") for name, _ in commands(parser, parser.prog)} <= set(told)
    options = [(name, action) for name, one in commands(parser, parser.prog) for action in one._actions]
    undescribed = [
        f"{name} {action.dest}"
        for name, action in options
        if not action.help and not isinstance(action, argparse._SubParsersAction)
    ]
    assert undescribed == []


if __name__ == "__main__":
    for name, written in WRITTEN.items():
        if "--write" in sys.argv[1:]:
            (PROJECT / name).write_text(written(), encoding="utf-8")
        elif (PROJECT / name).read_text(encoding="utf-8") != written():
            sys.stdout.write(f"To change: {name}\n")
