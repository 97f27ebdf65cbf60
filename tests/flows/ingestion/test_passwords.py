"""A protected file is read by a retry with its password; passwords are not stored."""

from __future__ import annotations

from pathlib import Path

from retrieval.failure_causes import find_cause
from retrieval.jobs import control
from retrieval.jobs.queries import passwords
from tests.flows.ingestion.test_unpack import house, ingest, packed, work  # noqa: F401 - a fixture

OFFICE = Path(__file__).resolve().parents[2] / "fixtures" / "office"


def retry(house, password):  # noqa: F811
    # Ids are sortable by age: files of other tests in this database failed before.
    failed = house.db.row("select max(job_run_id) as id from documents where status = 'FAILED'")["id"]
    seal = passwords.make_sealer(house.ring, password)
    house.call(control.retry_run(house.db, house.scope, failed, causes=["PASSWORD"], seal=seal))
    return work(house)


def test_a_wrong_password_fails_in_words_and_the_right_one_is_given_again(house):  # noqa: F811
    members = [("plan.pdf", (OFFICE / "locked_aes256.pdf").read_bytes()), ("a.txt", b"The mast is high.")]
    _, _, error = ingest(house, "boat.zip", packed(members))["plan.pdf"]
    assert find_cause(error) == "PASSWORD"
    ((status, _, error),) = retry(house, "wrong").values()
    assert (status, find_cause(error)) == ("FAILED", "PASSWORD")
    assert "does not open it" in error
    assert retry(house, "open sesame") == {"plan.pdf": ("SUCCESS", "upserted", None)}
    assert "plan.pdf" in house.search("when does the tide turn")
    assert house.db.rows("select from job_runs where password is not null") == []
