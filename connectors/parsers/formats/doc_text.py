"""Read the text of a Word 97 document by its piece table, without tables, lists and styles ([MS-DOC] 2.4.1)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from connectors.parsers import trust
from connectors.parsers.document import Document, strip_invisible

IRREGULAR_NOTICE: Final = (
    "Not read: tables, lists, notes and headers, because the file is irregular. "
    "Open it in Word or LibreOffice, save it as DOCX and upload that to read them."
)
# Offsets in the file information block ([MS-DOC] 2.5.1).
_FLAGS_OFFSET, _TEXT_LENGTH_OFFSET, _PIECES_OFFSET = 0x0A, 0x4C, 0x01A2
_SECOND_TABLE_FLAG: Final = 0x0200
_PROPERTIES_MARK, _PIECES_MARK = 1, 2
_COMPRESSED_FLAG: Final = 0x40000000
_FIELD_CODE: Final = re.compile("\x13[^\x13-\x15]*\x14?")
_SIGNS: Final = str.maketrans({"\r": "\n", "\x0b": "\n", "\x0c": "\n", "\x07": "\n", "\x1e": "-", "\xa0": " "})


def read_document(path: Path) -> Document | None:
    """Return the paragraphs of the main text; None without a readable piece table."""
    import olefile

    try:
        with olefile.OleFileIO(str(path)) as file:
            word = file.openstream("WordDocument").read()
            flags = struct.unpack_from("<H", word, _FLAGS_OFFSET)[0]
            table = file.openstream("1Table" if flags & _SECOND_TABLE_FLAG else "0Table").read()
        length = struct.unpack_from("<i", word, _TEXT_LENGTH_OFFSET)[0]
        start, size = struct.unpack_from("<II", word, _PIECES_OFFSET)
        text = "".join(_read_pieces(word, table[start : start + size]))[:length]
    except (OSError, ValueError, IndexError, struct.error):
        return None
    while text != (text := _FIELD_CODE.sub("", text)):
        pass  # fields within fields
    lines = (" ".join(line.split()) for line in text.translate(_SIGNS).split("\n"))
    paragraphs = strip_invisible("\n\n".join(filter(None, lines)))
    is_text = any(map(str.isalnum, paragraphs)) and trust.judge_whole(paragraphs).quality >= trust.MIN_QUALITY
    return Document(f"{paragraphs}\n", warnings=(IRREGULAR_NOTICE,)) if is_text else None


def _read_pieces(word: bytes, pieces: bytes) -> Iterator[str]:
    at = 0
    while pieces[at] == _PROPERTIES_MARK:
        at += 3 + struct.unpack_from("<H", pieces, at + 1)[0]
    if pieces[at] != _PIECES_MARK:
        raise ValueError("The document has no piece table.")
    count = (struct.unpack_from("<I", pieces, at + 1)[0] - 4) // 12
    ends = struct.unpack_from(f"<{count + 1}I", pieces, at + 5)
    for number in range(count):
        place = struct.unpack_from("<I", pieces, at + 5 + 4 * (count + 1) + 8 * number + 2)[0]
        length = ends[number + 1] - ends[number]
        start = place & ~_COMPRESSED_FLAG
        if place & _COMPRESSED_FLAG:
            yield word[start // 2 : start // 2 + length].decode("cp1252", "replace")
        else:
            yield word[start : start + 2 * length].decode("utf-16-le", "replace")
