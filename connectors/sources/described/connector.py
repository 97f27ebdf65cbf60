"""Engine of described services: lists by page, follows changes by time, fetches content."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from connectors.http import responses
from connectors.http.retries import ServicePolicy
from connectors.sources.described.attachments import PACKED_TYPE, Attachment, Packer
from connectors.sources.described.authorization import DescribedAuthorizer, start_grant
from connectors.sources.described.content import MISSING, ContentReader, split_groups
from connectors.sources.described.description import Description, Stream, read_description
from connectors.sources.described.editions import CLIENT_NAMES, Edition
from connectors.sources.described.endpoints import MAX_KNOWN_ITEMS, EndpointCheck
from connectors.sources.described.fields import fill_address, has_field, is_kept, read_value
from connectors.sources.described.items import ItemMaker, digest
from connectors.sources.described.listing import Listing
from connectors.sources.described.names import NameReader
from connectors.sources.described.parents import ParentReader
from connectors.sources.described.permissions import AccessReader, AnswerCache, shared_answers
from connectors.sources.described.service import Service, Site, check_address, open_site
from retrieval.errors import Fatal, Skippable
from retrieval.network.service_urls import require_url
from retrieval.ports import FolderEntry, FolderPage, Page, RawContent, SourceAccess, SourceItem, Tokens, TokenSource
from retrieval.sync_filter import SYNC_EVERYTHING, SyncFilter

if TYPE_CHECKING:
    import httpx

    from retrieval.ports import Authorizer
    from retrieval.settings import Settings

MOVED: Final = (301, 302, 307, 308)
"""Statuses of items of a parent that has moved out of the list."""
MAX_KNOWN_LISTS: Final = 5
"""Maximum number of lists requested for known items, to compare with a missing item."""


def make_described(name: str, settings: Settings) -> Described:
    """Return the connector of a described service."""
    return make_connector(name, read_description(name), settings)


def make_connector(name: str, about: Description, settings: Settings) -> Described:
    """Create the connector of a description."""
    policy = ServicePolicy(about.title, per_minute=about.rate.per_minute, burst=about.rate.burst)
    authorizer = DescribedAuthorizer(lambda _url: (name, about), settings)
    return Described(about, Service(name, about, settings, policy), settings.max_file_bytes, authorizer)


def read_config(name: str, config: Mapping[str, Any], settings: Settings) -> Tokens:
    """Check the `config` of a connection. ValueError with field and reason."""
    return check_config(name, read_description(name), config, settings)


def check_config(name: str, about: Description, config: Mapping[str, Any], settings: Settings) -> Tokens:
    """Check the `config` against a description. ValueError with field and reason."""
    url = str(config.get("url") or "").partition("#")[0].rstrip("/")
    try:
        require_url(url, ("https", "http"))
    except ValueError as error:
        raise ValueError("url", str(error)) from None
    if (site := open_site(name, about, url, settings)) is None:
        raise ValueError("url", f"must be the address of what to read, such as {about.example}")
    if unknown := config.keys() - {"url", "credentials", "fullListingMinutes"}:
        raise ValueError(min(unknown), "is not for this connector")
    needed, names = site.edition.credentials, set(config.get("credentials") or {})
    grant = start_grant(name, site, config, settings) if names in (set(), CLIENT_NAMES) else None
    if grant is None and names != needed and (names or not site.edition.public):
        raise ValueError("credentials", _explain_credentials(name, site.edition))
    check_address(site, settings)
    if grant is not None:
        return grant
    url = site.location["url"]
    return Tokens(json.dumps({**config, "url": url}), account=url)


def _explain_credentials(name: str, edition: Edition) -> str:
    names = " and ".join(sorted(edition.credentials))
    if edition.oauth2 is None:
        return f"must hold {names}, and nothing else"
    if "authorization_code" not in edition.oauth2.grants:
        return f"must hold {names}, or clientId and clientSecret of an app"
    return (
        f"must hold {names}, or clientId and clientSecret of an app; none of them needs the operator's app of {name} in"
        " RETRIEVAL_OAUTH_APPS, for an address of the service's own host"
    )


@dataclass(frozen=True, slots=True)
class Described:
    """A `Connector`; `max_bytes`: limit of a document."""

    about: Description
    service: Service
    max_bytes: int
    authorizer: Authorizer
    choice: SyncFilter = SYNC_EVERYTHING
    answers: AnswerCache = field(default_factory=shared_answers)

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        self.answers.forget(tokens.connection_id)
        site = self._open(tokens, is_listing=True)
        with tempfile.TemporaryDirectory(prefix="listed-") as folder:
            yield from self._list(tokens, site, Path(folder)).iter_pages(cursor)

    def with_choice(self, choice: SyncFilter) -> Described:
        """Exclude lists by ids of the choice; their items become unreachable."""
        return replace(self, choice=choice)

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        """List parents and lists as folders, or the items of a folder, by page."""
        listing = self._list(tokens, self._open(tokens, is_listing=True))
        targets_to_show = [target for target in listing.find_targets() if not target.stream.only_changes]
        targets = {target.parent or target.stream.name: target for target in targets_to_show}
        if parent is None:
            folders = [
                FolderEntry(key, target.path or key, is_folder=True, path=target.path or key, has_children=True)
                for key, target in targets.items()
            ]
            return FolderPage(folders)
        if parent not in targets:
            raise Skippable("There is no such folder.")
        items, following = listing.list_page(targets[parent], cursor or "")
        return FolderPage([_entry(item) for item in items if not item.error], following or None)

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        site, stream, values = self._find(tokens, item.external_id)
        content, values = stream.content, self._add_parent(tokens, site, stream, values)
        headers = {"Accept": content.accept} if content.accept else {}
        url = site.base + fill_address(content.get, values)
        answer = self.service.get(tokens, url, passing=self.about.missing, headers=headers, is_file=content.file)
        if answer.status_code in self.about.missing:
            self._check_endpoint(tokens, site, stream).require(content.get, values, answer)
            raise Skippable(MISSING)
        attachments, media_type = list[Attachment](), item.media_type or content.media_type
        data = ContentReader(self._names(tokens, site), attachments).read_answer(stream, values, answer)
        if len(data) > self.max_bytes:
            raise responses.too_large(self.max_bytes)
        if attachments:
            data = Packer(self.service, tokens, site, self.max_bytes).pack(data, media_type, attachments)
            media_type = PACKED_TYPE
        to.write_bytes(data)
        return RawContent(to, item.name, media_type, len(data))

    def _add_parent(self, tokens: TokenSource, site: Site, stream: Stream, values: dict[str, str]) -> dict[str, str]:
        """Return the values of an item with the parent's fields named by the text."""
        parents = self.about.parents.get(stream.parents)
        parent_fields = {name for name in (parents.fields if parents else ()) if f"item.{name}" in stream.content.text}
        if values.keys() >= parent_fields:
            return values
        target = self._list(tokens, site).find_list(stream, values)
        return {**values, **(target.values if target else {})}

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        try:
            site, stream, values = self._find(tokens, external_id)
        except Skippable:
            return True
        exists = stream.exists
        listing, missing = self._list(tokens, site), self.about.missing
        if stream.parents and listing.find_list(stream, values) is None:
            if listing.has_parent(stream, values):  # not chosen, or left by the app
                return True
            missing = (*missing, *MOVED)  # one incomplete list of parents proves nothing
        try:
            answer = self.service.get(tokens, site.base + fill_address(exists.get, values), passing=missing)
        except Skippable:  # it is there, and large
            return False
        if answer.status_code in MOVED and answer.status_code in missing:
            return True
        if answer.status_code in self.about.missing:
            self._check_endpoint(tokens, site, stream).require(exists.get, values, answer)
            return True
        return not self._is_kept(tokens, site, stream, values, answer)

    def _is_kept(
        self, tokens: TokenSource, site: Site, stream: Stream, values: Mapping[str, str], answer: httpx.Response
    ) -> bool:
        """Check the answer to an existence request for a listed item."""
        keep, list_name, number = stream.exists.keep, *stream.exists.entry.rpartition(".")[::2]
        if stream.group:
            return any(ContentReader(self._names(tokens, site)).list_group(stream, values, answer))
        if number:
            entries = self.service.read_list(answer, list_name)
            return int(number) < len(entries) and is_kept(entries[int(number)], keep, values)
        fields = self.service.read_json(answer) if keep else {}
        is_item = is_kept(fields, keep, values)
        if not is_item and not all("|" in name or has_field(fields, name) for name in keep):
            raise self.service.unreadable()
        return is_item

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        """Return the access list of an item. Skippable with the reason for unreported access."""
        site, stream, values = self._find(tokens, external_id)
        if stream.permissions is None:
            raise Skippable(f"The permissions of {self.about.title} are not read.")
        check, permissions = self._check_endpoint(tokens, site, stream).require, stream.permissions
        fields = frozenset(stream.fields)
        reader = AccessReader(self.service, tokens, site, permissions, fields, self.answers, check)
        return reader.read(values)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        """Return the version as in a list; "" if unreadable."""
        try:
            site, stream, values = self._find(tokens, external_id)
            address = stream.relist or (stream.content.get if stream.group else stream.exists.get)
            answer = self.service.get(tokens, site.base + fill_address(address, values))
            if stream.content.text and not stream.version and not stream.group:
                answer = self.service.get(tokens, site.base + fill_address(stream.content.get, values))
                data = ContentReader(self._names(tokens, site)).read_answer(stream, values, answer)
                return digest(data.decode())
            if not stream.relist and not stream.group:
                version = str(read_value(self.service.read_json(answer), stream.version)) if stream.version else ""
                return version + self.about.revision
            listing = self._list(tokens, site)
            target = listing.find_list(stream, values)
            values = {**values, **(target.values if target else {})}
            entries = self.service.read_list(answer, stream.items)
            groups = split_groups(stream, [entry for entry in entries if is_kept(entry, stream.keep, values)])
            items = [listing.items.make_item(stream, values, group) for group in groups]
            return next((item.version for item in items if item.external_id == external_id), "")
        except (Fatal, Skippable):
            return ""

    def _check_endpoint(self, tokens: TokenSource, site: Site, stream: Stream) -> EndpointCheck:
        def list_known() -> list[dict[str, str]]:
            """Return the template values of items on the first pages of the stream's lists."""
            listing, known_items = self._list(tokens, site), list[dict[str, str]]()
            head = stream.within or stream.name
            for target in [target for target in listing.find_targets() if target.stream.name == head][:MAX_KNOWN_LISTS]:
                items, _ = listing.list_page(target)
                parsed = [stream.parse_id(item.external_id, site.location) for item in items if not item.error]
                known_items += [values for values in parsed if values is not None]
                if len(known_items) > MAX_KNOWN_ITEMS:
                    break
            return known_items[: MAX_KNOWN_ITEMS + 1]

        return EndpointCheck(self.service, tokens, site, stream, self.answers, list_known)

    def _open(self, tokens: TokenSource, *, is_listing: bool = False) -> Site:
        """Return the site of a connection, with the names of fields to request, for a listing those of lists."""
        site = self.service.find_site(tokens.token())
        names, templates = self._names(tokens, site), [text for item in self.about.streams for text in item.templates]
        fields = {
            name: names.join_fields(about)
            for name, about in self.about.field_names.items()
            if not is_listing or any(f"{{{name}}}" in text for text in templates)
        }
        return replace(site, location={**site.location, **fields})

    def _names(self, tokens: TokenSource, site: Site) -> NameReader:
        return NameReader(self.service, tokens, site, self.answers)

    def _list(self, tokens: TokenSource, site: Site, folder: Path | None = None) -> Listing:
        streams = [stream for stream in self.about.streams if stream.edition in {"", site.edition.name}]
        names = self._names(tokens, site)
        items = ItemMaker(ContentReader(names), folder)
        return Listing(names, items, streams, self._choose(streams), self.choice, ParentReader(names))

    def _choose(self, streams: Sequence[Stream]) -> list[Stream]:
        """Return the streams within the choice, or all."""
        names, include = {stream.name for stream in streams}, {entry.get("id") for entry in self.choice.include}
        chosen = names & include if include <= names and include else names
        chosen -= {entry.get("id") for entry in self.choice.exclude}
        return [stream for stream in streams if stream.name in chosen] or list(streams)

    def _find(self, tokens: TokenSource, external_id: str) -> tuple[Site, Stream, dict[str, str]]:
        site = self._open(tokens)
        streams = self._choose([item for item in self.about.streams if item.edition in {"", site.edition.name}])
        parsed = [(stream, stream.parse_id(external_id, site.location)) for stream in streams]
        fitting = [(stream, values) for stream, values in parsed if values is not None]
        if fitting:  # the one with the most literal id
            stream, values = min(fitting, key=lambda pair: sum(map(len, pair[1].values())))
            return site, stream, values
        raise Skippable("The connection names another place than the one that this document is from.")


def _entry(item: SourceItem) -> FolderEntry:
    path, modified = str(item.properties.get("path") or item.name), item.properties.get("modifiedAt")
    modified_at = str(modified) if modified else None
    return FolderEntry(
        item.external_id,
        item.name,
        is_folder=False,
        path=path,
        media_type=item.media_type,
        modified_at=modified_at,
        above=item.above,
    )
