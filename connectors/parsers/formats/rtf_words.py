"""Control words of RTF by their use, and the state of a group."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from connectors.parsers.inline_forms import PLAIN, Form

TOKEN_PATTERN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+|([^\\{}\r\n]+)", re.DOTALL
)

SIGN_TEXTS = {
    "tab": " ", "line": "\n", "emdash": "\u2014", "endash": "\u2013", "bullet": "\u2022", "lquote": "\u2018",
    "rquote": "\u2019", "ldblquote": "\u201c", "rdblquote": "\u201d", "emspace": " ", "enspace": " ", "qmspace": " ",
    "page": "\n", "column": "\n", "softline": "\n", "lbr": "\n",
}  # fmt: skip
IGNORED_GROUPS = frozenset((
    "fonttbl", "colortbl", "stylesheet", "pict", "objdata", "fldinst", "themedata", "datastore", "sp", "nonshppict",
    "listtable", "revtbl", "filetbl", "xe", "tc", "bkmkstart", "bkmkend", "template", "operator", "category",
    "keywords", "comment", "subject", "company", "manager", "doccomm", "hlinkbase", "creatim", "revtim", "printim",
    "nextfile", "nonesttables",
    "pgdsctbl", "shprslt",
))  # fmt: skip
NOTE_LABELS = {"footnote": "Footnote", "annotation": "Comment"} | dict.fromkeys(
    ("header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf"), ""
)
NOTE_LABELS |= {word: word for word in ("title", "author", "atnauthor")}
# Groups to read despite their mark as optional for older programs (`\*`).
OPTIONAL_GROUPS = frozenset(
    (
        "shpinst",
        "shptxt",
        "result",
        "annotation",
        "listtext",
        "pntext",
        "fldrslt",
        "nesttableprops",
        "ud",
        "do",
        "dptxbxtext",
        "atnauthor",
        "moMath",
        "moMathPara",
    )
)
# Control words that set a state value.
VALUE_WORDS = {"f": "font", "uc": "fallback", "s": "style", "ilvl": "depth"}
SWITCH_WORDS = {"intbl": "in_table", "deleted": "deleted", "v": "hidden"}
SCRIPT_WORDS = {"super": 1, "sub": -1, "nosupersub": 0}
RAISE_WORDS = {"up": 1, "dn": -1}
STRIKE_WORDS = frozenset(("strike", "striked"))
# A sign of any font, or the letter that Symbol and Wingdings show as a circle.
BULLET_PATTERN = re.compile(r"^(?:[^\w\s(\[]|o)\s+")
# What follows the mark of a note.
ENDNOTE_AHEAD = re.compile(rb"\s*\}?\s*\{(?:\\\*)?\\footnote\s*\\ftnalt")
LINK_FIELD = re.compile(rb'HYPERLINK\s+"(https?:[^"\s]+)"')
NUMBER_PATTERN = re.compile(r"^\d+[.)] ")
MAX_TABLE_DEPTH = 6
HEADING_STYLE = re.compile(r"(?:heading ([1-6])|title)\b", re.IGNORECASE)


@dataclass(slots=True)
class GroupState:
    """State of a group; `name`: its first control word."""

    skipped: bool = False
    # Text for programs without Unicode.
    alternative: bool = False
    name: str = ""
    font: int = -1
    fallback: int = 1
    style: int = 0
    heading: int = 0
    in_table: bool = False
    deleted: bool = False
    hidden: bool = False
    is_item: bool = False
    depth: int = 0
    form: Form = PLAIN


def merge_form(form: Form, word: str, number: int | None) -> Form:
    """Apply a control word to a form."""
    if word in STRIKE_WORDS:
        return replace(form, struck=number != 0)
    return replace(form, script=SCRIPT_WORDS[word] if word in SCRIPT_WORDS else RAISE_WORDS[word] * (number != 0))
