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
from connectors.sources.described.editions import Edition, Rate
from connectors.sources.described.fields import find_names, quote_value, read_value, split_template
from connectors.sources.described.look_ups import FieldNames, LookUp
from connectors.sources.described.permission_layers import Paging, Permissions


class Comments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List of comments below the body."""

    body: str = ""
    # Template of a comment, in place of `body`.
    text: str = ""
    # Field of the item with the first comments; `get` is sent only for a larger `count` or a field `more`.
    listed: str = ""
    more: str = ""
    items: str = ""
    # Request for the comments, not sent for a `count` of 0; without a request the answer itself has the comments.
    get: str = ""
    count: str = ""
    keep: Mapping[str, str] = {}
    paging: Paging = Paging()
    # Field by which the comments are sorted; without it they keep the order of the list.
    order: str = ""
    # Replies below each comment, requested by its {comment}, the field `id`.
    replies: Comments | None = None


class Attachments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files of an item and of the comments, as members of the document."""

    # Field or expression with the list of files.
    each: str
    # Template names and fields of a file, such as its `name`.
    fields: Mapping[str, str]
    # Address of a file, also of another host, which gets no credentials.
    get: str = "{url}"
    keep: Mapping[str, str] = {}
    # Further addresses of the service, such as `https://files.example.com`.
    hosts: tuple[str, ...] = ()
    # The answer is no file, but JSON with the file's address in this field, and its name in the expression `named`.
    address: str = ""
    named: str = ""


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
    attachments: tuple[Attachments, ...] = ()
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
    # Parents with such a list each.
    parents: str = ""


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Consecutive entries with an equal expression `by`, as an item with the first entry's fields."""

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
    # Entries of a full page, for lists without a number; the last page by {page}, from 0, has the rest.
    size: int = 0


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
    # Older items are read once in so many days; 0 for never.
    again: float = 0


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
    # A list of deleted items, with the ids of another stream.
    gone: bool = False
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
    # Expression over the answer of a list of changes: more than the service lists, so everything is listed.
    too_many: str = ""
    # Statuses of a list without items.
    empty: tuple[int, ...] = ()
    # Patterns of the fields of such an answer; others are errors.
    empty_if: Mapping[str, str] = {}
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

    @property
    def templates(self) -> tuple[str, ...]:
        """Templates of requests of a listing."""
        is_read = not self.version or self.recent or self.reread
        return (self.list, self.since_list, *self.query.values(), self.content.get if is_read else "")

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
    # Errors of an expired page of a list.
    expired: tuple[str, ...] = ()


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
    # Names in templates of addresses.
    field_names: Mapping[str, FieldNames] = {}
    # Texts of GraphQL, names in the bodies of requests.
    queries: Mapping[str, str] = {}
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
    outer = [(parents.parents, set(about.parents) - {name}) for name, parents in about.parents.items()]
    within = stream.within, {item.name for item in about.streams}
    for name, known_names in ((stream.parents, set(about.parents)), within, *outer):
        if name and name not in known_names:
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
        *(item.get for comments in content.comment_lists for item in (comments, comments.replies) if item),
    ]
    layers = stream.permissions.layers if stream.permissions else ()
    templates += [text.get for layer in layers for text in (layer, layer.open, layer.above) if text]
    names = set[str]().union(*map(find_names, (*templates, stream.list)))
    names -= {name for layer in layers for name in layer.fields} | about.field_names.keys() | {"page", "comment"}
    for files in content.attachments:
        names |= set[str]().union(*map(find_names, (files.get, *files.hosts))) - files.fields.keys()
    above, visited = stream.parents, list[str]()
    while above:
        if above in visited:
            raise ValueError(f"{about.title}: {above} has parents that have {above} as parents.")
        visited.append(above)
        names -= about.parents[above].fields.keys()
        above = about.parents[above].parents
    for edition in about.editions:
        known_names = {*re.compile(edition.url).groupindex, "url"}
        if unknown := edition.oauth2.names - known_names if edition.oauth2 else set():
            raise ValueError(f"{about.title}: oauth2 names {min(unknown)}, which the URL lacks.")
        if stream.edition in {"", edition.name}:
            unknown = names - stream.fields.keys() - known_names
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
        credentials=frozenset().union(*(edition.config_names for edition in about.editions)),
        localhost=any(edition.oauth2 and edition.oauth2.localhost for edition in about.editions),
        shares=any(stream.permissions for stream in about.streams),
    )
