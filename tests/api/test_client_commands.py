"""`retrieval ingest` against the API: what is sent, and what it says of what is refused."""

from __future__ import annotations

import argparse
import json

import pytest

from local import client_commands
from retrieval.settings import Settings


@pytest.fixture
def ingest(base, org, tmp_path, capsys):
    """A function that runs the command without waiting; its exit code and its lines."""

    def run(space, *what):
        options = argparse.Namespace(
            command="ingest",
            what=list(what),
            kind=None,
            metadata=None,
            no_wait=True,
            namespace=space,
            url=base,
            key=org.api_key,
            tenant=None,
            json=True,
            cwd=tmp_path,
        )
        code = client_commands.run(options, Settings(home=tmp_path))
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_more_urls_than_a_request_may_name_are_sent_in_parts(ingest, org):
    space = org.namespace(webScraperConfig={"provider": "BUILTIN"})
    code, lines = ingest(space, *(f"https://docs.example.com/{number}" for number in range(1001)))
    assert code == 0
    assert [line["what"] for line in lines] == ["1000 URLs", "https://docs.example.com/1000"]
    assert len({line["ingestJobRunId"] for line in lines}) == 2


def test_what_is_refused_is_told_and_the_rest_is_sent(ingest, org, tmp_path):
    (tmp_path / "a.txt").write_text("Kept.")
    code, lines = ingest(org.namespace(), "a.txt", "https://docs.example.com/")  # no scraper is configured
    told = {line["what"]: line for line in lines}
    assert code == 1
    assert "WEB_SCRAPER_CONFIG_NOT_SET" in told["https://docs.example.com/"]["error"]
    assert told["a.txt"]["ingestJobRunId"]
