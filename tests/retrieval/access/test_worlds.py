"""Random worlds of users, nested groups, denials, public documents and tenants: who sees what, by every way to look.

An oracle in plain Python says what each user may see; listings, counts, facets, chunks, files and searches of
every kind must say exactly that. Some thousands more: RETRIEVAL_WORLDS=2000.
"""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass, field

import pytest

from retrieval import ids
from retrieval.access.queries import memberships
from retrieval.access.queries.lists import set_lists
from retrieval.conditions.model import Field
from retrieval.documents import documents, facets, listing, stored_files
from retrieval.errors import ErrorCode, ServiceError
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope
from retrieval.principals import Access
from retrieval.search import search
from retrieval.search.search import Query
from tests.retrieval.search.test_search import FixedEmbedder, axis

WORLDS = int(os.environ.get("RETRIEVAL_WORLDS", "100"))
PARTS = 4
DOCUMENTS = 12
USERS = ["ada", "bob", "cyd", "dan"]
GROUPS = ["g1", "g2", "g3", "g4"]
WAYS = [(1.0, 0.0), (0.0, 1.0), (0.5, 0.5)]


@dataclass
class World:
    """What was said, by the plain names: of groups, their members; of documents, for whom they are (None: open)."""

    members: dict[str, set[tuple[str, str]]]
    said: dict[str, dict | None]

    @classmethod
    def random(cls, rng: random.Random, names: list[str]) -> World:
        def some(of: list[str], most: int = 2) -> list[str]:
            return rng.sample(of, rng.randint(0, min(most, len(of))))

        def access() -> dict | None:
            if rng.random() < 0.2:
                return None
            return {
                "users": some(USERS),
                "groups": some(GROUPS),
                "denied_users": some(USERS, 1) if rng.random() < 0.3 else [],
                "denied_groups": some(GROUPS, 1) if rng.random() < 0.3 else [],
                "public": rng.random() < 0.15,
            }

        members = {
            one: {("u", name) for name in some(USERS)} | {("g", name) for name in some(GROUPS)}
            for one in GROUPS
            if rng.random() < 0.9
        }
        return cls(members, {name: access() for name in names})

    def groups_of(self, user: str) -> set[str]:
        held: set[str] = set()
        while True:
            more = {
                one
                for one, members in self.members.items()
                if ("u", user) in members or any(("g", group) in members for group in held)
            }
            if more <= held:
                return held
            held |= more

    def seen_by(self, user: str) -> set[str]:
        mine = self.groups_of(user)

        def sees(said: dict | None) -> bool:
            if said is None:
                return True
            if user in said["denied_users"] or mine & set(said["denied_groups"]):
                return False
            return said["public"] or user in said["users"] or bool(mine & set(said["groups"]))

        return {name for name, said in self.said.items() if sees(said)}


@dataclass
class Place:
    """A scope with documents, each of one chunk, all in one job run."""

    library: object
    names: list[str]
    run: str
    scope: Scope
    tags: dict[str, str] = field(default_factory=dict)


def filled(db, new_library, scope=None) -> Place:
    library = new_library(scope)
    place = Place(library, [], ids.job_run_id(), library.scope)
    values = {"job": ids.job_id(), "run": place.run, "org": library.scope.organization, "partition": library.partition}
    db.rows(
        "insert into jobs (id, organization_id, partition_id, source, config)"
        " values (%(job)s, %(org)s, %(partition)s, 'TEXT', '{}')",
        values,
    )
    db.rows(
        "insert into job_runs (id, job_id, partition_id, source, status)"
        " values (%(run)s, %(job)s, %(partition)s, 'TEXT', 'PROCESSING')",
        values,
    )
    for number in range(DOCUMENTS):
        tag = "even" if number % 2 == 0 else "odd"
        name = library.put(
            [f"canary number{number}"], [axis(0.9 - number / 50)], name=f"name{number}", metadata={"tag": tag}
        )
        place.names.append(name)
        place.tags[name] = tag
        db.rows(
            "insert into run_documents (job_run_id, document_id, position, generation, name, status)"
            " values (%(run)s, %(document)s, %(position)s, 1, %(name)s, 'SUCCESS')",
            {"run": place.run, "document": name, "position": number, "name": f"name{number}"},
        )
    return place


async def write(db, place: Place, world: World, rng: random.Random) -> None:
    partition = place.library.partition
    await db.async_rows("delete from access_groups where partition_id = %(partition)s", {"partition": partition})
    await db.async_rows(
        "with made as (insert into access_groups (partition_id, id) select %(partition)s, unnest(%(names)s::text[]))"
        " insert into group_members select %(partition)s, m.* from unnest(%(groups)s::text[], %(members)s::text[]) m",
        {
            "partition": partition,
            "names": list(world.members),
            "groups": [group for group, members in world.members.items() for _ in members],
            "members": [f"{kind}:{name}" for members in world.members.values() for kind, name in members],
        },
    )
    with db.transaction() as connection:
        set_lists(
            connection,
            {
                name: None
                if said is None
                else Access.of(
                    **{key: said[key] for key in said if key != "public"},
                    public=said["public"],
                )
                for name, said in world.said.items()
            },
        )


async def found_by_async(db, place: Place, user: str) -> dict[str, object]:
    """What each way to look shows, but for searches."""
    viewer = await memberships.find_viewer(db, place.scope, user)
    where = DocumentFilter()
    listed = await documents.list_page(db, place.scope, where, page_size=5, viewer=viewer)
    pages = [row.id for row in listed.items]
    while listed.cursor is not None:
        listed = await documents.list_page(db, place.scope, where, 5, listed.cursor, viewer=viewer)
        pages += [row.id for row in listed.items]
    counted = await documents.count_documents(db, place.scope, where, viewer=viewer)
    tags = await facets.count_values(db, place.scope, where, {"tag": Field("tag", is_metadata=True)}, viewer=viewer)
    return {
        "list": set(pages),
        "stats": sum(counted.by_status.values()),
        "facets": {count.value: count.documents for count in tags["tag"]},
    }


async def opened(db, place: Place, user: str, name: str) -> set[str]:
    """Which ways to read one document open it."""
    viewer = await memberships.find_viewer(db, place.scope, user)
    ways = {}
    for way, read in {
        "chunks": lambda: listing.list_chunks(db, place.scope, name, viewer=viewer),
        "pages": lambda: stored_files.find_pages(db, place.scope, name, None, viewer),
    }.items():
        try:
            ways[way] = bool(await read())
        except ServiceError as error:
            ways[way] = error.code is not ErrorCode.DOCUMENTS_NOT_FOUND
    of_link = await memberships.viewer_of(db, name, user)
    ways["link"] = await stored_files.find_files(db, name, of_link) is not None
    return {way for way, is_open in ways.items() if is_open}


def searched(db, place: Place, viewer, weights, **more) -> list[str]:
    query = Query(
        "canary",
        top_k=20,
        semantic_weight=weights[0],
        keyword_weight=weights[1],
        **more,
    )
    hits = search.run_search(
        db, place.scope, query, viewer=viewer, embedder=FixedEmbedder(), vectors=place.library.store
    ).hits
    return [hit.document_id for hit in hits]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_user_sees_what_the_oracle_says(db, new_library, part, monkeypatch):
    place = filled(db, new_library)
    tenant = filled(db, new_library, Scope(place.scope.organization, place.scope.namespace, "tenant"))
    with asyncio.Runner() as runner:
        for number in range(part, WORLDS, PARTS):
            rng = random.Random(number)
            monkeypatch.setattr(memberships, "FEW", rng.choice([2, 2_000]))
            worlds = {id(one): World.random(rng, one.names) for one in (place, tenant)}
            for one in (place, tenant):
                runner.run(write(db, one, worlds[id(one)], rng))
            for one in (place, tenant):
                user = rng.choice([*USERS, "eve"])
                look = Look(db, runner, one, user, f"world {number}, {user}")
                look.compare(worlds[id(one)].seen_by(user), rng)
        runner.run(db.async_close())
        db._pools.loop = db._of_viewers.loop = None


@dataclass
class Look:
    """One user's look at a place."""

    db: object
    runner: asyncio.Runner
    place: Place
    user: str
    about: str

    def compare(self, expected: set[str], rng: random.Random) -> None:
        """Every way shows what the oracle says."""
        db, place, about = self.db, self.place, self.about
        found = self.runner.run(found_by_async(db, place, self.user))
        tags = [place.tags[name] for name in expected]
        assert found["list"] == expected, about
        assert found["stats"] == len(expected), about
        assert found["facets"] == {tag: tags.count(tag) for tag in set(tags)}, about
        viewer = self.runner.run(memberships.find_viewer(db, place.scope, self.user))
        weights = rng.choice(WAYS)
        assert set(searched(db, place, viewer, weights)) == expected, f"{about}: search {weights}"
        one = rng.choice(place.names)
        ways = self.runner.run(opened(db, place, self.user, one))
        assert ways == ({"chunks", "pages", "link"} if one in expected else set()), about
