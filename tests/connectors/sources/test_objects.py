"""Objects of a bucket at moto's server, of a folder and of servers of files: the contract of connectors."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from urllib.parse import quote

import pytest

from connectors import registry
from connectors.http import sessions
from connectors.sources.objects.connector import POLICY
from connectors.sources.objects.location import parse_location
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.settings import Settings
from tests.connectors.sources.reading import Tokens, list_by_processes
from tests.standins import file_servers, s3_server

KEYS = {"accessKeyId": "standin", "secretAccessKey": "canary-objects-secret"}


class Folder:
    """A folder of this machine."""

    connector = "OBJECTS"

    def __init__(self, path):
        self.path = path / "files"
        self.path.mkdir(exist_ok=True, parents=True)
        self.config = {"url": f"file://{self.path}"}
        self.settings = Settings(_env_file=None, source_folders=[self.path], max_file_bytes=2**20)

    def put(self, key, text):
        (self.path / key).parent.mkdir(parents=True, exist_ok=True)
        (self.path / key).write_text(text)

    def delete(self, key):
        (self.path / key).unlink()


class Bucket:
    """A folder of a bucket, next to another folder."""

    connector = "OBJECTS"

    def __init__(self, storage, scheme="s3"):
        self.storage, self.name = storage, s3_server.bucket(storage)
        self.config = {"url": f"{scheme}://{self.name}/files", "endpoint": storage.endpoint, "credentials": KEYS}
        self.settings = Settings(_env_file=None, fetch_allow="127.0.0.1/32", max_file_bytes=2**20)
        self.upload("filesystem.txt", "beside it")

    def upload(self, key, text):
        import http.client

        signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=standin/20260101/us-east-1/s3/aws4_request"}
        connection = http.client.HTTPConnection("127.0.0.1", self.storage.backend, timeout=20)
        connection.request("PUT", f"/{self.name}/{key}", body=text.encode(), headers=signed)
        assert connection.getresponse().status == 200
        connection.close()

    def put(self, key, text):
        self.upload(f"files/{quote(key)}", text)

    def delete(self, key):
        assert self.storage.call("DELETE", f"/{self.name}/files/{key}") == 204


class Served(Folder):
    """A folder of a server on this machine; `scheme` and `top` belong to the URL."""

    def __init__(self, path, server, scheme, top):
        super().__init__(path)
        self.server, self.top = server, top
        credentials = {"user": file_servers.USER, "password": file_servers.PASSWORD}
        self.config = {"url": f"{scheme}://127.0.0.1:{server.port}/{top}", "credentials": credentials}
        if server.host_key:
            self.config["hostKey"] = server.host_key
        self.settings = Settings(_env_file=None, fetch_allow="127.0.0.1/32", max_file_bytes=2**20)


@pytest.fixture(scope="module")
def server():
    with s3_server.running() as storage:
        yield storage


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Yield a folder of the file servers, with a subfolder for each test."""
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def dav_server(served):
    with file_servers.serve_webdav(served) as server:
        yield server


@pytest.fixture(scope="module")
def ssh_server(served):
    with file_servers.serve_sftp(served) as server:
        yield server


@pytest.fixture(scope="module")
def ftp_server(served):
    with file_servers.serve_ftp(served) as server:
        yield server


@pytest.fixture(scope="module")
def smb_server(served, tmp_path_factory):
    with file_servers.serve_smb(served, tmp_path_factory.mktemp("samba")) as server:
        yield server


@pytest.fixture
def webdav(served, dav_server, tmp_path):
    dav_server.seen.clear()
    dav_server.statuses.clear()
    return Served(served / tmp_path.name, dav_server, "webdav+http", f"dav/{tmp_path.name}/files")


@pytest.fixture
def sftp(served, ssh_server, tmp_path):
    return Served(served / tmp_path.name, ssh_server, "sftp", f"files/{tmp_path.name}/files")


@pytest.fixture
def ftp(served, ftp_server, tmp_path):
    return Served(served / tmp_path.name, ftp_server, "ftp", f"{tmp_path.name}/files")


@pytest.fixture
def smb(served, smb_server, tmp_path):
    return Served(served / tmp_path.name, smb_server, "smb", f"files/{tmp_path.name}/files")


@pytest.fixture
def bucket(server):
    server.seen.clear()
    yield Bucket(server)
    server.faults.clear()
    server.always = None


@pytest.fixture(params=["folder", "bucket", "webdav", "sftp", "ftp", "smb"])
def storage(request, tmp_path):
    return Folder(tmp_path) if request.param == "folder" else request.getfixturevalue(request.param)


def opened(storage):
    return registry.make_connector("OBJECTS", {}, storage.settings), Tokens(storage)


def list_items(storage, cursor=None):
    """The items by path, and the last page."""
    connector, tokens = opened(storage)
    items, page = {}, None
    for page in connector.iter_changes(tokens, cursor):
        items |= {item.properties["path"]: item for item in page.items}
    assert page.done
    assert page.whole
    return items, page


def fetched(storage, item, to):
    connector, tokens = opened(storage)
    return connector.fetch(tokens, item, to / "raw")


def test_everything_below_the_prefix_is_listed_and_fetched(storage, tmp_path):
    odd = "a b/ü é#%41;=.txt" if storage.config["url"].startswith("smb") else "a b/ü é#%41?;=.txt"  # Windows has no ?
    paths = ["top.txt", "a/b/deep.txt", "a/b.txt", odd]
    for path in paths:
        storage.put(path, f"text of {path}")
    items, _ = list_items(storage)
    assert sorted(items) == sorted(paths)
    for path in ("a/b/deep.txt", odd):
        raw = fetched(storage, items[path], tmp_path)
        assert (raw.path.read_text(), raw.version) == (f"text of {path}", items[path].version)
    assert items["a/b/deep.txt"].above == ("a", "a/b")
    assert items["top.txt"].properties["modifiedAt"].endswith("Z")


def test_a_folder_behind_a_link_and_names_that_are_no_utf8_are_read(tmp_path):
    storage = Folder(tmp_path)
    storage.put(os.fsdecode(b"M\xfcll/caf\xe9.txt"), "badgers")
    (tmp_path / "link").symlink_to(storage.path)
    storage.config = {"url": f"file://{tmp_path}/link"}
    storage.settings = storage.settings.model_copy(update={"source_folders": [f"{tmp_path}/link"]})
    (item,) = list_items(storage)[0].values()
    assert (item.properties["path"], item.name) == ("M\ufffdll/caf\ufffd.txt", "caf\ufffd.txt")
    assert item.external_id.endswith("/link/M%FCll/caf%E9.txt")
    assert fetched(storage, item, tmp_path).path.read_text() == "badgers"
    connector, tokens = opened(storage)
    assert not connector.is_deleted(tokens, item.external_id)
    (entry,) = connector.browse(tokens, None, None).entries
    assert entry.id.isprintable()


def test_a_listing_goes_on_behind_any_page_in_another_process(storage, monkeypatch):
    monkeypatch.setattr("connectors.sources.objects.tree.BATCH", 2)
    monkeypatch.setattr("connectors.sources.objects.bucket.BATCH", 2)
    paths = {f"{folder}{number}.txt" for folder in ("", "a/b/", "a-b/") for number in range(2)}
    for path in paths:
        storage.put(path, "x")
    items, cursor = list_by_processes(lambda: opened(storage))
    assert sorted(item.properties["path"] for item in items) == sorted(paths)
    assert sorted(list_items(storage, cursor)[0]) == sorted(paths)


def test_changes_additions_and_removals_are_seen(storage, tmp_path):
    storage.put("kept.txt", "same")
    storage.put("changed.txt", "before")
    storage.put("removed.txt", "gone soon")
    initial, last = list_items(storage)
    storage.put("changed.txt", "after the change")
    storage.put("new/new.txt", "new")
    storage.delete("removed.txt")
    changes, _ = list_items(storage, last.cursor)
    assert sorted(changes) == ["changed.txt", "kept.txt", "new/new.txt"]
    assert changes["kept.txt"].version == initial["kept.txt"].version
    assert changes["changed.txt"].version != initial["changed.txt"].version
    connector, tokens = opened(storage)
    assert connector.is_deleted(tokens, initial["removed.txt"].external_id)
    assert not connector.is_deleted(tokens, initial["kept.txt"].external_id)
    assert connector.is_deleted(tokens, "s3://elsewhere/kept.txt")
    with pytest.raises(Skippable):
        fetched(storage, initial["removed.txt"], tmp_path)


@pytest.mark.parametrize("cursor", ["{", "[]", '{"old": 1}', '{"of": "s3://elsewhere/", "after": "z"}'])
def test_a_cursor_of_another_place_or_version_begins_a_whole_listing(tmp_path, cursor):
    storage = Folder(tmp_path)
    storage.put("a.txt", "x")
    assert list(list_items(storage, cursor)[0]) == ["a.txt"]


def test_nothing_outside_of_the_folder_of_a_connection_is_listed_or_read(storage, tmp_path):
    storage.put("plans/a.txt", "some text")
    if isinstance(storage, Folder):
        (storage.path.parent / "other").mkdir()
        (storage.path.parent / "other" / "a.txt").write_text("SECRET")
    connector, tokens = opened(storage)
    item = list_items(storage)[0]["plans/a.txt"]
    for outside in ("../other", "..\\other", "..", "plans/../../other", "plans/./..", "plans\0"):
        with pytest.raises(Skippable, match="no such folder"):
            connector.browse(tokens, outside, None)
        with pytest.raises(Skippable):
            fetched(storage, replace(item, external_id=item.external_id.replace("plans", quote(outside))), tmp_path)


def test_a_folder_behind_a_link_below_that_of_a_connection_is_not_listed(tmp_path):
    storage, outside = Folder(tmp_path), tmp_path / "outside" / "deep"
    outside.mkdir(parents=True)
    (storage.path / "link").symlink_to(outside.parent)
    connector, tokens = opened(storage)
    for folder in ("link", "link/deep"):
        with pytest.raises(Skippable, match="no such folder"):
            connector.browse(tokens, folder, None)


@pytest.mark.parametrize("path", ["/proc/self/cwd", "/proc/1/exe", "/etc", "/nowhere/at/all", "{files}/../other"])
def test_a_refused_folder_is_neither_resolved_nor_named(tmp_path, path):
    storage = Folder(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path.parent)
    for url in (f"file://{path.format(files=storage.path)}", f"file://{tmp_path}/link"):
        with pytest.raises(ValueError, match="url") as refusal:
            parse_location({"url": url}, storage.settings)
        assert "/" not in refusal.value.args[1]


def test_a_folder_of_an_organization_is_for_no_other(tmp_path):
    storage = Folder(tmp_path)
    settings = Settings(_env_file=None, source_folders=[f"org_a={storage.path}"])
    parse_location(storage.config, registry.narrow_settings(settings, "org_a"))
    for refusing in (settings, registry.narrow_settings(settings, "org_b")):
        with pytest.raises(ValueError, match="url"):
            parse_location(storage.config, refusing)


@pytest.mark.slow
def test_a_file_that_is_too_large_is_not_fetched(storage, tmp_path):
    storage.put("large.bin", "x" * (2**20 + 1))
    items, _ = list_items(storage)
    with pytest.raises(Skippable, match="larger than 1 MiB"):
        fetched(storage, items["large.bin"], tmp_path)


@pytest.mark.parametrize(
    "config",
    [
        {"url": "s3://key:canary@bucket/x", "credentials": KEYS},
        {"url": "s3://bucket"},
        {"url": "s3://bucket/a/../b", "credentials": KEYS},
        {"url": "s3://bucket?versionId=1", "credentials": KEYS},
        {"url": "s3://bucket", "credentials": KEYS, "endpoint": "https://a:b@host"},
        {"url": "http://169.254.169.254/x"},
        {"url": "file:///etc"},
        {"url": "file://host/srv"},
        {"url": "file:///srv/../etc"},
        {"url": "gopher://x"},
        {"url": "webdav+https://ada:canary@host/x"},
        {"url": "webdav+https://host", "credentials": {"password": "canary"}},
        {"url": "sftp://host/x", "credentials": {"user": "ada", "password": "canary"}},
        {"url": "sftp://host/x", "credentials": {"user": "ada"}, "hostKey": "SHA256:" + "A" * 43},
        {"url": "smb://host", "credentials": {"user": "ada", "password": "canary"}},
        {"url": "smb://host/share%5C..", "credentials": {"user": "ada", "password": "canary"}},
        {"url": "smb://host/share", "credentials": {"user": "ada"}},
        {"url": "ftps://host/a%0D%0ADELE%20b"},
        {"url": "ftps://host", "credentials": {"user": "ada", "password": "canary\r\nDELE b"}},
        {"url": "azure://account", "credentials": {"accountKey": "canary"}},
        {"url": "azure://account/box", "credentials": {"accountKey": "canary", "sasToken": "canary"}},
    ],
)
def test_a_config_that_cannot_be_used_is_refused_without_its_secrets(config):
    with pytest.raises(ValueError, match=" ") as raised:
        registry.read_config("OBJECTS", config, Settings(_env_file=None))
    assert "canary" not in str(raised.value)


def test_links_lead_nowhere(tmp_path):
    storage = Folder(tmp_path)
    storage.put("a/real.txt", "real")
    (tmp_path / "secret.txt").write_text("secret")
    (storage.path / "link.txt").symlink_to(tmp_path / "secret.txt")
    (storage.path / "a/circle").symlink_to(storage.path)
    os.mkfifo(storage.path / "pipe")
    items, page = list_items(storage)
    assert list(items) == ["a/real.txt"]
    assert page.skipped == {"symbolic links": 3}
    shutil.rmtree(storage.path / "a")
    (storage.path / "a").symlink_to(tmp_path)
    (tmp_path / "real.txt").write_text("swapped in")
    with pytest.raises(Skippable):
        fetched(storage, items["a/real.txt"], tmp_path)
    with pytest.raises(ValueError, match="operator"):
        registry.read_config("OBJECTS", {"url": f"file://{storage.path}/a"}, storage.settings)


def test_a_folder_that_is_missing_ends_the_listing(tmp_path):
    storage = Folder(tmp_path)
    shutil.rmtree(storage.path)
    with pytest.raises(Fatal, match="does not exist"):
        list_items(storage)


def test_a_private_endpoint_is_refused_unless_the_operator_allows_it(bucket):
    bucket.settings = Settings(_env_file=None)
    with pytest.raises(Fatal, match="RETRIEVAL_FETCH_ALLOW"):
        list_items(bucket)
    assert not bucket.storage.seen


def test_a_server_is_only_reached_where_the_guard_allows_it(webdav, sftp, ftp, smb):
    for storage in (webdav, sftp, ftp, smb):
        storage.settings = Settings(_env_file=None)
        with pytest.raises(Fatal, match="RETRIEVAL_FETCH_ALLOW"):
            list_items(storage)
    assert not webdav.server.seen


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (401, Fatal, "credentials"),
        (403, Fatal, "may not be read"),
        (301, Fatal, "refuses"),
        (200, Fatal, "not speak"),
        (429, Retryable, "no more requests"),
        (503, Retryable, "503"),
    ],
)
def test_a_folder_that_webdav_refuses_ends_the_listing(webdav, monkeypatch, status, error, words):
    webdav.put("a/b.txt", "x")
    monkeypatch.setattr("connectors.sources.objects.connector.POLICY", replace(POLICY, seconds=0.5))
    webdav.server.statuses[f"/{webdav.top}/a/"] = status
    with pytest.raises(error, match=words):
        list_items(webdav)


def test_wrong_passwords_keys_and_host_keys_are_refused(webdav, sftp, ftp, smb):
    key = sftp.server.host_key
    for storage in (webdav, sftp, ftp, smb):
        storage.config["credentials"] = {"user": "ada", "password": "wrong"}
        with pytest.raises(Fatal, match="does not accept"):
            list_items(storage)
    for credentials in ({"password": file_servers.PASSWORD}, {"privateKey": sftp.server.private_key}):
        sftp.config |= {"credentials": {"user": file_servers.USER, **credentials}, "hostKey": key}
        assert list_items(sftp)[0] == {}
        sftp.config["hostKey"] = "SHA256:" + "A" * 43
        with pytest.raises(Fatal, match=re.escape(f"shows the key {key}")):
            list_items(sftp)
    sftp.config |= {"credentials": {"user": "ada", "privateKey": "canary"}, "hostKey": key}
    with pytest.raises(Fatal, match="cannot be read"):
        list_items(sftp)


def test_ftps_needs_a_trusted_certificate(tmp_path, monkeypatch):
    with file_servers.serve_ftp(tmp_path, tmp_path) as server:
        storage = Served(tmp_path, server, "ftps", "files")
        storage.put("a/b.txt", "over TLS")
        with pytest.raises(Fatal, match="certificate"):
            list_items(storage)
        trusted = sessions.ssl.create_default_context(cafile=server.certificate)
        monkeypatch.setattr(sessions, "trusted_certificates", lambda *_: trusted)
        items, _ = list_items(storage)
        assert fetched(storage, items["a/b.txt"], tmp_path).path.read_text() == "over TLS"
        storage.config["url"] = storage.config["url"].replace("ftps:", "ftp:")
        with pytest.raises(Fatal, match="only by ftps"):
            list_items(storage)


def test_ftps_is_never_read_without_tls(ftp):
    ftp.config["url"] = ftp.config["url"].replace("ftp:", "ftps:")
    with pytest.raises(Fatal, match="no TLS"):
        list_items(ftp)


def test_a_server_of_ftp_without_mlsd_is_read_by_its_lists(tmp_path):
    # As vsftpd and IIS: pyftpdlib lists in the format of `ls -l`.
    with file_servers.serve_ftp(tmp_path, commands={"MLSD", "MLST"}) as server:
        storage = Served(tmp_path, server, "ftp", "files")
        storage.config.pop("credentials")  # anonymous
        for path in ("a [b]/ü é#%;=.txt", "a [b]/c/deep.txt", "top.txt"):
            storage.put(path, path)
        initial, last = list_items(storage)
        assert len(initial) == 3
        for path, item in initial.items():
            raw = fetched(storage, item, tmp_path)
            assert (raw.path.read_text(), raw.version) == (path, item.version)
        os.utime(storage.path / "top.txt", (0, 0))
        storage.delete("a [b]/c/deep.txt")
        changes, _ = list_items(storage, last.cursor)
        assert changes.keys() == initial.keys() - {"a [b]/c/deep.txt"}
        assert changes["top.txt"].version != initial["top.txt"].version
        connector, tokens = opened(storage)
        deleted = [path for path, item in initial.items() if connector.is_deleted(tokens, item.external_id)]
        assert deleted == ["a [b]/c/deep.txt"]


@pytest.mark.parametrize("commands", [set(), {"MLSD", "MLST"}])
def test_a_folder_that_ftp_refuses_ends_the_listing(tmp_path, commands):
    with file_servers.serve_ftp(tmp_path, commands=commands, closed=["files/a"]) as server:
        storage = Served(tmp_path, server, "ftp", "files")
        storage.put("a/b.txt", "x")
        with pytest.raises(Fatal, match="may not be read"):
            list_items(storage)
        connector, tokens = opened(storage)
        with pytest.raises(Fatal, match="may not be read"):
            connector.is_deleted(tokens, f"ftp://127.0.0.1:{server.port}/files/a/b.txt")


@pytest.mark.parametrize("share", ["sealed", "tree"])
def test_shares_with_encryption_and_of_dfs_are_read(smb, tmp_path, share):
    smb.config["url"] = smb.config["url"].replace("/files/test", f"/{share}/test")
    smb.put("a/b.txt", "x" * 600_000)
    items, _ = list_items(smb)
    assert fetched(smb, items["a/b.txt"], tmp_path).size == 600_000


def test_a_share_that_is_missing_or_closed_ends_the_listing(smb):
    for share, words in (("nowhere", "no such share"), ("closed", "may not be read")):
        smb.config["url"] = f"smb://127.0.0.1:{smb.server.port}/{share}"
        with pytest.raises(Fatal, match=words):
            list_items(smb)


def test_google_is_read_by_an_hmac_key(server, tmp_path):
    # moto replaces Google's XML API, compatible with S3 in lists of version 2 and signatures.
    google = Bucket(server, "gs")
    google.put("a/ü b.txt", "Owls hunt at night.")
    items, _ = list_items(google)
    assert items["a/ü b.txt"].external_id == f"gs://{google.name}/files/a/%C3%BC%20b.txt"
    assert fetched(google, items["a/ü b.txt"], tmp_path).path.read_text() == "Owls hunt at night."
    connector, tokens = opened(google)
    assert not connector.is_deleted(tokens, items["a/ü b.txt"].external_id)
    google.delete("a/%C3%BC%20b.txt")
    assert connector.is_deleted(tokens, items["a/ü b.txt"].external_id)


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (s3_server.answer(403, "AccessDenied"), Fatal, "may not list"),
        (s3_server.answer(403, "InvalidAccessKeyId"), Fatal, "does not accept"),
        (s3_server.answer(404, "NoSuchBucket"), Fatal, "no bucket"),
        (s3_server.answer(200), Retryable, "could not be read"),
        (s3_server.truncated, Retryable, "Attempts: 4"),
    ],
)
def test_a_refusal_is_no_empty_listing(bucket, fault, error, words):
    bucket.put("a.txt", "x")
    bucket.storage.always = fault
    with pytest.raises(error, match=words) as raised:
        list_items(bucket)
    assert "SECRET" not in str(raised.value)
    assert KEYS["secretAccessKey"] not in str(raised.value)


@pytest.mark.slow
def test_a_truncated_download_is_not_taken_for_the_whole(bucket, tmp_path):
    bucket.put("a.txt", "x" * 3000)
    items, _ = list_items(bucket)
    bucket.storage.always = s3_server.truncated
    with pytest.raises(Retryable):
        fetched(bucket, items["a.txt"], tmp_path)
