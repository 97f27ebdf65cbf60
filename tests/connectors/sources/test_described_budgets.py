"""Rate limits shared by connections of one credential, and the times of full listings and of edited old replies."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from connectors import registry
from connectors.sources.described.connector import make_connector
from connectors.sources.described.description import read_description
from tests.connectors.sources.reading import Tokens, list_items, open_connector
from tests.standins import described_services
from tests.standins.slack import at


@pytest.fixture
def gitlab():
    with described_services.serving("GITLAB") as account:
        for number in range(4):
            account.put(f"Title {number}", "text")
        yield account


@pytest.mark.parametrize("credentials", ["one", "two"])
def test_connections_of_one_credential_share_its_rate_limit(gitlab, credentials):
    about = read_description("GITLAB")
    # The limits of tests are a thousand times as high: ten requests a second.
    about = msgspec.structs.replace(about, rate=msgspec.structs.replace(about.rate, per_minute=0.6, burst=2))
    first, second = Tokens(gitlab), Tokens(gitlab)
    first.connection_id, second.connection_id = "conn_first", "conn_second"
    if credentials == "two":
        config = {**gitlab.config, "credentials": {"token": gitlab.token()}}
        second.replace(registry.read_config("GITLAB", config, gitlab.settings).access_token)
    gitlab.requests.clear()
    connector, begun = make_connector("GITLAB", about, gitlab.settings), time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda tokens: list(connector.iter_changes(tokens, None)), (first, second)))
    count, seconds = len(gitlab.requests), time.monotonic() - begun
    shared = (count - 2) / 10
    assert seconds > shared - 0.1 if credentials == "one" else seconds < shared - 0.1, (count, seconds)


@pytest.mark.parametrize(("minutes", "is_whole"), [(None, False), (60, True), (120, False)])
def test_everything_is_listed_after_the_time_of_the_connection(gitlab, minutes, is_whole):
    if minutes:
        gitlab.extra_config = {"fullListingMinutes": minutes}
    _, last = list_items(gitlab)
    position = json.loads(last.cursor)
    earlier = (datetime.now(UTC) - timedelta(minutes=61)).isoformat()
    _, last = list_items(gitlab, json.dumps({**position, "full_at": earlier}))
    assert last.whole == is_whole


def test_an_edited_reply_of_an_old_thread_is_read_in_time(tmp_path):
    with described_services.serving("SLACK") as account:
        thread = account.post("When does the lighthouse open?", at("2025-05-14", "10:32"))
        account.reply(thread, "In spring.", at("2025-05-15", "08:05"))
        about = read_description("SLACK")
        streams = [
            msgspec.structs.replace(stream, recent=msgspec.structs.replace(stream.recent, again=0.5 / 86400))
            if stream.recent
            else stream
            for stream in about.streams
        ]
        connector = make_connector("SLACK", msgspec.structs.replace(about, streams=tuple(streams)), account.settings)
        _, tokens = open_connector(account)

        def read_version():
            (page,) = connector.iter_changes(tokens, None)
            return page.items[0].version

        before = read_version()
        time.sleep(0.6)
        account.requests.clear()
        assert read_version() != before
        assert "GET /conversations.replies" not in account.requests  # only the content of a new version is requested
        slow = make_connector("SLACK", about, account.settings)
        versions = {page.items[0].version for _ in range(2) for page in slow.iter_changes(tokens, None)}
        assert len(versions) == 1
