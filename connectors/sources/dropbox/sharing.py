"""Permissions of a file at Dropbox: its members, including those of shared folders above it, and its link.

/sharing/list_file_members and /sharing/get_file_metadata (dropbox.com/developers/documentation/http), with the
permission `sharing.read`, which a connection requests if it reads item permissions.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from connectors.http.responses import Cursors
from connectors.sources.dropbox.client import MissingScope
from retrieval.errors import ItemMissing, Skippable
from retrieval.ports import SourceAccess

if TYPE_CHECKING:
    from connectors.sources.dropbox.client import DropboxSession
    from retrieval.ports import TokenSource

SCOPE: Final = "sharing.read"
CLOSED: Final = "Dropbox does not tell the connected account who may see this file."
WITHHELD: Final = (
    f"Dropbox does not tell who may see this file: allow {SCOPE} among the app's permissions there, and authorize the"
    " connection again."
)
TEAM: Final = "dropbox:team"
"""The group of a link that everybody of the account's team may use; of a file that another team owns such a link is
for the people there, of whom nothing is known here."""
UNREADABLE: Final = "Dropbox's answer does not tell who may see this file."
LIMIT: Final = 300
_SEES: Final = ("is_owner", "is_editor", "is_viewer", "is_viewer_no_comment")
"""The SDK's tests for levels of access that show a file; `traverse`, `no_access` and unknown levels do not."""


def read_access(client: DropboxSession, tokens: TokenSource, file_id: str) -> SourceAccess:
    """Return the access of one file. Skippable where the account may not read it, or the answer is empty.

    People with a pending invitation have no access yet.
    """

    def request(sdk: Any) -> SourceAccess:
        from dropbox.exceptions import ApiError
        from dropbox.stone_validators import ValidationError

        try:
            users, groups = _members(sdk, file_id)
            metadata = sdk.sharing_get_file_metadata(file_id)
        except ApiError as error:
            raise (ItemMissing if _is_missing(error.error) else Skippable)(CLOSED) from error
        except (ValidationError, AssertionError, LookupError, TypeError, AttributeError) as error:
            raise Skippable(UNREADABLE) from error  # what the SDK cannot make an answer of, of this one file
        audience, team = _audience(metadata.link_metadata), metadata.owner_team and metadata.owner_team.id
        groups += [TEAM] if audience == "team" and team and team == client.team(tokens) else []
        return SourceAccess(tuple(users), tuple(groups), public=audience == "public")

    try:
        return client.ask(tokens, request)
    except MissingScope as error:
        raise Skippable(WITHHELD) from error


def _is_missing(error: Any) -> bool:
    """Tell whether a refusal of a route of sharing is that of a file that does not exist."""
    return bool(error.is_access_error() and error.get_access_error().is_invalid_file())


def _members(sdk: Any, file_id: str) -> tuple[list[str], list[str]]:
    cursors, users, groups = Cursors("Dropbox's listing of members"), list[str](), list[str]()
    page = sdk.sharing_list_file_members(file_id, include_inherited=True, limit=LIMIT)
    while True:
        users += [member.user.email for member in page.users if _sees(member.access_type)]
        groups += [f"dropbox:{member.group.group_id}" for member in page.groups if _sees(member.access_type)]
        if not page.cursor:
            return users, groups
        cursors.follow(page.cursor, brought=bool(page.users or page.groups))
        page = sdk.sharing_list_file_members_continue(page.cursor)


def _sees(level: Any) -> bool:
    return any(getattr(level, name)() for name in _SEES if hasattr(level, name))


def _audience(link: Any) -> str:
    """Return `public` or `team` for a link that shows the file, needs no password and has not ended; "" otherwise."""
    if link is None or link.password_protected or not (link.access_level is None or _sees(link.access_level)):
        return ""
    ends = link.expiry and link.expiry.replace(tzinfo=link.expiry.tzinfo or UTC)
    if ends and ends <= datetime.now(UTC):
        return ""
    return "public" if link.current_audience.is_public() else "team" if link.current_audience.is_team() else ""
