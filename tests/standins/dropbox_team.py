"""A Dropbox team on loopback: a team token that acts for members, with a namespace for each home and folder."""
# developers.dropbox.com/dbx-team-files-guide: Path-Root names a namespace, Select-User or Select-Admin a member.
# dropbox-api-spec @ 0d994ebe: `select_admin_mode` of the routes, the errors of `auth.stone` and `common.stone`. The
# SDK's strict validators check both sides.

from __future__ import annotations

import itertools
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from tests.standins.account import TOKEN, Served
from tests.standins.account import serving as served
from tests.standins.dropbox import TEAM, DropboxAccount, Refusal, judge, team_policies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.standins.faults import Handler

CLIENT, SECRET, REFRESH = "team-app", "canary-app-secret", "canary-refresh-team"
ADMIN, ADA, BEN = "admin@example.com", "ada@example.com", "ben@example.com"
# Routes that an administrator may call for team folders only, or for every namespace.
ADMINS_OWN_ROUTES = {"get_file_metadata"}


class _Space(DropboxAccount):
    """Namespace. `members`: addresses of people who may read it, the owner first."""

    def __init__(self, team: DropboxTeam, kind: str, name: str, members: list[str], number: int) -> None:
        super().__init__()
        self.of, self.kind, self.name, self.members_here, self.id = team, kind, name, members, str(3000 + number)
        self._numbers = itertools.count(1000 * number)

    def put(self, path: str, text: str, **kind: Any) -> str:
        file_id = super().put(path, text, **kind)
        self.owners[file_id] = self.members_here[0] if self.members_here else ADMIN
        return file_id

    def describe_file(self, external_id: str) -> dict[str, Any]:
        file = super().describe_file(external_id)
        is_shared = self.kind in {"team_folder", "shared_folder"}
        shared = {"read_only": False, "parent_shared_folder_id": self.id}
        return file | ({"sharing_info": shared} if is_shared else {})

    def _check_root(self, header: str | None) -> None:
        self.rooted = header is not None

    def _get_metadata(self, argument: Any, handler: Any) -> tuple[Any, None]:
        """Return a file by id from all namespaces that the member sees."""
        others = [space for space in self.of.spaces.values() if self.of.may_read(handler, space)]
        for space in others:
            if argument["path"] in space.files:
                return {".tag": "file", **space.describe_file(argument["path"])}, None
        return super()._get_metadata(argument, handler)


class DropboxTeam(Served):
    """People and folders. `suspended`: addresses; `closed`: ids of namespaces that nobody may read."""

    connector = "DROPBOX"
    unauthorized = DropboxAccount.unauthorized

    def __init__(self) -> None:
        super().__init__()
        self.people: dict[str, str] = {}
        self.spaces: dict[str, _Space] = {}
        self.suspended: set[str] = set()
        self.closed: set[str] = set()
        self.refresh = REFRESH
        self.scopes_granted = True
        self.minted = 0
        self.complaints: list[str] = []
        self.acted: dict[str, set[str]] = {}
        """Ids of the selected members by namespace."""
        self.hired = 0
        self.hire(ADMIN)
        self.hire(ADA)
        self.hire(BEN)

    @property
    def config(self) -> dict[str, Any]:
        credentials = {"clientId": CLIENT, "clientSecret": SECRET, "token": REFRESH}
        return {"url": "https://www.dropbox.com", "credentials": credentials}

    def hire(self, address: str) -> str:
        self.hired += 1
        self.people[address] = f"dbmid:{self.hired}"
        return self.add_space("team_member_folder", address.partition("@")[0], address)

    def add_space(self, kind: str, name: str, *members: str) -> str:
        space = _Space(self, kind, name, list(members), len(self.spaces) + 1)
        self.spaces[space.id] = space
        return space.id

    def home(self, address: str) -> str:
        return next(
            key
            for key, space in self.spaces.items()
            if (space.kind, space.members_here) == ("team_member_folder", [address])
        )

    def dismiss(self, address: str) -> None:
        del self.spaces[self.home(address)], self.people[address]

    def put(self, namespace: str, path: str, text: str) -> str:
        return f"{namespace}/{self.spaces[namespace].put(path, text)}"

    def hand_over(self, external_id: str, namespace: str) -> str:
        """Move a file to another namespace; its id stays."""
        source, _, file_id = external_id.partition("/")
        file = self.spaces[source].files[file_id]
        self.spaces[source].delete(file_id)
        target = self.spaces[namespace]
        target.files[file_id] = file
        target.change(file_id, file["text"])
        target.owners[file_id] = ADMIN
        return f"{namespace}/{file_id}"

    def may_read(self, handler: Handler, space: _Space) -> bool:
        """Return True if the selected member sees a namespace; administrators see all content of the team."""
        if handler.headers.get("Dropbox-API-Select-Admin"):
            return space.id not in self.closed
        selected = handler.headers.get("Dropbox-API-Select-User")
        return space.id not in self.closed and selected in {self.people.get(name) for name in space.members_here}

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        name = path.removeprefix("/2/")
        try:
            space = self._find_space(handler, name, body)
            if isinstance(space, _Space):
                space.page = self.page
                return space.answer(handler, method, path, query, body)
            return handler.reply(200, space)
        except Refusal as refusal:
            return handler.reply(refusal.status, {"error_summary": "SECRET/..", "error": refusal.error})

    def _find_space(self, handler: Handler, name: str, body: bytes) -> Any:
        """Return the namespace of a request, or the answer of a route of the team."""
        user, admin = map(handler.headers.get, ("Dropbox-API-Select-User", "Dropbox-API-Select-Admin"))
        if not self.scopes_granted:
            raise Refusal({".tag": "missing_scope", "required_scope": "team_data.member"}, 401)
        if name.startswith("team/"):
            assert (user, admin) == (None, None)
            return self._answer_team(name.removeprefix("team/"), json.loads(body))
        members = {member: address for address, member in self.people.items()}
        if admin not in {None, self.people[ADMIN]}:
            raise Refusal({".tag": "invalid_select_admin"}, 401)
        if admin is None and user not in members:
            raise Refusal({".tag": "invalid_select_user"}, 401)
        if members.get(user or "") in self.suspended:
            raise Refusal({".tag": "user_suspended"}, 401)
        if name == "sharing/list_folder_members":
            return self._list_folder_members(json.loads(body))
        space = self.spaces.get(json.loads(handler.headers["Dropbox-API-Path-Root"]).get("namespace_id"))
        if space is None or not self.may_read(handler, space):
            raise Refusal({".tag": "no_permission"}, 422)
        if admin and name.rpartition("/")[2] in ADMINS_OWN_ROUTES and space.kind != "team_folder":
            raise Refusal({".tag": "access_error", "access_error": {".tag": "no_permission"}})
        if name == "files/list_folder" and json.loads(body)["include_mounted_folders"]:
            self.complaints.append("folders that are namespaces are listed twice")
        self.acted.setdefault(space.id, set()).add(user or admin or "")
        return space

    def _answer_team(self, name: str, argument: Any) -> Any:
        from dropbox import team

        route = {
            "members/list_v2": "members/list:2",
            "members/list/continue_v2": "members/list/continue:2",
        }.get(name, name)
        answers = {
            "members/list:2": lambda: self._some("members", self._members(), 0),
            "members/list/continue:2": lambda: self._some("members", self._members(), int(argument["cursor"])),
            "namespaces/list": lambda: self._some("namespaces", self._namespaces(), 0),
            "namespaces/list/continue": lambda: self._some("namespaces", self._namespaces(), int(argument["cursor"])),
            "token/get_authenticated_admin": lambda: {"admin_profile": self._profile(ADMIN)},
            "get_info": self._info,
        }
        answer = answers[route]()
        for complaint in (judge(team.ROUTES[route].arg_type, argument), judge(team.ROUTES[route].result_type, answer)):
            self.complaints += [f"{name}: {complaint}"] if complaint else []
        return answer

    def _some(self, name: str, entries: list[Any], at: int) -> Any:
        end = at + self.page
        return {name: entries[at:end], "cursor": str(end), "has_more": end < len(entries)}

    def _members(self) -> list[Any]:
        role = {"role_id": "pid_dbtmr:2345", "name": "Member", "description": "x"}
        return [{"profile": self._profile(address), "roles": [role]} for address in self.people]

    def _profile(self, address: str) -> dict[str, Any]:
        name = dict.fromkeys(("given_name", "surname", "familiar_name", "display_name", "abbreviated_name"), "x")
        return {
            "team_member_id": self.people[address],
            "email": address,
            "email_verified": True,
            "status": {".tag": "suspended" if address in self.suspended else "active"},
            "name": name,
            "membership_type": {".tag": "full"},
            "groups": [],
            "member_folder_id": self.home(address),
            "root_folder_id": self.home(address),
        }

    def _namespaces(self) -> list[Any]:
        """Return all namespaces, the first one twice, as Dropbox may do, and a root."""
        namespaces = [
            {"name": space.name, "namespace_id": key, "namespace_type": {".tag": space.kind}}
            | (
                {"team_member_id": self.people[space.members_here[0]]}
                if space.kind in {"team_member_folder", "app_folder"}
                else {}
            )
            for key, space in self.spaces.items()
        ]
        root = {"name": "Root", "namespace_id": "9", "namespace_type": {".tag": "team_member_root"}}
        return [*namespaces, namespaces[0], root]

    def _info(self) -> Any:
        counts = {"num_licensed_users": 9, "num_provisioned_users": len(self.people)}
        return {"name": "Acme", "team_id": TEAM, **counts, "policies": team_policies()}

    def _list_folder_members(self, argument: Any) -> Any:
        from dropbox import sharing

        space = self.spaces[argument["shared_folder_id"]]
        users = [
            {
                "access_type": {".tag": "owner" if number == 0 else "viewer"},
                "user": {
                    "account_id": "dbid:" + "B" * 35,
                    "email": address,
                    "display_name": address,
                    "same_team": address in self.people,
                    **({"team_member_id": self.people[address]} if address in self.people else {}),
                },
            }
            for number, address in enumerate(space.members_here)
        ]
        answer = {"users": users[::-1], "groups": [], "invitees": []}
        if complaint := judge(sharing.ROUTES["list_folder_members"].result_type, answer):
            self.complaints.append(complaint)
        return answer

    def _oauth(self, handler: Handler, path: str, body: bytes) -> None:
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        assert path == TOKEN
        assert form["grant_type"] == "refresh_token"
        if (form["client_id"], form["client_secret"], form["refresh_token"]) != (CLIENT, SECRET, self.refresh):
            handler.reply(400, {"error": "invalid_grant", "error_description": "SECRET refresh token is invalid"})
            return
        token = f"canary-access-{self.minted}"
        self.minted += 1
        self.good.add(token)
        handler.reply(200, {"access_token": token, "token_type": "bearer", "expires_in": 14400})


@contextmanager
def serving() -> Iterator[DropboxTeam]:
    """Yield a team; complaints fail the test."""
    team = DropboxTeam()
    with served(team):
        yield team
    complaints = [*team.complaints, *(text for space in team.spaces.values() for text in space.complaints)]
    assert not complaints, complaints
