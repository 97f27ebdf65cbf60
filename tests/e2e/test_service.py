"""The main job: ingest texts and files, search them."""

import io

import psycopg
import pytest

from local import postgres

SEAL = "The harbour seal dives for up to thirty minutes and sleeps under water, surfacing without waking."
PRESS = "The printing press of Mainz used an oil-based ink that Gutenberg adapted from varnish."


def pdf(*pages: str) -> bytes:
    from reportlab.lib.pagesizes import A4
    from reportlab.pdfgen import canvas

    buffer = io.BytesIO()
    page = canvas.Canvas(buffer, pagesize=A4)
    for text in pages:
        for line, start in enumerate(range(0, len(text), 80)):
            page.drawString(50, 780 - 16 * line, text[start : start + 80])
        page.showPage()
    page.save()
    return buffer.getvalue()


def docx(*paragraphs: str) -> bytes:
    from docx import Document

    document = Document()
    document.add_heading("A report", 1)
    for paragraph in paragraphs:
        document.add_paragraph(paragraph)
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def parsed_text(service, document_id: str) -> str:
    """Parsed text in the file store, the base of offsets."""
    files = service.home / "files"
    paths = [*files.rglob(f"{document_id}/*/parsed.md"), *files.rglob(f"{document_id}/*/raw")]
    return max(paths, key=lambda path: (path.name == "parsed.md", path.stat().st_mtime)).read_bytes().decode()


def test_a_posted_text_is_found_by_its_meaning(service):
    accepted = service.text(SEAL, name="seals", metadata={"topic": "animals"})
    assert accepted["documents"][0]["status"] == "QUEUED"
    (run,) = service.wait(accepted["ingestJobRunId"])
    assert [entry["status"] for entry in run["documents"]["completed"]] == ["SUCCESS"]
    best = service.search("How long can a marine mammal hold its breath?")[0]
    assert best["content"] == SEAL
    assert 0 < best["score"] <= 1
    assert best["metadata"]["id"] == accepted["documents"][0]["id"]
    assert best["metadata"]["type"] == "TEXT"
    assert best["metadata"]["topic"] == "animals"


@pytest.mark.parametrize(
    ("name", "content", "page"),
    [
        ("printing.pdf", pdf("An introduction. " * 20, f"More of it. {PRESS} And more.", "The end. " * 9), 2),
        ("printing.docx", docx("An introduction. " * 30, f"More of it. {PRESS} And more.", "The end. " * 30), None),
    ],
)
def test_a_file_is_found_by_a_sentence_from_its_middle(service, name, content, page):
    accepted = service.file(name, content, metadata='{"shelf": "B"}')
    (run,) = service.wait(accepted["ingestJobRunId"])
    assert run["documents"]["failed"] == []
    document = accepted["documents"][0]["id"]
    hits = service.search("oil-based ink adapted from varnish", filter={"metadata": {"shelf": "B"}}, topK=50)
    best = next(hit for hit in hits if hit["metadata"]["id"] == document)
    assert best["metadata"]["source"] == name
    assert "Gutenberg" in " ".join(best["content"].split())
    text = parsed_text(service, document)
    for hit in hits:
        if hit["metadata"]["id"] == document:
            assert text[hit["chunk"]["start"] : hit["chunk"]["end"]] == hit["content"]
    if page:
        assert best["chunk"]["page"] <= page


def test_neither_a_text_nor_a_key_lies_in_prefect_or_in_a_log(service):
    canary = "zzcanaryzz is what nobody may read here"
    service.wait(service.text(canary)["ingestJobRunId"])
    service.wait(service.file("broken.pdf", b"%PDF-1.4 " + canary.encode())["ingestJobRunId"])
    service.search(canary)
    places = [path for folder in ("prefect", "logs") for path in (service.home / folder).rglob("*") if path.is_file()]
    rows = dump(postgres.prefect_url(service.home))
    assert "ingest-text" in rows
    for secret in ("zzcanaryzz", service.info["apiKey"]):
        assert [str(path) for path in places if secret.encode() in path.read_bytes()] == []
        assert secret not in rows


def dump(url):
    """Every row of every table of a database, as text."""
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "select oid::regclass::text from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace"
        ).fetchall()
        tables_text = [connection.execute(f"select t::text from {table} t").fetchall() for (table,) in tables]
    return str(tables_text)


def test_in_prefect_a_run_is_found_by_its_documents_name_and_by_its_job_run(service):
    run = service.text("Found in Prefect by its name.", name="find me in prefect")["ingestJobRunId"]
    service.wait(run)
    with service.prefect() as prefect:
        flow_runs = prefect.post("/flow_runs/filter", json={"flow_runs": {"tags": {"all_": [run]}}}).json()
    assert [flow_run["name"] for flow_run in flow_runs] == ["find me in prefect"]
    assert flow_runs[0]["parameters"].keys() == {"batch_id", "attempt"}


def test_a_run_shows_the_states_of_its_flow_run(service):
    run = service.text("Followed in Prefect.", name="followed in prefect")["ingestJobRunId"]
    service.wait(run)
    query = {"namespaceId": service.namespace, "withFlowRun": True}
    flow_run = service.ok(service.client.get(f"/v1/ingest-job-runs/{run}", params=query))["flowRun"]
    assert flow_run["reachable"]
    assert [state["name"] for state in flow_run["states"]][:2] == ["Scheduled", "Pending"]
