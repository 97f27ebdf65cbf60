"""Many clients poll their job runs while texts are ingested, for longer than any cache of the API lives."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

POLLING_CLIENTS = 32
SENDING_CLIENTS = 8
SECONDS = 30
PAUSE_SECONDS = 0.2


@pytest.mark.slow
def test_polling_job_runs_with_32_clients_never_fails(service):
    statuses: Counter[int] = Counter()
    errors: list[str] = []
    job_runs = [service.text(f"Text {number} before the load.")["ingestJobRunId"] for number in range(SENDING_CLIENTS)]
    deadline = time.monotonic() + SECONDS
    lock = threading.Lock()

    def record(response: httpx.Response) -> None:
        with lock:
            statuses[response.status_code] += 1
            if response.status_code > 499:
                errors.append(f"{response.request.url}: {response.text[:300]}")

    def open_client() -> httpx.Client:
        return httpx.Client(base_url=service.info["api"], headers=service.client.headers, timeout=90)

    def send(client_number: int) -> None:
        with open_client() as client:
            for number in range(100_000):
                if time.monotonic() > deadline:
                    return
                config = {"text": f"Client {client_number} sends text {number}."}
                body = {"namespaceId": service.namespace, "ingestConfig": {"source": "TEXT", "config": config}}
                response = client.post("/v1/ingest/text", json=body)
                record(response)
                if response.status_code == 200:
                    job_runs.append(response.json()["data"]["ingestJobRunId"])
                time.sleep(PAUSE_SECONDS)

    def poll(client_number: int) -> None:
        with open_client() as client:
            for number in range(100_000):
                if time.monotonic() > deadline:
                    return
                job_run = job_runs[-1 - (client_number + number) % len(job_runs)]
                record(client.get(f"/v1/ingest-job-runs/{job_run}", params={"namespaceId": service.namespace}))
                time.sleep(PAUSE_SECONDS)

    with ThreadPoolExecutor(POLLING_CLIENTS + SENDING_CLIENTS) as threads:
        calls = [threads.submit(poll, number) for number in range(POLLING_CLIENTS)]
        calls += [threads.submit(send, number) for number in range(SENDING_CLIENTS)]
        for call in calls:
            call.result()
    assert not errors, f"{statuses}: {errors[:3]}"
    assert statuses[200] > 10 * POLLING_CLIENTS
    service.wait(*job_runs)
