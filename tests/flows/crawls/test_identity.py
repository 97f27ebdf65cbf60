"""One page, one document: aliases by text, canonical addresses, and gate pages."""

from itertools import count

from retrieval.filters import DocumentFilter
from retrieval.jobs import resync
from tests.flows.crawling import crawl, names, reasons
from tests.flows.crawls import test_url_list as lists
from tests.flows.crawls.test_url_list import answer, html

allowed, site, space = lists.allowed, lists.site, lists.space
SENTENCES = (
    "Owls hunt mice at night over the fields near the river.",
    "Bats hunt moths in the dark over the ponds of the park.",
    "Seals dive for fish in the cold water of the northern sea.",
    "Herons stand in the shallow water and wait for frogs.",
    "Foxes follow the hedges and listen for voles in the snow.",
    "Storks build their nests on the chimneys of the old town.",
)
ANIMALS = [f"/animal-{number}" for number in range(len(SENTENCES))]


def page(text, title="Animals", links=(), head="", tail=""):
    anchors = "".join(f'<a href="{link}">Read more</a>' for link in links)
    body = f"<h1>{title}</h1><p>{text}</p>{anchors}{tail}"
    return f"<html><head><title>{title}</title>{head}</head><body>{body}</body></html>"


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


def test_pages_that_differ_by_a_time_in_their_text_stay(space, site):
    times = ["/trains?at=10", "/trains?at=11"]
    site.pages = {"/": page("All trains that leave from this station today.", links=times)}
    for path in times:
        site.pages[path] = page(f"The train to the coast leaves at {path[-2:]}:15.", title="Trains")
    assert paths(space, site, ingest(space, site)) == ["/", *times]


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
        site.asked.append((path, headers))
        name = path.partition("?")[0]
        if name not in texts:
            return answer(status="404 Not Found")
        links = [f"{link}?sid={next(sessions)}" for link in texts]
        return html(page(texts[name], title=name, links=links))

    texts = dict(zip(["/", *ANIMALS[:5]], SENTENCES, strict=True))
    site.play = served
    with lists.serving(served) as server:
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
        site.asked.append((path, headers))
        known_page = site.pages.get(path)
        return html(known_page or page(f"There is nothing at {path}. Look at our start page.", title="Page not found"))

    animals(site)
    site.pages["/"] = page("All animals of the valley are described here.", links=[*ANIMALS, *dead])
    with lists.serving(served) as server:
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
