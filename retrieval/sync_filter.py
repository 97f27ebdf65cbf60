"""Selection of items to synchronize: `include` and `exclude` of a connector's config.

{"id": "…"}          the file or folder with this id, and all below it
{"path": "a/*/c"}    the item at the path, and all below it; `*`: within a name, `**`: any number of folders
{"mimeType": "…"}    files of this type; `image/*`: all images

Without `include` all items are selected; `exclude` wins. Names are compared case-insensitively, in NFC: most services
ignore case.
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

# Entries per list.
MAX_ENTRIES: Final = 200
ENTRY_KINDS: Final = ("id", "path", "mimeType")
ANY_NAME, ANY_FOLDERS = "*", "**"
_TYPE_PATTERN = re.compile(r"[\w!#$&^.+-]+/(\*|[\w!#$&^.+-]+)")
_OFFICE_PREFIX = "application/vnd.openxmlformats-officedocument."
_OPENDOCUMENT_PREFIX = "application/vnd.oasis.opendocument."
_MEDIA_TYPES = mimetypes.MimeTypes()
for _ending, _type in {
    ".docx": _OFFICE_PREFIX + "wordprocessingml.document",
    ".xlsx": _OFFICE_PREFIX + "spreadsheetml.sheet",
    ".pptx": _OFFICE_PREFIX + "presentationml.presentation",
    ".odt": _OPENDOCUMENT_PREFIX + "text",
    ".ods": _OPENDOCUMENT_PREFIX + "spreadsheet",
    ".odp": _OPENDOCUMENT_PREFIX + "presentation",
    ".md": "text/markdown",
    ".msg": "application/vnd.ms-outlook",
}.items():
    _MEDIA_TYPES.add_type(_type, _ending)
_PACKED_TYPES = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
MemberT = TypeVar("MemberT")


@dataclass(frozen=True, slots=True)
class SyncItem:
    """Item to test. `above`: ids of its folders; `path`: names joined by `/`."""

    id: str
    path: str
    media_type: str = ""
    above: Sequence[str] = ()


@dataclass(frozen=True)
class SyncFilter:
    """`include` and `exclude` of a request, validated by `entry_fault`."""

    include: tuple[Mapping[str, str], ...] = ()
    exclude: tuple[Mapping[str, str], ...] = ()

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> SyncFilter:
        """Read the filter from a connector's config."""
        return cls(tuple(config.get("include") or ()), tuple(config.get("exclude") or ()))

    def __bool__(self) -> bool:
        """Return True if the filter can exclude items."""
        return bool(self.include or self.exclude)

    @cached_property
    def mark(self) -> str:
        """Return a fingerprint of the filter; "" for no filter."""
        marks: dict[str, Any] = {"include": [dict(entry) for entry in self.include]} if self.include else {}
        marks |= {"exclude": [dict(entry) for entry in self.exclude]} if self.exclude else {}
        text = json.dumps(marks, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16] if marks else ""

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Return all ids of both lists: listings must report folders by id for each item."""
        return tuple(dict.fromkeys(entry["id"] for entry in (*self.include, *self.exclude) if "id" in entry))

    @cached_property
    def has_places(self) -> bool:
        """Return True if the filter depends on locations, not only on types."""
        return any("mimeType" not in entry for entry in (*self.include, *self.exclude))

    def takes(self, item: SyncItem) -> bool:
        """Return True if the file is selected."""
        parts = _fold_path(item.path)
        return (not self.include or self._included.matches(item, parts)) and not self._excluded.matches(item, parts)

    def takes_folder(self, item: SyncItem) -> bool:
        """Return True if the whole folder is selected, apart from excluded items below."""
        parts = _fold_path(item.path)
        return (not self.include or self._included.places(item, parts)) and not self._excluded.places(item, parts)

    def may_hold(self, item: SyncItem, *, ids: bool = True) -> bool:
        """Return True if items in the folder may be selected. `ids`: included ids may be below it."""
        parts = _fold_path(item.path)
        if self._excluded.places(item, parts):
            return False
        may = (
            (ids and bool(self._included.ids)) or self._included.places(item, parts) or self._included.may_follow(parts)
        )
        return not self.include or may

    @cached_property
    def _included(self) -> _ParsedEntries:
        return _ParsedEntries.of(self.include)

    @cached_property
    def _excluded(self) -> _ParsedEntries:
        return _ParsedEntries.of(self.exclude)


SYNC_EVERYTHING: Final = SyncFilter()


@dataclass(frozen=True, slots=True)
class _ParsedEntries:
    """Parsed list: ids, folded paths, type patterns."""

    ids: frozenset[str]
    paths: tuple[tuple[str, ...], ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, entries: Iterable[Mapping[str, str]]) -> _ParsedEntries:
        entry_list = list(entries)
        paths = [pattern for entry in entry_list if "path" in entry for pattern in _patterns(entry["path"])]
        types = tuple(entry["mimeType"].casefold() for entry in entry_list if "mimeType" in entry)
        return cls(frozenset(entry["id"] for entry in entry_list if "id" in entry), tuple(paths), types)

    def matches(self, item: SyncItem, parts: Sequence[str]) -> bool:
        return self.places(item, parts) or (bool(self.types) and self._types(media_type(item)))

    def places(self, item: SyncItem, parts: Sequence[str]) -> bool:
        if self.ids and (item.id in self.ids or not self.ids.isdisjoint(item.above)):
            return True
        return any(_matches_path(parts, pattern) for pattern in self.paths)

    def may_follow(self, parts: Sequence[str]) -> bool:
        """Return True if a path or type can match below these folders."""
        return bool(self.types) or any(_may_match_below(parts, pattern) for pattern in self.paths)

    def _types(self, kind: str) -> bool:
        return any(
            kind == pattern or (pattern.endswith("/*") and kind.startswith(pattern[:-1])) for pattern in self.types
        )


def media_type(item: SyncItem) -> str:
    """Return the reported media type, else the one of the name's extension."""
    guessed, packed = _MEDIA_TYPES.guess_type("./" + item.path.rpartition("/")[2])
    declared = item.media_type or (_PACKED_TYPES.get(packed, "") if packed else guessed) or ""
    return declared.partition(";")[0].strip().casefold()


def entry_fault(entry: Mapping[str, Any], *, empty_path: bool = False) -> str:
    """Return the problem of an entry as a predicate, or "". `empty_path`: allow URLs without a path."""
    kinds = [kind for kind in ENTRY_KINDS if entry.get(kind) is not None]
    if len(kinds) != 1:
        return "takes an id, a path or a mimeType, and one of them"
    value = str(entry[kinds[0]])
    if any(unicodedata.category(letter) in {"Cc", "Cs"} for letter in value):
        return f"has a control character in its {kinds[0]}"
    if kinds[0] == "mimeType":
        return "" if _TYPE_PATTERN.fullmatch(value) else "has no mimeType such as application/pdf or image/*"
    return _path_fault(value, empty_path=empty_path) if kinds[0] == "path" else ""


def _path_fault(path: str, *, empty_path: bool) -> str:
    try:
        text = _url_path(path)
    except ValueError:
        return "has an address that cannot be read"
    parts = text.strip("/").split("/")
    if parts == [""]:
        return "" if empty_path and "://" in path else "has an empty path: leave include out to choose everything"
    if "" in parts:
        return "has a path with an empty name: two slashes follow each other"
    if {".", ".."} & set(parts):
        return 'has a path with "." or "..": paths begin at the top of the account'
    if any(ANY_FOLDERS in part and part != ANY_FOLDERS for part in parts):
        return "has ** next to other characters: ** must be a whole part between slashes"
    return ""


def _patterns(path: str) -> list[tuple[str, ...]]:
    """Return a path as written, and percent-decoded if that is another valid path."""
    text = _url_path(path)
    # Invalid encodings and an encoded `*` are part of a name: `%2F` does not match everything.
    plain = unquote(text)
    is_path = plain.count(ANY_NAME) == text.count(ANY_NAME) and not _path_fault(plain, empty_path=False)
    return [tuple(_fold_path(form)) for form in (dict.fromkeys([text, plain]) if is_path else [text])]


def _url_path(path: str) -> str:
    """Return the path of a URL copied from a browser."""
    return unquote(urlsplit(path).path) if "://" in path else path


def _fold_path(path: str) -> list[str]:
    folded = unicodedata.normalize(
        "NFD", path
    ).casefold()  # folded whole: "\u0390" is small, and has no composed capital
    return [part for part in unicodedata.normalize("NFC", folded).split("/") if part]


def _matches_path(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return True if the pattern matches the path or a parent folder."""
    return _match_sequence(parts, (*pattern, ANY_FOLDERS), ANY_FOLDERS, _matches_name)


def _may_match_below(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return True if the pattern can match below these folders."""
    if ANY_FOLDERS in pattern:
        return all(map(_matches_name, parts, pattern[: pattern.index(ANY_FOLDERS)]))
    return len(parts) < len(pattern) and all(map(_matches_name, parts, pattern))


def _matches_name(name: str, pattern: str) -> bool:
    return name == pattern or (ANY_NAME in pattern and _match_sequence(name, pattern, ANY_NAME, str.__eq__))


def _match_sequence(
    subject: Sequence[MemberT], pattern: Sequence[MemberT], star: MemberT, same: Callable[[MemberT, MemberT], bool]
) -> bool:
    """Match a sequence against a pattern in which `star` matches any number of members; quadratic at worst."""
    index = position = 0
    backtrack: tuple[int, int] | None = None
    while index < len(subject):
        if position < len(pattern) and pattern[position] == star:
            backtrack, position = (index, position + 1), position + 1
        elif position < len(pattern) and same(subject[index], pattern[position]):
            index, position = index + 1, position + 1
        elif backtrack is not None:
            index, position = backtrack[0] + 1, backtrack[1]
            backtrack = (index, position)
        else:
            return False
    return all(segment == star for segment in pattern[position:])
