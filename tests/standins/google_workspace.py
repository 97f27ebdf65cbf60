"""A Google Workspace on loopback: a service account with domain-wide delegation, people, shared drives, groups."""
# developers.google.com/identity/protocols/oauth2/service-account: the assertion, and the refusals of the token
# endpoint. developers.google.com/workspace/drive/api/guides/manage-shareddrives: an administrator lists all shared
# drives and their members with `useDomainAdminAccess`, and no files.
# developers.google.com/workspace/admin/directory/reference/rest/v1/users/list: deleted people are not listed, suspended
# ones are.

from __future__ import annotations

import json
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, unquote

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt

from tests.standins import account
from tests.standins.account import TOKEN, Served
from tests.standins.discovery import Discovery, mask_of, masked
from tests.standins.google_drive import DESCRIPTION, GoogleDriveAccount
from tests.standins.google_drive_files import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.standins.faults import Handler

ADMIN, ADA, BEN = "admin@example.com", "ada@example.com", "ben@example.com"
DIRECTORY = Discovery(Path(__file__).with_name("contracts") / "google-directory-v1.json")
AUDIENCE = "https://oauth2.googleapis.com/token"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SCOPE_URL = "https://www.googleapis.com/auth/"


@cache
def make_key(number: int = 1) -> tuple[str, Any]:
    """Return the private key of a service account, and its public key."""
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return pem, public


class GoogleWorkspace(Served):
    """People with a Drive each. `members`: roles by address of each shared drive; `groups`: addresses by group."""

    connector = "GOOGLE_DRIVE"
    unauthorized = Refusal(401, "authError").body
    scope_names: ClassVar[tuple[str, ...]] = (
        "drive.readonly",
        "admin.directory.user.readonly",
        "admin.directory.group.member.readonly",
    )

    def __init__(self) -> None:
        super().__init__()
        self.drives: dict[str, GoogleDriveAccount] = {}
        self.ids: dict[str, str] = {}
        self.suspended: set[str] = set()
        self.members: dict[str, dict[str, str]] = {}
        self.groups: dict[str, list[str]] = {}
        self.delegated = {SCOPE_URL + name for name in self.scope_names}
        self.key_number = 1
        self.expires_in = 3600
        self.minted: list[str] = []
        self.scopes: dict[str, str] = {}
        self.complaints: list[str] = []
        for address in (ADMIN, ADA, BEN):
            self.hire(address)

    @property
    def config(self) -> dict[str, Any]:
        key = {
            "type": "service_account",
            "project_id": "p",
            "private_key_id": "1",
            "private_key": make_key(1)[0],
            "client_email": "sync@p.iam.gserviceaccount.com",
            "client_id": "1234567890",
            "token_uri": "https://attacker.example/token",
        }
        credentials = {"user": ADMIN, "privateKey": json.dumps(key)}
        return {"url": "https://drive.google.com/a/example.com", "credentials": credentials, "people": True}

    def hire(self, address: str) -> GoogleDriveAccount:
        number = len(self.ids) + 1
        drive = self.drives[address] = GoogleDriveAccount(address, 1000 * number)
        self.ids[address] = str(115_000_000_000_000_000_000 + number)
        return drive

    def dismiss(self, address: str) -> None:
        """Delete a person, with the files."""
        del self.drives[address], self.ids[address]

    def shared_drive(self, name: str, **roles: str) -> str:
        """Add a shared drive, with the name of a person or group by role; the first one's account holds the files."""
        members = {f"{member}@example.com": role for role, member in roles.items()}
        drive = self.holder(members).shared_drive(name)
        self.members[drive] = members
        return drive

    def holder(self, members: dict[str, str]) -> GoogleDriveAccount:
        first = next(iter(members))
        return self.drives[self.groups.get(first, [first])[0]]

    def put(self, address: str, path: str, text: str) -> str:
        """Add a file to a person's drive; return the external id."""
        return f"{self.ids[address]}/{self.drives[address].put(path, text)}"

    def put_shared(self, drive: str, path: str, text: str) -> str:
        """Add a file to a shared drive; return the external id."""
        return f"{drive}/{self.holder(self.members[drive]).put(path, text, drive)}"

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        number, _, subject = self._bearer(handler).partition(".")
        drive = self.drives.get(subject)
        if drive is None:
            handler.reply(401, self.unauthorized)
            return
        in_directory, in_drive = DIRECTORY.method(method, path), DESCRIPTION.method(method, path)
        try:
            if in_directory:
                self._require_admin(subject, "admin.directory" in self.scopes[number])
                self._reply(handler, DIRECTORY, in_directory, query)
            elif in_drive and query.get("useDomainAdminAccess") == "true":
                self._require_admin(subject, allowed=True)
                self._reply(handler, DESCRIPTION, in_drive, query)
            else:
                drive.base, drive.page = self.base, self.page
                drive.answer(handler, method, path, query, body)
        except Refusal as refusal:
            handler.reply(refusal.status, refusal.body)

    def _require_admin(self, subject: str, allowed: bool) -> None:
        if subject != ADMIN or not allowed:
            raise Refusal(403, "forbidden")

    def _reply(
        self, handler: Handler, description: Discovery, match: tuple[str, dict[str, str]], query: dict[str, str]
    ) -> None:
        name, mask = match[0], mask_of(query.get("fields", ""))
        answer = _ANSWERS[name](self, {key: unquote(value) for key, value in match[1].items()} | query)
        complaint = description.complaint_on_request(name, query) or description.complaint_on_answer(name, answer)
        complaint = complaint or description.complaint_on_fields(name, mask)
        if complaint:
            self.complaints.append(complaint)
            raise Refusal(500, complaint)
        handler.reply(200, masked(answer, mask))

    def _users(self, query: dict[str, str]) -> dict[str, Any]:
        if query.get("customer") != "my_customer" and query.get("domain") != "example.com":
            raise Refusal(400, "badRequest")
        people = [self._user(address) for address in sorted(self.drives)]
        at = int(query.get("pageToken", "0"))
        end = at + min(self.page, int(query["maxResults"]))
        return {"kind": "admin#directory#users", "users": people[at:end]} | (
            {"nextPageToken": str(end)} if end < len(people) else {}
        )

    def _one_user(self, query: dict[str, str]) -> dict[str, Any]:
        address = next((name for name, number in self.ids.items() if number == query["userKey"]), None)
        if address is None:
            raise Refusal(404, "notFound")
        return self._user(address)

    def _user(self, address: str) -> dict[str, Any]:
        return {"id": self.ids[address], "primaryEmail": address, "suspended": address in self.suspended}

    def _group(self, query: dict[str, str]) -> dict[str, Any]:
        members = self.groups.get(query["groupKey"])
        if members is None:
            raise Refusal(404, "notFound")
        return {"kind": "admin#directory#members", "members": [{"email": name, "type": "USER"} for name in members]}

    def _all_drives(self, _query: dict[str, str]) -> dict[str, Any]:
        drives = {key: name for drive in self.drives.values() for key, name in drive.drives.items()}
        return {"drives": [{"id": key, "name": name} for key, name in drives.items()]}

    def _one_drive(self, query: dict[str, str]) -> dict[str, Any]:
        found = [drive for drive in self._all_drives({})["drives"] if drive["id"] == query["driveId"]]
        if not found:
            raise Refusal(404, "notFound")
        return dict(found[0])

    def _drive_members(self, query: dict[str, str]) -> dict[str, Any]:
        members = self.members[self._one_drive({"driveId": query["fileId"]})["id"]]
        permissions = [
            {"type": "group" if name in self.groups else "user", "role": role, "emailAddress": name}
            for name, role in members.items()
        ]
        return {"permissions": permissions}

    def _oauth(self, handler: Handler, path: str, body: bytes) -> None:
        """Answer an assertion; a revocation of a token is recorded."""
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        if path != TOKEN:
            self.vendor.revoked.append(form.get("token", ""))
            handler.reply(200, b"")
            return
        assert form["grant_type"] == GRANT
        try:
            claims = jwt.decode(form["assertion"], certs=make_key(self.key_number)[1], audience=AUDIENCE)
        except ValueError:
            handler.reply(400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."})
            return
        scopes, subject = set(claims["scope"].split()), claims["sub"]
        if not scopes <= self.delegated or not subject.endswith("@example.com"):
            words = "Client is unauthorized to retrieve access tokens using this method, or client not authorized for"
            error = {"error": "unauthorized_client", "error_description": words + " any of the scopes requested."}
            handler.reply(401, error)
        elif subject not in self.drives or subject in self.suspended:
            handler.reply(400, {"error": "invalid_grant", "error_description": "Invalid email or User ID"})
        else:
            number = f"canary-access-{len(self.minted)}"
            self.minted.append(subject)
            self.scopes[number] = claims["scope"]
            self.good.add(f"{number}.{subject}")
            handler.reply(
                200, {"access_token": f"{number}.{subject}", "expires_in": self.expires_in, "token_type": "Bearer"}
            )


_ANSWERS = {
    "directory.users.list": GoogleWorkspace._users,
    "directory.users.get": GoogleWorkspace._one_user,
    "directory.members.list": GoogleWorkspace._group,
    "drive.drives.list": GoogleWorkspace._all_drives,
    "drive.drives.get": GoogleWorkspace._one_drive,
    "drive.permissions.list": GoogleWorkspace._drive_members,
}


@contextmanager
def serving() -> Iterator[GoogleWorkspace]:
    """Yield a workspace; violations of the descriptions fail the test."""
    workspace = GoogleWorkspace()
    with account.serving(workspace):
        yield workspace
    complaints = [*workspace.complaints, *(text for drive in workspace.drives.values() for text in drive.complaints)]
    assert not complaints, complaints
