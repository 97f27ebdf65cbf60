"""Files of a stand-in Google Drive account and the actions of people."""

from __future__ import annotations

import hashlib
import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

GOOGLES = "application/vnd.google-apps."
FOLDER = GOOGLES + "folder"
SHORTCUT = GOOGLES + "shortcut"
ROOT = "0AROOT"
START = datetime(2026, 1, 1, tzinfo=UTC)


class Refusal(Exception):
    """An error in Google's form."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        detail = {"domain": "global", "reason": reason, "message": "SECRET VENDOR WORDS"}
        self.body = {"error": {"code": status, "message": "SECRET VENDOR WORDS", "errors": [detail]}}


class Files:
    """Files by id and the change log."""

    # `given`: shared drives' files opened by the account; `hidden`: open by address, also below a linked folder, listed
    # only in a query for their folder, absent from the account's change log; `barred`: shared drives with status 403;
    # `linked`: documents by `exportLinks`; `exports`: by format; `lags`: files in a trashed folder are not yet trashed.

    def __init__(self, first: int = 1) -> None:
        super().__init__()
        self.nodes: dict[str, dict[str, Any]] = {}
        self.contents: dict[str, bytes] = {}
        self.exports: dict[str, dict[str, bytes | Refusal]] = {}
        self.drives: dict[str, str] = {}
        self.given: set[str] = set()
        self.hidden: set[str] = set()
        self.barred: set[str] = set()
        self.linked: dict[str, dict[str, bytes]] = {}
        self.log: list[str] = []
        self.places: dict[str, set[str]] = {}
        self.lags = False
        self.grants: dict[str, list[dict[str, Any]]] = {}
        self.owners: dict[str, str] = {}
        """Owners of transferred files by id."""
        """Permissions of files and folders, beside the owner's."""
        self._numbers = itertools.count(first)
        self._add_node(ROOT, "My Drive", FOLDER, "")

    def put(self, path: str, text: str, drive: str = "") -> str:
        file_id = self._placed(path, "text/plain", drive)
        self._hold(file_id, text.encode())
        return file_id

    def put_native(self, path: str, kind: str, exports: dict[str, bytes | Refusal], drive: str = "") -> str:
        """A document of Google's own, such as kind "document"."""
        file_id = self._placed(path, GOOGLES + kind, drive)
        self.exports[file_id] = exports
        return file_id

    def put_shortcut(self, path: str, target: str) -> str:
        file_id = self._placed(path, SHORTCUT, "")
        kind = self.nodes[target]["mimeType"] if target in self.nodes else "text/plain"
        self.nodes[file_id]["shortcutDetails"] = {"targetId": target, "targetMimeType": kind}
        return file_id

    def share(self, name: str, text: str, *, is_listed: bool = True) -> str:
        """Add a stranger's file to "Shared with me", or open by address with `is_listed=False`."""
        file_id = self._add_node(f"1shared{next(self._numbers)}", name, "text/plain", "")
        self.nodes[file_id] |= {"ownedByMe": False, "owners": [{"displayName": "Grace"}]}
        self._hold(file_id, text.encode())
        if not is_listed:
            self.hidden.add(file_id)
        return file_id

    def share_folder(self, name: str) -> str:
        """Add a stranger's folder, shared by link and opened: the folder is listed without its files."""
        folder = self._add_node(f"1linked{next(self._numbers)}", name, FOLDER, "")
        self.nodes[folder] |= {"ownedByMe": False, "owners": [{"displayName": "Grace"}]}
        return folder

    def put_inside(self, folder: str, name: str, text: str | None) -> str:
        """Add the owner's file to a linked folder, or a folder for `text=None`."""
        file_id = self._add_node(
            f"1inside{next(self._numbers)}", name, FOLDER if text is None else "text/plain", folder
        )
        self.nodes[file_id] |= {"ownedByMe": False, "owners": [{"displayName": "Grace"}]}
        self.hidden.add(file_id)
        if text is not None:
            self._hold(file_id, text.encode())
        return file_id

    def unshare(self, folder: str) -> None:
        """The link does not lead there any more."""
        for node_id in [folder, *(key for key, node in self.nodes.items() if folder in node.get("parents", []))]:
            if node_id in self.nodes and (node_id == folder or node_id in self.hidden):
                del self.nodes[node_id]

    def shared_drive(self, name: str) -> str:
        drive = f"0Bdrive{next(self._numbers)}"
        self.drives[drive] = name
        return self._add_node(drive, "Drive", FOLDER, "", drive)

    def change(self, external_id: str, text: str) -> None:
        if external_id in self.exports:
            self.exports[external_id] = dict.fromkeys(self.exports[external_id], text.encode())
        else:
            self._hold(external_id, text.encode())
        self._touch(external_id)

    def rename(self, external_id: str, name: str) -> None:
        self.nodes[external_id]["name"] = name
        self._touch(external_id, content=False)

    def move(self, external_id: str, folder: str) -> None:
        drive = self.nodes[external_id].get("driveId", "")
        self.nodes[external_id]["parents"] = [self._folder(folder.split("/"), drive)]
        self._touch(external_id, content=False)

    def delete(self, external_id: str) -> None:
        self.nodes[external_id]["trashed"] = True
        self._touch(external_id, content=False)

    def restore(self, external_id: str) -> None:
        self.nodes[external_id].pop("trashed")
        self._touch(external_id, content=False)

    def purge(self, external_id: str) -> None:
        """For ever."""
        self._touch(external_id, content=False)
        del self.nodes[external_id]

    def into_drive(self, external_id: str, drive: str) -> None:
        """Move from My Drive to a shared drive: a removal and an addition."""
        self.nodes[external_id] |= {"driveId": drive, "parents": [drive]}
        self._touch(external_id, content=False)

    def leave_drive(self, drive: str) -> None:
        del self.drives[drive]
        self.nodes = {key: node for key, node in self.nodes.items() if node.get("driveId") != drive}

    def grant(
        self, file_id: str, *users: str, groups: Sequence[str] = (), domain: str = "", public: bool = False
    ) -> None:
        """Replace the sharing of a file or folder."""
        grantees = [("user", {"emailAddress": name}) for name in users] + [
            ("group", {"emailAddress": g}) for g in groups
        ]
        grantees += [("domain", {"domain": domain})] * bool(domain) + [("anyone", {})] * public
        self.grants[file_id] = [
            {"kind": "drive#permission", "id": f"{file_id}-{number}", "type": kind, "role": "reader", **identity}
            for number, (kind, identity) in enumerate(grantees)
        ]

    def folder(self, path: str) -> str:
        return self._folder(path.split("/"), "")

    def _node(self, file_id: str) -> dict[str, Any]:
        node = self.nodes.get(ROOT if file_id == "root" else file_id)
        if node is None:
            raise Refusal(404, "notFound")
        return node

    def _node_json(self, node: dict[str, Any]) -> dict[str, Any]:
        return node | {"trashed": self._is_trashed(node), "explicitlyTrashed": bool(node.get("trashed"))}

    def _is_trashed(self, node: dict[str, Any]) -> bool:
        above = "" if self.lags else (node.get("parents") or [""])[0]
        return bool(node.get("trashed")) or (above in self.nodes and self._is_trashed(self.nodes[above]))

    def _placed(self, path: str, media_type: str, drive: str) -> str:
        *folders, name = path.split("/")
        parent = self._folder(folders, drive)
        return self._add_node(f"1file{next(self._numbers)}", name, media_type, parent, drive)

    def _folder(self, names: list[str], drive: str) -> str:
        parent = drive or ROOT
        for name in [part for part in names if part]:
            folder_ids = [
                node["id"]
                for node in self.nodes.values()
                if node["mimeType"] == FOLDER and node["name"] == name and parent in node.get("parents", [])
            ]
            parent = (
                folder_ids[0]
                if folder_ids
                else self._add_node(f"1folder{next(self._numbers)}", name, FOLDER, parent, drive)
            )
        return parent

    def _add_node(self, file_id: str, name: str, media_type: str, parent: str, drive: str = "") -> str:
        node: dict[str, Any] = {
            "kind": "drive#file",
            "id": file_id,
            "name": name,
            "mimeType": media_type,
            "createdTime": moment(len(self.log)),
            "capabilities": {"canDownload": True},
            "webViewLink": f"https://drive.google.com/file/d/{file_id}/view",
        }
        node |= {"parents": [parent]} if parent else {}
        node |= (
            {"driveId": drive}
            if drive
            else {"ownedByMe": True, "owners": [{"kind": "drive#user", "displayName": "Ada"}]}
        )
        self.nodes[file_id] = node
        self._touch(file_id)
        return file_id

    def _hold(self, file_id: str, content: bytes) -> None:
        self.contents[file_id] = content
        digest = hashlib.md5(content).hexdigest()
        self.nodes[file_id] |= {"md5Checksum": digest, "size": str(len(content))}

    def _touch(self, file_id: str, *, content: bool = True) -> None:
        self.log.append(file_id)
        self.places.setdefault(file_id, set()).add(self.nodes[file_id].get("driveId", ""))
        if content:
            self.nodes[file_id]["modifiedTime"] = moment(len(self.log))


def moment(number: int) -> str:
    """The time at so many entries of the log."""
    return (START + timedelta(seconds=number)).isoformat().replace("+00:00", ".000Z")
