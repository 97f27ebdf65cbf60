"""References to characters, such as `&amp;`, for a library that leaves them out of some formats."""

from __future__ import annotations

import html
import re

_HELD = str.maketrans("&<>", "\ufdd0\ufdd1\ufdd2")
_BACK = str.maketrans("\ufdd0\ufdd1\ufdd2", "&<>")
_REFERENCE = re.compile(r"&(?:#[xX][0-9a-fA-F]{1,6}|#[0-9]{1,7}|amp|lt|gt|quot|apos);")


def held(text: str) -> str:
    """Characters that no text holds stand for those that must be spelled as references."""
    return text.translate(_HELD)


def resolved(markup: str) -> str:
    """XML whose references are characters, or what stands for them."""
    return _REFERENCE.sub(lambda found: held(html.unescape(found[0])), markup)


def restored(text: str) -> str:
    """What the library made of it, with its `&`, `<` and `>`."""
    return text.translate(_BACK)
