"""The pages of the API match the code: error codes, request examples and response examples."""

import json
import re

import msgspec
import pytest

from api.app import ROUTE_HANDLERS
from api.errors import STATUS_BY_CODE
from api.wire.common import ErrorAnswer
from retrieval.accounts.api_keys import KEY_SCOPES
from retrieval.settings import PROJECT_ROOT

PAGES_FOLDER = PROJECT_ROOT / "docs" / "reference" / "api"
CONTRACT_TEXT = "\n".join(page.read_text(encoding="utf-8") for page in sorted(PAGES_FOLDER.glob("*.md")))
OPERATIONS = {
    (operation.method, re.sub(r"{\w+(:str)?}", "{}", operation.path)): operation
    for operation in (handler.opt["operation"] for handler in ROUTE_HANDLERS if "operation" in handler.opt)
}
EXAMPLES = re.findall(r"```http\n(\w+) (\S+)\n(.*?)```\n(?:```json\n(.*?)```)?", CONTRACT_TEXT, re.DOTALL)
ANSWERS = re.findall(r"```json\n(.*?)```", CONTRACT_TEXT, re.DOTALL)


def operation_of(method, path):
    """Return the OpenAPI operation of a request on the page."""
    return OPERATIONS[method, re.sub(r"/(?:ns|ijr|doc|conn)_\w*|(?<=groups)/\w+", "/{}", path)]


def test_the_error_table_is_that_of_the_code():
    rows = re.findall(r"^\| ([A-Z][A-Z_]+|(?:missing|invalid)_tenant_id) \| (\d{3})\b", CONTRACT_TEXT, re.MULTILINE)
    expected = {code.value: status for code, status in STATUS_BY_CODE.items()}
    assert {code: int(status) for code, status in rows} == expected, (
        "Correct the table of codes in docs/reference/api/errors.md."
    )


@pytest.mark.parametrize(("method", "path", "body", "answer"), EXAMPLES, ids=lambda text: text[:60])
def test_an_example_is_a_request_that_the_service_takes_and_its_answer(method, path, body, answer):
    operation = operation_of(method, path)
    request = msgspec.json.decode(body, type=operation.body)
    if hasattr(request, "to_values"):
        request.to_values()
    msgspec.convert(json.loads(answer), operation.answer)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda text: text[:60])
def test_an_answer_has_the_envelope(answer):
    envelope = json.loads(answer)
    if envelope["success"]:
        assert set(envelope) == {"success", "message", "data"}
    else:
        msgspec.convert(envelope, ErrorAnswer)


def test_every_scope_is_named():
    unnamed = {scope for scope in KEY_SCOPES if f"`{scope}`" not in CONTRACT_TEXT}
    assert not unnamed, "Add these scopes to docs/reference/api/authentication.md."


def test_no_code_is_named_that_does_not_exist():
    shaped = re.findall(r"`((?:INVALID|MISSING)_[A-Z_]+|[A-Z_]+_(?:NOT_FOUND|FAILED|ERROR|EXCEEDED))`", CONTRACT_TEXT)
    unknown = set(shaped) - {code.value for code in STATUS_BY_CODE}
    assert not unknown, "Correct these codes in docs/reference/api."
