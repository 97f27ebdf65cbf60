"""Every error names a remedy, and the remedy determines the cause."""

from typing import get_args

import pytest

from api.wire.runs import FailureCause
from connectors.parsers import detect, verdicts
from connectors.parsers.formats.containers import ledger
from connectors.web.builtin import client
from retrieval.failure_causes import CAUSE_NAMES, cause_sql, find_cause
from retrieval.jobs import resync
from retrieval.network import fetch_guard


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (verdicts._ONLY_PICTURES, "NO_TEXT"),
        (verdicts._BLANK_PAGES, "UNREADABLE"),
        (verdicts._NOT_RECOGNISED, "UNREADABLE"),
        ("No text was recognised: the file shows pictures or blank pages only.", "UNREADABLE"),
        (str(detect.locked_file("The PDF")), "PASSWORD"),
        (str(detect.locked_file("The PDF", "wrong")), "PASSWORD"),
        (detect.NOT_OPENED, "UNREADABLE"),
        (ledger.LOCKED_PART, "UNREADABLE"),
        (resync._UNCONNECTED_REASON, "CONNECTION"),
        (client._REASONS[404], "PAGE_MISSING"),
        (client._REASONS[410], "PAGE_MISSING"),
        ("The port of the address is not one of a web server: 80, 443 or above 1023.", "ADDRESS"),
        (fetch_guard._UNREACHABLE_MESSAGE, "ADDRESS"),
        ("Only http:// and https:// addresses are fetched.", "ADDRESS"),
        ("The host name of the address cannot be looked up now.", "NOT_ANSWERING"),
        ("The site cannot be reached.", "NOT_ANSWERING"),
        ("The site answers 503.", "NOT_ANSWERING"),
        (f"Files like this one (.exe) cannot be read. Kinds that are taken: {detect.ACCEPTED_LABELS}.", "UNREADABLE"),
        ("A page of a kind that nobody knows.", "OTHER"),
        (None, None),
    ],
)
def test_a_cause_follows_from_the_remedy_that_the_error_names(db, error, cause):
    assert find_cause(error) == cause
    (row,) = db.rows("select " + cause_sql("e") + " as cause from (values (%(e)s::text)) v (e)", {"e": error})
    assert row["cause"] == cause


def test_the_api_names_every_cause():
    assert set(get_args(FailureCause)) == set(CAUSE_NAMES)
