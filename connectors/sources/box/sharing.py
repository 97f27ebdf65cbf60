"""Access lists of Box files: owner, collaborations on the file and on the folders above, and shared links.

GET /files/{id}/collaborations and /folders/{id}/collaborations (developer.box.com/reference): a collaboration on a
folder holds for all below it. One of a group names the group; who is in it an administrator may ask.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from connectors.sources.box.client import BoxSession, Collaboration, Forbidden, NotFound, SharedLink, Unreadable
from retrieval.errors import ItemMissing, Skippable
from retrieval.ports import SourceAccess, TokenSource

CLOSED: Final = (
    "Box does not tell the connected account who may see this file: connect an account that may invite people."
)
UNREADABLE: Final = "Box's answer does not tell who may see this file."
COMPANY: Final = "box:company"
"""The group of a link that everybody of the account's enterprise may use; of a file that another enterprise owns such
a link is for the people there, of whom nothing is known here."""
_SEES: Final = frozenset(
    {"owner", "co-owner", "editor", "viewer", "viewer uploader", "previewer", "previewer uploader"}
)
"""Roles that show a file; `uploader` does not, and an unknown role grants nothing."""
_OPENS: Final = frozenset({"can_edit", "can_download", "can_preview"})
"""What a link lets do that shows the file."""


Folders = dict[tuple[str, str], list[Collaboration]]
"""By connection and folder."""


def read_access(client: BoxSession, tokens: TokenSource, file_id: str, known: Folders) -> SourceAccess:
    """Access list of a file; each folder is requested once. Skippable where the account may not read it."""
    try:
        file = client.shared(tokens, file_id)
        above = [
            entry.id for entry in (file.path_collection.entries if file.path_collection else ()) if entry.id != "0"
        ]
        collaborations = list(client.collaborations(tokens, "files", file_id))
        for folder in above:
            cache_key = tokens.connection_id, folder
            if cache_key not in known:
                known[cache_key] = client.collaborations(tokens, "folders", folder)
            collaborations += known[cache_key]
    except NotFound as error:
        raise ItemMissing(CLOSED) from error
    except Forbidden as error:
        raise Skippable(CLOSED) from error
    except Unreadable as error:
        raise Skippable(UNREADABLE) from error
    good = [
        entry
        for entry in collaborations
        if entry.status == "accepted" and entry.role in _SEES and not _has_ended(entry.expires_at)
    ]
    users = [name for entry in good if (name := _login(entry))]
    groups = [
        f"box:{entry.accessible_by.id}" for entry in good if entry.accessible_by and entry.accessible_by.type == "group"
    ]
    owner = file.owned_by.login if file.owned_by else None
    reach = file.shared_link.effective_access if file.shared_link and _opens(file.shared_link) else None
    groups += [COMPANY] if reach == "company" and file.is_externally_owned is False else []
    return SourceAccess(tuple(filter(None, [owner, *users])), tuple(groups), public=reach == "open")


def _opens(link: SharedLink) -> bool:
    """Tell whether the link needs no password, shows the file and has not ended."""
    shows = link.is_password_enabled is False and link.effective_permission in _OPENS
    return shows and not _has_ended(link.unshared_at)


def _has_ended(moment: str | None) -> bool:
    """Also of a moment that cannot be read."""
    try:
        ends = datetime.fromisoformat(moment) if moment else None
    except ValueError:
        return True
    return ends is not None and ends.replace(tzinfo=ends.tzinfo or UTC) <= datetime.now(UTC)


def _login(one: Collaboration) -> str | None:
    by = one.accessible_by
    return by.login if by and by.type == "user" else None
