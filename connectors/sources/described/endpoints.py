"""Check that an endpoint still answers for existing items, before a missing item counts as deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from connectors.sources.described.description import Stream
from connectors.sources.described.fields import fill_address
from connectors.sources.described.permissions import AnswerCache
from connectors.sources.described.service import Refused, Retired
from retrieval.errors import Fatal, Skippable

if TYPE_CHECKING:
    import httpx

    from connectors.sources.described.service import Service, Site
    from retrieval.ports import TokenSource

MAX_KNOWN_ITEMS: Final = 3
"""Maximum number of listed items compared with a missing item: some may be deleted at the same time."""


@dataclass(frozen=True, slots=True)
class EndpointCheck:
    """Compares a missing item with currently listed items. `list_known` returns template values of the latter."""

    service: Service
    tokens: TokenSource
    site: Site
    stream: Stream
    answers: AnswerCache
    list_known: Callable[[], Sequence[Mapping[str, str]]]

    def require(self, template: str, values: Mapping[str, str], missing: Refused | httpx.Response) -> None:
        """Raise Retired where the address of a missing item is missing for every known item too."""
        other_items = [known for known in self._known() if known != values]
        if other_items and all(self._is_missing(template, known) for known in other_items[:MAX_KNOWN_ITEMS]):
            raise missing.retire() if isinstance(missing, Refused) else self.service.refusal(missing).retire()

    def _known(self) -> Sequence[Mapping[str, str]]:
        known: Sequence[Mapping[str, str]] = self.answers.get_or_load(
            self.tokens.connection_id, f"known {self.stream.name} of {self.site.location['url']}", self._load_known
        )
        return known

    def _load_known(self) -> Sequence[Mapping[str, str]]:
        try:
            return self.list_known()
        except Skippable as error:
            raise Fatal(str(error)) from error

    def _is_missing(self, template: str, values: Mapping[str, str]) -> bool:
        url = self.site.base + fill_address(template, values)
        return bool(self.answers.get_or_load(self.tokens.connection_id, f"status {url}", lambda: self._request(url)))

    def _request(self, url: str) -> bool:
        missing = self.service.about.missing
        try:
            answer = self.service.get(self.tokens, url, passing=missing)
        except (Retired, Skippable) as error:
            return isinstance(error, Retired)
        return answer.status_code in missing
