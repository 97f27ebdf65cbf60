"""Whom Notion shows a page: its API tells nothing of a page's sharing, so everybody in the workspace.

GET /v1/users (developers.notion.com/reference/get-users) names them, with addresses where the integration may read
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from connectors.http.responses import Cursors
from connectors.sources.notion.transport import Answer, Closed, Missing, Request, Unfit
from retrieval.errors import Skippable
from retrieval.ports import SourceAccess

CLOSED: Final = (
    "Notion does not tell the integration who is in the workspace: give it the capability to read users with their"
    " email addresses."
)
UNREADABLE: Final = "Notion's answer does not tell who is in the workspace."


def access(ask: Callable[[Request], Answer]) -> SourceAccess:
    """Of every page of the workspace. Skippable where the integration may not ask, or is shown no address."""
    found, at = list[str](), None
    cursors = Cursors("Notion's listing of users")
    while True:
        place = at
        try:
            answer = ask(
                lambda client, token, place=place: client.users.list(  # type: ignore[misc]
                    auth=token, page_size=100, start_cursor=place
                )
            )
        except (Missing, Unfit, Closed) as error:
            raise Skippable(CLOSED) from error
        told, at = answer.get("results"), answer.get("next_cursor") if answer.get("has_more") else None
        if not isinstance(told, list) or not isinstance(at, str | None):
            raise Skippable(UNREADABLE)
        people = [one for one in told if isinstance(one, Mapping) and one.get("type") == "person"]
        found += [address for one in people if (address := _address(one.get("person")))]
        if not at:
            break
        cursors.follow(at, brought=bool(people))
    if not found:
        raise Skippable(CLOSED)
    return SourceAccess(tuple(found))


def _address(person: Any) -> str:
    email = person.get("email") if isinstance(person, Mapping) else None
    return email if isinstance(email, str) else ""
