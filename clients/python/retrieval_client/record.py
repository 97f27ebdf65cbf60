"""An object of the wire, read by attributes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self


class Record:
    """A JSON object of an answer. `record.ingest_job_run_id` reads `ingestJobRunId`, and so does
    `record["ingestJobRunId"]`; a field that is documented and absent is None. `raw` is the object as it was sent, with
    fields that this version does not know.
    """

    raw: Mapping[str, Any]
    _records: ClassVar[Mapping[str, str]] = {}
    """Fields, by their names on the wire, that hold a record or a list of records, and its class's name."""
    _maps: ClassVar[Mapping[str, str]] = {}
    """Fields that hold an object whose values are records, or lists of them."""
    _fields: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw

    def __getitem__(self, name: str) -> Any:
        value = self.raw[name]
        if name in self._maps and isinstance(value, Mapping):
            return {key: _read(held, self._class(self._maps[name])) for key, held in value.items()}
        if name in self._fields and name not in self._records:
            return value
        return _read(value, self._class(self._records[name]) if name in self._records else Record)

    def __getattr__(self, name: str) -> Any:
        wire = wire_name(name)
        if not name.startswith("__") and (wire in self.raw or wire in self._fields):
            return self[wire] if wire in self.raw else None
        raise AttributeError(f"{type(self).__name__} has no field {name}; it has {', '.join(self.raw)}")

    @classmethod
    def _class(cls, name: str) -> type[Record]:
        found: type[Record] = getattr(sys.modules[cls.__module__], name)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.raw

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __eq__(self, other: object) -> bool:
        return self.raw == (other.raw if isinstance(other, Record) else other)

    __hash__ = None  # type: ignore[assignment]  # holds what may change, as a dict does

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.raw)!r})"

    def __copy__(self) -> Self:
        return type(self)(self.raw)

    def get(self, name: str, default: Any = None) -> Any:
        """The field by its name on the wire, or the default where it is absent."""
        return self[name] if name in self.raw else default


def wire_name(name: str) -> str:
    """`ingest_job_run_id` -> `ingestJobRunId`; `from_` -> `from`."""
    return re.sub(r"_+([a-z0-9])", lambda found: found[1].upper(), name.rstrip("_"))


def _read(value: Any, record: type[Record]) -> Any:
    if isinstance(value, Mapping):
        return record(value)
    if isinstance(value, list):
        return [_read(member, record) for member in value]
    return value
