"""Write the synopses of DocBook, of commands and of functions, as their stylesheets do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from connectors.parsers.formats import markup_elements as elements

_BRACKETS: Final = {"opt": "[{}]", "req": "{{{}}}"}
# Members of classes, with the elements that begin their lists of parameters.
_MEMBER_NAMES: Final = frozenset(
    ("methodsynopsis", "constructorsynopsis", "destructorsynopsis", "fieldsynopsis", "enumsynopsis")
)
_PAGE_PARTS: Final = ("refentrytitle", "manvolnum")
_NO_PARAMETERS: Final = {"void": "void", "varargs": "..."}


def read_synopsis(node: Any) -> str:
    """Return the lines of a synopsis."""
    name = elements.local_name(node)
    if name == "cmdsynopsis":
        return "\n".join(" ".join(line.split()) for line in _command_text(node, " ").split("\n"))
    return "\n".join(filter(None, _function_lines(node)))


def _command_text(node: Any, joint: str) -> str:
    parts = [_command_part(part) for part in node if isinstance(part.tag, str)]
    return joint.join(parts).replace(" \n ", "\n")


def _command_part(part: Any) -> str:
    name = elements.local_name(part)
    if name == "sbr":
        return "\n"
    if name == "synopfragment":
        return f"\n{_command_text(part, ' ')}"
    if name == "group":
        text = _command_text(part, " | ")
    elif name == "arg" and any(elements.local_name(inner) in ("arg", "group", "sbr") for inner in part):
        pieces = [part.text or "", *(f"{_command_part(inner)}{inner.tail or ''}" for inner in part)]
        text = " ".join("".join(pieces).split())
    else:
        text = " ".join("".join(part.itertext()).split())
    if name not in ("arg", "group"):
        return text
    is_choice = name == "arg" and elements.local_name(part.getparent()) == "group"
    form = "{}" if is_choice else _BRACKETS.get(part.get("choice", "opt"), "{}")
    return form.format(text) + ("..." if part.get("rep") == "repeat" else "")


def _function_lines(node: Any) -> Iterator[str]:
    """Yield the lines of a synopsis of functions or of a class."""
    name = elements.local_name(node)
    if name == "funcprototype" or name in _MEMBER_NAMES:
        yield _prototype(node)
        return
    words: list[str] = []
    for part in node:
        inner = elements.local_name(part)
        if inner in ("funcprototype", "classsynopsis") or inner in _MEMBER_NAMES:
            yield " ".join(words)
            words = []
            yield from _function_lines(part)
        elif inner in ("funcsynopsisinfo", "classsynopsisinfo"):
            yield "".join(part.itertext()).strip("\n")
        else:
            words.append(" ".join(" ".join(part.itertext()).split()))
    yield " ".join(filter(None, words))


def _prototype(node: Any) -> str:
    """Return a function or a field with its type and parameters."""
    words: list[str] = []
    parameters: list[str] = []
    for part in node:
        name = elements.local_name(part)
        if name in ("paramdef", "methodparam", *_NO_PARAMETERS):
            text = " ".join(" ".join(part.itertext()).split())
            parameters.append(_NO_PARAMETERS.get(name, text.replace("( ", "(").replace(" )", ")")))
        elif isinstance(part.tag, str):
            text = " ".join("".join(part.itertext()).split())
            words.append(f"= {text}" if name == "initializer" else text)
    has_parameters = elements.local_name(node) not in ("fieldsynopsis", "enumsynopsis")
    return " ".join(filter(None, words)) + (f"({', '.join(parameters)})" if has_parameters else "") + ";"


def name_purpose(node: Any) -> str:
    """Return the names and purpose of a reference page, as in the heading."""
    texts = [(elements.local_name(part), " ".join("".join(part.itertext()).split())) for part in node]
    names = ", ".join(text for name, text in texts if name == "refname" and text)
    return " \u2014 ".join(filter(None, [names, *(text for name, text in texts if name == "refpurpose")]))


def page_reference(node: Any) -> str:
    """Return the name of a reference page with its section, such as `ls(1)`."""
    name, section = ("".join(node.xpath(f"string(*[local-name()='{part}'])").split()) for part in _PAGE_PARTS)
    return f"{name}({section})" if section else name
