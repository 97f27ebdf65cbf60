"""A generated site with the traps of real ones: what three crawls ingest, request and remove."""

import hashlib
from collections import Counter

import pytest

from tests.flows.crawling import crawl
from tests.flows.crawls import test_url_list as lists
from tests.flows.crawls.test_identity import page
from tests.flows.crawls.test_url_list import answer, html

allowed, site, space = lists.allowed, lists.site, lists.space
FORM = '<form><input name="user"><input type="password" name="secret"></form>'


class GeneratedSite:
    """Articles by number. Each is linked by several spellings and names the start page as its canonical address."""

    def __init__(self, articles):
        text = "Article {} describes species {} of the valley."
        self.texts = {f"/articles/{number}": text.format(number, number * 7919) for number in range(articles)}
        self.unlinked = set()
        self.answers = {}
        self.requests = []

    def spellings(self, path):
        number = int(path.rpartition("/")[2])
        forms = ("{}", "{}?utm_source=news", "{};jsessionid=1A2B", "{}?gclid=3", "{}/print")
        return [path, forms[number % len(forms)].format(path)]

    def play(self, path, headers):
        self.requests.append((path, headers))
        if path in self.answers:
            return self.answers[path]
        name = path.removesuffix("/print")
        if path == "/":
            links = [f"/sections/{n}" for n in range(len(self.texts) // 10 + 1)]
            return html(page("All sections of the valley.", links=[*links, "/members/1", "/members/2", "/dead/1"]))
        if path.startswith("/sections/"):
            number = int(path.rpartition("/")[2])
            names = [name for name in list(self.texts)[number * 10 :][:10] if name not in self.unlinked]
            links = [link for name in names for link in self.spellings(name)]
            return html(page(f"Section {number} of the valley.", title=path, links=links))
        return self.gate(path) if name not in self.texts else self.article(path, name, headers)

    def gate(self, path):
        if path == "/robots.txt":
            return answer(status="404 Not Found")
        if path.startswith("/members/"):
            return answer(status="302 Found", location=f"/login?next={path}")
        if path.startswith("/login"):
            return html(page("Enter your name.", title="Sign in", tail=FORM))
        return html(page(f"There is nothing at {path}.", title="Page not found"))

    def article(self, path, name, headers):
        mark = f'"{hashlib.sha256((path + self.texts[name]).encode()).hexdigest()[:12]}"'
        if headers.get("if-none-match") == mark:
            return answer(status="304 Not Modified")
        head, tail = '<link rel="canonical" href="/">', f"<footer>12:00:{len(self.requests) % 60:02}</footer>"
        return html(page(self.texts[name], title=name, head=head, tail=tail), etag=mark)

    def pages(self):
        sections = {f"/sections/{n}" for n in range(len(self.texts) // 10 + 1)}
        return {"/", *sections, *self.texts}


@pytest.mark.slow
@pytest.mark.parametrize("articles", [60, 280])
def test_three_crawls_of_a_site_with_traps(space, allowed, articles):
    generated = GeneratedSite(articles)
    with lists.serving(generated.play) as server:

        def ingest():
            generated.requests.clear()
            config = {"maxDepth": 5, "maxLinks": 1000}
            return space.run(crawl(space, "WEBSITE", ingest=True, url=f"{server.url}/", **config))

        def ingested():
            rows = space.db.rows(
                "select d.external_id from documents d join partitions p on p.id = d.partition_id"
                " where p.namespace_id = %(id)s and d.deleted_at is null",
                {"id": space.scope.namespace},
            )
            return sorted(row["external_id"].removeprefix(server.url) for row in rows)

        ingest()
        assert ingested() == sorted(generated.pages())
        ingest()
        assert ingested() == sorted(generated.pages())
        assert max(Counter(path for path, _ in generated.requests).values()) == 1
        conditional = {path for path, headers in generated.requests if "if-none-match" in headers}
        assert conditional >= set(generated.texts)

        texts = list(generated.texts)
        gone, moved, edited, unlinked = (texts[start : start + 5] for start in (1, 11, 21, 31))
        for path in gone:
            generated.answers[path] = generated.answers[f"{path}/print"] = answer(status="410 Gone")
        for number, path in enumerate(moved):
            answers = answer(status="301 Moved", location=f"/articles/{9000 + number}")
            generated.answers[path] = generated.answers[f"{path}/print"] = answers
            generated.texts[f"/articles/{9000 + number}"] = generated.texts[path]
        for number, path in enumerate(edited):
            generated.texts[path] = f"Heron number {number} stands in the shallow water."
            generated.texts[f"/articles/{9100 + number}"] = f"This article is new: {number * 104729}."
        generated.unlinked.update(unlinked)
        run = ingest()
        assert set(ingested()) == generated.pages() - {*gone, *moved}
        assert run.progress["removed"] == 10
        found = space.search("heron shallow water", semantic_weight=0.0, keyword_weight=1.0)
        assert set(found[:5]) == {f"{server.url}{path}" for path in edited}
        ingest()
        assert set(ingested()) == generated.pages() - {*gone, *moved, *unlinked}
