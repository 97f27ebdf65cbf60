"""Convert Rich Text Format to Markdown: headings, numbered lists, tables, notes, and letters of all code pages."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from connectors.parsers import inline_forms
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.formats import rtf_fields, rtf_words
from connectors.parsers.formats.blocks import Block, join_blocks, roman_numeral
from connectors.parsers.formats.rtf_fonts import Fonts, field_sign
from connectors.parsers.formats.rtf_tables import NestedTable, Row, table_markdown
from connectors.parsers.formats.rtf_words import GroupState
from connectors.parsers.formats.sheet_tables import link_cell
from connectors.parsers.formats.word_fields import equation_line
from connectors.parsers.inline_forms import PLAIN, write_forms
from connectors.parsers.messages import Task


def read_document(_kind: Kind, path: Path, _task: Task) -> Document:
    reader = _Reader(path.read_bytes())
    return Document(
        strip_invisible(reader.text()), title=reader.about.get("title", ""), author=reader.about.get("author", "")
    )


def rtf_to_markdown(data: bytes) -> str:
    return strip_invisible(_Reader(data).text())


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self._state = GroupState()
        self._stack: list[GroupState] = []
        self._code_page = "cp1252"
        self._fonts = Fonts()
        self._headings: dict[int, int] = {}
        self._letters: list[str] = []
        self._bytes = bytearray()
        self._pending = 0
        self._blocks: list[Block] = []
        self._rows: list[Row] = []
        self._row = Row()
        self._nested: list[NestedTable] = []
        self._beside: list[str] = []
        self._outer: list[tuple[int, str, list[str]]] = []
        self._merged = False
        self._note = self._endnote = 0
        self._label = ""
        self._author = ""
        self._formula = rtf_fields.Formula()
        self._form_field = rtf_fields.FormField()
        # Instruction of the current field; depth, first letter and address of open results.
        self._field = bytearray()
        self._links: list[tuple[int, int, str]] = []
        self.about: dict[str, str] = {}
        self._acts: dict[str, Callable[[int], None]] = {
            "par": self._end_paragraph, "sect": self._end_paragraph, "cell": self._end_cell, "row": self._end_row,
            "trowd": self._begin_row, "cellx": self._add_edge, "clvmrg": self._mark_merged,
            "pard": self._reset_paragraph,
            "fcharset": self._set_charset, "ansicpg": self._set_code_page,
            "mac": lambda _: self._set_codec("mac_roman"), "pc": lambda _: self._set_codec("cp437"),
            "pca": lambda _: self._set_codec("cp850"), "outlinelevel": self._set_outline,
            "listtext": self._mark_list_item, "pntext": self._mark_list_item, "plain": self._reset_characters,
            "chftn": self._note_mark, "itap": self._set_table_depth, "nestcell": self._end_nested_cell,
            "nestrow": self._end_nested_row, "fldrslt": self._begin_link, "clmrg": self._mark_joined,
            "upr": self._name_group("upr"), "ud": self._begin_unicode, "moMath": self._begin_formula,
            "moMathPara": self._name_group("moMathPara"),
        }  # fmt: skip

    def text(self) -> str:
        at = self._at
        while token := rtf_words.TOKEN_PATTERN.match(self._data, at):
            at = self._at = token.end()
            word, number, code, sign, brace, text = token.groups()
            if brace:
                self._read_brace(brace)
            elif word == b"bin":
                at += max(int(number or 0), 0)
            elif word:
                self._read_word(word.decode("ascii"), None if number is None else int(number))
            elif code:
                self._put_bytes(bytes.fromhex(code.decode("ascii")))
            elif sign:
                self._read_sign(sign)
            elif text:
                self._put_bytes(text)
        self._end_paragraph()
        self._end_row(0)
        self._write_table()
        return "\n\n".join([*join_blocks(self._blocks), *dict.fromkeys(self._beside)]) + "\n"

    def _read_brace(self, brace: bytes) -> None:
        self._flush_bytes()
        if brace == b"{":
            self._stack.append(replace(self._state))
            if self._state.name == "upr":  # the text without letters of Unicode
                self._state.alternative = self._state.skipped = True
                self._state.name = ""
            self._formula.open_group(len(self._letters))
            return
        self._formula.close_group(self._letters)
        if self._stack:
            self._state = self._stack.pop()
        if self._links and len(self._stack) < self._links[-1][0]:
            self._end_link()
        if self._outer and len(self._stack) < self._outer[-1][0]:
            _, label, letters = self._outer.pop()
            words = " ".join(write_forms("".join(self._letters)).split())
            self._letters = letters
            if label in ("title", "author"):
                self.about[label] = words
            elif label == "atnauthor":
                self._author = words
            elif words and (label or any(map(str.isalpha, words))):
                self._beside.append(f"{label}: {words}" if label else words)

    def _read_word(self, word: str, number: int | None) -> None:
        state = self._state
        if word == "u" and number is not None:
            self._flush_bytes()
            if not self._is_hidden():
                self._letters.append(state.form.mark(self._fonts.letter(state.font, number & 0xFFFF)))
            self._pending = state.fallback
            return
        self._flush_bytes()
        self._pending = 0
        if state.alternative and word != "ud":
            return
        if self._formula.is_open and word.startswith("m"):
            self._formula.name_group(word)
        elif word in rtf_words.IGNORED_GROUPS or (state.name == "*" and word not in rtf_words.OPTIONAL_GROUPS):
            self._skip_group(word)
        elif word in rtf_words.NOTE_LABELS:
            self._begin_note(word)
        elif word in rtf_words.SIGN_TEXTS:
            self._put_text(rtf_words.SIGN_TEXTS[word])
        else:
            self._set_state(state, word, number)
        if state.name == "*":
            state.name = word

    def _set_state(self, state: GroupState, word: str, number: int | None) -> None:
        if word in rtf_words.VALUE_WORDS:
            setattr(state, rtf_words.VALUE_WORDS[word], number or 0)
        elif word in rtf_words.SCRIPT_WORDS or word in rtf_words.RAISE_WORDS or word in rtf_words.STRIKE_WORDS:
            state.form = rtf_words.merge_form(state.form, word, number)
        elif word in rtf_fields.FIELD_WORDS:
            self._form_field.values[word] = number or 0
        elif word == "info":
            state.name, state.skipped = word, True
        elif word in rtf_words.SWITCH_WORDS:
            setattr(state, rtf_words.SWITCH_WORDS[word], number != 0)
        elif word in self._acts:
            self._acts[word](number or 0)

    def _begin_link(self, _number: int) -> None:
        address = rtf_words.LINK_FIELD.search(self._field)
        chosen, self._form_field = self._form_field.shown_value(), rtf_fields.FormField()
        code = bytes(self._field)
        if sign := field_sign(code) or equation_line(code.decode(self._code_page, "replace")) or chosen:
            self._put_text(sign)
            self._skip_group("fldrslt")  # the sign again, or nothing
        self._links.append((len(self._stack), len(self._letters), address[1].decode("latin-1") if address else ""))
        self._field.clear()

    def _end_link(self) -> None:
        """Write the result of a field with its address."""
        _, start, address = self._links.pop()
        words = "".join(self._letters[start:])
        if address and words.strip():
            self._letters[start:] = [link_cell(words.strip(), address)]

    def _skip_group(self, word: str) -> None:
        self._state.name = word
        self._state.skipped = True

    def _collect_note(self, label: str) -> None:
        self._state.skipped = False
        self._outer.append((len(self._stack), label, self._letters))
        self._letters = []

    def _reset_characters(self, _number: int) -> None:
        self._state.hidden = False
        self._state.form = PLAIN

    def _note_mark(self, _number: int) -> None:
        """Number a footnote automatically; inside the note, the number is its label."""
        if self._outer or self._is_hidden():
            return
        if rtf_words.ENDNOTE_AHEAD.match(self._data, self._at):
            self._endnote += 1
            self._label = roman_numeral(self._endnote)
        else:
            self._note += 1
            self._label = str(self._note)
        self._put_text(inline_forms.footnote_mark(self._label))

    def _begin_note(self, word: str) -> None:
        label = rtf_words.NOTE_LABELS[word]
        if word in ("title", "author") and all(group.name != "info" for group in self._stack):
            return
        if word == "footnote":
            label = "Endnote" if self._data.startswith(b"\\ftnalt", self._at) else label
            label = f"{label} [{self._label}]" if self._label else label
        elif word == "annotation":
            label, self._author = f"{label} by {self._author}" if self._author else label, ""
        self._collect_note(label)

    def _name_group(self, name: str) -> Callable[[int], None]:
        def set_name(_number: int) -> None:
            self._state.name = name

        return set_name

    def _begin_unicode(self, _number: int) -> None:
        """Read the text of Unicode in place of the other one."""
        self._state.alternative = False
        self._state.skipped = len(self._stack) > 1 and self._stack[-1].skipped
        self._state.name = "ud"

    def _begin_formula(self, _number: int) -> None:
        if not self._is_hidden():
            self._formula.begin(len(self._letters))

    def _is_hidden(self) -> bool:
        return self._state.skipped or self._state.deleted or self._state.hidden

    def _read_sign(self, sign: bytes) -> None:
        if sign == b"*":
            self._state.name = "*"
        elif sign in (b"\\", b"{", b"}"):
            self._put_bytes(sign)
        elif sign in (b"~", b"_"):
            self._put_text("\u00a0" if sign == b"~" else "-")
        elif sign in (b"\n", b"\r"):
            self._end_paragraph()

    def _put_text(self, text: str) -> None:
        self._flush_bytes()
        if not self._is_hidden():
            self._letters.append(self._state.form.mark(text))

    def _put_bytes(self, data: bytes) -> None:
        if self._pending:
            skipped = min(self._pending, len(data))
            self._pending -= skipped
            data = data[skipped:]
        if self._state.name in ("fonttbl", "stylesheet"):
            self._declare_style(data)
        elif self._state.name == "fldinst":
            self._field += data
        elif self._state.name == "ffl":
            self._form_field.choices.append(data.decode(self._code_page, "replace").strip())
        elif not self._is_hidden():
            self._bytes += data

    def _declare_style(self, data: bytes) -> None:
        """Record the name of a font, or of a style for headings."""
        if self._state.name == "fonttbl":
            self._fonts.add_name(self._state.font, data)
        elif self._state.name == "stylesheet" and (
            heading := rtf_words.HEADING_STYLE.match(data.decode("latin-1").strip())
        ):
            self._headings[self._state.style] = int(heading[1] or 1)

    def _flush_bytes(self) -> None:
        if self._bytes:
            text = self._fonts.decode(self._state.font, bytes(self._bytes), self._code_page)
            self._letters.append(self._state.form.mark(text))
            self._bytes.clear()

    def _take_words(self) -> str:
        """Return the words of the finished paragraph."""
        self._flush_bytes()
        text = "".join(self._letters).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        self._letters.clear()
        return "\n".join(filter(None, (" ".join(line.split()) for line in write_forms(text).split("\n"))))

    def _end_paragraph(self, _number: int = 0) -> None:
        if self._outer or self._is_hidden():
            self._put_text(" ")
            return
        if self._state.in_table:
            self._put_text("\n")
            return
        self._write_table()
        if not (text := self._take_words()):
            return
        level = self._state.heading or self._headings.get(self._state.style, 0)
        if level:
            self._blocks.append((f"{'#' * level} {text}", False))
        elif bullet := rtf_words.BULLET_PATTERN.match(text) if self._state.is_item else None:
            self._blocks.append((f"{'  ' * self._state.depth}- {text[bullet.end() :]}", True))
        else:
            self._blocks.append((text, bool(self._state.is_item and rtf_words.NUMBER_PATTERN.match(text))))
        self._state.is_item = False

    def _set_table_depth(self, number: int) -> None:
        """Enter or leave the tables in cells, for a paragraph at this depth."""
        if self._outer or self._is_hidden():
            return
        while len(self._nested) < min(number, rtf_words.MAX_TABLE_DEPTH) - 1:
            self._flush_bytes()
            self._nested.append(NestedTable(self._letters))
            self._letters = []
        while len(self._nested) > max(number - 1, 0):
            self._leave_table()

    def _leave_table(self) -> None:
        """Attach the innermost table to the row of its cell. Text after the table belongs to the cell."""
        self._flush_bytes()
        table, following = self._nested.pop(), self._letters
        self._letters = table.cell_letters
        words = " ".join(write_forms("".join(self._letters)).split())
        row = self._nested[-1].row if self._nested else self._row
        if table.row.cells:
            table.rows.append(table.row)
        text = table_markdown(table.rows)
        if text.count("\n") < 2:
            self._letters += [" ", *(cell + " " for inner in table.rows for cell in inner.cells)]
        else:
            name = words or " ".join(next(filter(None, row.cells), "").split())
            row.nested += [f"{name}:" if name else "", text]
        self._letters += [" ", *following]

    def _end_nested_cell(self, _number: int) -> None:
        if not self._outer and self._nested:
            self._nested[-1].row.cells.append(self._take_words())

    def _end_nested_row(self, _number: int) -> None:
        if self._nested and self._nested[-1].row.cells and not self._outer:
            table = self._nested[-1]
            table.rows.append(table.row)
            table.row = Row()

    def _current_row(self) -> Row:
        """Return the row that row properties belong to."""
        return self._nested[-1].row if self._state.name == "nesttableprops" and self._nested else self._row

    def _end_cell(self, _number: int) -> None:
        while self._nested and not self._outer:
            self._leave_table()
        if not self._outer:
            self._row.cells.append(self._take_words())

    def _end_row(self, _number: int) -> None:
        if self._row.cells and not self._outer:
            self._rows.append(self._row)
            self._row = Row(edges=self._row.edges, continued=self._row.continued, joined=self._row.joined)

    def _begin_row(self, _number: int) -> None:
        row = self._current_row()
        row.edges, row.continued, row.joined, self._merged = [], [], set(), False

    def _add_edge(self, number: int) -> None:
        row = self._current_row()
        row.edges, row.continued = [*row.edges, number], [*row.continued, self._merged]
        self._merged = False

    def _mark_merged(self, _number: int) -> None:
        self._merged = True

    def _mark_joined(self, _number: int) -> None:
        row = self._current_row()
        row.joined.add(len(row.edges))

    def _reset_paragraph(self, _number: int) -> None:
        state = self._state
        state.style, state.heading, state.in_table, state.depth = 0, 0, False, 0

    def _set_outline(self, number: int) -> None:
        self._state.heading = number + 1 if number < 6 else 0

    def _set_charset(self, number: int) -> None:
        self._fonts.set_charset(self._state.font, number)

    def _set_code_page(self, number: int) -> None:
        with suppress(LookupError):
            self._set_codec(codecs.lookup(f"cp{number}").name)

    def _set_codec(self, name: str) -> None:
        self._code_page = name

    def _mark_list_item(self, _number: int) -> None:
        for state in (self._state, *self._stack[-2:]):
            state.is_item = True

    def _write_table(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self._blocks.append((table_markdown(rows), False))
