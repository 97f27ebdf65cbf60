"""Sites of URLs are compared with host and port."""

import pytest

from retrieval.network import urls


@pytest.mark.parametrize(
    ("url", "site", "name"),
    [
        ("https://example.com/a", "example.com:443", "example.com"),
        ("HTTPS://Example.com.:443/", "example.com:443", "example.com"),
        ("http://example.com", "example.com:80", "example.com"),
        ("http://example.com:443", "example.com:443", "example.com:443"),
        ("https://example.com:8443/a?b", "example.com:8443", "example.com:8443"),
        ("http://[2001:db8::1]:8080/", "[2001:db8::1]:8080", "[2001:db8::1]:8080"),
        ("https://example.com:port/", "", ""),
        ("", "", ""),
    ],
)
def test_a_site_is_a_host_and_a_port(url, site, name):
    assert (urls.site_of(url), urls.site_name(url)) == (site, name)
