"""Names of people, channels and the like by id, read once a run for all items of a connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from connectors.http.responses import Cursors
from connectors.sources.described import templates
from connectors.sources.described.fields import fill_address, is_kept, read_field, read_value
from connectors.sources.described.look_ups import FieldNames, LookUp
from connectors.sources.described.permission_layers import Paging
from connectors.sources.described.permissions import AnswerCache
from connectors.sources.described.service import Refused
from retrieval.errors import Skippable

if TYPE_CHECKING:
    from connectors.sources.described.service import Service, Site
    from retrieval.ports import TokenSource

MAX_PAGES: Final = 1000
"""Pages of one list of names or parents."""


@dataclass(frozen=True, slots=True)
class NameReader:
    """Reads the look-ups of a description in the name of a connection. An id without a name stays as it is."""

    service: Service
    tokens: TokenSource
    site: Site
    answers: AnswerCache

    def find_name(self, look_up: str, key: str) -> str:
        """Return the name of an id; the id if unknown or not readable with the credentials."""
        about = self.service.about.look_ups.get(look_up)
        if about is None:
            return key
        try:
            name = self._list_names(about).get(key, "") if about.list else ""
            get = about.gets.get(self.site.edition.name, about.get)
            return name or (self._request_name(about, get, key) if get else "") or key
        except Skippable:
            return key

    def join_fields(self, about: FieldNames) -> str:
        """Return the joined names of fields to request."""
        entries = self.list_entries(
            self.site.base + fill_address(about.list, self.site.location), about.items, about.paging
        )
        chosen_entries = (entry for entry in entries if is_kept(entry, about.keep, self.site.location))
        return ",".join(dict.fromkeys((*about.always, *(_read_name(about, entry) for entry in chosen_entries))))

    def list_entries(self, url: str, items: str, paging: Paging) -> list[Any]:
        """Return the entries of all pages of a list, which is requested once a run."""
        entries: list[Any] = self.answers.get_or_load(
            self.tokens.connection_id, f"list {url}", lambda: list(self._load_entries(url, items, paging))
        )
        return entries

    def _list_names(self, about: LookUp) -> Mapping[str, str]:
        url = self.site.base + fill_address(about.list, self.site.location)

        def load() -> Mapping[str, str]:
            try:
                entries = self.list_entries(url, about.items, about.paging)
            except Refused as error:
                raise Skippable(str(error)) from error
            if about.each:
                entries = [
                    {**part, "above": entry} for entry in entries for part in read_field(entry, about.each) or ()
                ]
            names = {str(read_value(entry, about.key)): _read_name(about, entry) for entry in entries}
            return {key: name for key, name in names.items() if name}

        names: Mapping[str, str] = self.answers.get_or_load(
            self.tokens.connection_id, f"names {url} {about.each} {about.value}", load
        )
        return names

    def _request_name(self, about: LookUp, get: str, key: str) -> str:
        url = self.site.base + fill_address(get, {**self.site.location, "id": key})

        def load() -> str:
            try:
                answer = self.service.get(self.tokens, url, passing=self.service.about.missing)
            except Refused as error:
                raise Skippable(str(error)) from error
            if answer.status_code in self.service.about.missing:
                return ""
            return _read_name(about, read_field(self.service.read_json(answer), about.entry))

        return str(self.answers.get_or_load(self.tokens.connection_id, f"name {url}", load))

    def _load_entries(self, url: str, items: str, paging: Paging) -> Iterator[Any]:
        pages = Cursors(f"{self.service.about.title}'s list")
        for _ in range(MAX_PAGES):
            answer = self.service.get(self.tokens, url)
            entries = self.service.read_list(answer, items)
            yield from entries
            url = self.service.next_page(paging, self.site, answer, entries)
            if not url:
                return
            pages.follow(url, brought=bool(entries))


def _read_name(about: LookUp | FieldNames, entry: Any) -> str:
    return str(templates.evaluate(about.value, entry)) if isinstance(entry, Mapping) else ""
