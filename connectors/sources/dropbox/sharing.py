"""Access lists of Dropbox files: members, including those of shared folders above, and the link."""

# /sharing/list_file_members and /sharing/get_file_metadata (dropbox.com/developers/documentation/http) require the
# permission `sharing.read`; a connection requests it to read item permissions.

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

SHARING_SCOPE: Final = "sharing.read"
ACCESS_CLOSED_MESSAGE: Final = "Dropbox does not show the connected account who may see this file."
SCOPE_MISSING_MESSAGE: Final = (
    f"Dropbox does not show who may see this file: allow {SHARING_SCOPE} among the app's permissions there, and"
    " authorize the connection again."
)
# Group of a link for the account's whole team. A file of another team is open to unknown people there.
TEAM_GROUP: Final = "dropbox:team"
ACCESS_UNREADABLE_MESSAGE: Final = "Dropbox's answer does not contain who may see this file."
MEMBERS_PER_PAGE: Final = 300
# The SDK's tests for access levels that show a file; `traverse`, `no_access` and unknown levels do not.
_READER_TESTS: Final = ("is_owner", "is_editor", "is_viewer", "is_viewer_no_comment")


def read_access(client: DropboxSession, tokens: TokenSource, file_id: str) -> SourceAccess:
    """Return the access list of a file. Skippable if it is empty or unreadable for the account."""
    # People with a pending invitation have no access yet.

    def request(sdk: Any) -> SourceAccess:
        from dropbox.exceptions import ApiError
        from dropbox.stone_validators import ValidationError

        try:
            users, groups = _list_members(sdk, file_id)
            metadata = sdk.sharing_get_file_metadata(file_id)
        except ApiError as error:
            raise (ItemMissing if _is_missing(error.error) else Skippable)(ACCESS_CLOSED_MESSAGE) from error
        except (ValidationError, AssertionError, LookupError, TypeError, AttributeError) as error:
            raise Skippable(ACCESS_UNREADABLE_MESSAGE) from error  # the SDK cannot parse the answer for this file
        audience, team = _audience(metadata.link_metadata), metadata.owner_team and metadata.owner_team.id
        groups += [TEAM_GROUP] if audience == "team" and team and team == client.team_id(tokens) else []
        return SourceAccess(tuple(users), tuple(groups), public=audience == "public")

    try:
        return client.call(tokens, request)
    except MissingScope as error:
        raise Skippable(SCOPE_MISSING_MESSAGE) from error


def _is_missing(error: Any) -> bool:
    """Return True if a refusal of a sharing route means a missing file."""
    return bool(error.is_access_error() and error.get_access_error().is_invalid_file())


def _list_members(sdk: Any, file_id: str) -> tuple[list[str], list[str]]:
    cursors, users, groups = Cursors("Dropbox's listing of members"), list[str](), list[str]()
    page = sdk.sharing_list_file_members(file_id, include_inherited=True, limit=MEMBERS_PER_PAGE)
    while True:
        users += [member.user.email for member in page.users if member.user.email and _can_read(member.access_type)]
        groups += [f"dropbox:{member.group.group_id}" for member in page.groups if _can_read(member.access_type)]
        if not page.cursor:
            return users, groups
        cursors.follow(page.cursor, brought=bool(page.users or page.groups))
        page = sdk.sharing_list_file_members_continue(page.cursor)


def _can_read(level: Any) -> bool:
    return any(getattr(level, name)() for name in _READER_TESTS if hasattr(level, name))


def _audience(link: Any) -> str:
    """Return `public` or `team` for a link that shows the file, without password and end; "" otherwise."""
    if link is None or link.password_protected or not (link.access_level is None or _can_read(link.access_level)):
        return ""
    ends = link.expiry and link.expiry.replace(tzinfo=link.expiry.tzinfo or UTC)
    if ends and ends <= datetime.now(UTC):
        return ""
    return "public" if link.current_audience.is_public() else "team" if link.current_audience.is_team() else ""
