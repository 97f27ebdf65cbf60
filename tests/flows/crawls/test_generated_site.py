"""A generated site with the traps of real ones: what four crawls ingest, request and remove."""

import hashlib
from collections import Counter
from itertools import count
from urllib.parse import quote

import pytest

from tests.connectors.web.test_web_client import serving
from tests.flows.crawling import crawl
from tests.flows.crawls.site import answer, html, page, urlset, xml

FORM = '<form><input name="user"><input type="password" name="secret"></form>'
GONE, MISSING = answer(status="410 Gone"), answer(status="404 Not Found")
BY_WORDS = {"semantic_weight": 0.0, "keyword_weight": 1.0}
# Spellings of an article's address that do not make a page of their own.
SPELLINGS = (
    "{}?utm_source=news",
    "{};jsessionid=1A2B",
    "{}?gclid=3",
    "{}/print",
    "{}?view=wide",
    "{}#part",
    "/x/..{}",
    "{}?sid=0a1b2c3d4e5f6071",
)
# One article of this number is linked by no page, but named in the sitemap of robots.txt.
LISTED_SHARE = 7


class GeneratedSite:
    """Articles by path, in sections of ten; each names the start page as its canonical address."""

    def __init__(self, articles):
        self.texts = {}
        for number in range(articles):
            path = quote(f"/articles/größe-{number}") if number % 10 == 3 else f"/articles/{number}"
            self.texts[path] = f"Article {number} describes species {number * 7919} of the valley."
        self.listed = [path for number, path in enumerate(self.texts) if number % LISTED_SHARE == 5]
        self.unlinked = set(self.listed)
        self.answers = {}
        self.error_pages = set()
        self.requests = []
        self.answered = count()
        self.url = ""

    def spellings(self, path):
        number = int(hashlib.sha256(path.encode()).hexdigest(), 16)
        special = [path.lower(), path.replace("gr", "%67r")] if "%" in path else []
        return [path, SPELLINGS[number % len(SPELLINGS)].format(path), *special]

    def sections(self):
        return [f"/sections/{number}" for number in range(-(-len(self.texts) // 10))]

    def answer(self, request, headers):
        self.requests.append((request, headers))
        path = request.partition("?")[0].partition(";")[0].removesuffix("/print")
        if path in self.answers:
            return self.answers[path]
        if path == "/":
            return self.start(headers)
        if path in self.texts and path not in self.error_pages:
            return self.article(request, path, headers)
        return self.section(path) if path in self.sections() else self.gate(request, path)

    def start(self, headers):
        """Set a cookie, then lead on by `meta refresh`."""
        if "seen=1" not in headers.get("cookie", ""):
            return answer(status="302 Found", location="/", set_cookie="seen=1")
        return html('<html><head><meta http-equiv="refresh" content="0; url=/home"></head><body></body></html>')

    def section(self, path):
        number = self.sections().index(path)
        names = [name for name in list(self.texts)[number * 10 :][:10] if name not in self.unlinked]
        links = [spelling for name in names for spelling in self.spellings(name)]
        return html(page(f"Section {number} of the valley.", title=path, links=links))

    def gate(self, request, path):
        if path == "/home":
            links = [
                *self.sections(),
                *(f"/{kind}/{number}" for kind in ("members", "staff", "dead") for number in "12"),
            ]
            return html(page("All sections of the valley.", links=links))
        if path == "/robots.txt":
            return answer(f"Sitemap: {self.url}/sitemap.xml".encode(), content_type="text/plain")
        if path == "/sitemap.xml":
            return xml(urlset(*((f"{self.url}{listed}", "") for listed in self.listed)))
        if path.startswith("/members/"):
            return answer(status="302 Found", location=f"/login?next={path}")
        if path.startswith(("/login", "/staff/")):
            return html(page(f"Enter your name to read {request}.", title="Sign in", tail=FORM))
        return html(page(f"There is nothing at {request}.", title="Page not found"))

    def article(self, request, path, headers):
        mark = f'"{hashlib.sha256((request + self.texts[path]).encode()).hexdigest()[:12]}"'
        if headers.get("if-none-match") == mark:
            return answer(status="304 Not Modified")
        head, tail = '<link rel="canonical" href="/">', f"<footer>12:00:{next(self.answered) % 60:02}</footer>"
        return html(page(self.texts[path], title=path, head=head, tail=tail), etag=mark)

    def pages(self):
        return {"/home", *self.sections(), *self.texts}


# Changes of each kind: 1 of 30 articles, 4 of 280.
@pytest.mark.parametrize("articles", [30, pytest.param(280, marks=pytest.mark.slow)])
def test_crawls_of_a_site_with_traps(space, allowed, articles):
    generated = GeneratedSite(articles)
    with serving(generated.answer) as server:
        generated.url = server.url

        def ingest():
            """Crawl the site; return the run and the paths of all documents."""
            generated.requests.clear()
            config = {"maxDepth": 3, "maxLinks": 1000}
            run = space.run(crawl(space, "WEBSITE", ingest=True, url=f"{server.url}/", **config))
            rows = space.db.rows(
                "select d.external_id from documents d join partitions p on p.id = d.partition_id"
                " where p.namespace_id = %(id)s and d.deleted_at is null",
                {"id": space.scope.namespace},
            )
            return run, sorted(row["external_id"].removeprefix(server.url) for row in rows)

        assert ingest()[1] == sorted(generated.pages())
        run, paths = ingest()
        assert (paths, run.progress["removed"]) == (sorted(generated.pages()), 0)
        times = Counter(path for path, _ in generated.requests if path != "/")
        assert max(times.values()) == 1
        assert {path for path, headers in generated.requests if "if-none-match" in headers} >= set(generated.texts)

        changes = max(1, articles // 70)
        linked = [path for path in generated.texts if path not in generated.unlinked]
        kinds = [linked[start * changes :][:changes] for start in range(6)]
        gone, missing, moved, edited, unlinked, failing = kinds
        generated.answers |= dict.fromkeys(gone, GONE) | dict.fromkeys(missing, MISSING)
        generated.error_pages.update(failing)
        generated.unlinked.update(unlinked)
        for number, path in enumerate(moved):
            target = f"/articles/{9000 + number}"
            generated.answers[path] = answer(status="301 Moved", location=target)
            generated.texts[target] = generated.texts[path]
        for number, path in enumerate(edited):
            generated.texts[path] = f"Heron number {number} stands in the shallow water."
            generated.texts[f"/articles/{9100 + number}"] = f"This article is new: {number * 104729}."
        run, paths = ingest()
        left = {*gone, *moved}
        assert (set(paths), run.progress["removed"]) == (generated.pages() - left, len(left))
        found = space.search("heron shallow water", **BY_WORDS)
        assert set(found[:changes]) == {f"{server.url}{path}" for path in edited}
        run, paths = ingest()
        confirmed = {*missing, *unlinked, *failing}
        assert (set(paths), run.progress["removed"]) == (generated.pages() - left - confirmed, len(confirmed))
