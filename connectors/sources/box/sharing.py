"""Access lists of Box files: owner, collaborations on the file and its folders, and shared links."""

# GET /files/{id}/collaborations and /folders/{id}/collaborations (developer.box.com/reference): a collaboration on a
# folder applies to everything below. Only an administrator may read the members of a group.

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from connectors.sources.box.answers import Collaboration, SharedLink
from connectors.sources.box.client import BoxSession, Forbidden, NotFound, Unreadable
from retrieval.errors import ItemMissing, Skippable
from retrieval.ports import SourceAccess, TokenSource

ACCESS_CLOSED_MESSAGE: Final = (
    "Box does not show the connected account who may see this file: connect an account that may invite people."
)
ACCESS_UNREADABLE_MESSAGE: Final = "Box's answer does not contain who may see this file."
# Group of a link for the account's whole enterprise. A file of another enterprise is open to unknown people there.
COMPANY_GROUP: Final = "box:company"
# Roles that show a file; `uploader` does not, and an unknown role grants nothing.
_READER_ROLES: Final = frozenset(
    {"owner", "co-owner", "editor", "viewer", "viewer uploader", "previewer", "previewer uploader"}
)
# Permissions of a link that show the file.
_READER_PERMISSIONS: Final = frozenset({"can_edit", "can_download", "can_preview"})


# Collaborations by connection and folder.
FolderCollaborations = dict[tuple[str, str], list[Collaboration]]


def read_access(
    client: BoxSession, tokens: TokenSource, file_id: str, folder_collaborations: FolderCollaborations
) -> SourceAccess:
    """Return the access list of a file; each folder is requested once. Skippable if the account may not read it."""
    try:
        file = client.read_sharing(tokens, file_id)
        above = [
            entry.id for entry in (file.path_collection.entries if file.path_collection else ()) if entry.id != "0"
        ]
        collaborations = list(client.list_collaborations(tokens, "files", file_id))
        for folder in above:
            cache_key = tokens.connection_id, folder
            if cache_key not in folder_collaborations:
                folder_collaborations[cache_key] = client.list_collaborations(tokens, "folders", folder)
            collaborations += folder_collaborations[cache_key]
    except NotFound as error:
        raise ItemMissing(ACCESS_CLOSED_MESSAGE) from error
    except Forbidden as error:
        raise Skippable(ACCESS_CLOSED_MESSAGE) from error
    except Unreadable as error:
        raise Skippable(ACCESS_UNREADABLE_MESSAGE) from error
    good = [
        entry
        for entry in collaborations
        if entry.status == "accepted" and entry.role in _READER_ROLES and not _has_ended(entry.expires_at)
    ]
    users = [name for entry in good if (name := _login(entry))]
    groups = [
        f"box:{entry.accessible_by.id}" for entry in good if entry.accessible_by and entry.accessible_by.type == "group"
    ]
    owner = file.owned_by.login if file.owned_by else None
    link_access = file.shared_link.effective_access if file.shared_link and _is_open(file.shared_link) else None
    groups += [COMPANY_GROUP] if link_access == "company" and file.is_externally_owned is False else []
    return SourceAccess(tuple(filter(None, [owner, *users])), tuple(groups), public=link_access == "open")


def _is_open(link: SharedLink) -> bool:
    """Return True for a link without a password that shows the file and has not ended."""
    shows = link.is_password_enabled is False and link.effective_permission in _READER_PERMISSIONS
    return shows and not _has_ended(link.unshared_at)


def _has_ended(moment: str | None) -> bool:
    """Return True for a past or invalid moment."""
    try:
        ends = datetime.fromisoformat(moment) if moment else None
    except ValueError:
        return True
    return ends is not None and ends.replace(tzinfo=ends.tzinfo or UTC) <= datetime.now(UTC)


def _login(collaboration: Collaboration) -> str | None:
    grantee = collaboration.accessible_by
    return grantee.login if grantee and grantee.type == "user" else None
