"""docs/contract.md says what the code does: its codes, its operations, and examples that the service takes."""

import json
import re

import msgspec
import pytest

from api.app import HANDLERS
from api.errors import STATUS
from api.wire.common import ErrorAnswer
from retrieval.accounts.api_keys import SCOPES
from retrieval.filters import SOURCES, STATUSES, TYPES
from retrieval.namespaces.validation import models
from retrieval.settings import PROJECT, Settings

TEXT = (PROJECT / "docs" / "contract.md").read_text(encoding="utf-8")
OPERATIONS = {
    (said.method, re.sub(r"{\w+(:str)?}", "{}", said.path)): said
    for said in (handler.opt["operation"] for handler in HANDLERS if "operation" in handler.opt)
}


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def requests():
    """Method, path and JSON body ("" without one) of every request shown."""
    for block in blocks("http"):
        for method, path, body in re.findall(
            r"^(GET|POST|PUT|PATCH|DELETE) (\S+)\n((?:[{ ].*\n?)*)", block, re.MULTILINE
        ):
            yield method, path, body.strip()


def operation_of(method, path):
    """What the code says about a shown request; None for what is planned."""
    bare = re.sub(r"\?.*", "", path)
    return OPERATIONS.get(
        (
            method,
            re.sub(
                r"/(?:(?:ns|ijr|doc|conn|job|key|del|eval|evr|wh|whd)_\w+|(?<=(?:tenants|.groups)/)\w+|(?<=pages/)\d+)",
                "/{}",
                bare,
            ),
        )
    )


def test_the_error_table_is_that_of_the_code():
    rows = re.findall(r"^\| ([A-Z][A-Z_]+|(?:missing|invalid)_tenant_id) \| (\d{3})\b", TEXT, re.MULTILINE)
    assert {code: int(status) for code, status in rows} == {code.value: status for code, status in STATUS.items()}


def test_every_operation_of_the_service_is_described():
    described = {
        (method, re.sub(r"{\w+}", "{}", path))
        for methods, path in re.findall(
            r"((?:GET|POST|PUT|PATCH|DELETE)(?:, (?:GET|POST|PUT|PATCH|DELETE))*) (/v1/[^\s`?]+|/metrics)", TEXT
        )
        for method in methods.split(", ")
    }
    assert set(OPERATIONS) <= described


@pytest.mark.parametrize("example", blocks("json"), ids=lambda text: text[:60])
def test_a_shown_answer_is_json_in_the_envelope(example):
    shown = json.loads(example)
    if shown["success"]:
        assert set(shown) - {"deletionId"} == {"success", "message", "data"}
    else:
        msgspec.convert(shown, ErrorAnswer)


@pytest.mark.parametrize(("method", "path", "body"), list(requests()), ids=lambda text: text[:60])
def test_a_shown_request_is_one_that_the_service_takes(method, path, body):
    said = operation_of(method, path)
    if said is None or said.body is None:
        assert not body or json.loads(body)
        return
    taken = msgspec.json.decode(body, type=said.body)
    if hasattr(taken, "to_values"):
        taken.to_values()


def test_requests_of_what_is_built_are_shown():
    shown = {said.path for method, path, _ in requests() if (said := operation_of(method, path))}
    assert {said.path for said in OPERATIONS.values() if not said.form} <= shown


@pytest.mark.parametrize("answer", blocks("json"), ids=lambda text: text[:60])
def test_a_shown_answer_fits_an_answer_of_the_service(answer):
    """The one with the same message, where the service gives it already."""
    shown = json.loads(answer)
    before = TEXT[: TEXT.index(answer)]
    request = re.findall(r"```http\n(\w+) (\S+)", before)
    said = operation_of(*request[-1]) if request and before.rstrip().endswith("```json") else None
    if said is not None and shown["success"] and "ingest/file" not in before[-400:]:
        msgspec.convert(shown, said.answer)


def test_every_value_is_named():
    names = {*TYPES, *SOURCES, *STATUSES, *SCOPES, *(name for known in models(Settings()).values() for name in known)}
    assert not {name for name in names if name not in TEXT}


def test_no_code_is_named_that_does_not_exist():
    shaped = re.findall(r"`((?:INVALID|MISSING)_[A-Z_]+|[A-Z_]+_(?:NOT_FOUND|FAILED|ERROR|EXCEEDED))`", TEXT)
    assert set(shaped) <= {code.value for code in STATUS}
