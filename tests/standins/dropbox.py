"""A Dropbox account on loopback: files and folders, revisions, change log, Paper and a team space."""
# The SDK's strict validators check both sides: an unknown or missing field is a complaint. A route without its
# permission in the app's scopes is a complaint, too.
# As at Dropbox, a cursor returns the state of each changed path: a deleted folder is one entry, and a file in the place
# of another appears without the old file.

from __future__ import annotations

import itertools
import json
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from connectors.sources.dropbox.connector import OAUTH_SERVICE
from tests.standins.account import Served
from tests.standins.account import serving as served

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.standins.faults import Handler

ROUTES = (Path(__file__).with_name("contracts") / "dropbox-files-routes.stone").read_text()
SCOPES = dict(re.findall(r'^route (\S+) .*?scope = "([\w.]+)"', ROUTES, re.DOTALL | re.MULTILINE))
HOME, TEAM = "1001", "2002"
OWNER = "ada@example.com"
NOT_FOUND = {".tag": "path", "path": {".tag": "not_found"}}


class Refusal(Exception):
    """An error of the route's union."""

    def __init__(self, error: dict[str, Any], status: int = 409) -> None:
        super().__init__()
        self.error, self.status = error, status


TEAM = "dbtid:own"


class DropboxAccount(Served):
    """`team`: a member's account; the team's folders are visible only from the team's root."""

    connector = "DROPBOX"
    unauthorized: ClassVar = {"error_summary": "expired_access_token/...", "error": {".tag": "expired_access_token"}}

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, dict[str, Any]] = {}
        self.folders: dict[str, str] = {}
        self.history: dict[str, list[dict[str, Any]]] = {}
        self.log: list[str] = []
        self.cursors: dict[str, tuple[list[dict[str, Any]], int]] = {}
        self.members: dict[str, tuple[list[Any], list[Any]]] = {}
        self.complaints: list[str] = []
        self.arguments: list[tuple[str, Any]] = []
        self.lost = False
        self.team = False
        self.grants: dict[str, dict[str, Any]] = {}
        self.owners: dict[str, str] = {}
        """Owners of transferred files by id."""
        self.owner_teams: dict[str, str] = {}
        """Foreign owner teams by file id."""
        self.untold: set[str] = set()
        self.permitted = True
        """True with the scope sharing.read."""
        self._numbers = itertools.count(1)

    # What a person does

    def put(self, path: str, text: str, **kind: Any) -> str:
        """`kind`: further fields of the file's metadata, such as `symlink_info`."""
        with self.lock:
            file_id = f"id:{next(self._numbers):022d}"
            self.files[file_id] = {"kind": kind, "exports": {}}
            self._place_file(file_id, "/" + path, text)
        return file_id

    def put_document(self, path: str, exports: dict[str, str], default: str | None = None) -> str:
        """Add a document of Paper or Google, available only as an export."""
        about = {"export_as": default, "export_options": list(exports)}
        file_id = self.put(path, "", is_downloadable=False, export_info=about)
        self.files[file_id]["exports"] = dict(exports)
        return file_id

    def change(self, external_id: str, text: str) -> None:
        with self.lock:
            self._place_file(external_id, self.files[external_id]["path"], text)

    def rename(self, external_id: str, name: str) -> None:
        self._move(external_id, self.files[external_id]["path"].rpartition("/")[0] + "/" + name)

    def move(self, external_id: str, folder: str) -> None:
        self._move(external_id, f"/{folder}/" + self.files[external_id]["path"].rpartition("/")[2])

    def delete(self, external_id: str) -> None:
        with self.lock:
            self.log.append(self.files.pop(external_id)["path"].lower())

    def delete_folder(self, path: str) -> None:
        with self.lock:
            below = f"/{path}/".lower()
            self.files = {key: file for key, file in self.files.items() if not file["path"].lower().startswith(below)}
            self.folders = {key: name for key, name in self.folders.items() if not (key + "/").startswith(below)}
            self.log.append(below.rstrip("/"))

    def folder(self, path: str) -> str:
        """Return the id of a folder for `grant`."""
        return f"/{path}".lower()

    def grant(self, file_id: str, *users: str, groups: Sequence[str] = (), public: bool = False, **link: Any) -> None:
        """Replace the sharing of a file or folder; `link` adds fields of the file's link."""
        self.grants[file_id] = {"users": users, "groups": groups, "link": {"current_audience": "public"} | link}
        if not (public or link):
            del self.grants[file_id]["link"]

    def lose(self) -> None:
        self.lost = True

    def forget_cursors(self) -> None:
        self.cursors.clear()

    def _move(self, external_id: str, path: str) -> None:
        with self.lock:
            self.log.append(self.files[external_id]["path"].lower())
            self._place_file(external_id, path, self.files[external_id]["text"])

    def _place_file(self, external_id: str, path: str, text: str) -> None:
        parts = path.split("/")[1:-1]
        for depth in range(len(parts)):
            folder = "/" + "/".join(parts[: depth + 1])
            self.folders.setdefault(folder.lower(), folder)
        file = self.files[external_id]
        file |= {"path": path, "text": text, "rev": f"{next(self._numbers):015x}"}
        self.history.setdefault(path.lower(), []).insert(0, self._file(external_id))
        self.log.append(path.lower())

    # What its clients are answered

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        space, _, name = path.removeprefix("/2/").partition("/")
        route = _route(space, name)
        header = handler.headers.get("Dropbox-API-Arg")
        with self.lock:
            try:
                argument = self._argument(route, header if route.attrs["style"] == "download" else body, name)
                self._check_root(handler.headers.get("Dropbox-API-Path-Root"))
                result, content = getattr(self, "_" + name.replace("/", "_"))(argument, handler)
                self._judge(route.result_type, result, f"answer of {name}")
            except Refusal as refusal:
                if refusal.status == 409:
                    self._judge(route.error_type, refusal.error, f"error of {name}")
                return self._reply(handler, refusal.status, {"error_summary": "SECRET/..", "error": refusal.error})
        if content is None:
            return self._reply(handler, 200, result)
        headers = {"Dropbox-API-Result": json.dumps(result), "Content-Type": "application/octet-stream"}
        return self._reply(handler, 200, content, headers)

    def _reply(self, handler: Handler, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        with suppress(ConnectionError):  # a client need not take all of it
            if self.complaints:
                handler.reply(500, self.complaints)
            else:
                handler.reply(status, body, headers)

    def _argument(self, route: Any, raw: Any, name: str) -> Any:
        argument = json.loads(raw)
        self.arguments.append((name, argument))
        self._judge(route.arg_type, argument, f"argument of {name}")
        if route in sharing_routes():
            if not self.permitted:
                raise Refusal({".tag": "missing_scope", "required_scope": "sharing.read"}, 401)
            return argument
        scope = SCOPES.get(name, "account_info.read")
        if scope not in OAUTH_SERVICE.extra["scope"].split():
            self.complaints.append(f"{name} needs {scope}, which was not asked for")
        return argument

    def _judge(self, kind: Any, value: Any, label: str) -> None:
        if complaint := judge(kind, value):
            self.complaints.append(f"{label}: {complaint}")

    def _check_root(self, header: str | None) -> None:
        self.rooted = header is not None
        if header is None:
            return
        if json.loads(header) != {".tag": "root", "root": TEAM if self.team else HOME}:
            raise Refusal({".tag": "invalid_root", "invalid_root": self._roots()}, 422)

    def _roots(self) -> dict[str, Any]:
        if not self.team:
            return {".tag": "user", "root_namespace_id": HOME, "home_namespace_id": HOME}
        return {".tag": "team", "root_namespace_id": TEAM, "home_namespace_id": HOME, "home_path": "/Ann"}

    def _get_current_account(self, _argument: Any, _handler: Any) -> tuple[Any, None]:
        name = dict.fromkeys(("given_name", "surname", "familiar_name", "display_name", "abbreviated_name"), "Ann")
        answer = {
            "account_id": "dbid:" + "A" * 35,
            "name": name,
            "email": "ann@example.org",
            "email_verified": True,
            "disabled": False,
            "locale": "en",
            "referral_link": "https://db.tt/x",
            "is_paired": False,
            "account_type": {".tag": "business"},
            "root_info": self._roots(),
            "team": _full_team(),
        }
        return answer, None

    def _list_folder(self, argument: Any, handler: Any) -> tuple[Any, None]:
        if not argument["recursive"]:
            return self._level(argument)
        if argument["path"] != "":
            raise Refusal(NOT_FOUND)
        entries = [self._folder(entry) for entry in self.folders] + [self._file(entry) for entry in self.files]
        visible = sorted(
            (entry for entry in entries if self._is_seen(entry["path_lower"])), key=lambda entry: entry["path_lower"]
        )
        return self._some([] if self.lost else visible, len(self.log), min(argument["limit"], self.page))

    def _level(self, argument: Any) -> tuple[Any, None]:
        """Return the direct children of a folder."""
        path = argument["path"]
        above = next((entry for entry in self.folders if path in {entry, self._folder(entry)["id"]}), None)
        if path and above is None:
            raise Refusal(NOT_FOUND)
        entries = [self._folder(entry) for entry in self.folders] + [self._file(entry) for entry in self.files]
        children = [entry for entry in entries if entry["path_lower"].rpartition("/")[0] == (above or "")]
        visible = [entry for entry in children if self._is_seen(entry["path_lower"])]
        return self._some(visible, len(self.log), min(argument["limit"], self.page))

    def _list_folder_continue(self, argument: Any, _handler: Any) -> tuple[Any, None]:
        if argument["cursor"] not in self.cursors:
            raise Refusal({".tag": "reset"})
        pending, at = self.cursors[argument["cursor"]]
        if not pending:
            paths = list(dict.fromkeys(reversed(self.log[at:])))[::-1]
            if self.lost:
                paths = sorted(self.folders) + [file["path"].lower() for file in self.files.values()]
            pending, at = [self._entry(path) for path in paths if self._is_seen(path)], len(self.log)
        return self._some(pending, at, self.page)

    def _some(self, entries: list[dict[str, Any]], at: int, limit: int) -> tuple[Any, None]:
        cursor = f"cursor-{next(self._numbers)}"
        self.cursors[cursor] = (entries[limit:], at)
        has_more = bool(entries[limit:]) or len(self.log) > at
        return {"entries": entries[:limit], "cursor": cursor, "has_more": has_more}, None

    def _list_revisions(self, argument: Any, _handler: Any) -> tuple[Any, None]:
        path = argument["path"]
        if path not in self.history or path in self.folders:
            raise Refusal(NOT_FOUND)
        exists = any(file["path"].lower() == path for file in self.files.values())
        revisions = [
            {key: value for key, value in revision.items() if key != ".tag"} for revision in self.history[path]
        ]
        limit = argument.get("limit", 10)
        return {"is_deleted": not exists, "entries": revisions[:limit], "has_more": len(revisions) > limit}, None

    def _get_metadata(self, argument: Any, _handler: Any) -> tuple[Any, None]:
        for path in self.folders:
            if self._folder(path)["id"] == argument["path"]:
                return self._folder(path), None
        return self._file(self._visible_file(argument)), None

    def _download(self, argument: Any, _handler: Any) -> tuple[Any, bytes]:
        file = self.describe_file(self._visible_file(argument))
        if not file.get("is_downloadable", True):
            raise Refusal({".tag": "unsupported_file"})
        return file, self.files[file["id"]]["text"].encode()

    def _export(self, argument: Any, _handler: Any) -> tuple[Any, bytes]:
        file = self.describe_file(self._visible_file(argument))
        exports = self.files[file["id"]]["exports"]
        export_format = argument.get("export_format") or file["export_info"]["export_as"]
        if export_format not in exports:
            raise Refusal({".tag": "invalid_export_format"})
        content = exports[export_format].encode()
        about = {"name": f"{file['name']}.{export_format}", "size": len(content), "export_hash": _hash(content)}
        return {"export_metadata": about, "file_metadata": file}, content

    def _list_file_members(self, argument: Any, _handler: Any) -> tuple[Any, None]:
        """Return one page of the owner and the members of the file and its parent folders."""
        its = self._readable_file(argument["file"])
        path = self.files[its]["path"].lower()
        places = [its, *(path[:end] for end in range(1, len(path)) if path[end] == "/")]
        shared = [self.grants[grant] for grant in places if grant in self.grants]
        users = [_user(self.owners.get(its, OWNER), "owner")]
        users += [_user(name, "viewer") for grant in shared for name in grant["users"]]
        users += [_user("passer@example.com", "traverse")]
        groups = [_group(name) for grant in shared for name in grant["groups"]]
        return self._members(users, groups)

    def _list_file_members_continue(self, argument: Any, _handler: Any) -> tuple[Any, None]:
        return self._members(*self.members.pop(argument["cursor"]))

    def _members(self, users: list[Any], groups: list[Any]) -> tuple[Any, None]:
        """Two users at most, then the rest; groups on the last page."""
        if len(users) <= 2:
            return {"users": users, "groups": groups, "invitees": []}, None
        cursor = f"members-{next(self._numbers)}"
        self.members[cursor] = users[2:], groups
        return {"users": users[:2], "groups": [], "invitees": [], "cursor": cursor}, None

    def _get_file_metadata(self, argument: Any, _handler: Any) -> tuple[Any, None]:
        its = self._readable_file(argument["file"])
        policies = {"acl_update_policy": {".tag": "owner"}, "shared_link_policy": {".tag": "anyone"}}
        metadata = {"id": its, "name": "x", "policy": policies, "preview_url": "https://www.dropbox.com/scl/fi/x"}
        metadata["owner_team"] = _team(self.owner_teams.get(its, TEAM))
        link = self.grants.get(its, {}).get("link")
        if link:
            audience = {".tag": link["current_audience"]}
            link_defaults = {"audience_options": [audience], "current_audience": audience, "link_permissions": []}
            link_defaults |= {"password_protected": False, "url": "https://www.dropbox.com/scl/fi/x?rlkey=y"}
            metadata["link_metadata"] = {
                **link_defaults,
                **{key: link[key] for key in link if key != "current_audience"},
            }
        return metadata, None

    def _readable_file(self, its: str) -> str:
        if its in self.untold or its not in self.files:
            raise Refusal({".tag": "access_error", "access_error": {".tag": "no_permission"}})
        return its

    def _visible_file(self, argument: Any) -> str:
        file_id = argument["path"]
        if file_id not in self.files or not self._is_seen(self.files[file_id]["path"].lower()):
            raise Refusal(NOT_FOUND)
        return str(file_id)

    def _is_seen(self, path: str) -> bool:
        """In a team's space a member sees /ann as home, and all from the team's root."""
        return not self.team or self.rooted or path == "/ann" or path.startswith("/ann/")

    def _entry(self, path: str) -> dict[str, Any]:
        """Return the current entry at a path."""
        file_id = next((key for key, file in self.files.items() if file["path"].lower() == path), None)
        if path in self.folders and not self.lost:
            return self._folder(path)
        if file_id is None or self.lost:
            name = path.rpartition("/")[2]
            return {".tag": "deleted", "name": name, "path_lower": path, "path_display": path}
        return self._file(file_id)

    def _folder(self, path: str) -> dict[str, Any]:
        display = self.folders[path]
        name, number = display.rpartition("/")[2], sum(map(ord, path))
        return {".tag": "folder", "id": f"id:f{number}", "name": name, "path_lower": path, "path_display": display}

    def _file(self, external_id: str) -> dict[str, Any]:
        return {".tag": "file"} | self.describe_file(external_id)

    def describe_file(self, external_id: str) -> dict[str, Any]:
        file = self.files[external_id]
        content = file["text"].encode()
        return {
            "id": external_id,
            "name": file["path"].rpartition("/")[2],
            "path_lower": file["path"].lower(),
            "path_display": file["path"],
            "client_modified": "2026-01-02T03:04:05Z",
            "server_modified": "2026-02-03T04:05:06Z",
            "rev": file["rev"],
            "size": len(content),
            "content_hash": _hash(content),
            **file["kind"],
        }


def judge(kind: Any, value: Any) -> str:
    """Return what the SDK's strict validator finds wrong, "" for a valid value."""
    from dropbox.stone_serializers import json_compat_obj_decode
    from dropbox.stone_validators import ValidationError

    try:
        json_compat_obj_decode(kind, value, strict=True)
    except ValidationError as error:
        return str(error)
    return ""


def _route(space: str, name: str) -> Any:
    from dropbox import files, sharing, users

    return {"files": files, "sharing": sharing, "users": users}[space].ROUTES[name]


def sharing_routes() -> list[Any]:
    from dropbox import sharing

    return list(sharing.ROUTES.values())


def _team(its: str) -> dict[str, Any]:
    return {"id": its, "name": "x"}


def _sharing_policies() -> dict[str, Any]:
    policies = {
        "shared_folder_member_policy": "anyone",
        "shared_folder_join_policy": "from_anyone",
        "shared_link_create_policy": "default_public",
        "group_creation_policy": "admins_only",
        "shared_folder_link_restriction_policy": "anyone",
        "enforce_link_password_policy": "optional",
        "default_link_expiration_days_policy": "none",
        "shared_link_default_permissions_policy": "default",
    }
    return {name: {".tag": tag} for name, tag in policies.items()}


def _full_team() -> dict[str, Any]:
    extra_policies = {"office_addin_policy": {".tag": "enabled"}, "top_level_content_policy": {".tag": "everyone"}}
    return _team(TEAM) | {"sharing_policies": _sharing_policies()} | extra_policies


def team_policies() -> dict[str, Any]:
    """Return the policies of the team's own routes."""
    names = {"emm_state": "disabled", "office_addin": "enabled", "suggest_members_policy": "enabled"}
    policies = {name: {".tag": tag} for name, tag in names.items()}
    return {"sharing": _sharing_policies(), "top_level_content_policy": {".tag": "everyone"}, **policies}


def _user(name: str, level: str) -> dict[str, Any]:
    account_info = {"account_id": "dbid:" + "B" * 35, "email": name, "display_name": name, "same_team": True}
    return {"access_type": {".tag": level}, "user": account_info}


def _group(name: str) -> dict[str, Any]:
    group_info = {"group_name": name, "group_id": name, "is_member": False, "is_owner": False, "same_team": True}
    kinds = {"group_management_type": {".tag": "user_managed"}, "group_type": {".tag": "team"}}
    return {"access_type": {".tag": "viewer"}, "group": group_info | kinds}


def _hash(content: bytes) -> str:
    from dropbox.content_hash import content_hash

    return str(content_hash(content))


@contextmanager
def serving() -> Iterator[DropboxAccount]:
    """Yield the account on loopback; complaints fail the test."""
    account = DropboxAccount()
    with served(account):
        yield account
    assert not account.complaints, account.complaints
