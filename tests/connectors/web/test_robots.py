"""robots.txt: permissions, delays and unavailable sites."""

import pytest

from connectors.web.builtin import client as clients
from connectors.web.builtin import robots
from connectors.web.builtin.client import Bounds, Throttle, WebClient
from connectors.web.builtin.robots import Robots
from retrieval.errors import Retryable
from tests.connectors.web.test_web_client import LOOPBACK, answer, serving

RULES = b"""User-agent: *
Disallow: /private
Crawl-delay: 2
User-agent: Tester
Disallow: /cgi
Allow: /cgi/help
Disallow: /*.zip$
Sitemap: https://example.org/sitemap.xml
"""


@pytest.fixture
def make(monkeypatch):
    monkeypatch.setattr(clients.random, "uniform", lambda *_: 0.0)
    opened = []

    def robots_of(guard=LOOPBACK):
        opened.append(
            WebClient(guard, Throttle(8, 0.0), user_agent="Tester/1.0 (+https://t.example)", bounds=Bounds(9, 5))
        )
        return Robots(opened[-1])

    yield robots_of
    for opened_client in opened:
        opened_client.close()


def test_the_rules_for_our_name_hold(make):
    with serving(lambda *_: answer(RULES, content_type="text/plain")) as server:
        rules = make().rules(f"{server.url}/any/page?x")
    allowed = {path: rules.allowed(server.url + path) for path in ("/", "/cgi/x", "/cgi/help/1", "/a.zip", "/private")}
    assert allowed == {"/": True, "/cgi/x": False, "/cgi/help/1": True, "/a.zip": False, "/private": True}
    assert rules.sitemaps == ("https://example.org/sitemap.xml",)
    assert [path for path, _ in server.requests] == ["/robots.txt"]


@pytest.mark.parametrize(
    ("codec", "media_type"), [("utf-8-sig", ""), ("utf-16", ""), ("cp1251", "text/plain; charset=windows-1251")]
)
def test_rules_are_read_in_the_charset_that_the_site_names(make, codec, media_type):
    text = "User-agent: *\nDisallow: /архив/\n".encode(codec)
    with serving(lambda *_: answer(text, content_type=media_type)) as server:
        rules = make().rules(server.url)
    assert not rules.allowed(f"{server.url}/архив/1")
    assert rules.allowed(f"{server.url}/новости/1")


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        (b"Crawl-delay: 1.5", 1.5),
        (b"Crawl-delay: 86400", robots.LONGEST_DELAY),
        (b"Crawl-delay: nan", 0),
        (b"Crawl-delay: -3", 0),
        (b"Crawl-delay: soon", 0),
        (b"Request-rate: 1/5", 5),
        (b"", 0),
    ],
)
def test_delays_are_kept_within_reason(text, delay):
    assert robots.parse_rules(b"User-agent: *\nDisallow:\n" + text, "Tester").delay == delay


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_a_site_without_rules_forbids_nothing(status, make):
    with serving(lambda *_: answer(status=f"{status} No")) as server:
        assert make().rules(server.url).allowed(f"{server.url}/private")


@pytest.mark.parametrize("status", [500, 503, 429])
def test_nothing_is_fetched_while_a_site_cannot_say(status, make):
    with serving(lambda *_: answer(status=f"{status} Oops")) as server:
        robots = make()
        for _ in range(3):
            with pytest.raises(Retryable, match=r"robots\.txt"):
                robots.rules(server.url)
        assert len(server.requests) == clients.MAX_ATTEMPTS, "asked again at once"
        assert robots.delay(server.url) == 0
