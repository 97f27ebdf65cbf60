"""Headers of tables: what stands before the rows of a chunk in what is embedded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from retrieval.ingestion.chunking import structure
from retrieval.ingestion.chunking.structure import Structure, Table

if TYPE_CHECKING:
    from retrieval.ports import Parsed, Tokenizer

SHARE: Final = 4
"""One part in so many of a chunk's size may be its table's header; a longer one is cut."""
_LINE_END: Final = 2
"""Tokens that the end of the header's line may take in any tokenizer."""


@dataclass(frozen=True)
class Headers:
    """The headers of one text's tables, and the tokens that they cost."""

    structure: Structure
    _tokenizer: Tokenizer
    _most: int
    _known: dict[str, tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, parsed: Parsed, tokenizer: Tokenizer, size: int) -> Headers:
        """The headers of a parsed document. `size`: the tokens of a chunk."""
        return cls(structure.find(parsed.text, str(parsed.properties.get("mimeType", ""))), tokenizer, size // SHARE)

    def of_chunk(self, start: int, end: int) -> str:
        """The header of the first table of which rows lie in this range, "" without one."""
        table = self.structure.first_table(start, end)
        return "" if table is None else self._cut(table)[0]

    def cost(self, position: int) -> int:
        """Tokens that the header adds to a chunk that begins here, within a table's body."""
        table = self.structure.table_at(position)
        return 0 if table is None else self._cut(table)[1]

    def _cut(self, table: Table) -> tuple[str, int]:
        if table.header not in self._known:
            (spans,) = self._tokenizer.spans([table.header])
            header = table.header
            if len(spans) > self._most:
                header = header[: spans[self._most][0]].rpartition(" | ")[0]
            self._known[table.header] = header, min(len(spans), self._most) + _LINE_END if header else 0
        return self._known[table.header]
