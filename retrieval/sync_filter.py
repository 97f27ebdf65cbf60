"""Selection of the part of an account to synchronize: `include` and `exclude` of a connector's config.

    {"id": "…"}          the file or folder with this id, and all below it
    {"path": "a/*/c"}    the item at the path, and all below it; `*`: within a name, `**`: any number of folders
    {"mimeType": "…"}    files of this type; `image/*`: of all its kinds

Without `include` everything is chosen; what matches `exclude` never is. Names are compared without regard to case,
after Unicode normalization (NFC): most services know no case.
"""

from __future__ import annotations

import hashlib
import json
import mimetypes
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

MOST: Final = 200
"""Entries of `include`, and of `exclude`."""
KINDS: Final = ("id", "path", "mimeType")
ANY, DEEP = "*", "**"
_TYPE = re.compile(r"[\w!#$&^.+-]+/(\*|[\w!#$&^.+-]+)")
_OFFICE = "application/vnd.openxmlformats-officedocument."
_OPEN = "application/vnd.oasis.opendocument."
_TYPES = mimetypes.MimeTypes()
for _ending, _type in {
    ".docx": _OFFICE + "wordprocessingml.document",
    ".xlsx": _OFFICE + "spreadsheetml.sheet",
    ".pptx": _OFFICE + "presentationml.presentation",
    ".odt": _OPEN + "text",
    ".ods": _OPEN + "spreadsheet",
    ".odp": _OPEN + "presentation",
    ".md": "text/markdown",
    ".msg": "application/vnd.ms-outlook",
}.items():
    _TYPES.add_type(_type, _ending)
_PACKED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Subject:
    """Item to judge. `above`: ids of the folders that contain it; `path`: names with `/` between them."""

    id: str
    path: str
    media_type: str = ""
    above: Sequence[str] = ()


@dataclass(frozen=True)
class Choice:
    """`include` and `exclude` as a request sends them, checked by `fault`."""

    include: tuple[Mapping[str, str], ...] = ()
    exclude: tuple[Mapping[str, str], ...] = ()

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Choice:
        """Read the filter from a connector's config; without either list everything is included."""
        return cls(tuple(config.get("include") or ()), tuple(config.get("exclude") or ()))

    def __bool__(self) -> bool:
        """Tell whether anything is left out."""
        return bool(self.include or self.exclude)

    @cached_property
    def mark(self) -> str:
        """Fingerprint of the filter: equal for equal filters; "" for everything."""
        marks: dict[str, Any] = {"include": [dict(entry) for entry in self.include]} if self.include else {}
        marks |= {"exclude": [dict(entry) for entry in self.exclude]} if self.exclude else {}
        text = json.dumps(marks, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16] if marks else ""

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Ids that either list names: a listing has to report of each item whether it is below them."""
        return tuple(dict.fromkeys(entry["id"] for entry in (*self.include, *self.exclude) if "id" in entry))

    @cached_property
    def has_places(self) -> bool:
        """Tell whether the filter depends on an item's location, not on its type alone."""
        return any("mimeType" not in entry for entry in (*self.include, *self.exclude))

    def takes(self, one: Subject) -> bool:
        """Tell whether a file is included."""
        parts = _parts(one.path)
        return (not self.include or self._in.matches(one, parts)) and not self._out.matches(one, parts)

    def takes_folder(self, one: Subject) -> bool:
        """Tell whether everything in a folder is included, except what `exclude` names below it."""
        parts = _parts(one.path)
        return (not self.include or self._in.places(one, parts)) and not self._out.places(one, parts)

    def may_hold(self, one: Subject, *, ids: bool = True) -> bool:
        """Tell whether anything in a folder can be included. `ids`: any id of `include` may be somewhere below it."""
        parts = _parts(one.path)
        if self._out.places(one, parts):
            return False
        may = (ids and bool(self._in.ids)) or self._in.places(one, parts) or self._in.may_follow(parts)
        return not self.include or may

    @cached_property
    def _in(self) -> _Entries:
        return _Entries.of(self.include)

    @cached_property
    def _out(self) -> _Entries:
        return _Entries.of(self.exclude)


EVERYTHING: Final = Choice()


@dataclass(frozen=True, slots=True)
class _Entries:
    """One list, made ready: ids, paths as folded names, types as their beginnings."""

    ids: frozenset[str]
    paths: tuple[tuple[str, ...], ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, entries: Iterable[Mapping[str, str]]) -> _Entries:
        entry_list = list(entries)
        paths = [pattern for entry in entry_list if "path" in entry for pattern in _patterns(entry["path"])]
        types = tuple(entry["mimeType"].casefold() for entry in entry_list if "mimeType" in entry)
        return cls(frozenset(entry["id"] for entry in entry_list if "id" in entry), tuple(paths), types)

    def matches(self, one: Subject, parts: Sequence[str]) -> bool:
        return self.places(one, parts) or (bool(self.types) and self._types(media_type(one)))

    def places(self, one: Subject, parts: Sequence[str]) -> bool:
        if self.ids and (one.id in self.ids or not self.ids.isdisjoint(one.above)):
            return True
        return any(_below(parts, pattern) for pattern in self.paths)

    def may_follow(self, parts: Sequence[str]) -> bool:
        """Tell whether a path or a type can match deeper than these folders."""
        return bool(self.types) or any(_on_the_way(parts, pattern) for pattern in self.paths)

    def _types(self, kind: str) -> bool:
        return any(
            kind == pattern or (pattern.endswith("/*") and kind.startswith(pattern[:-1])) for pattern in self.types
        )


def media_type(one: Subject) -> str:
    """Media type that the service reports, else the one of the name's ending."""
    guessed, packed = _TYPES.guess_type("./" + one.path.rpartition("/")[2])
    declared = one.media_type or (_PACKED.get(packed, "") if packed else guessed) or ""
    return declared.partition(";")[0].strip().casefold()


def entry_fault(entry: Mapping[str, Any], *, empty_path: bool = False) -> str:
    """Describe what is wrong with an entry, as the end of a sentence; "" if nothing is.

    `empty_path`: an address may be bare.
    """
    kinds = [kind for kind in KINDS if entry.get(kind) is not None]
    if len(kinds) != 1:
        return "takes an id, a path or a mimeType, and one of them"
    value = str(entry[kinds[0]])
    if any(unicodedata.category(letter) in {"Cc", "Cs"} for letter in value):
        return f"has a control character in its {kinds[0]}"
    if kinds[0] == "mimeType":
        return "" if _TYPE.fullmatch(value) else "has no mimeType such as application/pdf or image/*"
    return _path_fault(value, empty_path=empty_path) if kinds[0] == "path" else ""


def _path_fault(path: str, *, empty_path: bool) -> str:
    try:
        text = _unaddressed(path)
    except ValueError:
        return "has an address that cannot be read"
    parts = text.strip("/").split("/")
    if parts == [""]:
        return "" if empty_path and "://" in path else "has an empty path: leave include out to choose everything"
    if "" in parts:
        return "has a path with an empty name: two slashes follow each other"
    if {".", ".."} & set(parts):
        return 'has a path with "." or "..": paths begin at the top of the account'
    if any(DEEP in part and part != DEEP for part in parts):
        return "has ** beside other characters: ** stands alone between slashes"
    return ""


def _patterns(path: str) -> list[tuple[str, ...]]:
    """Return a path as written, and decoded from percent-encoding where that is another path.

    An encoding that does not decode to a valid path, and an encoded `*`, are part of a name: `%2F` does not match
    everything.
    """
    text = _unaddressed(path)
    plain = unquote(text)
    is_path = plain.count(ANY) == text.count(ANY) and not _path_fault(plain, empty_path=False)
    return [tuple(_parts(form)) for form in (dict.fromkeys([text, plain]) if is_path else [text])]


def _unaddressed(path: str) -> str:
    """Path of an address copied from a browser."""
    return unquote(urlsplit(path).path) if "://" in path else path


def _parts(path: str) -> list[str]:
    folded = unicodedata.normalize(
        "NFD", path
    ).casefold()  # folded whole: "\u0390" is small, and has no composed capital
    return [part for part in unicodedata.normalize("NFC", folded).split("/") if part]


def _below(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Tell whether the pattern matches this path or a folder above it."""
    return _fits(parts, (*pattern, DEEP), DEEP, _named)


def _on_the_way(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Tell whether the pattern can match something below these folders."""
    if DEEP in pattern:
        return all(map(_named, parts, pattern[: pattern.index(DEEP)]))
    return len(parts) < len(pattern) and all(map(_named, parts, pattern))


def _named(name: str, pattern: str) -> bool:
    return name == pattern or (ANY in pattern and _fits(name, pattern, ANY, str.__eq__))


def _fits(subject: Sequence[T], pattern: Sequence[T], star: T, same: Callable[[T, T], bool]) -> bool:
    """Match a sequence against a pattern in which `star` matches any number of members; quadratic at most."""
    at = position = 0
    back: tuple[int, int] | None = None
    while at < len(subject):
        if position < len(pattern) and pattern[position] == star:
            back, position = (at, position + 1), position + 1
        elif position < len(pattern) and same(subject[at], pattern[position]):
            at, position = at + 1, position + 1
        elif back is not None:
            at, position = back[0] + 1, back[1]
            back = (at, position)
        else:
            return False
    return all(segment == star for segment in pattern[position:])
