"""Only the listed modules open outbound connections."""

import ast
import re
from fnmatch import fnmatch
from pathlib import Path

from retrieval.settings import PROJECT_ROOT

PRODUCT_PACKAGES = ("api", "connectors", "flows", "local", "retrieval")
SOURCE_FILES = sorted(path for package in PRODUCT_PACKAGES for path in (PROJECT_ROOT / package).rglob("*.py"))

# Of `urllib` only `urllib.request`, of `http` only `http.client`.
DIALLERS = (
    frozenset(
        {"aiohttp", "ftplib", "http", "httpcore", "httplib2", "httpx", "imaplib", "poplib", "requests", "smtplib"}
    )
    | frozenset({"requests", "smtplib", "socket", "telnetlib", "urllib3", "websocket", "websockets", "xmlrpc"})
    | frozenset({"boto3", "botocore", "boxsdk", "box_sdk_gen", "cohere", "dropbox", "firecrawl", "googleapiclient"})
    | frozenset({"msal", "notion_client", "openai", "pinecone"})
)

# Importers of this client factory open connections, too.
OWN = "connectors.http.sessions"

THE_GUARD = tuple(f"retrieval/network/{name}.py" for name in ("egress", "fetch_guard", "guard_proxy", "transport"))
# User-supplied addresses (page, namespace, webhook) are dialled through `retrieval.network.fetch_guard`.
GUARDED = (
    "connectors/web/builtin/client.py",
    "connectors/files/s3*.py",
    "connectors/s3_*.py",
    "connectors/sources/objects/*.py",
    "connectors/sources/described/*.py",
    "connectors/vectors/pinecone*.py",
    "connectors/parsers/endpoint.py",
    "connectors/rerankers/endpoint.py",
    "connectors/embedders/endpoint.py",
    "retrieval/webhooks/sending.py",
)

TRUSTED = {
    "api/flow_runs.py": "the Prefect server that the operator names",
    "api/oidc/issuer_keys.py": "the identity provider's, which the operator names, and the one its document names",
    "connectors/http/sessions.py": "none of its own: it makes clients for the modules that are named here",
    "connectors/http/responses.py": "none: it tells failures of clients in our words",
    "retrieval/network/bounded_answers.py": "none: it limits the answers of clients that others make",
    "connectors/http/oauth.py": "a content service's own endpoints, or those that the operator names",
    "connectors/cohere_sdk.py": "a model provider's own endpoint, or the one that the operator names",
    "connectors/google/*.py": "a content service's own endpoint, or the one that the operator names",
    "connectors/microsoft_graph/*.py": "a content service's own endpoint, or the one that the operator names",
    "connectors/sources/[!do]*.py": "a content service's own endpoint, or the one that the operator names",
    "connectors/sources/dropbox/*.py": "a content service's own endpoint, or the one that the operator names",
    "connectors/sources/onedrive/*.py": "a content service's own endpoint, or the one that the operator names",
    "connectors/embedders/[!e]*.py": "a model provider's own endpoint, or the one that the operator names",
    "connectors/rerankers/cohere.py": "a model provider's own endpoint, or the one that the operator names",
    "connectors/rerankers/jina.py": "a model provider's own endpoint, or the one that the operator names",
    "connectors/web/firecrawl*.py": "the scraping service's own endpoint, or the one that the operator names",
    "connectors/web/jina*.py": "the scraping service's own endpoint, or the one that the operator names",
    "connectors/web/scrapingbee*.py": "the scraping service's own endpoint, or the one that the operator names",
    "connectors/web/scraping_api.py": "the scraping services' own endpoints, or those that the operator names",
    "flows/prefect_errors.py": "the Prefect server that the operator names",
    "local/*.py": "this machine, for the operator who started it",
}
"""No user has a say in these addresses."""

# Only files with such an import are parsed.
DIALLER_IMPORTS = re.compile(
    rf"^ *(?:import|from)\s+(?:{'|'.join(sorted(DIALLERS))}|urllib[.]request|urllib import|connectors\.http)\b",
    re.MULTILINE,
)
REQUESTS = frozenset({"get", "post", "put", "patch", "delete", "head", "options", "request", "stream"})
CALLS = frozenset(
    {"requests_session", "urlopen", "urlretrieve", "create_connection", "fetch_url", "fetch_response", "HTTPTransport"}
)


CALL_WORDS = re.compile(rf"\b(?:{'|'.join(sorted(CALLS))}|httpx|httpx_client)\b")


def name(path: Path) -> str:
    return str(path.relative_to(PROJECT_ROOT))


def imported(tree: ast.AST) -> set[str]:
    """Return modules imported at run time, at the top level or inside functions."""
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for part in node.body
        for inner in ast.walk(part)
    }
    modules: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return modules


def diallers(tree: ast.AST) -> set[str]:
    harmless = {"http.HTTPStatus", "http", "http.cookies", "http.cookiejar", "http.cookiejar.CookieJar", "urllib.parse"}
    return {
        module
        for module in imported(tree)
        if module not in harmless
        and (module.partition(".")[0] in DIALLERS or f"{module}.".startswith(("urllib.request.", f"{OWN}.")))
    }


def is_known(path: Path) -> bool:
    module = name(path)
    return any(fnmatch(module, pattern) for pattern in (*THE_GUARD, *GUARDED, *TRUSTED))


def test_only_named_modules_can_dial():
    for path in SOURCE_FILES:
        if is_known(path) or not DIALLER_IMPORTS.search(source := path.read_text()):
            continue
        modules = diallers(ast.parse(source))
        assert not modules, (
            f"{name(path)} imports {sorted(modules)}: add a line for it to TRUSTED, or to GUARDED where users name the"
            " address, in tests/architecture/test_outbound.py."
        )


def back_doors(source: str) -> list[str]:
    """Return calls that bypass the guard and clients with proxies from the environment."""
    calls = []
    for node in ast.walk(ast.parse(source)) if CALL_WORDS.search(source) else ():
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            of_httpx = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "httpx"
            makes_a_client = called == "httpx_client" or (of_httpx and called == "Client")
            unguarded = makes_a_client and "transport" not in {keyword.arg for keyword in node.keywords}
            if unguarded or called in CALLS or (of_httpx and called in REQUESTS):
                calls.append(f"{node.lineno} calls {called}")
    return calls


def test_no_module_opens_a_connection_by_a_back_door():
    trusted = (*TRUSTED, "retrieval/network/transport.py", "retrieval/network/egress.py")
    judged = [path for path in SOURCE_FILES if not any(fnmatch(name(path), pattern) for pattern in trusted)]
    calls = [f"{name(path)}:{call}" for path in judged for call in back_doors(path.read_text())]
    calls = [
        call for call in calls if not re.fullmatch(r"connectors/s3_client\.py:\d+ calls urlopen", call)
    ]  # of its pools
    assert not calls, "Dial by retrieval.network.fetch_guard, or add the file to TRUSTED in this test."


def test_what_users_name_is_dialled_by_the_guard():
    """Each module, or its client factory, uses the guard."""
    for pattern in GUARDED:
        texts = [path.read_text() for path in SOURCE_FILES if fnmatch(name(path), pattern)]
        assert texts, f"Remove {pattern} from GUARDED: no module has that name."
        assert any("fetch_guard" in text for text in texts), f"Dial by retrieval.network.fetch_guard in {pattern}."
