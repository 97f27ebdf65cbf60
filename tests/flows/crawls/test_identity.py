"""One page, one document: aliases by text, canonical addresses, and gate pages."""

from itertools import count
from urllib.parse import unquote

import pytest

from retrieval.filters import DocumentFilter
from retrieval.jobs import resync
from tests.connectors.web.test_web_client import serving
from tests.flows.crawling import crawl, names, reasons
from tests.flows.crawls.site import SENTENCES, answer, html, page

ANIMALS = [f"/animal-{number}" for number in range(len(SENTENCES))]


def animals(site, **fields):
    """Serve a start page with links to a page per sentence."""
    site.pages = {path: page(text, **fields) for path, text in zip(ANIMALS, SENTENCES, strict=True)}
    site.pages["/"] = page("All animals of the valley are described on these pages.", links=ANIMALS)


def paths(space, site, run):
    return sorted(name.removeprefix(site.url) for name in names(space, run))


def ingest(space, site):
    run = crawl(space, "WEBSITE", ingest=True, url=f"{site.url}/", maxDepth=5)
    assert reasons(space, run) == {}
    return run


def test_pages_of_one_text_are_one_document_though_each_answer_has_another_time(space, site):
    numbers = count()

    def served(text, tail):
        return lambda _: html(page(text, tail=tail.format(next(numbers))))

    clock, counter = "<p>It is now 12:03:{0:02}, 28 November</p>", "<div>Visitors: 1{0:03}</div>"
    site.pages = {
        "/": page("Everything about owls and bats.", links=["/owls", "/owls/", "/OWLS?view=a", "/bats", "/bats?p=1"]),
        "/owls": served(SENTENCES[0], clock),
        "/owls/": served(SENTENCES[0], clock),
        "/OWLS?view=a": served(SENTENCES[0], clock),
        "/bats": served(SENTENCES[1], counter),
        "/bats?p=1": served(SENTENCES[1], counter),
    }
    assert paths(space, site, ingest(space, site)) == ["/", "/bats", "/owls"]


def test_a_canonical_address_of_another_text_does_not_count(space, site):
    animals(site, head='<link rel="canonical" href="/">')
    assert paths(space, site, ingest(space, site)) == ["/", *ANIMALS]
    assert len(site.paths()) == len(set(site.paths()))


def test_a_canonical_address_of_the_same_text_is_the_one_that_is_kept(space, site):
    head = '<link rel="canonical" href="/owls">'
    variants = ["/owls/print", "/owls?view=print", "/owls?view=wide"]
    site.pages = dict.fromkeys([*variants, "/owls"], page(SENTENCES[0], head=head))
    site.pages["/"] = page("Everything about owls.", links=variants)
    run = ingest(space, site)
    assert paths(space, site, run) == ["/", "/owls"]
    assert sorted(site.paths()) == sorted(site.pages)


def test_a_session_in_each_link_makes_no_further_documents(space, site):
    sessions = count()

    def served(path, headers):
        site.calls.append((path, headers))
        name = path.partition("?")[0]
        if name not in texts:
            return answer(status="404 Not Found")
        links = [f"{link}?sid={next(sessions)}" for link in texts]
        return html(page(texts[name], title=name, links=links))

    texts = dict(zip(["/", *ANIMALS[:5]], SENTENCES, strict=True))
    site.play = served
    with serving(served) as server:
        run = crawl(space, "WEBSITE", url=f"{server.url}/", maxDepth=5)
    assert sorted(name.partition("?")[0].removeprefix(server.url) for name in names(space, run)) == sorted(texts)
    assert len(site.paths()) < 25


def test_pages_behind_a_sign_in_are_none_and_are_counted(space, site):
    animals(site)
    private = [f"/private/{number}" for number in range(6)]
    site.pages["/"] = page("All animals of the valley are described here.", links=[*ANIMALS, *private])
    form = '<form action="/login"><input name="user"><input type="password" name="secret"><button>Go</button></form>'
    login = page("Please enter your name to go on.", title="Sign in", tail=form)
    for path in private:
        site.pages[path] = answer(status="302 Found", location=f"/login?next={path}")
        site.pages[f"/login?next={path}"] = login
    run = ingest(space, site)
    assert paths(space, site, run) == ["/", *ANIMALS]
    (notice,) = space.run(run).notices
    assert notice.reason.startswith("6 pages ask for a sign-in")
    assert notice.count == 6


def test_addresses_with_the_page_for_missing_ones_are_none_and_are_counted(space, site):
    dead = ["/old/a", "/old/b.html", "/shop?item=7"]

    def served(path, headers):
        site.calls.append((path, headers))
        known_page = site.pages.get(path)
        return html(known_page or page(f"There is nothing at {path}. Look at our start page.", title="Page not found"))

    animals(site)
    site.pages["/"] = page("All animals of the valley are described here.", links=[*ANIMALS, *dead])
    with serving(served) as server:
        run = crawl(space, "WEBSITE", ingest=True, url=f"{server.url}/")
    assert sorted(name.removeprefix(server.url) for name in names(space, run)) == ["/", *ANIMALS]
    (notice,) = space.run(run).notices
    assert notice.reason.startswith("3 addresses lead to the site's page for missing pages")


def test_a_page_is_found_by_each_of_its_addresses(space, site):
    spellings = ["/owls", "/owls/", "/old-owls"]
    site.pages = {
        "/": page("Everything about owls.", links=spellings),
        "/owls": page(SENTENCES[0]),
        "/owls/": page(SENTENCES[0]),
        "/old-owls": answer(status="301 Moved", location="/owls"),
    }
    ingest(space, site)
    for path in spellings:
        page_filter = DocumentFilter(external_ids=(f"{site.url}{path}",))
        matches = space.call(resync.start_resync(space.db, space.scope, page_filter, dry_run=True))
        assert len(matches.documents) == 1


def test_parameters_that_name_the_same_page_once_and_another_one_later_stay(space, site):
    names, values = "abcd", ("1", "2", "3")
    site.pages = {
        f"/{name}?part={value}": page(f"Part {value} of the news of {name}: {name * 6}", title="News")
        for name in names
        for value in values
    }
    site.pages |= {f"/{name}": site.pages[f"/{name}?part=1"] for name in names}
    links = [f"/{name}?part={value}" for value in values for name in names]
    site.pages["/"] = page("All news.", links=[*(f"/{name}" for name in names), *links])
    run = ingest(space, site)
    texts = {site.pages[path] for path in paths(space, site, run)}
    assert texts == set(site.pages.values())
    assert len(paths(space, site, run)) == len(texts)


LONG = "The valley lies between two rivers and is known for its birds, its orchards and its old mills. " * 8
EMAIL_FORM = '<form action="/login"><input type="email" name="user"></form>'


def crawl_with_gates(space, site, paths, serve_gate):
    """Crawl a site whose `paths` lead to gates; return the ingested paths and the notices."""

    def served(path, headers):
        site.calls.append((path, headers))
        known = site.pages.get(path)
        answered = known or ("" if path == "/robots.txt" else serve_gate(path))
        return answered if isinstance(answered, list) else html(answered)

    animals(site)
    site.pages["/"] = page("All animals of the valley are described here.", links=[*ANIMALS, *paths])
    with serving(served) as server:
        run = crawl(space, "WEBSITE", ingest=True, url=f"{server.url}/")
    ingested = {name.removeprefix(server.url) for name in names(space, run)}
    assert ingested >= {"/", *ANIMALS}
    return ingested - {"/", *ANIMALS}, "".join(notice.reason for notice in space.run(run).notices)


@pytest.mark.parametrize(
    "serve_gate",
    [
        lambda path: page(f"Please log in to view {path}.", title="Log in", tail=EMAIL_FORM),
        lambda path: page(f"{LONG} Next: {path}", title=f"Sign in to read {path}", tail=EMAIL_FORM),
        lambda path: (
            answer(status="302 Found", location=f"/sso/{len(path)}?return={path}")
            if path.startswith("/private")
            else page(f"You need to sign in to continue to {path.partition('=')[2]}.", title="Members area")
        ),
    ],
)
def test_a_sign_in_that_repeats_the_address_is_one_document_at_most(space, site, serve_gate):
    paths = [f"/private/{name}" for name in ("owls", "bats", "mice", "frogs")]
    gates, notices = crawl_with_gates(space, site, paths, serve_gate)
    assert len(gates) <= 1
    assert "for a sign-in" in notices


@pytest.mark.parametrize(
    "serve_gate",
    [
        lambda path: page(f"Oops! We could not find {unquote(path).upper()}.", title="Oops"),
        lambda path: page(f"Try another page. {LONG} {path}", title="404 - Page not found"),
    ],
)
def test_an_error_page_that_repeats_the_address_is_one_document_at_most(space, site, serve_gate):
    gates, notices = crawl_with_gates(space, site, ["/a%20c", "/x.php?id=seven", "/Gr%C3%B6n", "/old"], serve_gate)
    assert len(gates) <= 1
    assert "page for missing pages" in notices
