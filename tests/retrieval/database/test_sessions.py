"""Session settings of pooled connections: scope and lifetime."""

from __future__ import annotations

import pytest

from retrieval.database import sessions
from retrieval.database.database import Database

SETTINGS = "select current_setting('plan_cache_mode') as plans, current_setting('rt.depth', true) as depth"
BY_KEY = "select id from grown where id = %(id)s::int"


@pytest.fixture
def pooled_database(fresh_database, request):
    """Open a database with one connection, as in the API's threads."""
    opened = Database(fresh_database(f"t{abs(hash(request.node.name))}"), size=1, role="api")
    yield opened
    opened.close()


def settings_of(connection) -> tuple[str, str | None]:
    row = connection.execute(SETTINGS).fetchone()
    return row["plans"], row["depth"] or None


def test_settings_stay_and_plans_are_as_each_user_wants_them(pooled_database):
    with pooled_database.tuned({"rt.depth": "7"}) as connection:
        assert settings_of(connection) == ("force_generic_plan", "7")
    assert pooled_database.row(SETTINGS) == {"plans": "force_custom_plan", "depth": "7"}
    with pooled_database.tuned({"rt.depth": "8"}, plan_once=False) as connection:
        assert settings_of(connection) == ("force_custom_plan", "8")
    with pooled_database.tuned() as connection:
        assert settings_of(connection) == ("force_generic_plan", "8")
    with pooled_database.transaction() as connection:
        assert settings_of(connection)[0] == "force_custom_plan"


def test_only_who_asks_for_it_is_kept_from_reading_whole_tables(pooled_database):
    scans = "select current_setting('enable_seqscan') as scans"

    def by_index():
        with pooled_database.tuned(sessions.INDEX_SCANS_ONLY) as connection:
            return connection.execute(scans).fetchone()["scans"]

    assert by_index() == "off"
    assert pooled_database.row(scans) == {"scans": "on"}
    assert by_index() == by_index() == "off"
    with pooled_database.tuned() as connection:
        assert connection.execute(scans).fetchone() == {"scans": "on"}
    assert by_index() == "off"
    with pooled_database.transaction() as connection:
        assert connection.execute(scans).fetchone() == {"scans": "on"}
    assert by_index() == "off"
    with pooled_database.tuned({"rt.depth": "7"}, plan_once=False) as connection:
        assert connection.execute(scans).fetchone() == {"scans": "on"}
    with pooled_database.together():
        assert by_index() == "off"
    assert pooled_database.row(scans) == {"scans": "on"}


def test_in_a_transaction_of_several_settings_end_with_it(pooled_database):
    with pooled_database.together():
        with pooled_database.tuned({"rt.depth": "7"}) as connection:
            assert settings_of(connection) == ("force_generic_plan", "7")
        assert pooled_database.row("select pg_current_xact_id_if_assigned() is null as nothing_written", {})
    assert pooled_database.row(SETTINGS) == {"plans": "force_custom_plan", "depth": ""}


def test_an_error_leaves_the_settings_as_they_are_known(pooled_database):
    with pytest.raises(Exception, match="nowhere"), pooled_database.tuned({"rt.depth": "7"}) as connection:
        connection.execute("select * from nowhere")
    with pooled_database.tuned() as connection:
        assert settings_of(connection) == ("force_generic_plan", "7")


def test_a_plan_does_not_outlive_the_growth_of_its_table(pooled_database, monkeypatch):
    pooled_database.rows("create table grown (id int primary key) with (autovacuum_enabled = false)", {})
    pooled_database.rows("vacuum grown")

    def read_whole() -> int:
        statement = "select pg_stat_force_next_flush(), seq_scan as n from pg_stat_user_tables where relname = 'grown'"
        pooled_database.row(statement)
        row = pooled_database.row(statement)
        assert row is not None
        return int(row["n"])

    def find(number: int) -> list[int]:
        with pooled_database.tuned() as connection:
            return [row["id"] for row in connection.execute(BY_KEY, {"id": number}, prepare=True).fetchall()]

    assert find(1) == []
    pooled_database.rows("insert into grown select generate_series(1, 20000)")
    first_count = read_whole()
    assert find(7) == [7]
    assert read_whole() == first_count + 1
    monkeypatch.setattr(sessions, "PLANS_SECONDS", 0.0)
    for number in (3, 4):
        assert find(number) == [number]
    assert read_whole() == first_count + 1
