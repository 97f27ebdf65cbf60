"""Several connections with the same files: a document belongs to each."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrieval.connections import connections
from retrieval.connections import tokens as authorizations
from retrieval.documents.queries import connection_documents, deletion
from retrieval.errors import Skippable
from retrieval.filters import DocumentFilter
from retrieval.jobs import resync
from retrieval.ports import Page, RawContent, SourceItem, Tokens
from tests.flows.configured import Configured
from tests.flows.connected import connected_space
from tests.standins import memory

HANDS = ("a", "b", "c")
FILES = tuple(f"file-{number}" for number in range(7))


@dataclass
class View:
    """Files of an account and its changes since the last listing."""

    files: dict[str, str] = field(default_factory=dict)
    news: dict[str, str | None] = field(default_factory=dict)
    whole: bool = True

    def put(self, name, version="1"):
        self.files[name] = self.news[name] = version

    def drop(self, name):
        if self.files.pop(name, None) is not None:
            self.news[name] = None


class Shared:
    """Namespace with connections of several users, each with its own view."""

    def __init__(self, space, monkeypatch):
        self.space = space
        self.views: dict[str, View] = {space.connection: View()}
        views = self.views

        def changes(_self, tokens, cursor):
            view = views[tokens.connection_id]
            whole = cursor is None or view.whole
            versions = dict(view.files) if whole else dict(view.news)
            view.news, view.whole = {}, False
            items = [
                SourceItem(name, name, "text/plain", versions[name] or "", versions[name] is None)
                for name in sorted(versions)
            ]
            yield Page(items, "end", done=True, whole=whole)

        def fetch(_self, tokens, item, to):
            version = views[tokens.connection_id].files.get(item.external_id)
            if version is None:
                raise Skippable("It is not there.")
            content = contents(item.external_id, version)
            to.write_bytes(content)
            kind = "application/zip" if item.external_id.endswith(".zip") else "text/plain"
            return RawContent(to, item.name, kind, len(content))

        monkeypatch.setattr(memory.Memory, "iter_changes", changes)
        monkeypatch.setattr(memory.Memory, "fetch", fetch)
        monkeypatch.setattr(
            memory.Memory, "is_deleted", lambda _self, tokens, name: name not in views[tokens.connection_id].files
        )

    def connect(self):
        connection = self.space.connect()
        self.views[connection] = View()
        return connection

    def ingest(self, connection, **ingestion):
        self.space.connection = connection
        run = self.space.request(**ingestion)
        self.space.work()
        return self.space.run(run)

    def revoke(self, connection, *, keep=True):
        space = self.space
        revoked = space.call(
            connections.revoke_connection(space.db, space.ring, space.scope, connection, keep_documents=keep)
        )
        connection_documents.release_documents(space.db, connection, keep=keep, seconds=10)
        return revoked.documents

    def rows(self):
        return Configured.documents(self.space)

    def searchable(self):
        return {name for name, row in self.rows().items() if row["active_generation"] > 0}

    def documents_by_name(self, **filters):
        """Visible documents by external id."""
        from retrieval.documents import documents

        page = self.space.call(
            documents.list_page(self.space.db, self.space.scope, DocumentFilter(**filters), viewer=None)
        )
        return {row.external_id: row for row in page.items}


def contents(name, version):
    text = f"The {name} tells of version {version} and of nothing else.".encode()
    if not name.endswith(".zip"):
        return text
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w") as packed:
            packed.writestr("inner.txt", text)
        return buffer.getvalue()


@pytest.fixture
def shared(db, account, monkeypatch):
    with connected_space(db, account, monkeypatch) as space:
        yield Shared(space, monkeypatch)


@pytest.mark.parametrize("keep", [True, False], ids=["KEEP", "DELETE"])
def test_a_file_that_two_connections_list_leaves_with_the_last(shared, keep):
    first, second = shared.space.connection, shared.connect()
    for connection in (first, second):
        shared.views[connection].put("both.txt")
        shared.ingest(connection)
    revocation = shared.revoke(second, keep=keep)
    assert (revocation.own, revocation.shared) == (0, 1)
    row = shared.rows()["both.txt"]
    assert (row["connection_id"], row["active_generation"] > 0) == (first, True)
    shared.views[first].drop("both.txt")
    assert shared.ingest(first).progress["removed"] == 1
    assert shared.rows() == {}
    assert shared.space.search("what the file tells of") == []


def test_revoked_with_keep_a_document_has_no_connection_and_says_so(shared):
    first = shared.space.connection
    for name in ("kept.txt", "packed.zip"):
        shared.views[first].put(name)
    shared.ingest(first)
    assert set(shared.documents_by_name(connection_ids=(first,))) == {"kept.txt", "packed.zip", "packed.zip/inner.txt"}
    assert shared.revoke(first).own == 2
    documents_by_name = shared.documents_by_name()
    assert set(documents_by_name) == {"kept.txt", "packed.zip", "packed.zip/inner.txt"}
    assert {(row.connection_id, tuple(row.connection_ids)) for row in documents_by_name.values()} == {(None, ())}
    assert shared.documents_by_name(connection_ids=(first,)) == {}
    resynced = shared.space.resync(external_ids=("kept.txt",)).documents
    assert [document.status for document in resynced] == [resync.NOT_ELIGIBLE_STATUS]
    assert "kept when its connection was revoked" in resynced[0].error
    third = shared.connect()
    shared.views[third].put("kept.txt")
    assert shared.ingest(third).progress["embedded"] == 0
    assert shared.documents_by_name()["kept.txt"].connection_id == third
    shared.views[third].drop("kept.txt")
    assert shared.ingest(third).progress["removed"] == 1


def test_revoked_with_delete_all_of_it_goes_with_what_was_packed_into_it(shared):
    first, second = shared.space.connection, shared.connect()
    for name in ("own.txt", "own.zip", "both.txt", "both.zip"):
        shared.views[first].put(name)
    shared.ingest(first)
    for name in ("both.txt", "both.zip"):
        shared.views[second].put(name)
    shared.ingest(second)
    revocation = shared.revoke(first, keep=False)
    assert (revocation.own, revocation.shared) == (2, 2)
    assert set(shared.rows()) == {"both.txt", "both.zip", "both.zip/inner.txt"}
    assert {row["connection_id"] for row in shared.rows().values()} == {second}
    assert set(shared.documents_by_name(connection_ids=(second,))) == set(shared.rows())
    assert not [name for name in shared.space.search("tells of version", top_k=9) if "own" in name]


def test_many_that_one_lost_are_held_and_stay_the_others(shared):
    """A wrong listing of one account removes none of its documents."""
    first, second = shared.space.connection, shared.connect()
    for connection in (first, second):
        for name in FILES:
            shared.views[connection].put(name)
        shared.ingest(connection)
    for name in FILES:
        shared.views[second].drop(name)
    run = shared.ingest(second)
    assert (run.progress["removed"], run.progress["awaitingConfirmation"]) == (0, 0)
    assert shared.documents_by_name(awaiting_removal=True) == {}
    shared.views[first].drop(FILES[0])
    run = shared.ingest(first)
    assert run.progress["removed"] == 0
    assert set(shared.documents_by_name(awaiting_removal=True)) == {FILES[0]}
    resynced = shared.space.resync(connection_ids=(second,), confirm_deletions=True).documents
    assert [document.status for document in resynced].count(resync.REMOVED_STATUS) == 1
    assert [document.status for document in resynced].count(resync.QUEUED_STATUS) == len(FILES) - 1
    shared.space.work()
    assert {row["connection_id"] for row in shared.rows().values()} == {first}
    assert set(shared.rows()) == set(FILES[1:])
    assert shared.documents_by_name(connection_ids=(second,)) == {}


SOME = [(name,) for name in FILES] + [FILES]
ACTIONS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(HANDS), st.sampled_from(SOME)),
    st.tuples(st.just("drop"), st.sampled_from(HANDS), st.sampled_from(SOME)),
    st.tuples(st.just("ingest"), st.sampled_from(HANDS)),
    st.tuples(st.just("list anew"), st.sampled_from(HANDS)),
    st.tuples(st.just("revoke"), st.sampled_from(HANDS), st.booleans()),
    st.tuples(st.just("authorize"), st.sampled_from(HANDS)),
    st.tuples(st.just("confirm"), st.sampled_from(HANDS)),
)


class Model:
    """Expected state as sets: owners, held removals, kept documents."""

    def __init__(self):
        self.has = {hand: set() for hand in HANDS}
        self.held = {hand: set() for hand in HANDS}
        self.kept = set()

    def documents_by_name(self, hand, view, *, whole):
        listed_names = set(view.files) if whole else {name for name, version in view.news.items() if version}
        self.has[hand] |= listed_names
        self.held[hand] -= listed_names
        self.kept -= listed_names
        missing = self.has[hand] - set(view.files) - self.held[hand]
        leaving = missing if whole else missing & set(view.news)
        if deletion.needs_confirmation(len(leaving), len(self.has[hand])):
            self.held[hand] |= leaving
        else:
            self.has[hand] -= leaving

    def revoked(self, hand, *, keep):
        names = self.has[hand]
        self.has[hand], self.held[hand] = set(), set()
        self.kept |= {name for name in names if not self._holding_hands(name)} if keep else set()

    def confirmed(self, hand):
        """Confirm removals of the connection's documents."""
        for name in set(self.has[hand]):
            for second_hand in HANDS:
                if name in self.held[second_hand]:
                    self.has[second_hand].discard(name)
                    self.held[second_hand].discard(name)

    def existing_names(self):
        return {name for name in FILES if self._holding_hands(name)} | self.kept

    def awaiting(self):
        return {
            name
            for name in FILES
            if self._holding_hands(name) and all(name in self.held[hand] for hand in HANDS if name in self.has[hand])
        }

    def _holding_hands(self, name):
        return any(name in names for names in self.has.values())


@pytest.mark.slow
def test_any_order_of_events_ends_as_the_model_says(db, account, monkeypatch):
    """Three connections over overlapping files: listings, deletions, revocations, new authorizations, confirmations."""

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(ACTIONS, min_size=8, max_size=18))
    def judged(actions):
        with monkeypatch.context() as patches, connected_space(db, account, patches) as space:
            _played(Shared(space, patches), actions)

    judged()


def _played(shared, actions):
    model, hands = Model(), dict.fromkeys(HANDS, shared.space.connection)
    hands |= {hand: shared.connect() for hand in HANDS[1:]}
    living = set(HANDS)
    for action, hand, *arguments in [*actions, *(("ingest", hand) for hand in HANDS)]:
        view = shared.views[hands[hand]]
        if action == "put":
            for name in arguments[0]:
                view.put(name)
        elif action == "drop":
            for name in arguments[0]:
                view.drop(name)
        elif action in {"ingest", "list anew"} and hand in living:
            view.whole |= action == "list anew"
            model.documents_by_name(hand, view, whole=view.whole)
            assert shared.ingest(hands[hand]).failed == []
        elif action == "revoke" and hand in living:
            living.discard(hand)
            model.revoked(hand, keep=arguments[0])
            shared.revoke(hands[hand], keep=arguments[0])
        elif action == "authorize" and hand in living:
            tokens = Tokens(shared.space.account.token(), "refresh", None, "account-1")
            shared.space.call(authorizations.store_grant(shared.space.db, shared.space.ring, hands[hand], tokens))
        elif action == "authorize":
            files, hands[hand] = view.files, shared.connect()
            shared.views[hands[hand]].files = files
            living.add(hand)
        elif action == "confirm" and hand in living and model.has[hand]:
            model.confirmed(hand)
            shared.space.resync(connection_ids=(hands[hand],), confirm_deletions=True)
            shared.space.work()
        assert set(shared.rows()) == model.existing_names(), (action, hand, arguments)
        assert set(shared.documents_by_name(awaiting_removal=True)) == model.awaiting(), (action, hand, arguments)
    for hand in living:
        assert set(shared.documents_by_name(connection_ids=(hands[hand],))) == model.has[hand]
    assert shared.searchable() <= model.existing_names()
    assert set(shared.space.search("what tells of version and of nothing else", top_k=20)) <= model.existing_names()
