"""Pages of a list, a sitemap and a website through the real processes."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_args):
        """A request is no news."""


def page(text, *links):
    anchors = "".join(f'<a href="{link}">on</a>' for link in links)
    return f"<!doctype html><html><head><title>t</title></head><body><main><p>{text}</p>{anchors}</main></body></html>"


@pytest.fixture
def site(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        (tmp_path / "index.html").write_text(page("The start.", "/owls.html", "/private.html"))
        (tmp_path / "owls.html").write_text(page("Owls hunt mice at night.", "/index.html", "/deep.html"))
        (tmp_path / "deep.html").write_text(page("Anglerfish carry a lantern in the deep sea."))
        (tmp_path / "private.html").write_text(page("Nobody shall read this."))
        (tmp_path / "tides.html").write_text(page("The spring tide follows the full moon."))
        (tmp_path / "robots.txt").write_text("User-agent: *\nDisallow: /private\n")
        entries = f"<url><loc>{url}/tides.html</loc></url><url><loc>http://elsewhere.example/</loc></url>"
        (tmp_path / "sitemap.xml").write_text(f"<urlset>{entries}</urlset>")
        yield url
        server.shutdown()
        thread.join()


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
