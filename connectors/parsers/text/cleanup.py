"""Markdown as readers and searches want it, whichever library made it."""

from __future__ import annotations

import re

from connectors.parsers.detect import plain

_IMAGE_LINK = re.compile(r"\\?!\[([^\]\n]{0,500}+)\]\((?:<[^>\n]{0,4000}+>|[^()\n]{0,4000}+)\)")
_ESCAPED = re.compile(r"(?s:```.*?(?:```|\Z))|`[^`\n]*`|\$\$[^$]*\$\$|\\([\\!#$%&()*+,\-./:;<=>?@\[\]^_{}~'\"])")
_CONTROL = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f\xad]")
"""And soft hyphens, which nobody sees and which tear words apart."""


def visible(text: str) -> str:
    """Without characters that nobody sees."""
    return plain.storable(_CONTROL.sub("", text))


def tidied(markdown: str) -> str:
    """Without what helps no reader: links to images (their descriptions stay), control characters, and backslashes
    before punctuation, themselves too, outside of code and formulas: they would tear `part\\_number` apart for the
    keyword side.
    """
    text = markdown.replace("\r\n", "\n").replace("\r", "\n")
    text = _IMAGE_LINK.sub(r"\1", plain.storable(_CONTROL.sub("", text)))
    return _ESCAPED.sub(lambda found: found[1] or found[0], text)
