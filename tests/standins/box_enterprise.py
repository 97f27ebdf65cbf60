"""A Box enterprise on loopback: an app's service account that acts for people, with a Box each."""
# developer.box.com/guides/authentication/client-credentials: the form of the token request, and `invalid_grant`.
# developer.box.com/guides/authentication/jwt/as-user: nobody acts for the service account itself, and what accounts
# outside own stays closed. developer.box.com/reference/get-users: marker pages, with inactive people.

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from tests.standins import account
from tests.standins.account import TOKEN, Served
from tests.standins.box import DESCRIPTION, BoxAccount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.standins.faults import Handler

ENTERPRISE, CLIENT, SECRET = "8845", "box-app", "canary-app-secret"
ADA, BEN = "ada@example.com", "ben@example.com"
SERVICE_ACCOUNT = {"type": "user", "id": "1", "name": "Sync", "login": "AutomationUser_1_x@boxdevedition.com"}
OUTSIDER = {"type": "user", "id": "999", "name": "Eve", "login": "eve@elsewhere.example"}


class BoxEnterprise(Served):
    """`inactive`: addresses of inactive people; `acts`: the app may act for people; `left`: people outside now."""

    connector = "BOX"

    def __init__(self) -> None:
        super().__init__()
        self.secret = SECRET
        self.acts = self.lists = True
        self.expires_in = 4000
        self.minted = 0
        self.inactive: set[str] = set()
        self.left: dict[str, str] = {}
        self.boxes: dict[str, BoxAccount] = {}
        self.acted: list[str] = []
        self.complaints: list[str] = []
        self.hired = 0
        self.hire(ADA)
        self.hire(BEN)

    @property
    def config(self) -> dict[str, Any]:
        credentials = {"clientId": CLIENT, "clientSecret": SECRET}
        return {"url": "https://example.app.box.com", "enterpriseId": ENTERPRISE, "credentials": credentials}

    def hire(self, address: str) -> None:
        self.hired += 1
        person = {"type": "user", "id": str(70 + self.hired), "name": address.partition("@")[0], "login": address}
        self.boxes[address] = BoxAccount(person, 1000 * self.hired)

    def key(self, address: str) -> str:
        return self.boxes[address].person["id"]

    def dismiss(self, address: str, *, outside: bool = False) -> None:
        """Delete a person; `outside`: the account leaves the enterprise, and Box knows its address."""
        if outside:
            self.left[self.key(address)] = address
        del self.boxes[address]

    def put(self, address: str, path: str, text: str) -> str:
        return f"{self.key(address)}/{self.boxes[address].put(path, text)}"

    def share(self, address: str, external_id: str, *, outside: bool = False) -> None:
        """Show a file and its folder in another person's Box; `outside`: one that an account elsewhere owns."""
        node = next(box.nodes[its] for box in self.boxes.values() for its in box.nodes if external_id.endswith(its))
        box, changes = self.boxes[address], {"owner": OUTSIDER, "is_foreign": True} if outside else {}
        folder = replace(node.parent or box.root, parent=box.root, **changes)
        box.nodes |= {folder.id: folder, node.id: replace(node, parent=folder, **changes)}
        box.change(node.id, node.content)

    def is_open(self, path: str) -> bool:
        return path.startswith("/dl/")

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        acted = handler.headers.get("as-user")
        with self.lock:
            if match := re.fullmatch(r"/2\.0/users(?:/(\d+))?", path):
                return self._answer_people(handler, match[1], query)
            people = {self.key(address): address for address in self.boxes}
            if self.is_open(path):
                address = next(name for name, box in self.boxes.items() if box.holds_ticket(path))
            elif acted not in people or not self.acts or people[acted] in self.inactive:
                return handler.reply(403, {"type": "error", "status": 403, "code": "forbidden", "message": "SECRET"})
            else:
                address = people[acted]
                self.acted.append(address)
            box = self.boxes[address]
            box.base, box.page = self.base, self.page
        return box.answer(handler, method, path, query, body)

    def _answer_people(self, handler: Handler, its: str | None, query: dict[str, str]) -> None:
        described = "/2.0/users/{user_id}" if its else "/2.0/users"
        if not self.lists:
            return handler.reply(403, {"type": "error", "status": 403, "code": "access_denied", "message": "SECRET"})
        people = [SERVICE_ACCOUNT | {"status": "active"}]
        people += [
            box.person | {"status": "inactive" if address in self.inactive else "active"}
            for address, box in self.boxes.items()
        ]
        if its:
            outside = {"type": "user", "id": its, "login": self.left.get(its), "status": None}
            answer: Any = next((person for person in people if person["id"] == its), outside)
            if answer["login"] is None:
                return handler.reply(404, {"type": "error", "status": 404, "code": "not_found", "message": "SECRET"})
            return handler.reply(200, answer)
        complaint = DESCRIPTION.complaint_on_query(described, "get", query)
        at = int(query.get("marker", 0))
        end = at + min(self.page, int(query["limit"]))
        answer = {"limit": 1000, "entries": people[at:end], "next_marker": str(end) if end < len(people) else None}
        complaint = complaint or DESCRIPTION.complaint_on_answer(described, "get", answer)
        if query.get("user_type") != "managed" or query.get("usemarker") != "true" or complaint:
            self.complaints.append(complaint or f"not all people are listed: {query}")
        return handler.reply(200, answer)

    def _oauth(self, handler: Handler, path: str, body: bytes) -> None:
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        assert path == TOKEN
        assert form["grant_type"] == "client_credentials"
        subject = (form["box_subject_type"], form["box_subject_id"])
        if (form["client_id"], form["client_secret"], subject) != (CLIENT, self.secret, ("enterprise", ENTERPRISE)):
            words = "Grant credentials are invalid, SECRET"
            handler.reply(400, {"error": "invalid_grant", "error_description": words})
            return
        token = f"canary-access-{self.minted}"
        self.minted += 1
        self.good.add(token)
        answer = {"access_token": token, "expires_in": self.expires_in, "restricted_to": [], "token_type": "bearer"}
        handler.reply(200, answer)


@contextmanager
def serving() -> Iterator[BoxEnterprise]:
    """Yield an enterprise; violations of Box's description fail the test."""
    enterprise = BoxEnterprise()
    with account.serving(enterprise):
        yield enterprise
    complaints = [*enterprise.complaints, *(text for box in enterprise.boxes.values() for text in box.complaints)]
    assert not complaints, complaints
