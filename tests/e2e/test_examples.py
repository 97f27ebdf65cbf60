"""The programs of examples/ run against a service as their first lines say."""

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class Stub(BaseHTTPRequestHandler):
    """A chat model of OpenAI's shape that answers with the first passage it was given, and a site of one page."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        first = asked["messages"][-1]["content"].split("\n\n")[0]
        message = {"role": "assistant", "content": f"By what I read: {first}"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        self._answer({"id": "c", "object": "chat.completion", "created": 0, "model": "stub", "choices": [choice]})

    def do_GET(self):
        page = "<html><body><main><p>The night shift feeds the owls at two.</p></main></body></html>"
        self._answer(page, "text/html") if self.path == "/" else self.send_error(404)

    def _answer(self, body, media_type="application/json"):
        sent = (json.dumps(body) if isinstance(body, dict) else body).encode()
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_):
        pass


@contextmanager
def stub():
    with ThreadingHTTPServer(("127.0.0.1", 0), Stub) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def run(service, example, *arguments, given="", **environment):
    told = {"RETRIEVAL_API_URL": service.info["api"], "RETRIEVAL_API_KEY": service.info["apiKey"], **environment}
    done = subprocess.run(
        [sys.executable, EXAMPLES / example, *arguments],
        env={**os.environ, **told},
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_chat_answers_from_what_was_ingested(service):
    service.wait(service.text("The pump is oiled every eighty hours.", name="pump")["ingestJobRunId"])
    with stub() as model:
        said = run(
            service,
            "rag_chat.py",
            service.namespace,
            given="How often is the pump oiled?\n",
            OPENAI_BASE_URL=f"{model}/v1",
            OPENAI_API_KEY="none",
        )
    assert "By what I read: [1] The pump is oiled every eighty hours." in said
    assert "[1] pump" in said


@pytest.mark.slow
def test_a_nightly_sync_is_a_flow_run_in_prefect(service):
    changed = {"webScraperConfig": {"provider": "BUILTIN"}}
    service.ok(service.client.patch(f"/v1/namespaces/{service.namespace}", json=changed))
    with stub() as site:
        run(
            service,
            "nightly_sync.py",
            service.namespace,
            site,
            "--once",
            PREFECT_API_URL=f"{service.info['prefect']}/api",
            PREFECT_API_AUTH_STRING=service.info["prefectLogin"],
        )
    with service.prefect() as prefect:
        wanted = {"flows": {"name": {"any_": ["nightly-sync"]}}}
        [flow_run] = prefect.post("/flow_runs/filter", json=wanted).json()
    assert (flow_run["state_type"], flow_run["parameters"]["url"]) == ("COMPLETED", site)
    assert "owls" in service.search("Who is fed at night?")[0]["content"]


def test_each_example_is_short():
    for file in EXAMPLES.glob("*.py"):
        assert len(file.read_text().splitlines()) <= 60, file.name
