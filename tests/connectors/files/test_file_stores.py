"""Contract suite of the file stores; S3 is moto's server."""

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


@pytest.fixture(params=["local", "s3"])
def files(request, tmp_path):
    if request.param == "local":
        return LocalFiles(tmp_path / "files")
    return request.getfixturevalue("bucket_files")


def read(files, key):
    with files.open(key) as stream:
        return stream.read()


def test_what_was_put_is_read_back(files):
    assert files.put("ns_1/_/doc_1/7/raw", [b"two ", b"", b"pieces"]) == 10
    assert read(files, "ns_1/_/doc_1/7/raw") == b"two pieces"


def test_the_same_key_again_replaces(files):
    files.put("a/b", [b"first, and longer"])
    files.put("a/b", [b"second"])
    assert read(files, "a/b") == b"second"


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


@pytest.mark.parametrize("fault", [s3_server.reset, answer(503, "SlowDown"), answer(429)])
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


def test_a_body_that_breaks_off_is_no_shorter_file(bucket_files, quiet):
    bucket_files.put("a", [b"x" * 100_000])
    quiet.faults = [s3_server.truncated]
    with pytest.raises(Retryable):
        read(bucket_files, "a")
    assert len(read(bucket_files, "a")) == 100_000


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
