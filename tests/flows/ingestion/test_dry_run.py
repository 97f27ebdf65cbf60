"""A dry run reports what the ingestion that follows does, and leaves nothing but its report."""

import asyncio
import hashlib
import io
import json
import logging
import zipfile

import pytest
from reportlab.pdfgen.canvas import Canvas

from connectors import registry
from connectors.embedders import local
from connectors.embedders.request_sizing import RequestLimits
from connectors.embedders.server_limits import ServerLimits
from connectors.embedders.vendor_embedder import VendorEmbedder
from flows import context, dry_run, steps
from flows.run_context import RunContext
from retrieval.errors import Skippable
from retrieval.ingestion.dry_run import SAMPLE_ITEMS, Estimator
from retrieval.ingestion.queries import listings, results, run_documents
from retrieval.job_config import Ingestion, JobConfig
from retrieval.jobs import dry_runs, runs
from retrieval.jobs import runs as job_runs
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease
from retrieval.ports import RawContent, SourceItem
from tests.flows.configured import STEPS, Configured
from tests.flows.connected import connected_space
from tests.flows.crawling import accept as crawl_request
from tests.flows.crawls import test_url_list as lists
from tests.flows.crawls.test_sitemap import pages, xml
from tests.flows.crawls.test_url_list import answer
from tests.nightly import nightly_except
from tests.standins.accounts import ACCOUNTS, serving_account

allowed, site = lists.allowed, lists.site
TABLES = ("documents", "run_documents", "chunks", "embeddings", "vectors", "postings", "inbox", "usage_days", "sweeps")
LONG = "\n\n".join(f"Paragraph {n} tells how owl number {n} hunts mice by the river at night." for n in range(90))


@pytest.fixture
def space(db, monkeypatch, allowed):
    registry._instances.clear()
    made = Configured(db, webScraperConfig={"provider": "BUILTIN"})
    watch(made, monkeypatch)
    yield made
    registry._instances.clear()


def watch(space, monkeypatch):
    monkeypatch.setattr(context, "open_database", lambda: space.db)
    monkeypatch.setattr(context, "load_keys", lambda: space.ring)
    monkeypatch.setattr(dry_run, "estimate_in_task", dry_run.estimate_ingestion)
    monkeypatch.setattr(dry_run, "get_run_logger", lambda: logging.getLogger("test"))


def rows(space):
    there = {row["name"] for row in space.db.rows("select relname as name from pg_class where relkind in ('r', 'p')")}
    return {table: space.db.row(f"select count(*) as n from {table}")["n"] for table in TABLES if table in there}


def tried(space, source, request, connection_id=None, content=None, **asked):
    """The run of a dry run, which has left nothing and embedded nothing."""
    before = rows(space)
    receipt = space.call(
        dry_runs.accept_dry_run(
            space.db,
            space.scope,
            source=source,
            request=request,
            ingestion=Ingestion(**asked),
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
    assert rows(space) == before
    seen = space.run(receipt.job_run_id)
    assert (seen.status, seen.dry_run) == ("COMPLETED", True)
    return seen


def report_of(*args, **named):
    seen = tried(*args, **named)
    report = seen.progress["report"]
    assert seen.outcome == ("COMPLETED_WITH_FAILURES" if report["failed"] else "SUCCEEDED"), seen.notices
    return report


class Counted:
    """What the model is asked for."""

    def __init__(self, monkeypatch):
        self.calls, self.texts, embed = 0, [], local.WordLlama.embed

        def counted(model, texts, kind):
            self.calls += kind == "document"
            self.texts += texts
            return embed(model, texts, kind)

        monkeypatch.setattr(local.WordLlama, "embed", counted)


def real(space, run, monkeypatch):
    """What a job run did: as a report says it."""
    seen = space.run(run)
    found = space.db.row(
        "select count(*) filter (where w.stage <> 'unchanged') as made,"
        " count(*) filter (where w.stage = 'unchanged') as unchanged,"
        " coalesce(sum((w.properties ->> 'embeddingCount')::int) filter (where w.stage <> 'unchanged'), 0) as chunks,"
        " coalesce(sum(cardinality(w.pages)) filter (where w.stage <> 'unchanged'), 0) as pages"
        " from run_documents w where w.job_run_id = %(run)s and w.status = 'SUCCESS'",
        {"run": run},
    )
    return {**found, "failed": len(seen.failed), "removed": seen.progress["removed"]}


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


def test_a_text_is_new_then_unchanged_then_another(space, monkeypatch):
    for text, create, update in ((LONG, 1, 0), (LONG, 0, 0), (LONG + " More.", 0, 1)):
        asked = {"externalId": "owls", "name": "Owls at night"}
        counted = Counted(monkeypatch)
        report = report_of(space, "TEXT", asked, content=text)
        assert counted.calls == 0
        assert (report["create"], report["update"]) == (create, update)
        given = space.call(
            job_runs.accept_text(
                space.db, space.scope, text=text, name="Owls at night", external_id="owls", ingestion=Ingestion()
            )
        )
        space.work()
        agree(report, real(space, given.job_run_id, monkeypatch), counted)


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
        sent = {"rawKey": key, "mediaType": "application/zip", "size": len(content)}
        counted = Counted(monkeypatch)
        report = report_of(space, "LOCAL_FILE", {"externalId": "all.zip", "name": "all.zip", **sent})
        assert counted.calls == 0
        given = space.file("all.zip", content, "application/zip")
        work(space)
        agree(report, real(space, given.job_run_id, monkeypatch), counted)
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
    asked = {
        "URLS_LIST": {"urls": urls},
        "SITEMAP": {"url": f"{site.url}/sitemap.xml", "maxLinks": 10},
        "WEBSITE": {"url": f"{site.url}/", "maxLinks": 10, "maxDepth": 2},
    }
    for source, config in asked.items():
        for unchanged in (False, True):
            counted = Counted(monkeypatch)
            seen = tried(space, source, config)
            report = seen.progress["report"]
            assert seen.name.startswith("127.0.0.1") or seen.name.startswith("localhost"), seen.name
            assert seen.source == source
            if source == "URLS_LIST":
                given = space.call(runs.accept_urls(space.db, space.scope, urls=urls, config={}, ingestion=Ingestion()))
                run = given.job_run_id
                space.work()
            else:
                run = crawl_request(space, source, **config)
                work(space)
            agree(report, real(space, run, monkeypatch), counted)
            assert bool(report["unchanged"]) == unchanged, source
            assert seen.outcome == space.run(run).outcome == "COMPLETED_WITH_FAILURES"
            (failed,) = [entry for entry in report["documents"] if entry["action"] == "FAILED"]
            assert failed["name"] == f"{site.url}/missing"
            assert "404" in failed["error"]
            assert failed["linkedFrom"] == (f"{site.url}/" if source == "WEBSITE" else None)
            created = [entry["name"] for entry in report["documents"] if entry["action"] == "CREATE"]
            assert len(created) == report["create"]


def work(space):
    lease = space.lease()
    for wanted in listings.pending_listings(space.db, lease):
        steps.discover(steps.Discovery(space.db, space.ring, lease, wanted))
    while windows := run_documents.list_windows(space.db, lease, documents=64, size=1 << 24):
        for window in windows:
            for step in STEPS:
                step(steps.Work(space.db, space.ring, lease, window))
                results.settle_runs(space.db, lease)
    batches.finish_batch(space.db, lease)


def test_one_that_cannot_look_says_why(space, site):
    site.pages = {}
    seen = tried(space, "SITEMAP", {"url": f"{site.url}/sitemap.xml"})
    assert seen.outcome == "FAILED"
    assert seen.notices[0].reason
    assert seen.progress.get("report") is None


@pytest.fixture(params=nightly_except(sorted(ACCOUNTS), "BOX", "NOTION"))
def account(request):
    with serving_account(request.param) as made:
        yield made


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
            seen = space.ingest()
            agree(report, real(space, seen.id, monkeypatch), counted)
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
        one = account.put("it.txt", "For Bob.")
        account.grant(one, "bob@example.com")
        space.ingest()
        account.grant(one)
        account.change(one, "Not for Bob.")
        assert report_of(space, "BOX", {}, connection_id=space.connection)["update"] == 1
        (row,) = db.rows("select access from documents where connection_id = %(id)s", {"id": space.connection})
        assert "bob@example.com" in row["access"]["users"]


def test_calls_of_a_vendor_are_counted_by_what_its_requests_hold(space, monkeypatch, tmp_path):
    """Three thousand tokens a request: not as many texts as a call could hold."""
    asked = []

    def ask(texts, kind):
        asked.append(texts)
        return [[1.0] + [0.0] * 255 for _ in texts], 0

    small = VendorEmbedder(
        provider="LOCAL",
        title="Small",
        model="wordllama-l2-supercat-256",
        dimensions=256,
        max_tokens=8191,
        limits=RequestLimits(texts=2048, tokens=3000),
        server=ServerLimits(tmp_path, "LOCAL", "", "small"),
        ask=ask,
        close=lambda: None,
    )
    monkeypatch.setattr(registry, "make_embedder", lambda config: small)
    text = "\n\n".join(LONG.replace("owl", f"{animal} owl") for animal in ("snowy", "tawny", "barn", "eagle", "scops"))
    report = report_of(space, "TEXT", {"externalId": "owls", "name": "Owls"}, content=text)
    assert not asked
    space.call(
        job_runs.accept_text(space.db, space.scope, text=text, name="Owls", external_id="owls", ingestion=Ingestion())
    )
    space.work()
    assert len(asked) > 2
    assert report["embeddingCalls"] == len(asked)


def partition(space):
    """The number of the scope's partition, which a first text has made."""
    space.call(
        job_runs.accept_text(space.db, space.scope, text="One.", name="one", external_id=None, ingestion=Ingestion())
    )
    return space.db.row(
        "select id from partitions where namespace_id = %(namespace)s", {"namespace": space.scope.namespace}
    )["id"]


class Many:
    """A source that lists more than is sampled; its documents differ in size, some cannot be had."""

    def __init__(self, number):
        self.items = [SourceItem(f"doc {n}", f"doc {n}.txt") for n in range(number)]

    @staticmethod
    def text(number):
        return "\n\n".join(f"Owl {number} hunts by river {part}." for part in range(1 + number * 7 % 40))

    def fetch(self, item, request, place):
        number = int(item.external_id.split()[1])
        if number % 20 == 0:
            raise Skippable("The file cannot be downloaded.")
        place.write_text(self.text(number))
        return RawContent(place, item.name, "text/plain", place.stat().st_size)


def test_a_large_listing_is_sampled_to_within_15_percent(space):
    number = 2 * SAMPLE_ITEMS + 300
    source, config = Many(number), JobConfig(Ingestion(), {}, dry_run="GOOGLE_DRIVE")
    lease = Lease("bat_1", 1, partition(space), "DRY_RUN", space.scope)
    trial = dry_run.Trial(lease, dry_runs.PendingDryRun("ijr_1", json.loads(config.dump()), None))
    estimator = Estimator(dry_run._make_tools(trial, space.config), lambda: None)
    estimator.add_items(source, source.items)
    report = estimator.report
    assert report.sampled
    have = [n for n in range(number) if n % 20]
    tokens = sum(map(len, estimator.tools.tokenizer.spans([source.text(n) for n in have])))
    assert report.create + report.failed == pytest.approx(number, rel=0.01)
    assert report.create == pytest.approx(len(have), rel=0.15)
    assert report.failed == pytest.approx(number - len(have), rel=0.15)
    assert report.tokens == pytest.approx(tokens, rel=0.15)
    assert report.chunks == pytest.approx(len(have), rel=0.15)


def test_a_dry_run_chooses_the_model_as_the_ingestion_would(space, monkeypatch):
    undecided = Configured(space.db, embeddingModelConfig={"provider": "LOCAL", "model": "auto"})
    watch(undecided, monkeypatch)
    german = "Die Katze sitzt auf dem Dach und sieht nach den Vögeln, die nicht mehr in der Nähe sind."
    request = {"externalId": "katze", "name": "Katze"}
    report = report_of(undecided, "TEXT", request, content=german)
    assert report["modelChoice"] == "multilingual-e5-small; first documents by language: de 1"
    tokens = dry_run.tokenizer_for("LOCAL", "multilingual-e5-small").spans([f"Katze\n\n{german}"])
    assert report["tokensToEmbed"] == len(tokens[0])
    assert undecided.config.embedding_model["model"] == "auto", "a dry run stores no choice"
