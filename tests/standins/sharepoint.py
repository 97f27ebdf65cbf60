"""SharePoint on loopback: sites that a person follows, their document libraries, and each library as a drive of Graph.

By learn.microsoft.com/graph/api: sites-list-followed (GET /me/followedSites), drive-list (GET /sites/{id}/drives, pages
by @odata.nextLink), site-get and site-getbypath (GET /sites/{id}, GET /sites/{host}:/{path}, GET /sites/root) and
drive-get (GET /drives/{id}); a site that the account may not read is 403, one not there 404. A file that is moved to
another library is a new item there and deleted where it was. Each library answers as the drive of
`tests.standins.onedrive` does, item ids and all: two libraries have files of the same id.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from retrieval.setting_values import Endpoint
from tests.standins import onedrive
from tests.standins.account import Served
from tests.standins.account import serving as served
from tests.standins.onedrive import OneDriveAccount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrieval.settings import Settings
    from tests.standins.faults import Handler

HOST = "contoso.sharepoint.com"
SITE = "sites/team"
HOME = f"{SITE}/Shared Documents"


class Library(OneDriveAccount):
    """One document library, of a site, with a `path` in its address. It has no port of its own."""

    def __init__(self, site: str, path: str, number: int) -> None:
        super().__init__()
        self.site, self.path = site, path
        self.drive = f"b!library{number}"
        self.place = f"/drives/{self.drive}"

    @property
    def shown(self) -> dict[str, Any]:
        return {
            "id": self.drive,
            "name": self.path.rpartition("/")[2],
            "driveType": "documentLibrary",
            "webUrl": f"https://{HOST}/{quote(self.path)}",
        }

    def _signed(self, item_id: str) -> str:
        return super()._signed(f"{self.drive}~{item_id}")

    def _download(self, handler: Handler, item_id: str, signature: str) -> None:
        super()._download(handler, item_id.rpartition("~")[2], signature)


class SharePointAccount(Served):
    """`followed`: paths of sites in the order in which the person followed them; `closed`: paths of sites and
    libraries that answer 403. `put` and the like act on `library`, "Shared Documents" of the first site by default."""

    connector = "SHAREPOINT"

    def __init__(self) -> None:
        super().__init__()
        self.unauthorized = onedrive._error("InvalidAuthenticationToken")
        self.libraries: dict[str, Library] = {}
        self.sites: list[str] = []
        self.followed: list[str] = []
        self.closed: set[str] = set()
        self.lost = False
        self.complaints: list[str] = []
        self.twist = lambda body: body
        """What is done to an answer about sites and libraries before it is sent."""
        self.follow(SITE)

    @property
    def settings(self) -> Settings:
        endpoint = Endpoint(base_url=self.base + "/v1.0")
        return super().settings.model_copy(update={"endpoints": {self.connector: endpoint}})

    def is_open(self, path: str) -> bool:
        return path.startswith(onedrive.SIGNED)

    def add_site(self, site: str) -> None:
        self.sites.append(site)
        self.add_library(site, f"{site}/Shared Documents")

    def follow(self, site: str) -> None:
        if site not in self.sites:
            self.add_site(site)
        self.followed.append(site)

    def add_library(self, site: str, path: str) -> Library:
        self.libraries[path] = library = Library(site, path, len(self.libraries))
        return library

    def put(self, path: str, text: str, library: str = HOME) -> str:
        return f"{self.libraries[library].drive}/{self.libraries[library].put(path, text)}"

    def change(self, external_id: str, text: str) -> None:
        self._of(external_id).change(self._item(external_id), text)

    def rename(self, external_id: str, name: str) -> None:
        self._of(external_id).rename(self._item(external_id), name)

    def move(self, external_id: str, folder: str) -> None:
        self._of(external_id).move(self._item(external_id), folder)

    def delete(self, external_id: str) -> None:
        self._of(external_id).delete(self._item(external_id))

    def move_to_library(self, external_id: str, library: str) -> str:
        """Its new id: in another library it is another item."""
        item = self._of(external_id).items[self._item(external_id)]
        self.delete(external_id)
        return self.put(item["name"], item["text"], library)

    def folder_of(self, external_id: str) -> str:
        """The id of the folder that a file lies in."""
        library = self._of(external_id)
        return f"{library.drive}/{library.items[self._item(external_id)]['parent']}"

    def folder(self, path: str, library: str = HOME) -> str:
        return f"{self.libraries[library].drive}/{self.libraries[library].folder(path)}"

    def grant(self, one: str, *users: str, **more: Any) -> None:
        self._of(one).grant(self._item(one), *users, **more)

    def hand_over(self, one: str, owner: str) -> None:
        self._of(one).owners[self._item(one)] = owner

    def hide(self, one: str) -> None:
        self._of(one).untold.add(self._item(one))

    def lose(self) -> None:
        self.lost = True
        for library in self.libraries.values():
            library.lose()

    def forget_cursors(self) -> None:
        for library in self.libraries.values():
            library.forget_cursors()

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        for library in self.libraries.values():
            library.base, library.page = self.base, self.page
            if path.startswith(f"{onedrive.SIGNED}{quote(library.drive)}~"):
                return library.answer(handler, method, path, query, body)
            if path.startswith(f"/v1.0{quote(library.place)}/"):
                if library.path in self.closed:
                    return handler.reply(403, onedrive._error("accessDenied"))
                return library.answer(handler, method, path, query, body)
        return self._told(handler, unquote(path).removeprefix("/v1.0"), query)

    def _told(self, handler: Handler, path: str, query: dict[str, str]) -> None:
        """Of sites and libraries."""
        if path == "/me/followedSites":
            return self._page(handler, path, [self._site(one) for one in self.followed if not self.lost], query)
        drive = next((one for one in self.libraries.values() if path == one.place), None)
        if path.startswith("/drives/") and drive is not None and drive.path not in self.closed:
            return handler.reply(200, self.twist(drive.shown))
        return self._about_site(handler, path, query)

    def _about_site(self, handler: Handler, path: str, query: dict[str, str]) -> None:
        site = path.removeprefix("/sites/").removesuffix("/drives")
        known = {name: one for one in self.sites for name in (self._site(one)["id"], f"{HOST}:/{one}")}
        if site == "root":
            return handler.reply(200, self.twist(self._site("")))
        if path.startswith("/drives/") or site not in known:
            return handler.reply(404, onedrive._error("itemNotFound"))
        if known[site] in self.closed:
            return handler.reply(403, onedrive._error("accessDenied"))
        if not path.endswith("/drives"):
            return handler.reply(200, self.twist(self._site(known[site])))
        libraries = [one.shown for one in self.libraries.values() if one.site == known[site]]
        return self._page(handler, path, libraries, query)

    def _page(self, handler: Handler, path: str, entries: list[dict[str, Any]], query: dict[str, str]) -> None:
        at = int(query.pop("$skiptoken", 0))
        if query:
            self.complaints.append(f"unknown parameters: {query}")
        body: dict[str, Any] = {"value": entries[at : at + self.page]}
        if at + self.page < len(entries):
            body["@odata.nextLink"] = f"{self.base}/v1.0{quote(path, safe='/,')}?$skiptoken={at + self.page}"
        handler.reply(200, self.twist(body))

    def _site(self, site: str) -> dict[str, Any]:
        number = self.sites.index(site) if site else "root"
        return {
            "id": f"{HOST},collection-{number},web-{number}",
            "displayName": "Team",
            "webUrl": f"https://{HOST}/{quote(site)}",
            "siteCollection": {"hostname": HOST},
        }

    def site_id(self, site: str) -> str:
        return str(self._site(site)["id"])

    def _of(self, external_id: str) -> Library:
        drive = external_id.partition("/")[0]
        return next(one for one in self.libraries.values() if one.drive == drive)

    def _item(self, external_id: str) -> str:
        return external_id.partition("/")[2]


@contextmanager
def serving() -> Iterator[SharePointAccount]:
    account = SharePointAccount()
    with served(account):
        yield account
    complaints = account.complaints + [said for one in account.libraries.values() for said in one.complaints]
    assert not complaints, complaints
