"""SharePoint on loopback: followed sites, document libraries, each library as a drive of Graph."""
# learn.microsoft.com/graph/api: sites-list-followed (GET /me/followedSites), drive-list (GET /sites/{id}/drives, pages
# by @odata.nextLink), site-get and site-getbypath (GET /sites/{id}, GET /sites/{host}:/{path}, GET /sites/root) and
# drive-get (GET /drives/{id}); an unreadable site is 403, a missing site 404. A file moved to another library is a new
# item there and deleted in the old library. Each library answers like `tests.standins.onedrive`, including item ids:
# two libraries have files of the same id.

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
SITE_PATH = "sites/team"
HOME = f"{SITE_PATH}/Shared Documents"


class Library(OneDriveAccount):
    """A document library of a site, with `path` in its address and no port."""

    def __init__(self, site: str, path: str, number: int) -> None:
        super().__init__()
        self.site, self.path = site, path
        self.drive = f"b!library{number}"
        self.place = f"/drives/{self.drive}"

    @property
    def drive_json(self) -> dict[str, Any]:
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
    """An account with `followed` sites in order and `closed` sites and libraries (403)."""

    # `put` and similar methods act on `library`, by default "Shared Documents" of the first site.

    connector = "SHAREPOINT"

    def __init__(self) -> None:
        super().__init__()
        self.unauthorized = onedrive.error_answer("InvalidAuthenticationToken")
        self.libraries: dict[str, Library] = {}
        self.sites: list[str] = []
        self.followed: list[str] = []
        self.closed: set[str] = set()
        self.lost = False
        self.complaints: list[str] = []
        self.twist = lambda body: body
        """Function applied to each answer about sites and libraries."""
        self.follow(SITE_PATH)

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
        """Move to another library; return the new id."""
        item = self._of(external_id).items[self._item(external_id)]
        self.delete(external_id)
        return self.put(item["name"], item["text"], library)

    def folder(self, path: str, library: str = HOME) -> str:
        return f"{self.libraries[library].drive}/{self.libraries[library].folder(path)}"

    def grant(self, item_key: str, *users: str, **options: Any) -> None:
        self._of(item_key).grant(self._item(item_key), *users, **options)

    def hand_over(self, item_key: str, owner: str) -> None:
        self._of(item_key).owners[self._item(item_key)] = owner

    def hide(self, item_key: str) -> None:
        self._of(item_key).untold.add(self._item(item_key))

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
                    return handler.reply(403, onedrive.error_answer("accessDenied"))
                return library.answer(handler, method, path, query, body)
        return self._answer_site(handler, unquote(path).removeprefix("/v1.0"), query)

    def _answer_site(self, handler: Handler, path: str, query: dict[str, str]) -> None:
        """Answer requests about sites and libraries."""
        if path == "/me/followedSites":
            return self._page(handler, path, [self._site(site) for site in self.followed if not self.lost], query)
        drive = next((library for library in self.libraries.values() if path == library.place), None)
        if path.startswith("/drives/") and drive is not None and drive.path not in self.closed:
            return handler.reply(200, self.twist(drive.drive_json))
        return self._about_site(handler, path, query)

    def _about_site(self, handler: Handler, path: str, query: dict[str, str]) -> None:
        site = path.removeprefix("/sites/").removesuffix("/drives")
        site_names = {name: path for path in self.sites for name in (self._site(path)["id"], f"{HOST}:/{path}")}
        if site == "root":
            return handler.reply(200, self.twist(self._site("")))
        if path.startswith("/drives/") or site not in site_names:
            return handler.reply(404, onedrive.error_answer("itemNotFound"))
        if site_names[site] in self.closed:
            return handler.reply(403, onedrive.error_answer("accessDenied"))
        if not path.endswith("/drives"):
            return handler.reply(200, self.twist(self._site(site_names[site])))
        libraries = [library.drive_json for library in self.libraries.values() if library.site == site_names[site]]
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
        return next(library for library in self.libraries.values() if library.drive == drive)

    def _item(self, external_id: str) -> str:
        return external_id.partition("/")[2]


@contextmanager
def serving() -> Iterator[SharePointAccount]:
    account = SharePointAccount()
    with served(account):
        yield account
    complaints = account.complaints + [
        complaint for library in account.libraries.values() for complaint in library.complaints
    ]
    assert not complaints, complaints
