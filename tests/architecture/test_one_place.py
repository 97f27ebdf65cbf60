"""What is done in one place is done in no second one."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = {
    str(path.relative_to(PROJECT)): path.read_text()
    for package in ("api", "connectors", "flows", "retrieval")
    for path in sorted((PROJECT / package).rglob("*.py"))
}

LABELS = {"retrieval/jobs/queries/progress.py"}
"""It names what clients see, which is called as the stages are."""
READERS = {f"retrieval/ingestion/{name}.py" for name in ("download", "queries/listings", "queries/run_documents")}
"""They select a job's config and give it to `JobConfig.load`."""


@pytest.mark.parametrize(
    ("what", "place"),
    [
        (r"update documents\b[^;\"]{0,40}set deleted_at", {"retrieval/documents/queries/deletion.py"}),
        (r"chunks = chunks - ", {"retrieval/documents/queries/deletion.py"}),
        (r"[\"']limit[\"']: \w+ ?\+ 1\b|size \+ 1\b", {"retrieval/database/pagination.py"}),
        (r"\bstage\s*(=|<>|in|not in|is distinct from)\s*\(?\s*'", set()),
        (r"['\"]chunked['\"]", {"retrieval/statuses.py", *LABELS}),
        (r"tenant or ['\"]_['\"]|/parsed\.md", {"retrieval/documents/file_keys.py"}),
        (r"_id'?\]?\}#|partition\(['\"]#['\"]\)\[0\]\b(?!$)", {"retrieval/ids.py"}),
        (r"the most that is fetched", {"connectors/http/responses.py", "connectors/sources/dropbox/files.py"}),
        (r"error of its own|could not be reached, or its", {"connectors/http/responses.py"}),
        (r"requests\.Session\(\)|DefaultCookiePolicy", {"connectors/http/sessions.py"}),
        (r"httpx\.Client\(", {"connectors/http/sessions.py", "api/oidc/issuer_keys.py"}),
        (r"ca_bundle that", {"connectors/http/sessions.py"}),
        (r"acceptedAt", {"retrieval/job_config.py"}),
        (r"\bj(ob)?\.config\b|config ->> 'connectionId'", {"retrieval/job_config.py", *READERS}),
    ],
)
def test_it_stands_where_it_belongs_and_nowhere_else(what, place):
    assert {path for path, text in SOURCES.items() if re.search(what, text)} == place
