"""Run every block of README, the quickstart and the guides in order, in a fresh shell with an instance running.

Each block must succeed and print the output on the page; `…` matches anything. `NOT_RUN` lists the exceptions.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from retrieval_client import RetrievalClient
from tests.e2e.conftest import COMMAND

PROJECT = Path(__file__).resolve().parents[2]
OWN_SERVICES = "docs/guides/own-services.md"
GUIDES = sorted(path.relative_to(PROJECT).as_posix() for path in (PROJECT / "docs" / "guides").glob("*.md"))
GUIDES.remove(OWN_SERVICES)
# In reading order; README first, while the instance has one namespace.
PAGES = [
    "README.md",
    "docs/index.md",
    "docs/quickstart.md",
    *GUIDES,
    "docs/connectors.md",
    "docs/connectors/website.md",
    "docs/access.md",
    "docs/sign-in.md",
    "docs/search.md",
    "clients/python/README.md",
]
PAGES_NOT_RUN = {
    OWN_SERVICES: "needs a PostgreSQL, a bucket, an index and a model; tests/e2e/test_own_services.py has them",
    "CONTRIBUTING.md": "sets up, lints and tests the project, as CI does",
    "clients/typescript/README.md": "needs npm; tests/e2e/test_generated_clients.py runs it",
    "deploy/helm/retrieval/README.md": "needs a cluster; tests/deploy reads the chart",
    "docs/adding-a-connector.md": "changes the project; tests/architecture/test_guide.py carries it out",
    "docs/connectors/dropbox.md": "needs a team at Dropbox; tests/connectors/sources/test_dropbox_teams.py has one",
    "docs/connectors/box.md": "needs an enterprise at Box; tests/connectors/sources/test_box_enterprises.py has one",
    "docs/connectors/google-drive.md": "needs a Google Workspace; sources/test_organizations.py has one",
    "docs/connectors/sharepoint.md": "needs a Microsoft tenant; sources/test_microsoft_organizations.py has one",
    "docs/connectors/objects.md": "needs a bucket; tests/connectors/sources/test_objects.py has one",
    "docs/connectors/custom.md": "needs a service; tests/connectors/sources/test_described_custom.py has a stand-in",
    "docs/connectors/github.md": "needs a token; tests/connectors/sources/test_described.py has a stand-in",
    "docs/operations/containers.md": "needs containers and a cluster; tests/deploy and test_guides.py read it",
    "docs/operations/monitoring.md": "settings of a receiver; tests/api/test_traces.py has one",
    "docs/operations/one-machine.md": "needs systemd; tests/deploy and test_guides.py read it",
    "docs/operations/prefect.md": "needs a PostgreSQL on another machine; e2e/test_two_machines.py has a server",
    "docs/operations/several-machines.md": "needs machines; tests/e2e/test_two_machines.py has two",
    "docs/reliability.md": "runs tests of an hour",
}
NOT_RUN = {
    ("README.md", "make up"): "an instance runs already",
    ("docs/quickstart.md", "RetrievalServiceRetriever"): "needs packages of PyPI; tests/e2e/integrations runs it",
    ("docs/quickstart.md", "python ask.py"): "needs packages of PyPI; tests/e2e/integrations runs it",
    ("docs/quickstart.md", '"mcpServers"'): "settings of an agent; the test of keys starts that program",
    ("docs/quickstart.md", "up --detach"): "an instance runs already, started by that command",
    ("docs/quickstart.md", "retrieval down"): "the other pages need the instance; the fixture ends it by that command",
    ("docs/guides/backup.md", "retrieval restore"): "needs a home in which nothing runs; e2e/test_operations.py",
    ("docs/guides/backup.md", "# back up a running"): "tests/e2e/test_operations.py carries it out",
    ("docs/guides/backup.md", "# restore into a fresh"): "tests/e2e/test_operations.py carries it out",
    ("docs/guides/clients.md", "RetrievalServiceRetriever"): "needs packages of PyPI; tests/e2e/integrations runs it",
    ("docs/guides/clients.md", "https://docs.example.com"): "the site is an example; test_client.py ingests one",
    (
        "docs/guides/prefect.md",
        "--notify",
    ): "the URL is an example; test_failure_automation.py has a receiver",
    (
        "docs/guides/production.md",
        "namespaces:",
    ): "needs a bucket and keys of vendors; tests/api/test_apply.py applies it",
    ("docs/guides/prefect.md", "deployments:"): "an excerpt of prefect.yaml, compared with it below",
    ("docs/guides/prefect.md", "register --pool"): "the other pages need the warm pool; test_stock_pools.py moves them",
    ("docs/guides/prefect.md", "--base-job-template"): "needs other packages of Prefect; tests/deploy reads the files",
    ("docs/guides/prefect.md", "kubectl create secret"): "needs a cluster; tests/deploy/test_prefect_pools.py",
    ("docs/guides/prefect.md", "prefect worker start"): "runs until it is stopped; test_stock_pools.py runs it",
    ("docs/guides/events.md", "https://example.com/hooks"): "a closed network cannot resolve it; test_webhooks.py",
    ("docs/guides/events.md", "standardwebhooks"): "part of a web server of the reader's; test_webhooks.py checks it",
    ("docs/guides/push.md", "conn_ID"): "needs a connection to a vendor; tests/e2e/test_push.py has one",
    ("docs/guides/mcp.md", "claude mcp add"): "needs Claude Code; the test of keys speaks its protocol",
    ("docs/guides/model-servers.md", "11434"): "needs a model server; tests/standins/model_server.py is one",
    ("docs/guides/programs.md", "model_list"): "settings of LiteLLM, which has hundreds of packages; followed by hand",
    ("docs/connectors.md", "conn_…"): "needs an account at the vendor; tests/e2e/test_connectors.py has one",
    ("docs/connectors/website.md", "/ingest/sitemap"): "the site is an example; tests/e2e/test_web.py has one",
    ("docs/sign-in.md", "RETRIEVAL_OIDC_ISSUER"): "settings that need an identity provider; tests/api/test_oidc.py",
    ("docs/sign-in.md", "RETRIEVAL_OIDC_CLIENT_ID"): "settings that need an identity provider; tests/e2e/browser",
    ("docs/sign-in.md", "[auth]"): "a file for Streamlit that needs an identity provider",
    ("docs/search.md", "cranfield"): "needs judged questions; tests/e2e/test_evaluations.py has some",
}
SHELLS = ("bash", "sh", "console")
MARK = "--- end of command {}"


@dataclass
class Block:
    """Block of a page: language, text, and expected output."""

    page: str
    line: int
    language: str
    text: str
    shown: str = ""

    @property
    def reason(self) -> str | None:
        return next((why for (page, part), why in NOT_RUN.items() if page == self.page and part in self.text), None)


def blocks(page: str) -> list[Block]:
    """Blocks of a page in order, each with its output block."""
    text = (PROJECT / page).read_text(encoding="utf-8")
    page_blocks: list[Block] = []
    # Blocks of tabs are indented.
    for match in re.finditer(r"^( *)```(\w+)[^\n]*\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, match.start()) + 1
        block = Block(page, line, match[2], textwrap.dedent(match[3]))
        if is_output(block) and page_blocks and page_blocks[-1].language in ("bash", "python"):
            page_blocks[-1].shown = block.text
            continue
        page_blocks.append(block)
    return page_blocks


def is_output(block: Block) -> bool:
    return block.language == "text" or (block.language == "json" and '"success"' in block.text)


def commands_of(block: Block) -> list[tuple[str, str]]:
    """Commands of a console with their output; a script is one command."""
    if block.language != "console":
        return [(block.text, block.shown)]
    commands: list[list[str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append([line[2:], ""])
        elif commands[-1][0].endswith("\\"):
            commands[-1][0] += "\n" + line
        else:
            commands[-1][1] += line + "\n"
    return [(command, expected_output) for command, expected_output in commands]


def python_of(block: Block) -> tuple[str, str]:
    """Program for the shell with its expected output."""
    comments = re.findall(r"^\s+(?:print\(.*  )?# (.+)$", block.text, re.MULTILINE)
    return f".venv/bin/python - <<'PROGRAM'\n{block.text}PROGRAM", block.shown or "\n".join(comments)


def is_as_shown(output: str, expected_output: str) -> bool:
    """Compare without white space; `…` matches anything."""
    parts = ["".join(part.split()) for part in expected_output.split("…")]
    return re.search(".*?".join(map(re.escape, parts)), "".join(output.split()), re.DOTALL) is not None


@pytest.fixture(scope="module")
def instance(service_of_module):
    return service_of_module(fetch_allow="127.0.0.0/8", prefect_events="true")


@pytest.fixture(scope="module")
def checkout(instance, tmp_path_factory):
    """Folder with the files of a checkout and the running instance's home."""
    folder = tmp_path_factory.mktemp("checkout")
    for path in (".venv", ".uv", "README.md", "clients", "docs", "examples", "local"):
        (folder / path).symlink_to(PROJECT / path)
    (folder / ".retrieval").symlink_to(instance.home)
    shutil.copy(PROJECT / "local" / "corpus" / "heat-pump-manual.pdf", folder / "manual.pdf")
    yield folder
    shutil.rmtree(folder)


def paste(instance, checkout, commands: list[str]) -> list[str]:
    """Output of each command in one new shell; stops at the first failure."""
    marked = [f"{command}\necho '{MARK.format(number)}'" for number, command in enumerate(commands)]
    script = "\n".join(["set -e", *marked])
    environment = {
        "HOME": str(checkout),
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "RETRIEVAL_HOME": str(instance.home),
        "NO_PROXY": "*",
    }
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=checkout,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    results, remaining_output = [], done.stdout
    for number in range(len(commands)):
        output, mark, remaining_output = remaining_output.partition(MARK.format(number))
        assert mark, f"failed: {commands[number]}\nprinted: {output}"
        results.append(output)
    return results


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_each_block_of_a_page_runs_and_prints_what_the_page_shows(instance, checkout, page):
    run: list[tuple[Block, str, str]] = []
    for block in blocks(page):
        if block.reason is not None:
            continue
        if block.language == "json":
            json.loads(block.text.replace("…", ""))
        elif block.language == "python":
            run.append((block, *python_of(block)))
        elif block.language in SHELLS:
            run += [(block, command, expected_output) for command, expected_output in commands_of(block)]
        else:
            pytest.fail(f"{page}:{block.line}: nobody runs a block of {block.language}; add a way, or a reason")
    setup = 'eval "$(.venv/bin/retrieval env)"'
    for output, (block, command, expected_output) in zip(
        paste(instance, checkout, [setup, *(command for _, command, _ in run)])[1:], run, strict=True
    ):
        location = f"{page}:{block.line}: {command}\nprinted: {output}"
        assert '"success":false' not in output, location
        assert is_as_shown(output, expected_output), f"{location}\nshown: {expected_output}"


def test_each_page_with_something_to_run_is_run_or_says_why_not():
    tracked = subprocess.run(["git", "ls-files", "*.md"], cwd=PROJECT, capture_output=True, text=True, check=True)
    runnable = re.compile(r"^ *```(bash|sh|console|python|ts)\b", re.MULTILINE)
    pages = {page for page in tracked.stdout.split() if runnable.search((PROJECT / page).read_text(encoding="utf-8"))}
    assert pages - {*PAGES} == PAGES_NOT_RUN.keys()


def test_the_excerpt_of_prefect_yaml_is_in_that_file():
    (excerpt,) = [yaml.safe_load(block.text) for block in blocks("docs/guides/prefect.md") if block.language == "yaml"]
    (shown,) = excerpt["deployments"]
    planned = yaml.safe_load((PROJECT / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    (deployment,) = [entry for entry in planned if entry["name"] == shown["name"]]
    assert deployment | shown == deployment


def test_each_reason_names_a_block_that_is_there():
    for page, part in NOT_RUN:
        assert [block for block in blocks(page) if part in block.text], (page, part)


DOCUMENTED_KEYS = sorted(
    {
        (page, command)
        for page in [*PAGES, "docs/operations/several-machines.md"]
        for command in re.findall(
            r"^retrieval (key create [^\n|#\[]+)", (PROJECT / page).read_text(encoding="utf-8"), re.MULTILINE
        )
        if "NAME" not in command
    }
)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "command"), DOCUMENTED_KEYS, ids=lambda value: value)
def test_each_documented_key_searches_by_curl_command_client_and_mcp(instance, checkout, page, command):
    instance.wait(instance.text("The harbour seal dives for up to thirty minutes.", name="seals")["ingestJobRunId"])
    (output,) = paste(instance, checkout, [f".venv/bin/retrieval {command}"])
    key, query = output.splitlines()[1], "how long does a seal dive"
    body = {"namespaceId": instance.namespace, "query": query}
    headers = {"Authorization": f"Bearer {key}"}
    answer = httpx.post(f"{instance.info['api']}/v1/search", json=body, headers=headers, timeout=90)
    assert "harbour seal" in answer.json()["data"]["results"][0]["content"]
    searched = f".venv/bin/retrieval search '{query}' --namespace default --key {key}"
    assert "harbour seal" in paste(instance, checkout, [searched])[0]
    with RetrievalClient(instance.info["api"], key) as client:
        (space,) = [space.id for space in client.namespaces.list() if space.name == "default"]
        assert "harbour seal" in client.search(space, query)[0].content
    assert "harbour seal" in asyncio.run(searched_by_mcp(instance, key, query))


async def searched_by_mcp(instance, key, query):
    """Passages found by an agent over MCP."""
    environment = instance.environment | {"RETRIEVAL_API_KEY": key}
    server = StdioServerParameters(command=str(COMMAND), args=["mcp"], env=environment)
    async with Client(server) as client:
        namespaces = (await client.call_tool("list_namespaces", {})).structured_content["namespaces"]
        (space,) = [space["id"] for space in namespaces if space["name"] == "default"]
        response = await client.call_tool("search", {"namespaceId": space, "query": query})
        return str(response.structured_content["results"])
