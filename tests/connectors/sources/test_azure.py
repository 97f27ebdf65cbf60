"""Contract of connectors for Azure blobs at Azurite, installed by npm."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import socket
import subprocess
import time
from urllib.parse import quote, urlencode

import httpx
import pytest

from retrieval.errors import Fatal, Skippable
from retrieval.settings import Settings
from tests.connectors.sources.reading import list_by_processes
from tests.connectors.sources.test_objects import fetched, list_items, opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
AZURITE = "azurite@3.35.0"
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = base64.b64encode(b"canary-of-the-account").decode()


def shared_access(permissions):
    """A SAS token of the account ("Create an account SAS" of Azure's documentation)."""
    fields = {"sp": permissions, "ss": "b", "srt": "sco", "st": "", "se": "2099-01-01T00:00:00Z", "sip": "", "spr": ""}
    fields |= {"sv": "2021-12-02", "ses": ""}
    text = "\n".join([ACCOUNT, *fields.values(), ""])
    digest = hmac.new(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()
    return urlencode({name: value for name, value in fields.items() if value} | {"sig": base64.b64encode(digest)})


class Container:
    """A folder of a container, next to a blob outside."""

    connector = "OBJECTS"

    def __init__(self, endpoint, name):
        self.endpoint, self.name = endpoint, name
        self.config = {
            "url": f"azure://{ACCOUNT}/{name}/files",
            "endpoint": endpoint,
            "credentials": {"accountKey": ACCOUNT_KEY},
        }
        self.settings = Settings(_env_file=None, fetch_allow="127.0.0.1/32", max_file_bytes=2**20)
        self.send("PUT", "", "&restype=container")
        self.send("PUT", "/filesystem.txt", text="beside it")

    def send(self, method, path, query="", text=""):
        url = f"{self.endpoint}/{self.name}{quote(path)}?{shared_access('rwdlac')}{query}"
        headers = {"x-ms-version": "2021-12-02", "x-ms-blob-type": "BlockBlob"}
        assert httpx.request(method, url, content=text.encode(), headers=headers).is_success

    def put(self, key, text):
        self.send("PUT", f"/files/{key}", text=text)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    """A running Azurite."""
    npm, node = shutil.which("npm"), shutil.which("node")
    assert npm, "npm is not on this machine: .ci/run installs what this test needs"
    assert node, "node is not on this machine"
    folder = tmp_path_factory.mktemp("azurite")
    subprocess.run([npm, "install", "--no-audit", "--no-fund", AZURITE], cwd=folder, check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    script = folder / "node_modules/azurite/dist/src/blob/main.js"
    options = [
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--inMemoryPersistence",
        "--silent",
        "--disableTelemetry",
    ]
    with subprocess.Popen(
        [node, script, *options], cwd=folder, env={"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
    ) as running:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/{ACCOUNT}"
        running.terminate()


@pytest.fixture
def container(endpoint, request):
    return Container(endpoint, hashlib.sha256(request.node.name.encode()).hexdigest()[:20])


@pytest.mark.parametrize("by", ["accountKey", "sasToken"])
def test_everything_below_the_prefix_is_listed_and_fetched(container, by, tmp_path):
    container.config["credentials"] = {by: ACCOUNT_KEY if by == "accountKey" else shared_access("rl")}
    paths = ["top.txt", "a/b/deep.txt", "a b/ü é#%41?+.txt"]
    for path in paths:
        container.put(path, f"text of {path}")
    items, _ = list_items(container)
    assert sorted(items) == sorted(paths)
    for path in paths:
        raw = fetched(container, items[path], tmp_path)
        assert raw.path.read_text() == f"text of {path}"
        assert raw.version == items[path].version
    container.put("top.txt", "changed")
    assert list_items(container)[0]["top.txt"].version != items["top.txt"].version


def test_a_listing_goes_on_behind_any_page_in_another_process(container, monkeypatch):
    monkeypatch.setattr("connectors.sources.objects.azure.BATCH", 2)
    paths = {f"{folder}{number}.txt" for folder in ("", "a/", "a-b/") for number in range(3)}
    for path in paths:
        container.put(path, "x")
    items, _ = list_by_processes(lambda: opened(container))
    assert sorted(item.properties["path"] for item in items) == sorted(paths)


def test_a_folder_is_browsed_and_a_removal_is_seen(container, tmp_path):
    for path in ("top.txt", "plans/a.txt"):
        container.put(path, "some text")
    connector, tokens = opened(container)
    top = {entry.path: entry.is_folder for entry in connector.browse(tokens, None, None).entries}
    assert top == {"plans": True, "top.txt": False}
    item = list_items(container)[0]["plans/a.txt"]
    assert [entry.id for entry in connector.browse(tokens, "plans", None).entries] == [item.external_id]
    container.send("DELETE", "/files/plans/a.txt")
    assert connector.is_deleted(tokens, item.external_id)
    with pytest.raises(Skippable):
        fetched(container, item, tmp_path)


def test_a_refusal_is_no_empty_listing(container):
    container.put("a.txt", "x")
    item = list_items(container)[0]["a.txt"]
    container.config["credentials"] = {"accountKey": base64.b64encode(b"wrong").decode()}
    connector, tokens = opened(container)
    for request in (lambda: list_items(container), lambda: connector.is_deleted(tokens, item.external_id)):
        with pytest.raises(Fatal, match=r"does not accept|may not list"):
            request()
    container.config |= {"credentials": {"accountKey": ACCOUNT_KEY}, "url": f"azure://{ACCOUNT}/nowhere"}
    with pytest.raises(Fatal, match=r"no such container|may not list"):
        list_items(container)
