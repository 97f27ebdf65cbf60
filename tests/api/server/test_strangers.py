"""Requests without a valid key: limited by address, few database writes, separate clients behind a proxy."""

from __future__ import annotations

from ipaddress import ip_network

from api.rates import ADDRESS_BLOCK_SIZE, ADDRESS_REQUESTS_PER_MINUTE
from tests.api import raw
from tests.api.support import serve, wait_for_fresh_minute

WRONG = "Authorization: Bearer rtr_wrong"


def test_guessing_keys_is_limited(org):
    wait_for_fresh_minute()
    address = "127.0.3.1"
    with raw.Session(org.base, address) as session:
        statuses = [
            session.ask(raw.request("GET", "/v1/namespaces", WRONG)).status
            for _ in range(ADDRESS_REQUESTS_PER_MINUTE + 20)
        ]
    assert statuses == [401] * ADDRESS_REQUESTS_PER_MINUTE + [429] * 20
    good = raw.ask(
        org.base, raw.request("GET", "/v1/namespaces", f"Authorization: Bearer {org.api_key}"), source=address
    )
    assert good.status == 200, "a valid key is its organization's matter, not its address's"


def test_two_processes_share_what_they_count(org, api_settings, api_database, ring):
    wait_for_fresh_minute()
    with serve(api_settings, api_database, ring) as second:
        content = raw.request("GET", "/v1/namespaces")
        with raw.Session(org.base, "127.0.3.2") as first_session, raw.Session(second, "127.0.3.2") as second_session:
            statuses = [
                (first_session, second_session)[number % 2].ask(content).status
                for number in range(ADDRESS_REQUESTS_PER_MINUTE + 200)
            ]
    assert ADDRESS_REQUESTS_PER_MINUTE <= statuses.count(401) <= ADDRESS_REQUESTS_PER_MINUTE + 2 * ADDRESS_BLOCK_SIZE


def test_behind_a_trusted_proxy_clients_are_told_apart(org, api_settings, api_database, ring):
    trusting = api_settings.model_copy(update={"trusted_proxies": [ip_network("127.0.3.3/32")]})
    wait_for_fresh_minute()
    with (
        serve(trusting, api_database, ring) as base,
        raw.Session(base, "127.0.3.3") as proxy,
        raw.Session(base, "127.0.3.4") as other_client,
    ):

        def ask(session, client):
            return session.ask(raw.request("GET", "/v1/namespaces", WRONG, f"X-Forwarded-For: {client}")).status

        assert {ask(proxy, "198.51.100.1") for _ in range(ADDRESS_REQUESTS_PER_MINUTE)} == {401}
        assert ask(proxy, "198.51.100.1") == 429
        assert ask(proxy, "6.6.6.6, 198.51.100.1") == 429
        assert ask(proxy, "198.51.100.2") == 401
        link = raw.request("GET", "/v1/files/doc_x/raw?expires=1&signature=x", "X-Forwarded-For: 198.51.100.2")
        assert proxy.ask(link).status == 404
        assert {ask(other_client, f"203.0.113.{number}") for number in range(200)} == {401}
        assert other_client.ask(raw.request("GET", "/v1/namespaces", WRONG)).headers["x-ratelimit-remaining"] == str(
            ADDRESS_REQUESTS_PER_MINUTE - 201
        )
