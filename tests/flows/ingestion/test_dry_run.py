"""A dry run predicts the next ingestion and stores only its report."""

import asyncio
import hashlib
import io
import logging
import zipfile

import pytest
from reportlab.pdfgen.canvas import Canvas

from connectors import registry
from connectors.embedders import local
from flows import context, dry_run
from flows.run_context import RunContext
from retrieval.job_config import Ingestion
from retrieval.jobs import dry_runs, runs
from retrieval.jobs.queries import batches
from tests import registry_instances
from tests.flows.configured import Configured
from tests.flows.connected import connected_space
from tests.flows.crawling import crawl
from tests.flows.crawls.site import answer, pages, xml
from tests.nightly import nightly_except
from tests.standins.accounts import ACCOUNTS, serving_account

TABLES = ("documents", "run_documents", "chunks", "embeddings", "vectors", "postings", "inbox", "usage_days", "sweeps")
LONG = "\n\n".join(f"Paragraph {n} tells how owl number {n} hunts mice by the river at night." for n in range(90))


@pytest.fixture
def space(db, monkeypatch, allowed):
    registry_instances.forget_instances()
    configured = Configured(db, webScraperConfig={"provider": "BUILTIN"})
    watch(configured, monkeypatch)
    yield configured
    registry_instances.forget_instances()


def watch(space, monkeypatch):
    monkeypatch.setattr(context, "open_database", lambda: space.db)
    monkeypatch.setattr(context, "load_keys", lambda: space.ring)
    monkeypatch.setattr(dry_run, "estimate_in_task", dry_run.estimate_ingestion)
    monkeypatch.setattr(dry_run, "get_run_logger", lambda: logging.getLogger("test"))


def rows(space):
    existing_tables = {
        row["name"] for row in space.db.rows("select relname as name from pg_class where relkind in ('r', 'p')")
    }
    return {
        table: space.db.row(f"select count(*) as n from {table}")["n"] for table in TABLES if table in existing_tables
    }


def run_dry(space, source, request, connection_id=None, content=None, **ingestion):
    """Dry run without any stored or embedded data."""
    rows_before = rows(space)
    receipt = space.call(
        dry_runs.accept_dry_run(
            space.db,
            space.scope,
            source=source,
            request=request,
            ingestion=Ingestion(**ingestion),
            connection_id=connection_id,
            content=content,
        )
    )
    batches.form_batches(space.db, size=64, batches=8)
    (batch,) = batches.undispatched_batches(space.db)
    assert batch.source == "DRY_RUN"
    batches.record_flow_run(space.db, batch, "run")
    lease = batches.claim_lease(space.db, batch.id, batch.attempt, seconds=30)
    for run in dry_runs.pending_dry_runs(space.db, lease):
        asyncio.run(dry_run._estimate_run(RunContext(space.db, space.ring, lease), run))
    dry_runs.close_cancelled(space.db, lease)
    batches.finish_batch(space.db, lease)
    assert rows(space) == rows_before
    job_run = space.run(receipt.job_run_id)
    assert (job_run.status, job_run.dry_run) == ("COMPLETED", True)
    return job_run


def report_of(*args, **fields):
    job_run = run_dry(*args, **fields)
    report = job_run.progress["report"]
    assert job_run.outcome == ("COMPLETED_WITH_FAILURES" if report["failed"] else "SUCCEEDED"), job_run.notices
    return report


class Counted:
    """Model with counted requests."""

    def __init__(self, monkeypatch):
        self.calls, self.texts, embed = 0, [], local.WordLlama.embed

        def counted(model, texts, kind):
            self.calls += kind == "document"
            self.texts += texts
            return embed(model, texts, kind)

        monkeypatch.setattr(local.WordLlama, "embed", counted)


def real(space, run, monkeypatch):
    """Counts of a job run in the format of a report."""
    job_run = space.run(run)
    counts = space.db.row(
        "select count(*) filter (where w.stage <> 'unchanged') as made,"
        " count(*) filter (where w.stage = 'unchanged') as unchanged,"
        " coalesce(sum((w.properties ->> 'embeddingCount')::int) filter (where w.stage <> 'unchanged'), 0) as chunks,"
        " coalesce(sum(cardinality(w.pages)) filter (where w.stage <> 'unchanged'), 0) as pages"
        " from run_documents w where w.job_run_id = %(run)s and w.status = 'SUCCESS'",
        {"run": run},
    )
    return {**counts, "failed": len(job_run.failed), "removed": job_run.progress["removed"]}


def agree(report, did, counted):
    assert report["create"] + report["update"] == did["made"]
    assert (report["unchanged"], report["failed"]) == (did["unchanged"], did["failed"])
    assert (report["chunks"], report["pages"], report["remove"]) == (did["chunks"], did["pages"], did["removed"])
    assert report["embeddingCalls"] == counted.calls
    tokenizer = dry_run.tokenizer_for("LOCAL", "wordllama-l2-supercat-256")
    assert report["tokensToEmbed"] == sum(map(len, tokenizer.spans(counted.texts)))
    assert report["estimatedSeconds"] >= 0
    assert report["estimatedCost"] == {"amount": 0.0, "currency": "USD"}
    assert not report["sampled"]


def archive():
    file, pdf = io.BytesIO(), io.BytesIO()
    canvas = Canvas(pdf)
    for number in range(3):
        canvas.drawString(72, 720, f"Page {number} about owls and how they hunt.")
        canvas.showPage()
    canvas.save()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("owls.md", LONG)
        packed.writestr("again.md", LONG)
        packed.writestr("pages.pdf", pdf.getvalue())
        packed.writestr("broken.pdf", b"%PDF-1.4 broken")
    return file.getvalue()


def test_an_archive_with_its_members(space, monkeypatch):
    content = archive()
    for _ in range(2):
        key = f"{space.scope.namespace}/{hashlib.sha256(content).hexdigest()}"
        registry.make_file_store(space.config).put(key, [content])
        upload = {"rawKey": key, "mediaType": "application/zip", "size": len(content)}
        counted = Counted(monkeypatch)
        report = report_of(space, "LOCAL_FILE", {"externalId": "all.zip", "name": "all.zip", **upload})
        assert counted.calls == 0
        receipt = space.file("all.zip", content, "application/zip")
        space.work()
        agree(report, real(space, receipt.job_run_id, monkeypatch), counted)
    assert report["unchanged"] == 1


def html(words):
    return answer(f"<html><body><h1>About {words}</h1><p>All that is known of {words}.</p></body></html>".encode())


def linked(*paths):
    inner = "".join(f'<a href="{path}">{path}</a>' for path in paths)
    return answer(f"<html><body><p>Everything about owls.</p>{inner}</body></html>".encode())


def test_pages_of_a_list_a_sitemap_and_a_website(space, site, monkeypatch):
    site.pages = {
        "/": linked("/a", "/b", "/missing"),
        "/a": html("owls"),
        "/b": html("mice"),
        "/sitemap.xml": xml(pages(site, "/a", "/b", "/missing")),
    }
    urls = [f"{site.url}/a", f"{site.url}/missing"]
    configs = {
        "URLS_LIST": {"urls": urls},
        "SITEMAP": {"url": f"{site.url}/sitemap.xml", "maxLinks": 10},
        "WEBSITE": {"url": f"{site.url}/", "maxLinks": 10, "maxDepth": 2},
    }
    for source, config in configs.items():
        for unchanged in (False, True):
            counted = Counted(monkeypatch)
            job_run = run_dry(space, source, config)
            report = job_run.progress["report"]
            assert job_run.name.startswith("127.0.0.1") or job_run.name.startswith("localhost"), job_run.name
            assert job_run.source == source
            if source == "URLS_LIST":
                receipt = space.call(
                    runs.accept_urls(space.db, space.scope, urls=urls, config={}, ingestion=Ingestion())
                )
                run = receipt.job_run_id
                space.work()
            else:
                run = crawl(space, source, ingest=True, **config)
            agree(report, real(space, run, monkeypatch), counted)
            assert bool(report["unchanged"]) == unchanged, source
            assert job_run.outcome == space.run(run).outcome == "COMPLETED_WITH_FAILURES"
            (failed,) = [entry for entry in report["documents"] if entry["action"] == "FAILED"]
            assert failed["name"] == f"{site.url}/missing"
            assert "404" in failed["error"]
            assert failed["linkedFrom"] == (f"{site.url}/" if source == "WEBSITE" else None)
            created = [entry["name"] for entry in report["documents"] if entry["action"] == "CREATE"]
            assert len(created) == report["create"]


@pytest.fixture(params=nightly_except(sorted(ACCOUNTS), "BOX", "NOTION"))
def account(request):
    with serving_account(request.param) as opened:
        yield opened


def test_a_connection_at_first_and_after_changes(db, account, monkeypatch):
    files = {
        name: account.put(f"notes/{name}.txt", f"The {name} lives by the river. It hunts at night and sleeps by day.")
        for name in ("owl", "fox", "otter", "heron", "badger", "salmon")
    }
    with connected_space(db, account, monkeypatch) as space:
        watch(space, monkeypatch)
        for turn in range(2):
            counted = Counted(monkeypatch)
            report = report_of(space, account.connector, {}, connection_id=space.connection)
            assert counted.calls == 0
            job_run = space.ingest()
            agree(report, real(space, job_run.id, monkeypatch), counted)
            if turn == 0:
                assert (report["create"], report["remove"]) == (6, 0)
                account.change(files["fox"], "The fox has moved to the hills.")
                account.put("notes/lynx.txt", "The lynx is new here.")
                account.delete(files["owl"])
        seen_again = 4 if account.connector == "NOTION" else 0  # which tells no changes: everything is listed each time
    assert (report["create"], report["update"], report["remove"], report["unchanged"]) == (1, 1, 1, seen_again)
    planned = {entry["action"]: entry["name"] for entry in report["documents"]}
    assert ["lynx" in planned["CREATE"], "fox" in planned["UPDATE"], "owl" in planned["REMOVE"]] == [True] * 3


@pytest.mark.parametrize("account", ["BOX"], indirect=True)
def test_whom_a_connections_documents_are_for_stays_as_it_is(db, account, monkeypatch):
    with connected_space(db, account, monkeypatch) as space:
        watch(space, monkeypatch)
        db.rows("update connections set permissions = 'SOURCE' where id = %(id)s", {"id": space.connection})
        file = account.put("it.txt", "For Bob.")
        account.grant(file, "bob@example.com")
        space.ingest()
        account.grant(file)
        account.change(file, "Not for Bob.")
        assert report_of(space, "BOX", {}, connection_id=space.connection)["update"] == 1
        (row,) = db.rows("select access from documents where connection_id = %(id)s", {"id": space.connection})
        assert "bob@example.com" in row["access"]["users"]
