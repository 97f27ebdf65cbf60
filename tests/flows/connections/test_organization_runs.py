"""Box of an enterprise and Dropbox of a team, from a request to a search by users, with a kill during the listing."""

from __future__ import annotations

import json
import os
import signal

import pytest

from retrieval.accounts import api_keys
from retrieval.settings import Settings
from tests.api.support import client_of, serve
from tests.flows import workshop
from tests.flows.connected import connected_space
from tests.flows.crawling import killed_after_pages
from tests.library import viewer_of
from tests.standins import box_enterprise, dropbox_team
from tests.standins.box_enterprise import ADA, BEN

STANDINS = {"BOX": box_enterprise, "DROPBOX": dropbox_team}
QUERY = "owls, ships or a budget"


def drive_of(account, address):
    return account.spaces[account.home(address)] if hasattr(account, "home") else account.boxes[address]


def put(account, owner, name, text):
    return account.put(account.home(owner) if hasattr(account, "home") else owner, name, text)


def share(account, external_id, *addresses):
    """Share a file of Ada with these people only."""
    drive_of(account, ADA).grant(external_id.partition("/")[2], *addresses)


def put_files(account):
    """Put two files of Ada, one of them shared with Ben, and one of Ben; return their ids by name."""
    kind = account.connector.lower()
    files = {
        f"{kind} harbour": put(account, ADA, f"{kind} harbour", f"The harbour master of {kind} counts ships at dawn."),
        f"{kind} budget": put(account, ADA, f"{kind} budget", f"The budget of the {kind} observatory is nearly spent."),
        f"{kind} owls": put(account, BEN, f"{kind} owls", f"Owls hunt mice at night without a sound near {kind}."),
    }
    share(account, files[f"{kind} budget"], BEN)
    return files


def change_files(account, files):
    """Delete one file of Ada, and end the sharing of the other."""
    kind = account.connector.lower()
    drive_of(account, ADA).delete(files[f"{kind} harbour"].partition("/")[2])
    share(account, files[f"{kind} budget"])


def expected(before, *kinds):
    """Names that Ada and Ben find before or after the change."""
    ada, ben = (("harbour", "budget"), ("budget", "owls")) if before else (("budget",), ("owls",))
    return [{f"{kind} {name}" for kind in kinds for name in names} for names in (ada, ben)]


@pytest.mark.parametrize("connector", STANDINS)
def test_users_find_what_they_may_see_after_a_kill_and_after_changes(db, monkeypatch, connector):
    with STANDINS[connector].serving() as account, connected_space(db, account, monkeypatch) as space:
        account.page = 1
        db.rows("update connections set permissions = 'SOURCE' where id = %(id)s", {"id": space.connection})

        def find_names():
            return [set(space.search(QUERY, viewer=viewer_of(db, space.scope, name), top_k=9)) for name in (ADA, BEN)]

        files = put_files(account)
        run = space.request()
        with killed_after_pages(1):
            space.work()
        assert find_names() == [set(), set()]
        db.rows("update batches set lease_until = now() - interval '1 second' where finished_at is null")
        space.take_up()
        assert space.run(run).failed == []
        assert find_names() == expected(True, connector.lower())
        change_files(account, files)
        second = space.ingest()
        assert (second.failed, second.progress["removed"]) == ([], 1)
        assert find_names() == expected(False, connector.lower())


@pytest.fixture(scope="module")
def accounts():
    with box_enterprise.serving() as box, dropbox_team.serving() as dropbox:
        yield [box, dropbox]


@pytest.fixture(scope="module")
def shop(db, accounts, prefect_server, prefect_server_environment, tmp_path_factory):
    assert prefect_server
    with pytest.MonkeyPatch.context() as patches:
        endpoints = {}
        for name in ("endpoints", "oauth_endpoints"):
            values = {key: value for account in accounts for key, value in getattr(account.settings, name).items()}
            endpoints[f"RETRIEVAL_{name.upper()}"] = json.dumps(
                {key: value.model_dump(mode="json") for key, value in values.items()}
            )
        for name, value in endpoints.items():
            patches.setenv(name, value)
        folder = tmp_path_factory.mktemp("organizations")
        environment = prefect_server_environment | endpoints
        with workshop.opened(db, patches, environment, folder, grace_seconds=0) as opened:
            opened.pool.start_workers(limit=2)
            yield opened


def kill_child_at_the_second_listing(account, shop, run):
    """Kill the child process of a job run during its listing; return the listing requests."""
    listings = []

    def kill(request):
        if "list_folder" in request or "/folders/" in request:
            listings.append(request)
            if len(listings) == 2:
                os.kill(shop.child(run()), signal.SIGKILL)

    account.fault = kill
    return listings


@pytest.mark.slow
@pytest.mark.service
def test_requested_flow_runs_survive_kills_and_later_ones_remove_files_and_readers(shop, accounts):
    namespace, organization = shop.space.scope.namespace, shop.space.scope.organization
    key = api_keys.create_key(shop.db, shop.space.ring, organization, "test").api_key
    with serve(Settings(_env_file=None), shop.db.url, shop.space.ring) as base, client_of(base, key) as client:

        def ok(answer):
            assert answer.status_code == 200, answer.text
            return answer.json()["data"]

        def find_names():
            body = {"namespaceId": namespace, "query": QUERY, "topK": 9}
            answers = [client.post("/v1/search", json=body, headers={"X-On-Behalf-Of": name}) for name in (ADA, BEN)]
            return [{hit["document"]["name"] for hit in ok(answer)["results"]} for answer in answers]

        def connect(account):
            body = {"namespaceId": namespace, "name": "All", "connector": account.connector, "permissions": "SOURCE"}
            return ok(client.post("/v1/connections", json={**body, "config": account.config}))["connection"]["id"]

        connections = {account.connector: connect(account) for account in accounts}
        runs = {}

        def sync():
            for name, connection in connections.items():
                config = {"source": name, "config": {"connectionId": connection}}
                body = {"namespaceId": namespace, "ingestConfig": config}
                runs[name] = ok(client.post(f"/v1/ingest/{name.lower()}", json=body))["ingestJobRunId"]
            return [shop.until(lambda run=run: shop.done(run), 120) for run in runs.values()]

        files = [put_files(account) for account in accounts]
        listings = [
            kill_child_at_the_second_listing(account, shop, lambda name=account.connector: runs[name])
            for account in accounts
        ]
        assert [run.failed for run in sync()] == [[], []]
        assert all(len(requests) > 2 for requests in listings)
        assert [shop.batch(run)["attempt"] for run in runs.values()] == [2, 2]
        assert find_names() == expected(True, "box", "dropbox")
        for account, its_files in zip(accounts, files, strict=True):
            account.fault = lambda _request: None
            change_files(account, its_files)
        assert [(run.failed, run.progress["removed"]) for run in sync()] == [([], 1), ([], 1)]
        assert find_names() == expected(False, "box", "dropbox")
