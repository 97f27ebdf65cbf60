"""The API and the CLI accept every request and command of the quickstart, guides and README."""

import json
import re
import shlex

import msgspec
import pytest

from local import cli
from retrieval.settings import PROJECT_ROOT
from tests.architecture.test_contract import operation_of

GUIDE_PAGES = [
    PROJECT_ROOT / "README.md",
    PROJECT_ROOT / "docs" / "quickstart.md",
]
GUIDE_PAGES += [PROJECT_ROOT / "docs" / "connectors.md", PROJECT_ROOT / "docs" / "connectors" / "website.md"]
GUIDE_PAGES += sorted(
    [*(PROJECT_ROOT / "docs" / "guides").glob("*.md"), *(PROJECT_ROOT / "docs" / "operations").glob("*.md")]
)
NAMESPACE = "ns_06gzpnn6z30k9qdmrw54faz30g"
UPLOAD = "up_06gzpnn6z30k9qdmrw54faz30g"


def blocks():
    """Yield each shell block of the guides with its page."""
    for page in GUIDE_PAGES:
        for block in re.findall(r"```(?:bash|sh)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            yield page.name, block


def requests():
    """Path and JSON body of each request with curl."""
    for page, block in blocks():
        for path, body in re.findall(
            r"curl (?!-sS -X )[^\n]*?(/v1/[\w/-]+)(?:(?!curl)[^{`])*?-d '(\{.*?\})'(?: \|)?$",
            block,
            re.DOTALL | re.MULTILINE,
        ):
            yield pytest.param(
                path, body.replace("'$NAMESPACE'", NAMESPACE).replace("'$UPLOAD'", UPLOAD), id=f"{page}: {path}"
            )


def commands():
    """The arguments of each call of `retrieval`."""
    for page, block in blocks():
        for line in re.findall(
            r"^(?:\.venv/bin/|[\w/=$.-]+ /opt/retrieval/\.venv/bin/)?retrieval (.+)$", block, re.MULTILINE
        ):
            command = line.partition(" | ")[0]
            yield pytest.param(shlex.split(command, comments=True), id=f"{page}: {line[:40]}")


@pytest.mark.parametrize(("path", "body"), list(requests()))
def test_a_request_of_the_guides_is_one_that_the_service_takes(path, body):
    operation = operation_of("POST", path)
    request = msgspec.convert(json.loads(body), operation.body)
    if hasattr(request, "to_values"):
        request.to_values()


@pytest.mark.parametrize("arguments", list(commands()))
def test_a_command_of_the_guides_is_one_that_the_program_knows(arguments):
    cli.make_parser().parse_args(arguments)


def test_the_guides_show_requests_and_commands():
    assert len(list(requests())) >= 10
    assert len(list(commands())) >= 6
