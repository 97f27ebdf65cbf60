"""Websites on loopback: limits, exclusions, and deaths during crawls."""

import pytest

from flows import steps
from retrieval.ingestion.queries import frontier
from retrieval.maintenance import garbage
from retrieval.network.page_identity import page_key
from tests.flows.crawling import accept, crawl, killed_after_pages, listing, names, reasons, watch_pages
from tests.flows.crawls.site import TREE, answer, grow, linked, wide


def paths(space, site, run):
    return [name.removeprefix(site.url) for name in names(space, run)]


@pytest.mark.parametrize(
    ("config", "expected_paths"),
    [
        ({"maxDepth": 1}, ["/", "/a/1", "/b/1", "/c"]),
        ({"maxDepth": 2}, ["/", "/a/1", "/b/1", "/c", "/a/2", "/a/4"]),
        ({"maxDepth": 5}, ["/", "/a/1", "/b/1", "/c", "/a/2", "/a/4", "/a/3"]),
        ({"maxDepth": 5, "maxLinks": 5}, ["/", "/a/1", "/b/1", "/c", "/a/2"]),
        ({"maxDepth": 5, "includePaths": ["/a/"]}, ["/a/1", "/a/2", "/a/3"]),
        ({"maxDepth": 5, "excludePaths": ["/a/2"]}, ["/", "/a/1", "/b/1", "/c", "/a/4"]),
        ({"maxDepth": 5, "includePaths": ["/a/"], "excludePaths": ["/a/3"]}, ["/a/1", "/a/2"]),
    ],
)
def test_depth_links_and_paths_decide_what_is_kept(space, site, config, expected_paths):
    grow(site)
    run = crawl(space, "WEBSITE", url=f"{site.url}/", **config)
    assert paths(space, site, run) == expected_paths
    assert len(site.paths()) == len(set(site.paths()))
    assert reasons(space, run) == {}


def test_a_crawled_page_is_found_and_was_fetched_once(space, site):
    grow(site)
    site.pages["/c"] = linked("/c", []).replace("This is /c.", "Owls hunt mice at night.")
    run = crawl(space, "WEBSITE", ingest=True, url=f"{site.url}/")
    assert space.search("owls and mice")[0] == f"{site.url}/c"
    assert sorted(site.paths()) == sorted(TREE)
    done = space.run(run)
    assert done.status == "COMPLETED"
    assert (done.progress["found"], done.progress["fetched"], done.progress["failed"]) == (7, 7, 0)


def test_robots_and_meta_tags_bind_a_crawl(space, site):
    site.pages = {
        "/robots.txt": answer(b"User-agent: *\nDisallow: /private\n", content_type="text/plain"),
        "/": linked("/", ["/private/x", "/hidden", "/open", "/jump"]),
        "/hidden": linked("/hidden", ["/behind"], '<meta name="robots" content="noindex">'),
        "/behind": linked("/behind", []),
        "/open": linked("/open", []),
        "/jump": answer(status="302 Found", location="/private/y"),
    }
    run = crawl(space, "WEBSITE", url=f"{site.url}/")
    assert sorted(paths(space, site, run)) == ["/", "/behind", "/open"]
    assert not [path for path in site.paths() if path.startswith("/private")]
    assert sorted(space.run(run).progress["skippedReasons"].values()) == [1, 2]


def test_pages_that_cannot_be_had_say_why_beside_the_others(space, site):
    site.pages = {
        "/": linked("/", ["/gone", "/away", "/fine"]),
        "/away": answer(status="302 Found", location="http://elsewhere.example/x"),
        "/fine": linked("/fine", []),
    }
    run = crawl(space, "WEBSITE", url=f"{site.url}/")
    assert paths(space, site, run) == ["/", "/fine"]
    assert {name.removeprefix(site.url): "404" in error for name, error in reasons(space, run).items()} == {
        "/gone": True,
        "/away": False,
    }
    assert {entry.linked_from for entry in space.run(run).failed} == {f"{site.url}/"}


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://Example.ORG", "http://example.org/"),
        ("HTTP://example.org:80/A?b=C#d", "http://example.org/A?b=C"),
        ("https://example.org:443/", "https://example.org/"),
        ("https://example.org:80/", "https://example.org:80/"),
        ("http://[::FFFF]:80/", "http://[::ffff]/"),
        ("http://example.org:/x", "http://example.org/x"),
        ("http://größe.example./", "http://xn--gre-6ka8i.example/"),
        ("http://example.org/größe", "http://example.org/gr%C3%B6%C3%9Fe"),
        ("http://example.org/%67r%c3%b6%c3%9fe", "http://example.org/gr%C3%B6%C3%9Fe"),
        ("http://example.org/a/%2E%2e/b/./", "http://example.org/b/"),
        ("http://example.org/a%2fb|c", "http://example.org/a%2Fb%7Cc"),
        ("http://example.org/?b=2&a=%7e1&a=0", "http://example.org/?a=~1&a=0&b=2"),
        ("http://example.org/a;jsessionid=1A2B.node1/b;v=1", "http://example.org/a/b;v=1"),
        ("http://example.org/(S(lit3py55t21z5v55vlm25s55))/a", "http://example.org/a"),
        ("http://example.org/?PHPSESSID=x&id=1&sid=9f3c2ab81d", "http://example.org/?id=1"),
        ("http://example.org/?sid=12&session=spring", "http://example.org/?session=spring&sid=12"),
        ("http://example.org/?utm_source=a&UTM_Medium=b&gclid=c&fbclid=d", "http://example.org/"),
        ("http://example.org/?ref=main&source=press", "http://example.org/?ref=main&source=press"),
    ],
)
def test_one_page_has_one_spelling(url, key):
    assert page_key(url) == page_key(key) == key


def test_a_crawl_that_dies_goes_on_without_fetching_again_what_it_has(space, site):
    everything = wide(site, 120)
    run = accept(space, "WEBSITE", url=f"{site.url}/p0", maxDepth=5, maxLinks=500)
    discovery = listing(space)
    with killed_after_pages(2):
        steps.discover(discovery)
    paths_before = set(paths(space, site, run))
    assert 10 < len(paths_before) < len(everything)
    requests_before = len(site.paths())
    steps.discover(discovery)
    assert set(paths(space, site, run)) == everything
    assert not paths_before & set(site.paths()[requests_before:])
    space.db.rows("update job_runs set finished_at = now() where id = %(run)s", {"run": run})
    garbage.delete_expired(space.db)
    assert frontier.load_frontier(space.db, run) == []


def test_a_cancelled_crawl_stops_asking(space, site):
    everything = wide(site, 120)
    run = accept(space, "WEBSITE", url=f"{site.url}/p0", maxDepth=5, maxLinks=500)
    cancel = "update job_runs set cancel_requested = true where id = %(run)s"
    discovery = listing(space)
    with watch_pages(after=lambda job_run: space.db.rows(cancel, {"run": job_run})):
        steps.discover(discovery)
    assert 0 < len(site.paths()) < len(everything)
    space.take(discovery.lease)
    cancelled_run = space.run(run)
    assert cancelled_run.status == "COMPLETED"
    assert len(cancelled_run.cancelled) == len(names(space, run))
