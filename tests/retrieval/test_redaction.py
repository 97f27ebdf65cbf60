"""Addresses in logs and in Prefect lose their queries: signatures of S3, Azure and others lie there."""

from __future__ import annotations

import pytest
import structlog

from retrieval import logs
from retrieval.logs import redact_urls
from retrieval.settings import Settings

SIGNED = "https://bucket.example/report.pdf?X-Amz-Signature=canary&X-Amz-Credential=canary"


@pytest.mark.parametrize(
    ("url", "redacted"),
    [
        (SIGNED, "https://bucket.example/report.pdf"),
        ("https://canary:canary@host.example/a", "https://host.example/a"),
        ("https://host.example#access_token=canary", "https://host.example"),
        ("HTTPS://HOST.example/?sig=canary", "HTTPS://HOST.example/"),
        (f'GET "{SIGNED}" failed: 403', 'GET "https://bucket.example/report.pdf" failed: 403'),
        ("s3://bucket/key?canary", "s3://bucket/key"),
        ("postgresql://u:canary@db/x", "postgresql://db/x"),
        ("Why? Because.", "Why? Because."),
        ("a#b.txt", "a#b.txt"),
        ("wss://[::1]:8443/x?y=canary z", "wss://[::1]:8443/x z"),
    ],
)
def test_an_address_is_shown_without_its_query_user_and_fragment(url, redacted):
    assert redact_urls(url) == redacted


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_log_line_bears_no_query_in_any_field_or_traceback(form, capsys):
    configuration = structlog.get_config()
    try:
        logs.configure_logs(Settings(log_format=form), role="test")
        try:
            int(SIGNED)
        except ValueError:
            structlog.get_logger().exception(SIGNED, url=SIGNED)
    finally:
        structlog.configure(**configuration)
        structlog.contextvars.clear_contextvars()
    output = capsys.readouterr().err
    assert output.count("https://bucket.example/report.pdf") >= 2
    assert "canary" not in output
