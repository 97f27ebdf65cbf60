"""Post the results of ingestions to a chat channel, by webhooks instead of polling.

export BOT_WEBHOOK_SECRET=whsec_…   # of POST /v1/webhooks {"url": "https://bot.example.com/", "events": ["*"]}
export CHAT_URL=https://hooks.slack.com/services/…
python examples/webhook_bot.py --port 8080
"""

from __future__ import annotations

import argparse
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
from standardwebhooks import Webhook, WebhookVerificationError

SECRET, CHAT = os.environ.get("BOT_WEBHOOK_SECRET", ""), os.environ.get("CHAT_URL", "")
POSTED = {"DOCUMENTS_ERROR", "INGEST_JOB_RUN_COMPLETED", "CONNECTION_FAILED"}
seen: set[str] = set()  # an event may come twice, under the same id


def sentence(kind: str, data: dict[str, Any]) -> str:
    """Describe an event for the channel."""
    failed = [document for document in data.get("documents", []) if document["error"]]
    errors = [f"• {document['externalId'] or document['id']}: {document['error']}" for document in failed]
    return "\n".join([f"{kind} in {data['namespaceId']} ({data.get('ingestJobRunId', '')})", *errors[:10]])


class Bot(BaseHTTPRequestHandler):
    """Receive events; refuse events not signed with the secret."""

    def do_POST(self) -> None:
        """Verify an event and post it once."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            Webhook(SECRET).verify(body, dict(self.headers.items()))
        except WebhookVerificationError:
            return self.answer(401)
        event, number = json.loads(body), self.headers["webhook-id"]
        if event["type"] in POSTED and number not in seen:
            httpx.post(CHAT, json={"text": sentence(event["type"], event["data"])}, timeout=5).raise_for_status()
            seen.add(number)
        return self.answer(200)

    def answer(self, status: int) -> None:
        """Respond without a body: the service only reads the status."""
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8080)
    options = parser.parse_args()
    if not SECRET or not CHAT:
        parser.error("set BOT_WEBHOOK_SECRET and CHAT_URL, as shown by --help")
    ThreadingHTTPServer(("127.0.0.1", options.port), Bot).serve_forever()
