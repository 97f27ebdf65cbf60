"""Contract suite of the file stores; the oracle is a plain store in memory, S3 is moto's server."""

import io
from contextlib import contextmanager

import pytest

from connectors.files.local import LocalFiles
from connectors.files.s3 import store
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.network.fetch_guard import BlockedAddress
from retrieval.settings import Settings
from tests.standins import s3_server
from tests.standins.s3_server import answer

pytestmark = pytest.mark.service
"""moto's server; boto3 takes seconds to import."""


class MemoryFiles:
    """Small and plain."""

    def __init__(self):
        self.files = {}

    def put(self, key, chunks):
        self.files[key] = b"".join(chunks)
        return len(self.files[key])

    @contextmanager
    def open(self, key):
        if key not in self.files:
            raise Skippable("gone")
        yield io.BytesIO(self.files[key])

    def delete(self, keys):
        for key in keys:
            self.files.pop(key, None)

    def keys(self, prefix):
        yield from [key for key in self.files if key.startswith(prefix)]

    def sizes(self, prefix):
        yield from [(key, len(body)) for key, body in self.files.items() if key.startswith(prefix)]

    def check(self):
        pass


@pytest.fixture(scope="module")
def storage():
    with s3_server.running() as running:
        yield running


@pytest.fixture
def quiet(storage):
    """Storage without the requests and faults of earlier tests."""
    storage.faults, storage.always = [], None
    storage.seen.clear()
    return storage


def options(**overrides):
    return Settings(_env_file=None, **{"fetch_allow": "127.0.0.0/8", **overrides})


@pytest.fixture
def bucket_files(quiet):
    return store.make(quiet.config(s3_server.bucket(quiet)), options())


@pytest.fixture(params=["memory", "local", "s3"])
def files(request, tmp_path):
    if request.param == "memory":
        return MemoryFiles()
    if request.param == "local":
        return LocalFiles(tmp_path / "files")
    return request.getfixturevalue("bucket_files")


def read(files, key):
    with files.open(key) as stream:
        return stream.read()


def test_what_was_put_is_read_back(files):
    assert files.put("ns_1/_/doc_1/7/raw", [b"two ", b"", b"pieces"]) == 10
    assert read(files, "ns_1/_/doc_1/7/raw") == b"two pieces"


def test_an_empty_file_is_a_file(files):
    assert files.put("ns_1/empty", []) == 0
    assert read(files, "ns_1/empty") == b""


def test_the_same_key_again_replaces(files):
    files.put("a/b", [b"first, and longer"])
    files.put("a/b", [b"second"])
    assert read(files, "a/b") == b"second"


def test_a_stream_is_read_in_pieces(files):
    data = bytes(range(256)) * 4096
    files.put("a/large", [data])
    with files.open("a/large") as stream:
        pieces = list(iter(lambda: stream.read(100_000), b""))
    assert len(pieces) == 11
    assert b"".join(pieces) == data


def test_a_missing_file_fails_only_its_document(files):
    files.put("a/one", [b"1"])
    with pytest.raises(Skippable), files.open("a/nothing") as stream:
        stream.read()


def test_a_folder_whose_disk_is_away_is_no_documents_trouble(tmp_path):
    # A mount point without its disk is an empty folder: the store retries.
    for root in (tmp_path, tmp_path / "never"):
        with pytest.raises(Retryable, match="is its disk mounted"), LocalFiles(root).open("a/one"):
            pass


def test_keys_are_listed_by_what_they_begin_with(files):
    for key in ("ns_1/_/doc_1/7/raw", "ns_1/_/doc_1/7/parsed.md", "ns_1/_/doc_10/8/raw", "ns_2/_/doc_1/7/raw"):
        files.put(key, [b"x"])
    assert sorted(files.keys("ns_1/_/doc_1/")) == ["ns_1/_/doc_1/7/parsed.md", "ns_1/_/doc_1/7/raw"]
    assert sorted(files.keys("ns_1/_/doc_1")) == [
        "ns_1/_/doc_1/7/parsed.md",
        "ns_1/_/doc_1/7/raw",
        "ns_1/_/doc_10/8/raw",
    ]
    assert list(files.keys("ns_1/_/doc_1/7/raw")) == ["ns_1/_/doc_1/7/raw"]
    assert list(files.keys("ns_3/")) == []
    assert len(list(files.keys(""))) == 4


def test_sizes_are_listed_with_the_keys(files):
    for key, size in (("ns_1/_/doc_1/7/raw", 5), ("ns_1/_/doc_1/7/parsed.md", 0), ("ns_2/_/doc_1/7/raw", 7)):
        files.put(key, [b"x" * size])
    assert sorted(files.sizes("ns_1/")) == [("ns_1/_/doc_1/7/parsed.md", 0), ("ns_1/_/doc_1/7/raw", 5)]


def test_deleting_twice_is_no_error(files):
    files.put("a/one", [b"1"])
    files.put("a/two", [b"2"])
    files.delete(["a/one", "a/never"])
    files.delete(["a/one"])
    files.delete([])
    assert read(files, "a/two") == b"2"
    with pytest.raises(Skippable):
        read(files, "a/one")


def test_a_store_that_works_passes_its_check(files):
    files.check()


def test_an_interrupted_put_leaves_what_was_there(files):
    def broken():
        yield b"x" * 10
        raise Retryable("the source broke off")

    files.put("a/kept", [b"before"])
    with pytest.raises(Retryable):
        files.put("a/kept", broken())
    assert read(files, "a/kept") == b"before"


@pytest.mark.parametrize("key", ["../a", "/a", "a/../b", "a b", "a//b", "", "a/.", "ä"])
def test_keys_lead_nowhere_else(key, tmp_path, bucket_files):
    for files in (LocalFiles(tmp_path), bucket_files):
        with pytest.raises(Fatal):
            files.put(key, [b"x"])
        with pytest.raises(Fatal):
            files.delete([key])


def test_a_large_file_goes_up_in_equal_parts_and_comes_back_whole(bucket_files, quiet):
    piece = bytes(range(251)) * 1000
    stored = []

    def pieces():
        for n in range(80):
            stored.append(n)
            yield piece

    assert bucket_files.put("a/large", pieces()) == 80 * len(piece)
    parts = [path for method, path in quiet.seen if "partNumber" in path]
    assert len(parts) == 3
    assert read(bucket_files, "a/large") == piece * 80


def test_everything_lies_below_our_prefix(bucket_files, quiet):
    bucket_files.put("ns_1/x", [b"1"])
    bucket_files.delete(["ns_1/x"])
    bucket_files.check()
    assert all("/retrieval/" in path for _, path in quiet.seen)


def test_a_broken_upload_is_given_up_and_leaves_no_parts(bucket_files, quiet):
    quiet.faults = [None, None, answer(503, "SlowDown"), answer(503, "SlowDown")]
    with pytest.raises(Retryable):
        bucket_files.put("a/large", [b"x" * (3 * store.PART)])
    assert quiet.seen[-1][0] == "DELETE"
    assert "uploadId" in quiet.seen[-1][1]
    with pytest.raises(Skippable):
        read(bucket_files, "a/large")


def test_a_source_that_breaks_off_gives_the_upload_up(bucket_files, quiet):
    def broken():
        yield b"x" * (2 * store.PART)
        raise ValueError("source")

    with pytest.raises(ValueError, match="source"):
        bucket_files.put("a/large", broken())
    assert quiet.seen[-1][0] == "DELETE"


@pytest.mark.parametrize(
    "fault", [s3_server.reset, answer(503, "SlowDown"), answer(500, "InternalError"), answer(502), answer(429)]
)
def test_trouble_that_may_pass_is_retryable_and_bounded(fault, bucket_files, quiet):
    quiet.always = fault
    for act in (
        lambda: bucket_files.put("a", [b"x"]),
        lambda: read(bucket_files, "a"),
        lambda: bucket_files.delete(["a"]),
    ):
        requests_before = len(quiet.seen)
        with pytest.raises(Retryable) as raised:
            act()
        assert len(quiet.seen) - requests_before <= 2
        assert "VENDOR" not in str(raised.value)


def test_the_storage_says_when_to_come_back(bucket_files, quiet):
    quiet.always = answer(503, "SlowDown", **{"Retry-After": "7"})
    with pytest.raises(Retryable) as raised:
        read(bucket_files, "a")
    assert raised.value.after == 7


def test_a_body_that_breaks_off_is_no_shorter_file(bucket_files, quiet):
    bucket_files.put("a", [b"x" * 100_000])
    quiet.faults = [s3_server.truncated]
    with pytest.raises(Retryable):
        read(bucket_files, "a")
    assert len(read(bucket_files, "a")) == 100_000


def test_a_storage_that_does_not_answer_is_not_waited_for(quiet, monkeypatch):
    from connectors import s3_client as client

    monkeypatch.setattr(client, "READ_SECONDS", 0.3)
    files = store.make(quiet.config(s3_server.bucket(quiet)), options())
    quiet.always = s3_server.slow(1)
    with pytest.raises(Retryable):
        files.put("a", [b"x"])


@pytest.mark.parametrize(
    ("fault", "field", "words"),
    [
        (answer(403, "AccessDenied"), "credentials", "may not"),
        (answer(403, "InvalidAccessKeyId"), "credentials", "does not accept"),
        (answer(403, "SignatureDoesNotMatch"), "credentials", "does not accept"),
        (answer(404, "NoSuchBucket"), "bucket", "no bucket"),
        (answer(301, "PermanentRedirect"), "region", "region"),
        (answer(400, "AuthorizationHeaderMalformed"), "region", "region"),
        (answer(400), None, "status 400"),
        (answer(301), "region", "region"),
    ],
)
def test_a_wrong_configuration_is_named(fault, field, words, bucket_files, quiet):
    quiet.always = fault
    with pytest.raises(Fatal) as raised:
        bucket_files.check()
    assert raised.value.field == field
    assert words in str(raised.value)
    assert "VENDOR" not in str(raised.value)


def test_a_bucket_that_is_not_there(quiet):
    with pytest.raises(Fatal, match="no bucket") as raised:
        store.make(quiet.config("not-made-yet"), options()).check()
    assert raised.value.field == "bucket"


@pytest.mark.parametrize(
    ("successes", "kind", "words"),
    [(0, Fatal, "no such bucket"), (1, Retryable, "forgot an upload"), (4, Retryable, "forgot an upload")],
    ids=["beginning", "a part", "the end"],
)
def test_a_404_of_an_upload_in_parts_is_no_missing_file(successes, kind, words, bucket_files, quiet):
    # Some storages name no code (docs.aws.amazon.com/AmazonS3/latest/API/API_UploadPart.html: 404 NoSuchUpload).
    quiet.faults = [None] * successes + [answer(404)]
    with pytest.raises(kind, match=words) as raised:
        bucket_files.put("large", [bytes(store.PART)] * 3)
    assert (getattr(raised.value, "field", None) == "bucket") is (kind is Fatal)


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"endpoint": "ftp://127.0.0.1"}, "endpoint"),
        ({"endpoint": "http://"}, "endpoint"),
        ({"region": "not a region"}, "region"),
        ({"bucket": "No Bucket/"}, "bucket"),
    ],
)
def test_a_configuration_that_cannot_be_read(overrides, field, quiet):
    with pytest.raises(Fatal) as raised:
        store.make(quiet.config("b", **overrides), options()).check()
    assert raised.value.field == field


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254"])
def test_an_endpoint_inside_the_house_is_not_dialled(host, quiet):
    config = quiet.config("b", endpoint=f"http://{host}:{quiet.port}")
    with pytest.raises(Fatal) as raised:
        store.make(config, options(fetch_allow="")).check()
    assert raised.value.field == "endpoint"
    assert isinstance(raised.value, BlockedAddress) or "public" in str(raised.value) or "metadata" in str(raised.value)
    assert quiet.seen == []


def test_a_name_that_changes_between_check_and_connection_leads_nowhere_else(quiet, monkeypatch):
    # The guard dials each connection by the address from its check, without a second resolution.
    import socket

    files = store.make(quiet.config(s3_server.bucket(quiet), endpoint=f"http://rebind.test:{quiet.port}"), options())
    hostnames, real = [], socket.getaddrinfo

    def lies(host, port, *args, **kwargs):
        if host != "rebind.test":
            return real(host, port, *args, **kwargs)
        hostnames.append(host)
        address = "127.0.0.1" if len(hostnames) == 1 else "10.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", lies)
    files.put("a", [b"x"])
    assert hostnames == ["rebind.test"]


def test_this_machines_own_account_and_proxies_are_not_used(quiet, monkeypatch, tmp_path):
    (tmp_path / "config").write_text(
        "[default]\nendpoint_url = http://127.0.0.1:9\ns3 =\n  addressing_style = virtual\n"
    )
    variables = {
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_PROFILE": "nobody",
        "AWS_ACCESS_KEY_ID": "machine",
        "AWS_SECRET_ACCESS_KEY": "machine",
        "AWS_SESSION_TOKEN": "machine",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
        "AWS_MAX_ATTEMPTS": "9",
        "AWS_USE_FIPS_ENDPOINT": "true",
        "AWS_DEFAULTS_MODE": "auto",
        "AWS_CA_BUNDLE": "/nowhere",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "ALL_PROXY": "http://127.0.0.1:9",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    authorizations = []
    quiet.always = lambda handler: bool(authorizations.append(handler.headers.get("Authorization", ""))) or False
    files = store.make(quiet.config(s3_server.bucket(quiet)), options())
    files.check()
    assert authorizations
    assert all("Credential=standin/" in authorization for authorization in authorizations)
