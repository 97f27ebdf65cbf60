"""How much of its tables the embedded PostgreSQL keeps in memory."""

import os

import psycopg
import pytest

from local import postgres

GB = 1 << 30


@pytest.mark.parametrize(
    ("memory", "kept"), [(GB, "128MB"), (2 * GB, "128MB"), (4 * GB, "256MB"), (8 * GB, "512MB"), (64 * GB, "512MB")]
)
def test_a_sixteenth_of_the_machines_memory_within_bounds(memory, kept, monkeypatch):
    told = {"SC_PHYS_PAGES": memory // 4096, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", told.__getitem__)
    assert postgres._shared_buffers() == kept


def test_the_server_is_started_with_it(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("show shared_buffers").fetchone() == (postgres._shared_buffers(),)
