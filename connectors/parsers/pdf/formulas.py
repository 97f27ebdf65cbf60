r"""Formulas that liteparse writes in LaTeX, in the plain forms of all readers: `$x_{1}$`, `$\frac{a}{b}$`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from connectors.parsers.inline_forms import LOWERED, RAISED, fraction, grouped

_FORMULA_PATTERN = re.compile(r"\$([^$\n]+)\$")
_LATEX_SIGN = re.compile(r"\\[a-zA-Z{}|]|[_^]\{")
_TOKEN_PATTERN = re.compile(r"\\(?:[a-zA-Z]+|.)|[{}_^]|\s+|[^\\{}_^\s]+")
# Spaces before the mark of a script, or several.
_SPACE_PATTERN = re.compile(" +([\x0e\x10])| {2,}")
_SYMBOLS = {
    "cdot": "·", "times": "\u00d7", "pm": "±", "mp": "∓", "oplus": "⊕", "ominus": "⊖", "otimes": "⊗", "odot": "⊙",
    "circ": "∘", "bullet": "•", "equiv": "≡", "subseteq": "⊆", "supseteq": "⊇", "approx": "≈", "subset": "⊂",
    "supset": "⊃", "ll": "≪", "gg": "≫", "leftarrow": "←", "to": "→", "downarrow": "↓", "uparrow": "↑",
    "leftrightarrow": "↔", "rightarrow": "→", "simeq": "≃", "Leftarrow": "⇐", "Rightarrow": "⇒",
    "Leftrightarrow": "⇔", "propto": "∝", "infty": "∞", "in": "∈", "ni": "∋", "forall": "∀", "exists": "∃",
    "emptyset": "∅", "Re": "\u211c", "Im": "\u2111", "perp": "⊥", "wedge": "∧", "vee": "\u2228", "vdash": "⊢",
    "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "{": "{", "}": "}", "langle": "⟨", "rangle": "⟩",
    "|": "‖",
    "setminus": "\u2216", "nabla": "∇", "S": "§", "P": "¶", "dagger": "†", "backslash": "\\", "prod": "∏", "sum": "∑",
    "int": "∫", "oint": "∮", "bigcup": "\u22c3", "bigcap": "⋂", "cup": "\u222a", "cap": "∩", "leq": "≤", "geq": "≥",
    "leqslant": "≤", "geqslant": "≥", "neq": "≠", "sim": "\u223c", "partial": "∂", "ldots": "…", "cdots": "⋯",
    "ast": "*", "star": "⋆", "mid": "|", "neg": "¬", "square": "□", "blacksquare": "■", "triangle": "△",
    "varepsilon": "ε", "vartheta": "ϑ", "varphi": "φ", "varrho": "\u03f1", "varsigma": "ς", "varpi": "ϖ", "hbar": "ℏ",
    "ell": "\u2113", "triangledown": "▽",
}  # fmt: skip
# Names of functions, written as they are read.
_FUNCTIONS = frozenset(
    (
        *("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "log", "ln", "exp"),
        *("lim", "max", "min", "sup", "inf", "det", "dim", "deg", "ker", "gcd"),
    )
)


def write_formulas(markdown: str, text: str) -> str:
    """Replace the LaTeX of formulas by marked plain text, except code in LaTeX in `text`, the page's own."""
    if not _LATEX_SIGN.search(markdown) or "$" not in markdown:
        return markdown
    solid, pieces, position = "".join(text.split()), list[str](), 0
    while match := _FORMULA_PATTERN.search(markdown, position):
        inner = match[1]
        if _LATEX_SIGN.search(inner) and "".join(inner.split()) not in solid:
            pieces += [markdown[position : match.start()], _write_formula(inner)]
            position = match.end()
        else:  # a dollar sign of the text; the next one may open a formula
            pieces.append(markdown[position : match.end() - 1])
            position = match.end() - 1
    return "".join([*pieces, markdown[position:]])


def _write_formula(latex: str) -> str:
    plain = "".join(_write_parts(iter(_TOKEN_PATTERN.findall(latex)))).strip()
    return _SPACE_PATTERN.sub(lambda spaces: spaces[1] or " ", plain)


def _write_parts(parts: Iterator[str]) -> Iterator[str]:
    """Yield plain text up to the end of the group."""
    for part in parts:
        if part == "}":
            return
        yield _write_token(part, parts)


def _write_token(part: str, parts: Iterator[str]) -> str:
    if part in ("_", "^"):
        form = LOWERED if part == "_" else RAISED
        return form.mark(_read_group(parts))
    if part == "{":
        return "".join(_write_parts(parts))
    if not part.startswith("\\"):
        return part if part.strip() else " "
    name = part[1:]
    if name == "frac":
        return fraction(_read_group(parts), _read_group(parts))
    if name == "sqrt":
        return f"\u221a{grouped(_read_group(parts)) or ''}"
    return _SYMBOLS.get(name) or _greek_letter(name) or (f"{name} " if name in _FUNCTIONS else "")


def _read_group(parts: Iterator[str]) -> str:
    """Return the plain text of the next group or sign."""
    for part in parts:
        if part.strip():
            return _write_token(part, parts)
    return ""


def _greek_letter(name: str) -> str:
    kind = "CAPITAL" if name[:1].isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"GREEK {kind} LETTER {'LAMDA' if name.lower() == 'lambda' else name.upper()}")
    except KeyError:
        return ""
