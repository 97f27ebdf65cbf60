"""The programs of examples/ run against a service as their first lines say."""

import json
import os
import queue
import socket
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.standins.faults import Handler, served

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class Stub(Handler):
    """Stub of a chat model, a channel with its messages, and a site of one page."""

    told = queue.SimpleQueue()

    def do_POST(self):  # noqa: N802 - the name that http.server calls
        body_sent = json.loads(self.read_body())
        if "text" in body_sent:
            self.told.put(body_sent["text"])
            return self.reply(200, {})
        last = body_sent["messages"][-1]
        if body_sent.get("tools") and last["role"] == "user":
            space = last["content"].partition(" in ")[2]
            tool_call = {"name": "search", "arguments": json.dumps({"namespaceId": space, "query": last["content"]})}
            called = [{"id": "call_1", "type": "function", "function": tool_call}]
            message = {"role": "assistant", "content": None, "tool_calls": called}
        else:
            content = last["content"]
            text = content if last["role"] == "tool" else content.split("\n\n")[0]
            message = {"role": "assistant", "content": f"By what I read: {text}"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return self.reply(
            200, {"id": "c", "object": "chat.completion", "created": 0, "model": "stub", "choices": [choice]}
        )

    def do_GET(self):  # noqa: N802 - the name that http.server calls
        page = "<html><body><main><p>The night shift feeds the owls at two.</p></main></body></html>"
        self.reply(200 if self.path == "/" else 404, page.encode(), {"Content-Type": "text/html"})


@contextmanager
def stub():
    with served(Stub) as port:
        yield f"http://127.0.0.1:{port}"


def run(service, example, *arguments, stdin="", **environment):
    variables = {"RETRIEVAL_API_URL": service.info["api"], "RETRIEVAL_API_KEY": service.info["apiKey"], **environment}
    done = subprocess.run(
        [sys.executable, EXAMPLES / example, *arguments],
        env={**os.environ, **variables},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_chat_answers_from_what_was_ingested(service):
    service.wait(service.text("The pump is oiled every eighty hours.", name="pump")["ingestJobRunId"])
    with stub() as model:
        output = run(
            service,
            "rag_chat.py",
            service.namespace,
            stdin="How often is the pump oiled?\n",
            OPENAI_BASE_URL=f"{model}/v1",
            OPENAI_API_KEY="none",
        )
    assert "By what I read: [1] The pump is oiled every eighty hours." in output
    assert "[1] pump" in output


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
        run_filter = {"flows": {"name": {"any_": ["nightly-sync"]}}}
        [flow_run] = prefect.post("/flow_runs/filter", json=run_filter).json()
    assert (flow_run["state_type"], flow_run["parameters"]["url"]) == ("COMPLETED", site)
    assert "owls" in service.search("Who is fed at night?")[0]["content"]


@pytest.mark.slow
def test_an_agent_answers_by_the_tools_of_mcp(service):
    service.wait(service.text("The filter is washed once a week.", name="filter")["ingestJobRunId"])
    with stub() as model:
        question = f"When is the filter washed in {service.namespace}"
        output = run(service, "mcp_agent.py", question, OPENAI_BASE_URL=f"{model}/v1", OPENAI_API_KEY="none")
    assert "The filter is washed once a week." in output


@pytest.mark.slow
def test_a_bot_tells_a_channel_what_became_of_an_ingestion(service):
    with stub() as channel, closing(socket.create_server(("127.0.0.1", 0))) as port_socket:
        port = port_socket.getsockname()[1]
        port_socket.close()
        hook = {"url": f"http://127.0.0.1:{port}/", "events": ["*"], "namespaceId": service.namespace}
        webhook = service.ok(service.client.post("/v1/webhooks", json=hook))
        environment = {**os.environ, "BOT_WEBHOOK_SECRET": webhook["secret"], "CHAT_URL": channel}
        bot = subprocess.Popen([sys.executable, EXAMPLES / "webhook_bot.py", "--port", str(port)], env=environment)
        try:
            run_id = service.file("broken.pdf", b"%PDF-1.7 nothing follows")["ingestJobRunId"]
            messages = ""
            while "INGEST_JOB_RUN_COMPLETED" not in messages:
                messages += Stub.told.get(timeout=60) + "\n"
        finally:
            bot.terminate()
            bot.wait(10)
            service.client.delete(f"/v1/webhooks/{webhook['webhook']['id']}")
    assert run_id in messages
    assert "DOCUMENTS_ERROR" in messages
    assert "broken.pdf" in messages
