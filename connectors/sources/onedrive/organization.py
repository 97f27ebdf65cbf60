"""OneDrive of an organization by application permissions: a part for each person."""

# learn.microsoft.com/graph/api/user-list (User.Read.All) and learn.microsoft.com/graph/api/drive-get
# (`/users/{id}/drive`, Files.Read.All): 404 for a person without OneDrive.

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from connectors.microsoft_graph import application
from connectors.microsoft_graph.application import Application, GraphDrive
from connectors.microsoft_graph.items import Drive
from connectors.organization import MemberTokens, Part, PartUnavailable
from connectors.sources.onedrive.connector import CONNECTOR_NAME, CONNECTOR_TITLE
from retrieval.errors import Fatal

if TYPE_CHECKING:
    from retrieval.ports import Tokens, TokenSource
    from retrieval.settings import Settings

_FIELDS: Final = "$select=id,userPrincipalName"
PEOPLE_PER_PAGE: Final = 999
REFUSED_MESSAGE: Final = (
    "OneDrive does not let the app list the organization's people: grant it the application permissions User.Read.All"
    " and Files.Read.All with the consent of an administrator."
)


def read_config(config: Mapping[str, Any], settings: Settings) -> Tokens:  # noqa: ARG001
    """Check the `config` of a connection. ValueError with field and reason."""
    return application.read_config(config)


def open_organization(settings: Settings, config: Mapping[str, Any], tokens: TokenSource) -> People:
    """Open the organization of a connection."""
    return People(Application.open(CONNECTOR_NAME, CONNECTOR_TITLE, settings, config, tokens))


@dataclass(slots=True)
class People:
    """`Organization` of people. The key of a part is the id of a person."""

    app: Application

    def list_parts(self) -> Iterator[Part]:
        path = f"/users?{_FIELDS}&$top={PEOPLE_PER_PAGE}"
        yield from (_part_of(person) for person in self.app.list_all(path, REFUSED_MESSAGE))

    def find_part(self, key: str) -> Part | None:
        try:
            person = self.app.read(f"/users/{quote(key, safe='')}?{_FIELDS}")
        except PartUnavailable:
            raise Fatal(REFUSED_MESSAGE) from None
        return _part_of(person) if person else None

    def open_part(self, part: Part) -> tuple[GraphDrive, MemberTokens]:
        drive = Drive(f"/users/{quote(part.key, safe='')}/drive")
        return self.app.drive(part.key, drive), self.app.tokens


def _part_of(person: Mapping[str, Any]) -> Part:
    return Part(person["id"], str(person.get("userPrincipalName") or person["id"]))
