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
    """Answer that means a used-up quota, beside 429: its `status`, with a `header` whose value matches the pattern
    `value`, and the pattern `body` in its text, where they are named. Its wait is that of Retry-After, else of the
    header or field `seconds`, else until the time of the header `until`, as Unix time or ISO 8601."""

    status: int
    header: str = ""
    value: str = ".*"
    body: str = ""
    seconds: str = ""
    until: str = ""


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Requests that are sent in a minute and at once, and the answers of the service to more."""

    per_minute: float = 600
    burst: int = 10
    limits: tuple[Limit, ...] = ()


class Edition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Edition of a service, such as its cloud. `url`: pattern of a connection's URL, whose groups are names in
    templates; `api`: base of all requests, which the fetch guard dials if it begins with a group; `headers` and
    `basic`: credentials of each request, where `basic` is the text that is encoded; `public`: whether it is also read
    without credentials; `rest`: pattern of what may follow the URL in an address of a browser."""

    url: str
    api: str
    name: str = ""
    headers: Mapping[str, str] = {}
    basic: str = ""
    public: bool = False
    rest: str = "[/?#].*"

    @property
    def credentials(self) -> set[str]:
        """Names of the credentials that a connection sends."""
        return set[str]().union(*map(find_names, (self.basic, *self.headers.values())))


class Comments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List of comments below the body: in the answer itself, or in that of `get`, which is not sent where the field
    `count` is 0. `text`: template of one of them; without it the field `body` below the field `author`. `listed`:
    field of the item with the first of them; `get` is sent only where `count` is larger, or the item has the field
    `more`."""

    body: str = ""
    text: str = ""
    listed: str = ""
    more: str = ""
    items: str = ""
    author: str = ""
    get: str = ""
    count: str = ""
    keep: Mapping[str, str] = {}
    paging: Paging = Paging()


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for the content of an item: the field `body` of its JSON below the heading `title`, or all of it, which
    then has pages up to an empty one, where `pages` names their query parameter. `keep`: fields of JSON that is taken,
    as in the list.

    `text`: template of the text above the comments, over the fields of the item; `entry`: field with the item in the
    answer, `entries` with those of a group; `in_list`: the list has all that the text needs, unless its comments have
    to be requested; `more`: further lists of comments; `raw`: request for more text, with `pages`; `file`: the answer
    is a file, at another host where it is redirected, of the type of the item's field `type_field`.
    """

    get: str
    media_type: str
    text: str = ""
    entry: str = ""
    entries: str = ""
    in_list: bool = False
    body: str = ""
    title: str = ""
    accept: str = ""
    pages: str = ""
    raw: str = ""
    keep: Mapping[str, str] = {}
    comments: Comments | None = None
    more: tuple[Comments, ...] = ()
    file: bool = False
    type_field: str = ""

    @property
    def comment_lists(self) -> tuple[Comments, ...]:
        """Lists of comments, in the order of the text."""
        return (*((self.comments,) if self.comments else ()), *self.more)


class Exists(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for the existence of an item: its answer, or the field `entry` of it, has the fields `keep`, and the
    version as in the list."""

    get: str
    entry: str = ""
    keep: Mapping[str, str] = {}


class Parents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List of the parents of items, such as channels, read anew by each run. `fields`: names in templates and their
    fields of a parent, the first of which is its id; `path`: template of its path in a choice; `left_out`: the reason
    that is counted for those without the fields `keep`; `otherwise`: list where the service has no such `list`."""

    list: str
    fields: Mapping[str, str]
    path: str
    query: Mapping[str, str] = {}
    items: str = ""
    paging: Paging = Paging()
    keep: Mapping[str, str] = {}
    left_out: str = ""
    otherwise: str = ""


class LookUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names by id, as the filter of templates that has the look-up's name. `list`: all of them, in `items` by `key`;
    `get`: one that the list does not have, by its {id}, in the field `entry`; `gets`: that of an edition; `value`:
    expression of a name."""

    value: str
    list: str = ""
    items: str = ""
    key: str = "id"
    paging: Paging = Paging()
    get: str = ""
    gets: Mapping[str, str] = {}
    entry: str = ""


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Entries that follow each other and have the same value of the expression `by` are one item, whose fields are the
    first one's; `newest_first`: the list is, and the text is not."""

    by: str
    newest_first: bool = False


class Count(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for the number of items in a list, in the `field` or the `header` of its answer. Where it is lower than
    that of the listing before and the items with a later time `created` let expect, everything is listed."""

    get: str
    created: str
    field: str = ""
    header: str = ""


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One list of the changed items of all parents, whose entries have the parent's id in the field `parent`. Parents
    that were not listed before have their own list."""

    list: str
    parent: str
    query: Mapping[str, str] = {}


class Recent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Items whose content is read by each run, since nothing in the list changes with it: those whose field `time` is
    within these `days`."""

    time: str
    days: float


class Stream(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """List of items. `edition`: the one that has it, "" for all; `items`: field of the list in the answer; `since`:
    query of a list of changes, with {time}, {unix} or {minutes} of the listing before, or `since_list` that list;
    `conditional`: a list of one page is requested with the ETag of the answer before; `newest`: field with the time of
    the last change of a list that begins with the newest; `incomplete`: field that is true where items are left out;
    `empty`: statuses of a list without items; `expired`: of a page that is too old; `keep`: patterns of fields of items
    that are taken; `relist`: list of one item alone, whose version it reads again, if `exists` does not have that;
    `fields`: names in templates, and their fields of an item; `version`: field that changes with the content, all of
    the entry without it; `link`: address that people open, if it is not the `id`.

    `parents`: the parents that have a list each, all of them or those whose field `changed` is later than `changed_lag`
    minutes before the last listing; `only_changes`: a list for changes; `within`: the stream whose lists hold these
    items as well, in the field `each` of its entries, which they have as `above`; `reread`: items are requested again,
    by the fields `reread_by` in the place of `fields`; `group`: entries that are one item. A field with `|` is an
    expression of templates, as is `item_name`."""

    name: str
    id: str
    fields: Mapping[str, str]
    item_name: str
    path: str
    content: Content
    exists: Exists
    list: str = ""
    parents: str = ""
    within: str = ""
    group: Group | None = None
    recent: Recent | None = None
    each: str = ""
    reread: bool = False
    reread_by: Mapping[str, str] = {}
    only_changes: bool = False
    changed: str = ""
    changed_lag: int = 0
    changes: Changes | None = None
    count: Count | None = None
    version: str = ""
    link: str = ""
    edition: str = ""
    query: Mapping[str, str] = {}
    items: str = ""
    since: Mapping[str, str] = {}
    since_list: str = ""
    conditional: bool = False
    newest: str = ""
    paging: Paging = Paging()
    incomplete: str = ""
    empty: tuple[int, ...] = ()
    expired: tuple[int, ...] = (404, 410, 422)
    keep: Mapping[str, str] = {}
    properties: Mapping[str, str] = {}
    permissions: Permissions | None = None
    relist: str = ""

    @property
    def is_whole(self) -> bool:
        """Tell if every run lists all items."""
        return not (self.since or self.since_list or self.newest or self.changes or self.changed)

    def find_unnamed(self, entry: Mapping[str, Any]) -> str | None:
        """Return a field of the id that an item lacks, or that is no name; None if it has all."""
        for name in find_names(self.id) & self.fields.keys():
            if (value := read_value(entry, self.fields[name])) == "" or not isinstance(value, str | int):
                return self.fields[name]
        return None

    def id_pattern(self, location: Mapping[str, str]) -> str:
        """Return the pattern of external ids, whose groups are the names that the location does not have."""
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
    """Errors of a service that answers 200 to everything: the `field` with their name, and the names that mean a
    refused credential, a missing item, an endpoint that was removed and a rate limit."""

    field: str
    unauthorized: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A service. `missing`: statuses of an item that no longer exists; `example`: URL of a connection; `remedies`: the
    sentence that follows an error, by the error's name or status; `revision`: end of all versions, which reads
    everything again where it is another."""

    title: str
    account: str
    documents: str
    example: str
    editions: tuple[Edition, ...]
    streams: tuple[Stream, ...]
    headers: Mapping[str, str] = {}
    rate: Rate = Rate()
    errors: Errors | None = None
    missing: tuple[int, ...] = (404, 410)
    parents: Mapping[str, Parents] = {}
    look_ups: Mapping[str, LookUp] = {}
    revision: str = ""
    remedies: Mapping[str, str] = {}

    def find_edition(self, url: str) -> tuple[Edition, dict[str, str]] | None:
        """Return the edition of a connection's URL, or of a longer address, with the values of its groups; `url` is the
        part that counts."""
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
    """Read a description in YAML. ValueError for one that is not valid."""
    import yaml

    try:
        about = msgspec.convert(yaml.safe_load(text), Description)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ValueError(str(error)) from error
    for stream in about.streams:
        _check_names(about, stream)
    return about


def _check_names(about: Description, stream: Stream) -> None:
    """Raise ValueError for a template with a name that neither the fields nor the URL have."""
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
    """Words for people about a described service."""
    about = read_description(name)
    return ConnectorInfo(
        title=about.title,
        account=about.account,
        documents=about.documents,
        example=about.example,
        credentials=frozenset().union(*(edition.credentials for edition in about.editions)),
        shares=any(stream.permissions for stream in about.streams),
    )
