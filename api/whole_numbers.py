"""Integers written as `5.0` are integers, as JSON schema has it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_WANTED = re.compile(r"Expected `[^`]*\bint\b[^`]*`, got `float`(?: - at `\$(?P<place>[^`]*)`)?$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\.\.\.|\d+)\]")
_MOST = 2**53
"""Up to here every whole number has a double of its own."""


def decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """What the decoder makes of `body`; whole numbers with a fraction of zero stand for integers where it wants them.

    Only places that the decoder complains about are changed: what may be any number stays as it was sent.
    """
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        complaint = error
    plain: Any = None
    while (wanted := _WANTED.match(str(complaint))) is not None:
        plain = msgspec.json.decode(body) if plain is None else plain
        steps = [name or index for name, index in _STEP.findall(wanted["place"] or "")]
        if not steps or not _make_whole(plain, steps):
            break
        try:
            return decoder.decode(msgspec.json.encode(plain))
        except msgspec.ValidationError as error:
            complaint = error
    raise complaint


def _make_whole(value: Any, steps: Sequence[str]) -> bool:
    """Change whole floats at the place into integers, in all elements of an array alike; whether there was one."""
    first, *rest = steps
    if isinstance(value, list):
        keys: Sequence[Any] = range(len(value))
    elif isinstance(value, dict):
        keys = list(value) if first == "..." else [first] if first in value else []
    else:
        return False
    if rest:
        changed = [_make_whole(value[key], rest) for key in keys]
        return any(changed)
    whole = [
        key for key in keys if isinstance(value[key], float) and value[key].is_integer() and abs(value[key]) <= _MOST
    ]
    for key in whole:
        value[key] = int(value[key])
    return bool(whole)
