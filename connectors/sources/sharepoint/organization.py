"""SharePoint of an organization by application permissions: a part for each library of each site."""

# learn.microsoft.com/graph/api/site-getallsites: only for apps with Sites.Read.All; people's OneDrives are among the
# sites, with `isPersonalSite`. learn.microsoft.com/graph/permissions-selected-overview: Sites.Selected opens single
# sites and does not list them.

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from connectors.microsoft_graph import application
from connectors.microsoft_graph.application import Application, GraphDrive
from connectors.microsoft_graph.items import Drive
from connectors.organization import MemberTokens, Part, PartUnavailable
from connectors.sources.sharepoint.connector import CONNECTOR_NAME, CONNECTOR_TITLE
from connectors.sources.sharepoint.sites import path_of

if TYPE_CHECKING:
    from retrieval.ports import Tokens, TokenSource
    from retrieval.settings import Settings

SITES_PATH: Final = "/sites/getAllSites"
_LIBRARY_TYPE: Final = "documentLibrary"
REFUSED_MESSAGE: Final = (
    "SharePoint does not let the app list the organization's sites: grant it the application permission Sites.Read.All"
    " with the consent of an administrator; or, with Sites.Selected, name the granted sites as `sites` of the"
    " connection's config."
)


def read_config(config: Mapping[str, Any], settings: Settings) -> Tokens:  # noqa: ARG001
    """Check the `config` of a connection. ValueError with field and reason."""
    tokens = application.read_config(config, frozenset({"sites"}))
    host = urlsplit(str(config["url"])).hostname
    for address in _addresses(config):
        parts = urlsplit(address)
        if parts.scheme != "https" or parts.hostname != host or parts.port is not None:
            raise ValueError("sites", f"must be addresses of sites on https://{host}, one a line")
    return tokens


def _addresses(config: Mapping[str, Any]) -> list[str]:
    return str(config.get("sites") or "").split()


def open_organization(settings: Settings, config: Mapping[str, Any], tokens: TokenSource) -> SitesOrganization:
    """Open the organization of a connection."""
    app = Application.open(CONNECTOR_NAME, CONNECTOR_TITLE, settings, config, tokens)
    return SitesOrganization(app, tuple(_addresses(config)))


@dataclass(slots=True)
class SitesOrganization:
    """`Organization` of sites. The key of a part is the id of a library's drive."""

    app: Application
    addresses: tuple[str, ...]
    parts: dict[str, Part] = field(default_factory=dict)
    is_listed: bool = False

    def list_parts(self) -> Iterator[Part]:
        """Return the libraries by site. A closed site is a part that cannot be opened."""
        parts, is_complete = dict[str, Part](), True
        for site_id in self._list_sites():
            try:
                drives = self._list_libraries(site_id)
            except PartUnavailable:
                is_complete = False
                yield Part(site_id, site_id)
                continue
            parts |= drives
            yield from drives.values()
        self.parts, self.is_listed = parts, is_complete

    def find_part(self, key: str) -> Part | None:
        if self.addresses and not self.is_listed:
            list(self.list_parts())
        if key in self.parts or (self.addresses and self.is_listed):
            return self.parts.get(key)
        return _part_of(self.app.read(Drive.of(key).place))

    def open_part(self, part: Part) -> tuple[GraphDrive, MemberTokens]:
        if "," in part.key:  # the id of a closed site
            raise PartUnavailable
        return self.app.drive(part.key, Drive.of(part.key)), self.app.tokens

    def _list_sites(self) -> Iterator[str]:
        if not self.addresses:
            for site in self.app.list_all(SITES_PATH, REFUSED_MESSAGE):
                if not site.get("isPersonalSite"):
                    yield site["id"]
        for address in self.addresses:
            parts, path = urlsplit(address), path_of(address)
            place = f"{parts.hostname}:/{quote(path)}" if path else str(parts.hostname)
            try:
                named = self.app.read(f"/sites/{place}")
            except PartUnavailable:
                yield f"{parts.hostname},{path}"
                continue
            if named is not None:
                yield str(named["id"])

    def _list_libraries(self, site_id: str) -> dict[str, Part]:
        """Return the libraries of a site. Raises PartUnavailable."""
        path = f"/sites/{quote(site_id, safe=',')}/drives"
        if self.app.read(path) is None:
            return {}
        drives = self.app.list_all(path, REFUSED_MESSAGE)
        return {part.key: part for drive in drives if (part := _part_of(drive))}


def _part_of(drive: Mapping[str, Any] | None) -> Part | None:
    if drive is None or drive.get("driveType", _LIBRARY_TYPE) != _LIBRARY_TYPE:
        return None
    return Part(drive["id"], path_of(str(drive.get("webUrl") or "")) or str(drive.get("name") or ""))
