"""Random changes of sharing during killed and cancelled syncs: one whole sync restores equal access without a fetch.

RETRIEVAL_SHARING_SEEDS=50 runs more.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field

import pytest

from connectors import registry
from retrieval.jobs import control
from retrieval.principals import Access
from tests.flows.connections.test_choices import fetched
from tests.flows.crawling import watch_pages

SEEDS = int(os.environ.get("RETRIEVAL_SHARING_SEEDS", "1"))
ROUNDS = 2
OWNER = "ada@example.com"
USERS = [f"{name}@example.com" for name in ("bob", "cyd", "dan", "eve")]
GROUPS = ["staff@example.com", "board@example.com"]
FOLDERS = ["plans", "plans/deep", "plans/deep/deeper", "notes"]
SPELLED = {
    "BOX": "box:{}",
    "DROPBOX": "dropbox:{}",
    "ONEDRIVE": "microsoft:{}",
    "SHAREPOINT": "microsoft:{}",
    "GOOGLE_DRIVE": "{}",
}


class Killed(BaseException):
    """The worker's process ends here."""


pytestmark = pytest.mark.parametrize("account", SPELLED, indirect=True)


@pytest.fixture
def space(space):
    space.db.rows("update connections set permissions = 'SOURCE' where id = %(id)s", {"id": space.connection})
    space.account.page = 2
    return space


@dataclass
class Drive:
    """Grants by file and folder."""

    account: object
    rng: random.Random
    files: dict[str, str] = field(default_factory=dict)
    said: dict[str, set[str]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)

    def fill(self):
        for number, folder in enumerate(["", *FOLDERS, "plans/deep"]):
            path = f"{folder}/{number}.txt".lstrip("/")
            self.files[self.account.put(path, f"The text of {path}.")] = folder

    def change(self):
        """Change the sharing of a file or folder at random."""
        rng, account = self.rng, self.account
        file = rng.choice(list(self.files))
        if rng.random() < 0.2:
            self.owners[file] = rng.choice([OWNER, *USERS])
            if account.connector == "SHAREPOINT":
                account.hand_over(file, self.owners[file])
            else:
                account.owners[file] = self.owners[file]
            return
        folder = rng.choice([*FOLDERS, ""])
        users, groups = rng.sample(USERS, rng.randint(0, 2)), rng.sample(GROUPS, rng.randint(0, 1))
        public, domain = rng.random() < 0.15 and not folder, "example.com" if rng.random() < 0.2 else ""
        domain_grant = {"domain": domain} if account.connector == "GOOGLE_DRIVE" else {}
        account.grant(account.folder(folder) if folder else file, *users, groups=groups, public=public, **domain_grant)
        names = {*users, *(SPELLED[account.connector].format(group) for group in groups), *(["*"] if public else [])}
        self.said[folder or file] = names | ({f"domain:{domain}"} if domain_grant and domain else set())

    def expected(self):
        readers = {}
        for file, folder in self.files.items():
            above = [folder[:end] for end in range(1, len(folder) + 1) if end == len(folder) or folder[end] == "/"]
            places = (file, *above)
            readers[file] = {self.owners.get(file, OWNER)}.union(*(self.said.get(key, set()) for key in places))
        return readers


def indexed(space):
    rows = space.db.rows(
        "select d.external_id, d.access, d.access_reason, d.active_generation, d.allowed as names from documents d"
        " where d.connection_id = %(id)s and d.deleted_at is null",
        {"id": space.connection},
    )
    readers = {}
    for row in rows:
        access = Access.load(row["access"])
        readers[row["external_id"]] = {*access.users, *access.groups, *(["*"] if access.public else [])}
        kinds = {f"u:{name}" for name in access.users} | {f"g:{name}" for name in access.groups}
        assert set(row["names"]) == kinds | ({"*"} if access.public else set())
        assert row["access_reason"] is None
    return readers, {row["external_id"]: row["active_generation"] for row in rows}


def disturbed(space, drive, rng):
    """Sync with a kill or a cancellation between two pages."""
    run, pages_left = space.request(), [rng.randint(0, 3)]
    is_killed = rng.random() < 0.6

    def disturb():
        drive.change()
        if pages_left[0] == 0 and is_killed:
            raise Killed
        if pages_left[0] == 0:
            control.cancel_run(space.db, space.scope, run)
        pages_left[0] -= 1

    with watch_pages(before=disturb):
        try:
            space.work()
        except Killed:
            space.db.rows("update batches set lease_until = now() - interval '1 second' where finished_at is null")
    if space.run(run).status != "COMPLETED":
        space.take_up()
    assert space.run(run).status == "COMPLETED"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_one_sync_documents_are_for_whom_the_service_shows_them(space, account, seed, monkeypatch):
    rng = random.Random(f"{seed}-{account.connector}")
    drive = Drive(account, rng)
    drive.fill()
    space.ingest()
    readers, generations = indexed(space)
    assert readers == drive.expected()
    forget(account)
    calls = []
    embedder = type(registry.make_embedder(space.config))
    monkeypatch.setattr(embedder, "embed", lambda _self, texts, kind: calls.append((texts, kind)))
    for number in range(ROUNDS):
        for _ in range(rng.randint(1, 4)):
            drive.change()
        disturbed(space, drive, rng)
        run = space.ingest()
        assert run.failed == []
        readers_after, versions = indexed(space)
        assert readers_after == drive.expected(), f"seed {seed}, round {number}"
        assert versions == generations
    assert (fetched(account), calls) == (set(), [])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_two_connections_had_is_for_whom_the_service_shows_it_and_nobodys_once_both_have_lost_it(
    space, account, seed
):
    rng = random.Random(f"two {seed}-{account.connector}")
    drive = Drive(account, rng)
    drive.fill()
    first, second = space.connection, space.connect()
    permissions = {"said": rng.choice(["SOURCE", "IGNORE"]), "id": second}
    space.db.rows("update connections set permissions = %(said)s where id = %(id)s", permissions)
    for number in range(ROUNDS):
        for _ in range(rng.randint(1, 4)):
            drive.change()
        for space.connection in (*rng.sample([first, second], 2), first):
            assert space.ingest().failed == []
        rows = space.db.rows(
            "select external_id, access from documents where deleted_at is null"
            " and partition_id = (select id from partitions where namespace_id = %(namespace)s)",
            {"namespace": space.scope.namespace},
        )
        accesses = {row["external_id"]: Access.load(row["access"]) for row in rows}
        names = {name: {*access.users, *access.groups, *["*"] * access.public} for name, access in accesses.items()}
        expected = {name: set() for name in names} | drive.expected()
        assert names == expected, f"seed {seed}, round {number}"
        for file in rng.sample(sorted(drive.files), 2):
            account.delete(file)
            del drive.files[file]


def forget(account):
    account.requests.clear()
    for log in ("calls", "arguments"):
        getattr(account, log, []).clear()
