"""Removed endpoints of vendors: every item is answered as missing; lists still work."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.standins.faults import Fault, Handler
    from tests.standins.place import Account

REASON = "SECRET This deprecated endpoint has been removed."
_GOOGLE = {"error": {"code": 404, "message": REASON, "errors": [{"reason": "notFound", "message": REASON}]}}
_GRAPH = {"error": {"code": "itemNotFound", "message": REASON}}
_NOTION = {"object": "error", "status": 404, "code": "object_not_found", "message": REASON}
_BOX = {"type": "error", "status": 404, "code": "not_found", "message": REASON}
_LOOKUP = {"error_summary": REASON, "error": {".tag": "path", "path": {".tag": "not_found"}}}
_SHARING = {
    "error_summary": REASON,
    "error": {".tag": "access_error", "access_error": {".tag": "invalid_file"}},
}

ITEMS: dict[str, tuple[str, int, Any]] = {
    "BOX": (r"GET /2\.0/files/\d+(/content)?", 404, _BOX),
    "DROPBOX": (r"POST /2/files/(get_metadata|download)", 409, _LOOKUP),
    "GMAIL": (r"GET /gmail/v1/users/me/threads/[^/]+", 404, _GOOGLE),
    "GOOGLE_DRIVE": (r"GET /drive/v3/files/[^/]+", 404, _GOOGLE),
    "NOTION": (r"GET /v1/(pages|blocks)/[^/]+", 404, _NOTION),
    "ONEDRIVE": (r"GET /v1\.0/me/drive/items/[^/]+(/content)?", 404, _GRAPH),
    "OUTLOOK_MAIL": (r"GET /v1\.0/me/messages", 404, _GRAPH),
    "SHAREPOINT": (r"GET /v1\.0/drives/[^/]+/items/[^/]+(/content)?", 404, _GRAPH),
}
"""By connector: requests for one item, and the status and body for a missing item."""
PERMISSIONS: dict[str, tuple[str, int, Any]] = {
    "BOX": (r"GET /2\.0/(files|folders)/\d+/collaborations", 404, _BOX),
    "DROPBOX": (r"POST /2/sharing/list_file_members", 409, _SHARING),
    "GMAIL": (r"GET /gmail/v1/users/me/profile", 404, _GOOGLE),
    "GOOGLE_DRIVE": (r"GET /drive/v3/files/[^/]+/permissions", 404, _GOOGLE),
    "NOTION": (r"GET /v1/users", 404, _NOTION),
    "ONEDRIVE": (r"GET /v1\.0/me/drive/items/[^/]+/permissions", 404, _GRAPH),
    "OUTLOOK_MAIL": (r"GET /v1\.0/me", 404, _GRAPH),
    "SHAREPOINT": (r"GET /v1\.0/drives/[^/]+/items/[^/]+/permissions", 404, _GRAPH),
}
"""By connector: requests for the permissions of an item or of the workspace."""


def retire(
    account: Account, endpoints: dict[str, tuple[str, int, Any]], code: int = 0
) -> Callable[[str], Fault | None]:
    """Return a fault for the removed endpoints of the account's vendor; `code` overrides the status of missing
    items."""
    pattern, status, body = endpoints[account.connector]

    def refuse(handler: Handler) -> bool:
        handler.reply(code or status, body)
        return True

    return lambda request: refuse if re.fullmatch(pattern, request) else None
