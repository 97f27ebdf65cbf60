"""Pages of a list, a sitemap and a website through the real processes."""

import pytest

from tests.standins.faults import Handler, served


def page(text, *links):
    anchors = "".join(f'<a href="{link}">on</a>' for link in links)
    return f"<!doctype html><html><head><title>t</title></head><body><main><p>{text}</p>{anchors}</main></body></html>"


@pytest.fixture
def site():
    pages = {
        "/index.html": page("The start.", "/owls.html", "/private.html"),
        "/owls.html": page("Owls hunt mice at night.", "/index.html", "/deep.html"),
        "/deep.html": page("Anglerfish carry a lantern in the deep sea."),
        "/private.html": page("Nobody shall read this."),
        "/tides.html": page("The spring tide follows the full moon."),
        "/robots.txt": "User-agent: *\nDisallow: /private\n",
    }

    class Site(Handler):
        def do_GET(self):  # noqa: N802 - the name that http.server calls
            body = pages.get(self.path)
            self.reply(200 if body else 404, (body or "").encode(), {"Content-Type": "text/html"})

    with served(Site) as port:
        url = f"http://127.0.0.1:{port}"
        entries = f"<url><loc>{url}/tides.html</loc></url><url><loc>http://elsewhere.example/</loc></url>"
        pages["/sitemap.xml"] = f"<urlset>{entries}</urlset>"
        yield url


@pytest.mark.slow
def test_list_sitemap_and_website_are_found(service, site):
    answer = service.client.patch(
        f"/v1/namespaces/{service.namespace}", json={"webScraperConfig": {"provider": "BUILTIN"}}
    )
    assert answer.status_code == 200, answer.text

    def ingest(path, source, **config):
        body = {"namespaceId": service.namespace, "ingestConfig": {"source": source, "config": config}}
        return service.ok(service.client.post(f"/v1/ingest/{path}", json=body))["ingestJobRunId"]

    list_run, mapped, walked = service.wait(
        ingest("urls", "URLS_LIST", urls=[f"{site}/index.html"]),
        ingest("sitemap", "SITEMAP", url=f"{site}/sitemap.xml"),
        ingest("website", "WEBSITE", url=f"{site}/index.html", maxDepth=2),
    )
    assert len(list_run["documents"]["completed"]) == 1
    assert len(mapped["documents"]["completed"]) == 1
    assert mapped["progress"]["skipped"] == 1
    assert len(walked["documents"]["completed"]) == 3
    assert (walked["progress"]["found"], walked["progress"]["skipped"]) == (3, 1)
    assert "robots.txt" in next(iter(walked["progress"]["skippedReasons"]))
    assert "lantern" in service.search("lights of deep sea fish")[0]["content"]
    assert "full moon" in service.search("moon and tide")[0]["content"]
