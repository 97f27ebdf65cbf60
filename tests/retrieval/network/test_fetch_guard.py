"""The guard dials only public and allowed addresses, for any spelling, name, tunnel or rebinding."""

import socket
import threading
from ipaddress import IPv4Address, IPv6Address, ip_network

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import Retryable
from retrieval.network import fetch_guard
from retrieval.network.fetch_guard import BlockedAddress, Guard
from retrieval.network.transport import Transport
from retrieval.settings import Settings

ATTACKS = [
    "http://127.0.0.1/",
    "http://localhost/",
    "http://localhost./",
    "http://LOCALHOST/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://0x7f000001/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.1/",
    "http://0/",
    "http://0.0.0.0/",
    "http://127.0.0.1./",
    "http://[::]/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[0:0:0:0:0:ffff:169.254.169.254]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://127\u30020\u30020\u30021/",
    "http://127\uff0e0\uff0e0\uff0e1/",
    "http://\uff11\uff12\uff17.0.0.1/",
    "http://\u2488\u2488\u2488\u2488/",
    "http://\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3/",
    "http://user@127.0.0.1/",
    "http://user:word@8.8.8.8/",
    "http://8.8.8.8\\@127.0.0.1/",
    "http://127.0.0.1\\@8.8.8.8/",
    "http://127.0.0.1#@8.8.8.8/",
    "http://127.0.0.1?@8.8.8.8/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::808:808]/",
    "http://[64:ff9b:1::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a9fe:a9fe::1]/",
    "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
    "http://[2606:4700::5efe:127.0.0.1]/",
    "http://[2606:4700::200:5efe:a9fe:a9fe]/",
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/",
    "http://168.63.129.16/",
    "http://100.100.100.200/",
    "http://[fd00:ec2::254]/",
    "http://[fd20:ce::254]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25lo]/",
    "http://[fe80::1%lo]/",
    "http://[fec0::1]/",
    "http://[fc00::1]/",
    "http://[ff02::1]/",
    "http://[100::1]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://100.64.0.1/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://192.0.0.192/",
    "http://192.0.2.1/",
    "http://192.88.99.1/",
    "http://198.18.0.1/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://239.255.255.250:1900/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "file:///etc/passwd",
    "gopher://8.8.8.8/",
    "ftp://8.8.8.8/",
    "data:text/html,x",
    "unix:///var/run/docker.sock",
    "//8.8.8.8/",
    "http:///",
    "http://",
    "http://8.8.8.8:0/",
    "http://8.8.8.8:22/",
    "http://8.8.8.8:25/",
    "http://8.8.8.8:6379/",
    "http://8.8.8.8:99999/",
    "http://8.8.8.8:port/",
    "http://8.8.8.8 /",
    "http://8.8.8.8\r\nHost: x/",
    "http://8.8.8.8\t/",
    "http://[8.8.8.8]/",
    "http://[::1/",
    "http://1.2.3/",
    "http://8.8.8.8.8/",
    "http://256.256.256.256/",
    "http://a b/",
    "http://exa%6dple.com/",
    "http://.example.com/",
    "http://a..b/",
    "http://" + "a" * 300 + "/",
]

PUBLIC = ["http://8.8.8.8/", "https://8.8.8.8:8443/x?y#z", "http://[2606:4700:4700::1111]/", "https://1.1.1.1:443"]


def answers(monkeypatch, *turns):
    """Return one list of addresses per name lookup, then repeat the last list."""
    resolved_names = []

    def getaddrinfo(host, port, *_, **__):
        resolved_names.append(host)
        addresses = turns[min(len(resolved_names), len(turns)) - 1]
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))
            if ":" in address
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return resolved_names


@pytest.fixture
def witness():
    """Listen on loopback and return port and accepted connections."""
    accepted = []
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            accepted.append(connection.getsockname())
            connection.close()

    thread = threading.Thread(target=accept)
    thread.start()
    yield listener.getsockname()[1], accepted
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


@pytest.mark.parametrize("url", ATTACKS)
def test_an_attack_is_blocked(url):
    with pytest.raises(BlockedAddress):
        Guard().check_url(url)


@pytest.mark.parametrize("url", PUBLIC)
def test_a_public_address_passes(url):
    Guard().check_url(url)


def test_reasons_repeat_no_address():
    for url in ATTACKS:
        with pytest.raises(BlockedAddress) as blocked:
            Guard().check_url(url)
        assert not any(part in str(blocked.value) for part in ("127", "169.254", "localhost", "example", "8.8.8"))


def test_a_name_with_one_private_address_is_blocked(monkeypatch):
    answers(monkeypatch, ["8.8.8.8", "10.1.2.3"])
    with pytest.raises(BlockedAddress):
        Guard().resolve("two-faced.example", 80)
    answers(monkeypatch, ["10.1.2.3", "8.8.8.8"])
    with pytest.raises(BlockedAddress):
        Guard().connect("two-faced.example", 80)


def test_a_name_that_turns_private_between_check_and_dial_is_blocked(monkeypatch, witness):
    port, accepted = witness
    answers(monkeypatch, ["8.8.8.8"], ["127.0.0.1"])
    guard = Guard()
    guard.check_url(f"http://rebinding.example:{port}/")
    with pytest.raises(BlockedAddress):
        guard.connect("rebinding.example", port, timeout=2)
    assert accepted == []


@pytest.fixture
def dialled(monkeypatch):
    """Return the address dialled by httpx's pool, without an answer."""
    hosts = []

    def create_connection(address, timeout=None, source_address=None):
        hosts.append(address[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", create_connection)
    return hosts


def test_the_transport_dials_what_was_checked(monkeypatch, dialled):
    # The pool below httpx dials the checked number.
    resolved_names = answers(monkeypatch, ["8.8.8.8"], ["127.0.0.1"])
    client = httpx.Client(transport=Transport(Guard()), trust_env=False)
    with client, pytest.raises(httpx.ConnectError):
        client.get("http://rebinding.example/")
    assert resolved_names == ["rebinding.example"]
    assert dialled == ["8.8.8.8"]


def test_the_transport_dials_no_attack(dialled):
    """Whatever another library makes of the URL's spelling, the dial is guarded."""
    refused = (BlockedAddress, httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.ConnectError)
    with httpx.Client(transport=Transport(Guard()), trust_env=False, timeout=5) as client:
        for url in ATTACKS:
            with pytest.raises(refused):
                client.get(url)
    assert set(dialled) <= {"8.8.8.8"}


def test_the_operator_allows_ranges(witness):
    port, _ = witness
    guard = fetch_guard.make_guard(Settings(fetch_allow="127.0.0.0/8, fd12::/16", _env_file=None))
    guard.check_url(f"http://127.0.0.1:{port}/")
    guard.connect("127.0.0.1", port, timeout=5).close()
    guard.check_url("http://[::ffff:127.0.0.1]/")
    guard.check_url("http://[fd12::1]/")
    for url in ("http://10.0.0.1/", "http://2130706433/", "http://user@127.0.0.1/"):
        with pytest.raises(BlockedAddress):
            guard.check_url(url)


def test_metadata_is_never_allowed():
    everything = Guard((ip_network("0.0.0.0/0"), ip_network("::/0")))
    everything.check_url("http://10.0.0.1/")
    everything.check_url("http://[fd00::1]/")
    for host in (
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::169.254.169.254]",
        "[2002:a9fe:a9fe::]",
    ):
        with pytest.raises(BlockedAddress, match="metadata"):
            everything.check_url(f"http://{host}/")


def test_a_translated_address_must_be_allowed_itself():
    translator = Guard((ip_network("64:ff9b::/96"),))
    translator.check_url("http://[64:ff9b::8.8.8.8]/")
    with pytest.raises(BlockedAddress):
        translator.check_url("http://[64:ff9b::10.0.0.1]/")


def looked_up(monkeypatch, number, words):
    def unknown(*_, **__):
        raise socket.gaierror(number, words)

    monkeypatch.setattr(socket, "getaddrinfo", unknown)


def test_a_name_that_cannot_be_looked_up_now_may_be_later(monkeypatch):
    looked_up(monkeypatch, socket.EAI_AGAIN, "try again")
    with pytest.raises(Retryable):
        Guard().check_url("http://somebody.example/")
    with pytest.raises(socket.gaierror):
        Guard().connect("somebody.example", 80)


INSIDE = ["wiki", "wiki.corp", "db.internal", "secret.example.com", "WIKI.Corp.", "w\u0131ki.example", "printer.local"]


@pytest.mark.parametrize("name", INSIDE)
def test_a_reason_does_not_tell_whether_a_name_exists_inside(monkeypatch, name):
    # Same error for missing, private, metadata, mixed and own addresses.
    refusals = set()
    guard = Guard((ip_network("10.9.0.0/16"),), own_hosts=(("10.9.0.1", 8443),))
    for addresses in (["10.0.0.1"], ["127.0.0.1"], ["169.254.169.254"], ["::1"], ["8.8.8.8", "10.0.0.1"], ["10.9.0.1"]):
        answers(monkeypatch, addresses)
        refusals.add(refused(guard, f"http://{name}:8443/"))
    for number in (socket.EAI_NONAME, socket.EAI_NODATA, socket.EAI_FAIL):
        looked_up(monkeypatch, number, f"{name} is not known")
        refusals.add(refused(guard, f"http://{name}:8443/"))
    assert len(refusals) == 1
    kind, words, cause = refusals.pop()
    assert (kind, cause) == (BlockedAddress, None)
    assert "does not exist, or is not on the public internet" in words


def refused(guard, url):
    """Return the refusals of the check and of the fetching client."""
    with pytest.raises(BlockedAddress) as checked:
        guard.check_url(url)
    with httpx.Client(transport=Transport(guard), trust_env=False) as client:
        with pytest.raises(BlockedAddress) as dialled:
            client.get(url)
    assert str(checked.value) == str(dialled.value)
    return checked.type, str(checked.value), checked.value.__cause__


@pytest.fixture
def listening():
    """Listen on all addresses as a service part does, and return the port."""
    with socket.create_server(("", 0)) as server:
        yield server.getsockname()[1]


SPELLED = ["127.0.0.1", "127.1.2.3", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "[::ffff:7f00:1]"]


@pytest.mark.parametrize("host", SPELLED)
@pytest.mark.parametrize("part", ["api_port", "ui_port", "prefect_port"])
def test_the_service_never_fetches_itself_whatever_is_allowed(listening, host, part):
    everything = {"fetch_allow": "0.0.0.0/0, ::/0", "_env_file": None}
    guard = fetch_guard.make_guard(Settings(**everything, **{part: listening}))
    with pytest.raises(BlockedAddress):
        guard.connect(host.strip("[]"), listening)
    with pytest.raises(BlockedAddress):
        guard.check_url(f"http://{host}:{listening}/")
    other_guard = fetch_guard.make_guard(Settings(**everything))
    other_guard.connect("127.0.0.1", listening, timeout=5).close()


def test_the_service_is_refused_on_every_address_of_its_machine(listening):
    own_addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    guard = fetch_guard.make_guard(Settings(fetch_allow="0.0.0.0/0", api_port=listening, _env_file=None))
    for address in own_addresses:
        with pytest.raises(BlockedAddress):
            guard.check_url(f"http://{address}:{listening}/")
    guard.check_url(f"http://8.8.8.8:{listening}/")


@pytest.mark.parametrize(
    "addresses",
    [
        {"own_addresses": "parts.internal:PORT"},
        {"prefect_api_url": "http://parts.internal:PORT/api"},
        {"database_url": "postgresql://user:pw@parts.internal:PORT/db"},
        {"prefect_database_url": "postgresql://parts.internal:PORT/prefect"},
        {"ui_api_url": "http://parts.internal:PORT"},
    ],
)
def test_parts_on_other_machines_are_refused_too(monkeypatch, addresses):
    settings = {key: value.replace("PORT", "18123") for key, value in addresses.items()}
    guard = fetch_guard.make_guard(Settings(fetch_allow="10.0.0.0/8", _env_file=None, **settings))
    answers(monkeypatch, ["10.0.0.7"])
    for url in ("http://10.0.0.7:18123/", "http://parts.internal:18123/", "http://alias.internal:18123/"):
        with pytest.raises(BlockedAddress):
            guard.check_url(url)
    guard.check_url("http://10.0.0.7:18124/")


def test_the_setting_refuses_what_is_no_range():
    assert Settings(fetch_allow="", _env_file=None).fetch_allow == []
    with pytest.raises(ValueError, match="fetch_allow"):
        Settings(fetch_allow="10.0.0.1/8", _env_file=None)


@given(st.integers(0, 2**32 - 1))
def test_no_ipv4_address_passes_that_is_not_global(number):
    # Python's list blocks less, except addresses of anycast services.
    address = IPv4Address(number)
    if passes(f"http://{address}/"):
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_reserved
    else:
        assert not passes(f"http://[::ffff:{address}]/")
        assert not passes(f"http://[2002:{number >> 16:x}:{number & 0xFFFF:x}::]/")
        assert not passes(f"http://[64:ff9b::{number >> 16:x}:{number & 0xFFFF:x}]/")
    assert not passes(f"http://{number}/")
    assert not passes(f"http://{number:#x}/")
    assert not passes(f"http://0{number >> 24:o}.{number & 0xFFFFFF}/")


@given(st.integers(0, 2**128 - 1))
def test_no_ipv6_address_passes_that_is_not_global_unicast(number):
    address = IPv6Address(number)
    if passes(f"http://[{address}]/"):
        assert address.is_global
        assert number >> 125 == 1


@given(st.text())
def test_any_text_is_answered_in_words(text):
    for url in (text, f"http://{text}", f"https://{text}/", f"http://127.0.0.1{text}"):
        try:
            host, port = fetch_guard.parse_host_port(url)
            fetch_guard.canonical_host(host)
            fetch_guard.check_port(port)
        except BlockedAddress:
            continue


@given(st.text(st.sampled_from("0123456789abcdefx.:[]@#\\/%?\u3002\uff11")))
def test_no_spelling_leads_inside(tail):
    """Accepted literals are public; names needing a lookup are skipped."""
    try:
        host, _ = fetch_guard.parse_host_port(f"http://{tail}")
        name = fetch_guard.canonical_host(host)
    except BlockedAddress:
        return
    if name.replace(".", "").isdigit() or ":" in name:
        assert name == str(IPv6Address(name) if ":" in name else IPv4Address(name))
    else:
        assert not name.rpartition(".")[2].isdigit()


def passes(url: str) -> bool:
    try:
        Guard().check_url(url)
    except BlockedAddress:
        return False
    return True
