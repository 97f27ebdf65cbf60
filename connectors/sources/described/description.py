"""Description of a service: its addresses, lists, paging, change field, content and rate limit, read from YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from connectors.info import ConnectorInfo
from connectors.sources.described.fields import find_names, quote_value, read_value, split_template
from connectors.sources.described.permission_layers import Paging, Permissions


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer to requests beyond a quota, besides 429."""

    status: int
    # Header whose value matches the pattern `value`.
    header: str = ""
    value: str = ".*"
    # Pattern of the text.
    body: str = ""
    # Header or field with the seconds to wait, after Retry-After.
    seconds: str = ""
    # Header with the end of the wait, as Unix time or ISO 8601.
    until: str = ""


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Requests per minute and at once, and the service's answers to more."""

    per_minute: float = 600
    burst: int = 10
    limits: tuple[Limit, ...] = ()


class Edition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Edition of a service, such as its cloud."""

    # Pattern of a connection's URL; its groups are names in templates.
    url: str
    # Base of all requests; the fetch guard checks a host from a group.
    api: str
    name: str = ""
    # Credentials of each request, by header.
    headers: Mapping[str, str] = {}
    # Text of basic authentication, before encoding.
    basic: str = ""
    # Readable without credentials too.
    public: bool = False
    # Pattern of the rest of an address in a browser.
    rest: str = "[/?#].*"

    @property
    def credentials(self) -> set[str]:
        """Names of the credentials that a connection sends."""
        return set[str]().union(*map(find_names, (self.basic, *self.headers.values())))


class Comments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List of comments below the body."""

    body: str = ""
    # Template of a comment; without a template `body` stands below `author`.
    text: str = ""
    # Field of the item with the first comments; `get` is sent only for a larger `count` or a field `more`.
    listed: str = ""
    more: str = ""
    items: str = ""
    author: str = ""
    # Request for the comments, not sent for a `count` of 0; without a request the answer itself has the comments.
    get: str = ""
    count: str = ""
    keep: Mapping[str, str] = {}
    paging: Paging = Paging()


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for the content of an item."""

    get: str
    media_type: str
    # Template of the text above the comments, over the fields of the item.
    text: str = ""
    # Field with the item in the answer; `entries`: fields with the items of a group.
    entry: str = ""
    entries: str = ""
    # The list holds the whole text, except comments to request.
    in_list: bool = False
    # Field below the heading `title`; without a field the whole answer, in `pages` up to an empty page.
    body: str = ""
    title: str = ""
    accept: str = ""
    pages: str = ""
    # Request for more text, with `pages`.
    raw: str = ""
    # Fields of accepted JSON, as in the list.
    keep: Mapping[str, str] = {}
    comments: Comments | None = None
    # Further lists of comments.
    more: tuple[Comments, ...] = ()
    # The answer is a file of the type in `type_field`, possibly at another host after a redirect.
    file: bool = False
    type_field: str = ""

    @property
    def comment_lists(self) -> tuple[Comments, ...]:
        """Lists of comments, in the order of the text."""
        return (*((self.comments,) if self.comments else ()), *self.more)


class Exists(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for the existence of an item, by the fields `keep` of the answer or of the field `entry`."""

    get: str
    entry: str = ""
    keep: Mapping[str, str] = {}


class Parents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List of the parents of items, such as channels, read anew by each run."""

    list: str
    # Template names and the parent's fields; the first is the id.
    fields: Mapping[str, str]
    # Template of the path in a choice.
    path: str
    query: Mapping[str, str] = {}
    items: str = ""
    paging: Paging = Paging()
    keep: Mapping[str, str] = {}
    # Reason counted for parents without the fields `keep`.
    left_out: str = ""
    # List of services without `list`.
    otherwise: str = ""


class LookUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names by id, a filter of templates."""

    # Expression of a name.
    value: str
    # All names, in `items` by `key`.
    list: str = ""
    items: str = ""
    key: str = "id"
    paging: Paging = Paging()
    # Request for a name by {id}, in the field `entry`; `gets`: requests by edition.
    get: str = ""
    gets: Mapping[str, str] = {}
    entry: str = ""


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Consecutive entries with one value of the expression `by` as one item with the first entry's fields."""

    by: str
    # Order of the list; the text begins with the oldest.
    newest_first: bool = False


class Count(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for the number of items in a list."""

    # A lower number than expected from the previous listing and from later `created` times lists everything.
    get: str
    created: str
    field: str = ""
    header: str = ""


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One list of the changed items of all parents; new parents are listed separately."""

    list: str
    # Field with the id of the parent.
    parent: str
    query: Mapping[str, str] = {}


class Recent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Items read by each run, for changes without a trace in the list."""

    # Field with a time within the last `days`.
    time: str
    days: float


class Stream(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """List of items; a field with `|` is an expression of templates."""

    name: str
    # Template of external ids.
    id: str
    # Template names and the item's fields.
    fields: Mapping[str, str]
    item_name: str
    path: str
    content: Content
    exists: Exists
    list: str = ""
    # Parents with a list each.
    parents: str = ""
    # Stream whose entries hold these items in the field `each`; the entry is `above`.
    within: str = ""
    group: Group | None = None
    recent: Recent | None = None
    each: str = ""
    # Items are requested again, by the fields `reread_by`.
    reread: bool = False
    reread_by: Mapping[str, str] = {}
    # A list for changes only.
    only_changes: bool = False
    # Only parents with this field later than `changed_lag` minutes before the last listing.
    changed: str = ""
    changed_lag: int = 0
    changes: Changes | None = None
    count: Count | None = None
    # Field of the version; the whole entry without a field.
    version: str = ""
    # Address for people, other than `id`.
    link: str = ""
    # Edition of the list, "" for all.
    edition: str = ""
    query: Mapping[str, str] = {}
    # Field of the list in the answer.
    items: str = ""
    # Query of a list of changes, with {time}, {unix} or {minutes} of the previous listing.
    since: Mapping[str, str] = {}
    since_list: str = ""
    # A list of one page is requested with the ETag of the previous answer.
    conditional: bool = False
    # Field with the time of the last change, in a list from the newest.
    newest: str = ""
    paging: Paging = Paging()
    # Field of an answer without all items.
    incomplete: str = ""
    # Statuses of a list without items.
    empty: tuple[int, ...] = ()
    # Statuses of an expired page.
    expired: tuple[int, ...] = (404, 410, 422)
    # Patterns of the fields of accepted items.
    keep: Mapping[str, str] = {}
    properties: Mapping[str, str] = {}
    permissions: Permissions | None = None
    # List of a single item, for a version absent from `exists`.
    relist: str = ""

    @property
    def is_whole(self) -> bool:
        """Every run lists all items."""
        return not (self.since or self.since_list or self.newest or self.changes or self.changed)

    def find_unnamed(self, entry: Mapping[str, Any]) -> str | None:
        """Return a missing or invalid field of the id; None for a complete item."""
        for name in find_names(self.id) & self.fields.keys():
            if (value := read_value(entry, self.fields[name])) == "" or not isinstance(value, str | int):
                return self.fields[name]
        return None

    def id_pattern(self, location: Mapping[str, str]) -> str:
        """Return the pattern of external ids, with groups for names absent from the location."""
        pieces = split_template(self.id)
        pattern = re.escape(pieces[0])
        for name, tail in zip(pieces[1::3], pieces[3::3], strict=True):
            value = re.escape(quote_value(name, location[name])) if name in location else f"(?P<{name}>.+)"
            pattern += value + re.escape(tail)
        return pattern

    def find_ids(self, location: Mapping[str, str]) -> str:
        """Return the pattern of external ids, without groups."""
        return re.sub(r"\(\?P<\w+>", "(?:", self.id_pattern(location))

    def parse_id(self, external_id: str, location: Mapping[str, str]) -> dict[str, str] | None:
        """Return the values of an item's template fields; None for the id of another stream or location."""
        parsed = re.fullmatch(self.id_pattern(location), external_id)
        values = {name: unquote(value) for name, value in parsed.groupdict().items()} if parsed else {}
        return {**location, **values} if parsed else None


class Errors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Errors of a service with status 200 for everything."""

    # Field with the name of the error.
    field: str
    unauthorized: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A service."""

    title: str
    account: str
    documents: str
    # URL of a connection.
    example: str
    editions: tuple[Edition, ...]
    streams: tuple[Stream, ...]
    headers: Mapping[str, str] = {}
    rate: Rate = Rate()
    errors: Errors | None = None
    # Headers of answers to refused credentials whose status is another than 401, and patterns in their values.
    refused: Mapping[str, str] = {}
    # Statuses of a missing item.
    missing: tuple[int, ...] = (404, 410)
    parents: Mapping[str, Parents] = {}
    look_ups: Mapping[str, LookUp] = {}
    # End of all versions; a new revision reads everything again.
    revision: str = ""
    # Sentence after an error, by name or status.
    remedies: Mapping[str, str] = {}

    def find_edition(self, url: str) -> tuple[Edition, dict[str, str]] | None:
        """Return the edition of a connection's URL or of a longer address, with the values of its groups."""
        for is_longer in (False, True):
            for edition in self.editions:
                pattern = f"(?P<url>{edition.url})" + (f"(?:{edition.rest})" if is_longer else "")
                if (parsed := re.fullmatch(pattern, url)) is not None:
                    values = {name: unquote(value) for name, value in parsed.groupdict("").items()}
                    return edition, {**values, "url": parsed["url"]}
        return None


@lru_cache
def read_description(name: str) -> Description:
    """Read the description of a service."""
    return parse_description((Path(__file__).parent / f"{name.lower()}.yaml").read_text(encoding="utf-8"))


def parse_description(text: str) -> Description:
    """Parse a description in YAML. ValueError for an invalid description."""
    import yaml

    try:
        about = msgspec.convert(yaml.safe_load(text), Description)
        for stream in about.streams:
            _check_names(about, stream)
    except (yaml.YAMLError, msgspec.ValidationError, re.error) as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("is nested too deeply, or within itself") from error
    return about


def _check_names(about: Description, stream: Stream) -> None:
    """Raise ValueError for a template name absent from fields and URL, and for an unknown list."""
    for name, known in ((stream.parents, set(about.parents)), (stream.within, {item.name for item in about.streams})):
        if name and name not in known:
            raise ValueError(f"{about.title}: {stream.name} names {name}, which is not described.")
    content, exists = stream.content, stream.exists
    templates = [
        stream.count.get if stream.count else "",
        stream.id,
        stream.link,
        stream.path,
        content.get,
        exists.get,
        stream.relist,
        *(comments.get for comments in content.comment_lists),
    ]
    layers = stream.permissions.layers if stream.permissions else ()
    templates += [text.get for layer in layers for text in (layer, layer.open, layer.above) if text]
    names = set[str]().union(*map(find_names, (*templates, stream.list)))
    names -= {name for layer in layers for name in layer.fields}
    if stream.parents:
        names -= about.parents[stream.parents].fields.keys()
    for edition in about.editions:
        if stream.edition in {"", edition.name}:
            unknown = names - stream.fields.keys() - re.compile(edition.url).groupindex.keys() - {"url"}
            if unknown:
                raise ValueError(f"{about.title}: {stream.name} has no field {min(unknown)}, nor has its URL.")


def read_info(name: str) -> ConnectorInfo:
    """Return the texts of a described service."""
    about = read_description(name)
    return ConnectorInfo(
        title=about.title,
        account=about.account,
        documents=about.documents,
        example=about.example,
        credentials=frozenset().union(*(edition.credentials for edition in about.editions)),
        shares=any(stream.permissions for stream in about.streams),
    )
