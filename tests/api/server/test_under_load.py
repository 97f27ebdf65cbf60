"""Whatever strangers and a careless client hold open, a good client is answered."""

from __future__ import annotations

import time

import httpx
import pytest

from retrieval.accounts import api_keys, organizations
from tests.api.process import running
from tests.api.server.load import Load, under
from tests.api.support import client_of


@pytest.mark.slow
def test_a_good_client_goes_on_beside_idle_connections_guesses_and_stalled_uploads(
    api_database, api_db, ring, tmp_path
):
    owner = organizations.create(api_db, "loaded", requests_per_minute=1_000_000)
    api_key = api_keys.create(api_db, ring, owner.id, "loaded").api_key
    with running(tmp_path, api_database, ring) as (base, process, log):
        host, _, port = base.removeprefix("http://").rpartition(":")
        with under(Load((host, int(port)), api_key)) as load:
            ends = time.monotonic() + 40
            with client_of(base, api_key) as client:
                while time.monotonic() < ends:
                    assert client.get("/v1/namespaces").status_code == 200
                    assert httpx.get(f"{base}/health", trust_env=False, timeout=30).status_code == 200
                    time.sleep(0.2)
            assert load.poll() is None
        assert process.poll() is None
        assert "Traceback" not in log.read_text(), log.read_text()[-3000:]
