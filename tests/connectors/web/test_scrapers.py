"""The contract of every scraper: this service's own, and the three of vendors on their stand-ins."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connectors import registry
from connectors.http import retries
from connectors.web import endpoint, jina, scrapingbee
from connectors.web.builtin import client as clients
from connectors.web.builtin import scraper as builtin
from connectors.web.firecrawl import scraper as firecrawl
from connectors.web.firecrawl.client import FirecrawlSession, NoCrawl
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.ports import OcrStrategy, RawContent, ScrapeOptions, Scraper
from retrieval.setting_values import Endpoint
from retrieval.settings import Settings
from tests.connectors.web.test_web_client import answer, serving
from tests.retrieval.network.test_fetch_guard import ATTACKS
from tests.standins import crawl4ai as crawl4ai_standin
from tests.standins import faults, jina_reader
from tests.standins import firecrawl as firecrawl_standin
from tests.standins import scrapingbee as scrapingbee_standin
from tests.standins.scraped import Seen, Vendor

VENDOR_WORDS = "SECRET VENDOR WORDS"
SITE = "https://93.184.216.34"
"""Public address, served only by the stand-ins."""
TIDES_PAGE = """<html lang="en"><head><title>Of tides</title><meta name="description" content="About the sea"></head>
<body><nav><a href="/more">More</a></nav><main><h1>Tides</h1><p>The spring tide follows the full moon.</p>
<p class="ad">Buy a sofa today.</p></main></body></html>"""

Make = Callable[[Mapping[str, Any], Settings], Any]
VENDORS: dict[str, tuple[Make, Callable[..., AbstractContextManager[Vendor]], str]] = {
    "FIRECRAWL": (firecrawl.make, firecrawl_standin.running, "FIRECRAWL"),
    "JINA": (jina.make, jina_reader.running, "JINA_READER"),
    "SCRAPINGBEE": (scrapingbee.make, scrapingbee_standin.running, "SCRAPINGBEE"),
    "OWN_FIRECRAWL": (endpoint.make, firecrawl_standin.running, ""),
    "OWN_CRAWL4AI": (endpoint.make, crawl4ai_standin.running, ""),
}
HOSTED_VENDORS = sorted(name for name, (_, _, vendor) in VENDORS.items() if vendor)


@dataclass
class Place:
    """A scraper and its web."""

    scraper: Scraper
    site: str
    put: Callable[[str, Seen], None]
    vendor: Vendor | None = None

    def fetch(self, path: str, to: Path, **options: Any) -> RawContent:
        raw = self.scraper.fetch(f"{self.site}{path}", ScrapeOptions(**options), to / "raw")
        assert raw is not None
        return raw


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr("connectors.web.scraping_api.PAGE_WAIT_SECONDS", 1.5)
    monkeypatch.setattr(clients.random, "uniform", lambda *_: 0.0)


@contextmanager
def serving_vendor(name: str, **limits: Any) -> Iterator[Place]:
    make, running, vendor = VENDORS[name]
    with running() as server:
        config = {"provider": name, "apiKey": server.key}
        if vendor:
            limits["endpoints"] = {vendor: Endpoint(base_url=server.base_url)}
        else:
            limits["fetch_allow"] = ["127.0.0.1/32"]
            config |= {"url": server.base_url, "api": name.removeprefix("OWN_")}
        scraper = make(config, settings(**limits))
        yield Place(scraper, SITE, lambda path, page: server.web.update({SITE + path: page}), server)
        scraper.close()


@pytest.fixture(params=sorted(VENDORS))
def vendor(request: pytest.FixtureRequest) -> Iterator[Place]:
    with serving_vendor(request.param) as place:
        yield place


@pytest.fixture(params=HOSTED_VENDORS)
def hosted_vendor(request: pytest.FixtureRequest) -> Iterator[Place]:
    with serving_vendor(request.param) as place:
        yield place


@pytest.fixture
def own_site() -> Iterator[Place]:
    pages: dict[str, Seen] = {}

    def play(path: str, _headers: Any) -> list[bytes]:
        page = pages.get(path, Seen("Nothing", 404))
        if page.final:
            return answer(status="301 Moved", location=page.final)
        return answer(page.data or page.html.encode(), content_type=page.media_type, status=f"{page.status} As asked")

    with serving(play) as server:
        options = settings(fetch_allow=["127.0.0.1/32"])
        client = clients.make_client(options)
        yield Place(builtin.Builtin(client, None), server.url, pages.__setitem__)
        client.close()


@pytest.fixture(params=["BUILTIN", *sorted(VENDORS)])
def scraped_site(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A site for each of the four scrapers."""
    if request.param == "BUILTIN":
        yield request.getfixturevalue("own_site")
        return
    with serving_vendor(request.param) as place:
        yield place


def settings(**options: Any) -> Settings:
    return Settings(fetch_robots=False, fetch_host_delay=0, **options)


def text(raw: RawContent) -> str:
    return registry.make_parser().parse(raw, OcrStrategy.BASIC_PARSER).text


@pytest.mark.parametrize("path", ["/tides", "/tides.html", "/tides.json"])
def test_a_page_comes_with_its_words_title_and_address(scraped_site: Place, tmp_path: Path, path: str) -> None:
    scraped_site.put(path, Seen(TIDES_PAGE))
    raw = scraped_site.fetch(path, tmp_path)
    parsed = registry.make_parser().parse(raw, OcrStrategy.BASIC_PARSER)
    assert "The spring tide follows the full moon." in parsed.text.split("\n")
    properties = {**raw.properties, **parsed.properties}
    assert raw.url == f"{scraped_site.site}{path}"
    assert raw.size == raw.path.stat().st_size
    assert (properties["language"], properties["description"]) == ("en", "About the sea")
    assert (parsed.title or properties["title"]) in ("Of tides", "Tides")


def test_a_failing_site_is_retryable(scraped_site: Place, tmp_path: Path) -> None:
    scraped_site.put("/busy", Seen("<p>Later</p>", 503))
    with pytest.raises(Retryable, match="503"):
        scraped_site.fetch("/busy", tmp_path)


def test_the_address_check_covers_redirects(scraped_site: Place, tmp_path: Path) -> None:
    scraped_site.put("/moved", Seen(TIDES_PAGE, final=f"{scraped_site.site}/there"))
    scraped_site.put("/there", Seen(TIDES_PAGE))
    assert scraped_site.fetch("/moved", tmp_path).url == f"{scraped_site.site}/there"

    def check(url: str) -> None:
        if url.endswith("/there"):
            raise Skippable("not there")

    with pytest.raises(Skippable, match="not there"):
        scraped_site.fetch("/moved", tmp_path, check=check)


@pytest.mark.parametrize("name", sorted(VENDORS))
def test_what_is_too_large_is_not_taken(name: str, tmp_path: Path) -> None:
    with serving_vendor(name, max_file_bytes=1000) as place:
        place.put("/large", Seen(f"<main><p>{'word ' * 400}</p></main>"))
        with pytest.raises(Skippable, match="larger than"):
            place.fetch("/large", tmp_path)


def test_no_attack_reaches_a_service(hosted_vendor: Place, tmp_path: Path) -> None:
    # A service might sit in an internal network and return internal pages to strangers.
    assert hosted_vendor.vendor is not None
    for url in ATTACKS:
        with pytest.raises((Skippable, Retryable)):
            hosted_vendor.scraper.fetch(url, ScrapeOptions(), tmp_path / "raw")
    assert hosted_vendor.vendor.calls == []


@pytest.mark.parametrize("api", ["FIRECRAWL", "CRAWL4AI"])
def test_a_server_at_a_private_address_is_used_only_where_it_is_allowed(api: str, tmp_path: Path) -> None:
    running = firecrawl_standin.running if api == "FIRECRAWL" else crawl4ai_standin.running
    with running() as server:
        server.web[f"{SITE}/tides"] = Seen(TIDES_PAGE)
        for options in (settings(), settings(fetch_allow=["10.0.0.0/8"])):
            scraper = endpoint.make({"url": server.base_url, "api": api, "apiKey": server.key}, options)
            with closing(scraper), pytest.raises(Fatal) as caught:
                scraper.fetch(f"{SITE}/tides", ScrapeOptions(), tmp_path / "raw")
            assert caught.value.field == "webScraperConfig.url"
    assert server.calls == []


def test_a_page_that_was_led_to_a_private_address_is_not_taken(vendor: Place, tmp_path: Path) -> None:
    vendor.put("/inner", Seen(TIDES_PAGE, final="http://169.254.169.254/latest/meta-data"))
    with pytest.raises(Skippable, match="metadata"):
        vendor.fetch("/inner", tmp_path)


def test_told_to_wait_it_waits_as_long_and_then_has_the_page(vendor: Place, tmp_path: Path) -> None:
    assert vendor.vendor is not None
    vendor.put("/tides", Seen(TIDES_PAGE))
    vendor.vendor.faults.append(faults.status(429, VENDOR_WORDS, Retry_After="1"))
    begun = time.monotonic()
    assert "full moon" in text(vendor.fetch("/tides", tmp_path))
    assert time.monotonic() - begun >= 0.9
    assert len(vendor.vendor.calls) == 2


def test_a_rate_that_stays_used_up_ends_in_time_and_says_how_long(vendor: Place, tmp_path: Path) -> None:
    assert vendor.vendor is not None
    vendor.vendor.always.append(faults.status(429, VENDOR_WORDS, Retry_After="600"))
    with pytest.raises(Retryable, match="takes no more requests") as caught:
        vendor.fetch("/tides", tmp_path)
    assert caught.value.after is not None
    assert caught.value.after > 500
    assert len(vendor.vendor.calls) == 1


@pytest.mark.parametrize("fault", [faults.status(500), faults.reset, faults.cut, faults.html])
def test_trouble_that_passes_costs_no_page_and_what_stays_may_be_over_later(
    vendor: Place, tmp_path: Path, fault: faults.Fault
) -> None:
    assert vendor.vendor is not None
    vendor.put("/tides", Seen(TIDES_PAGE))
    vendor.vendor.faults += [fault, fault]
    assert "full moon" in text(vendor.fetch("/tides", tmp_path))
    assert len(vendor.vendor.calls) == 3
    vendor.vendor.always.append(fault)
    with pytest.raises(Retryable) as caught:
        vendor.fetch("/tides", tmp_path)
    assert VENDOR_WORDS not in str(caught.value)
    assert len(vendor.vendor.calls) == 6


@pytest.mark.parametrize(("status", "words"), [(401, "refuses the key"), (402, "no credit left")])
def test_a_refused_key_and_an_empty_account_end_the_run_at_once(
    vendor: Place, tmp_path: Path, status: int, words: str
) -> None:
    assert vendor.vendor is not None
    vendor.vendor.always.append(faults.status(status, VENDOR_WORDS))
    for use in (lambda: vendor.fetch("/tides", tmp_path), vendor.scraper.check):
        with pytest.raises(Fatal, match=words) as caught:
            use()
        assert VENDOR_WORDS not in str(caught.value)
        assert caught.value.field == "webScraperConfig.apiKey"
    assert len(vendor.vendor.calls) == 2


@pytest.mark.parametrize("name", HOSTED_VENDORS)
def test_an_invalid_key_is_refused_without_a_request(name: str) -> None:
    for key in ("", " ", "schlüssel", "two\nlines", "a\0b"):
        with pytest.raises(Fatal, match=r"webScraperConfig\.apiKey") as caught:
            VENDORS[name][0]({"provider": name, "apiKey": key}, settings())
        assert caught.value.field == "webScraperConfig.apiKey"


def test_the_key_is_in_no_log_and_no_error(
    vendor: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    assert vendor.vendor is not None
    vendor.put("/tides", Seen(TIDES_PAGE))
    tracebacks = []
    with caplog.at_level(logging.DEBUG):
        echo = {"success": False, "error": vendor.vendor.key, "message": vendor.vendor.key}
        refusals = [lambda handler, code=code: handler.reply(code, echo) is None for code in (429, 401, 500, 400)]
        for fault in (None, *refusals, faults.reset):
            vendor.vendor.always[:] = [fault] if fault else []
            try:
                vendor.fetch("/tides", tmp_path)
            except (Fatal, Retryable, Skippable) as error:
                tracebacks.append("".join(traceback.format_exception(error)))
    output = capsys.readouterr()
    everything = "\n".join([caplog.text, *tracebacks, output.out, output.err, repr(vendor.scraper)])
    assert len(tracebacks) == 5
    assert vendor.vendor.key not in everything


LINKS = {
    "https://api.firecrawl.dev/v2/crawl/a?skip=10": "/v2/crawl/a",
    "http://user:word@attacker.example:8443/v2/crawl/a?skip=10": "/v2/crawl/a",
    "//attacker.example/v2/crawl/a": "/v2/crawl/a",
    "/v2/crawl/a?skip=10#part": "/v2/crawl/a",
    "v2/crawl/a": "/v2/crawl/a",
    "attacker:v2/crawl/a": "/v2/crawl/a",
    "@attacker.example/a": "/@attacker.example/a",
    "\\\\attacker.example/a": "/\\\\attacker.example/a",
}


@pytest.mark.parametrize("link", LINKS)
def test_a_link_to_more_pages_of_firecrawl_never_leaves_the_endpoint(link: str) -> None:
    prefix = "/firecrawl"
    with firecrawl_standin.running() as crawler, firecrawl_session(crawler, prefix) as session:
        with pytest.raises(NoCrawl):
            session.pages("", link)
    assert crawler.calls == [("GET", prefix + LINKS[link], None)]
    assert crawler.headers[0]["authorization"] == f"Bearer {crawler.key}"


@contextmanager
def firecrawl_session(crawler: firecrawl_standin.Firecrawl, prefix: str = "") -> Iterator[FirecrawlSession]:
    endpoint = {"FIRECRAWL": Endpoint(base_url=f"{crawler.base_url}{prefix}")}
    session = FirecrawlSession(crawler.key, settings(endpoints=endpoint))
    with closing(session.service):
        yield session
