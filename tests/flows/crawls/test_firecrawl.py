"""Scraping services with the three web sources: limits, errors, deaths, cancellations."""

import json

import pytest

from connectors.http import retries
from connectors.web.firecrawl import site as firecrawl_site
from flows import steps
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.ingestion import discover
from tests import registry_instances
from tests.connectors.web.test_web_client import serving
from tests.flows.configured import Configured
from tests.flows.crawling import accept, crawl, killed_after_pages, listing, names, reasons, watch_pages
from tests.flows.crawls.site import TREE, Site, answer, forget_settings
from tests.standins import crawl4ai, faults, firecrawl, jina_reader, scrapingbee
from tests.standins.scraped import Seen

WORDS = "SECRET VENDOR WORDS"
# A public address, served by the stand-in only.
SITE = "https://93.184.216.34"


def page(path, links, head="", words=""):
    anchors = "".join(f'<a href="{link}">{link}</a>' for link in links)
    body = f"<body><main><p>This is {path}. {words}</p>{anchors}</main></body>"
    return Seen(f'<html lang="en"><head><title>{path}</title>{head}</head>{body}</html>')


def web(tree=TREE, site=SITE):
    return {site + path: page(path, links) for path, links in tree.items()}


def forget():
    registry_instances.close_instances()
    forget_settings()


@pytest.fixture
def at(monkeypatch):
    """Point the service to its stand-in."""
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(firecrawl_site, "POLL", 0.01)
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.1/32")
    monkeypatch.setenv("RETRIEVAL_FETCH_HOST_DELAY", "0")
    monkeypatch.setenv("RETRIEVAL_FETCH_ROBOTS", "false")

    def at(name, vendor):
        monkeypatch.setenv("RETRIEVAL_ENDPOINTS", json.dumps({name: {"base_url": vendor.base_url}}))
        forget()

    yield at
    forget()


@pytest.fixture
def crawler(at):
    with firecrawl.running(web=web()) as server:
        at("FIRECRAWL", server)
        yield server


@pytest.fixture
def space(db, crawler):
    return Configured(db, webScraperConfig={"provider": "FIRECRAWL", "apiKey": crawler.key})


def paths(space, run, site=SITE):
    return sorted(name.removeprefix(site) for name in names(space, run))


def failed(space, run):
    return {name.removeprefix(SITE): error for name, error in reasons(space, run).items()}


@pytest.mark.parametrize("obedient", [True, False])
@pytest.mark.parametrize(
    ("config", "expected_paths"),
    [
        ({"maxDepth": 1}, ["/", "/a/1", "/b/1", "/c"]),
        ({"maxDepth": 2}, ["/", "/a/1", "/a/2", "/a/4", "/b/1", "/c"]),
        ({"maxDepth": 5}, ["/", "/a/1", "/a/2", "/a/3", "/a/4", "/b/1", "/c"]),
        ({"maxDepth": 5, "includePaths": ["/a/"]}, ["/a/1", "/a/2", "/a/3"]),
        ({"maxDepth": 5, "excludePaths": ["/a/2"]}, ["/", "/a/1", "/a/4", "/b/1", "/c"]),
        ({"maxDepth": 5, "excludePaths": ["93.184+", "(", "/a/2"]}, ["/", "/a/1", "/a/4", "/b/1", "/c"]),
    ],
)
def test_the_same_request_gives_the_same_pages_whoever_walks(space, crawler, config, expected_paths, obedient):
    """Includes a service with ignored limits."""
    crawler.obedient = obedient
    if not obedient:
        crawler.web["http://elsewhere.example/"] = page("elsewhere", [])
    run = crawl(space, "WEBSITE", url=f"{SITE}/", **config)
    assert paths(space, run) == expected_paths
    assert failed(space, run) == {}
    assert crawler.starts() == 1


def test_a_walked_site_is_found_with_what_its_pages_say_of_themselves(space, crawler):
    head = '<meta name="description" content="About the sea">'
    crawler.web[f"{SITE}/c"] = page("/c", [], head, words="Owls hunt mice at night.")
    run = crawl(space, "WEBSITE", ingest=True, url=f"{SITE}/")
    assert space.search("owls and mice")[0] == f"{SITE}/c"
    done = space.run(run)
    assert done.status == "COMPLETED"
    assert (done.progress["found"], done.progress["fetched"], done.progress["failed"]) == (7, 7, 0)
    row = space.db.row(
        "select properties from documents where external_id = %(id)s order by created_at desc limit 1",
        {"id": f"{SITE}/c"},
    )
    assert row["properties"].items() >= {"language": "en", "description": "About the sea"}.items()
    recrawl = crawl(space, "WEBSITE", ingest=True, url=f"{SITE}/")
    assert space.run(recrawl).progress["embedded"] == 0


def test_pages_that_could_not_be_read_say_why_and_others_are_counted(space, crawler):
    crawler.web |= {
        f"{SITE}/": page("/", ["/gone", "/slow", "/secret", "/away", "/hidden", "/fine", "/twin"]),
        f"{SITE}/away": Seen(page("/away", []).html, final="http://elsewhere.example/x"),
        f"{SITE}/hidden": page("/hidden", [], '<meta name="robots" content="noindex">'),
        f"{SITE}/fine": page("/fine", []),
        f"{SITE}/twin": page("/fine", []),
    }
    crawler.broken = {f"{SITE}/slow": "SCRAPE_TIMEOUT"}
    crawler.blocked = [f"{SITE}/secret"]
    run = crawl(space, "WEBSITE", url=f"{SITE}/")
    assert paths(space, run) == ["/", "/fine"]
    errors = failed(space, run)
    assert sorted(errors) == ["/away", "/gone", "/slow"]
    assert "404" in errors["/gone"]
    assert "in time" in errors["/slow"]
    assert "another host" in errors["/away"]
    assert WORDS not in str(errors)
    assert sorted(space.run(run).progress["skippedReasons"].values()) == [1, 1, 1]


def test_a_start_that_leads_to_a_private_address_is_not_taken(space, crawler):
    crawler.web = {f"{SITE}/": Seen(page("/", []).html, final="http://169.254.169.254/")}
    run = crawl(space, "WEBSITE", url=f"{SITE}/")
    assert names(space, run) == []
    assert "metadata" in failed(space, run)["/"]


def test_a_private_start_is_never_told_to_the_service(space, crawler):
    accept(space, "WEBSITE", url="http://10.0.0.1/")
    with pytest.raises(Skippable, match="public internet"):
        steps.discover(listing(space))
    assert crawler.calls == []


def test_an_account_without_credit_and_a_refused_key_end_the_run_with_the_reason(space, crawler):
    crawler.credits = 0
    run = accept(space, "WEBSITE", url=f"{SITE}/")
    discovery = listing(space)
    with pytest.raises(Fatal, match="no credit left") as caught:
        steps.discover(discovery)
    assert WORDS not in str(caught.value)
    assert crawler.starts() == 1
    discover.fail_listing(space.db, discovery.lease, discovery.listing, str(caught.value))
    assert "no credit left" in "".join(reasons(space, run).values())
    crawler.always.append(faults.status(401, WORDS))
    accept(space, "WEBSITE", url=f"{SITE}/")
    with pytest.raises(Fatal, match="refuses the key"):
        steps.discover(discovery_of_the_last(space))


def discovery_of_the_last(space):
    quiet_batches = "update batches set finished_at = now() where finished_at is null"
    space.db.rows(quiet_batches)
    space.db.rows("update job_runs set finished_at = now() where batch_id is not null and finished_at is null")
    return listing(space)


def endless(crawler, pages):
    crawler.web = web({f"/p{number}": [f"/p{number + 1}"] for number in range(pages)})
    crawler.endless, crawler.obedient = True, False


def test_a_crawl_that_never_ends_is_ended_at_maxlinks(space, crawler):
    endless(crawler, 200)
    crawler.step = crawler.most = 7
    run = crawl(space, "WEBSITE", url=f"{SITE}/p0", maxDepth=5, maxLinks=5)
    assert len(paths(space, run)) == 5
    assert crawler.given_up == ["crawl-1"]
    assert sum(space.run(run).progress["skippedReasons"].values()) > 0
    assert crawler.calls[0][2]["limit"] == 5


@pytest.mark.parametrize("bound", ["seconds", "silence"])
def test_a_crawl_that_never_ends_is_ended_in_time_and_the_run_says_so(space, crawler, monkeypatch, bound):
    crawler.endless = True
    if bound == "silence":
        monkeypatch.setattr(firecrawl_site, "SILENCE", 2.0)
    else:
        monkeypatch.setenv("RETRIEVAL_CRAWL_SECONDS", "2")
        forget()
    run = crawl(space, "WEBSITE", ingest=True, url=f"{SITE}/", maxDepth=5)
    assert len(paths(space, run)) == 7
    assert crawler.given_up == ["crawl-1"]
    assert "had not ended the crawl" in failed(space, run)["/"]
    done = space.run(run)
    assert (done.status, len(done.completed), len(done.failed)) == ("COMPLETED", 7, 1)


def test_a_worker_that_dies_is_followed_by_one_that_pays_nothing_twice(space, crawler):
    run = accept(space, "WEBSITE", url=f"{SITE}/", maxDepth=5)
    discovery = listing(space)
    with killed_after_pages(2):
        steps.discover(discovery)
    paths_before = paths(space, run)
    assert len(paths_before) < 7
    assert crawler.given_up == []
    steps.discover(discovery)
    assert paths(space, run) == sorted(TREE)
    assert failed(space, run) == {}
    assert space.run(run).progress["skippedReasons"] == {}
    assert crawler.starts() == 1


def test_a_cancelled_job_run_ends_the_crawl_at_the_service(space, crawler):
    endless(crawler, 200)
    run = accept(space, "WEBSITE", url=f"{SITE}/p0", maxDepth=5, maxLinks=1000)
    cancel = "update job_runs set cancel_requested = true where id = %(run)s"
    discovery = listing(space)
    with watch_pages(after=lambda job_run: space.db.rows(cancel, {"run": job_run})):
        steps.discover(discovery)
    assert crawler.given_up == ["crawl-1"]
    space.take(discovery.lease)
    assert space.run(run).status == "COMPLETED"


def test_the_key_is_nowhere_in_the_clear(space, crawler, caplog):
    run = crawl(space, "WEBSITE", ingest=True, url=f"{SITE}/")
    assert len(space.run(run).completed) == 7
    assert crawler.key not in caplog.text
    for table in ("namespaces", "jobs", "job_runs", "documents", "run_documents", "crawl_pages"):
        assert crawler.key not in str(space.db.rows(f"select to_jsonb(t) - 'secrets' as row from {table} t")), table


SERVICES = {
    "FIRECRAWL": ("FIRECRAWL", firecrawl),
    "JINA": ("JINA_READER", jina_reader),
    "SCRAPINGBEE": ("SCRAPINGBEE", scrapingbee),
    # Servers of one's own, by the API that they have.
    "OWN FIRECRAWL": ("", firecrawl),
    "OWN CRAWL4AI": ("", crawl4ai),
}


@pytest.fixture(params=sorted(SERVICES))
def service(request, at, db):
    """Each service with its namespace."""
    endpoint, standin = SERVICES[request.param]
    with standin.running() as server:
        at(endpoint or "FIRECRAWL", server)
        server.name = request.param.removeprefix("OWN ")
        config = {"provider": request.param, "apiKey": server.key}
        if not endpoint:
            config |= {"provider": "ENDPOINT", "url": server.base_url, "api": server.name}
        server.space = Configured(db, webScraperConfig=config)
        yield server


@pytest.fixture
def site(at, monkeypatch):
    """Site with robots.txt and a sitemap; only the services see its pages."""
    monkeypatch.setenv("RETRIEVAL_FETCH_ROBOTS", "true")
    forget()
    site = Site()
    with serving(site.play) as server:
        site.url = server.url
        yield site


def test_a_busy_service_delays_a_walk_and_loses_nothing(service, site):
    service.web = web(site=site.url)
    site.pages = {"/robots.txt": answer(b"", content_type="text/plain")}
    service.faults += [faults.status(429, WORDS, Retry_After="0.2"), faults.reset, faults.status(429, WORDS)]
    run = accept(service.space, "WEBSITE", url=f"{site.url}/", maxDepth=5)
    discovery = listing(service.space)
    for _ in range(2):
        try:
            steps.discover(discovery)
            break
        except Retryable:
            continue
    assert len(names(service.space, run)) == 7
