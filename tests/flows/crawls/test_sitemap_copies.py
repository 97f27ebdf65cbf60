"""One page, one document, for the pages of a sitemap."""

from itertools import count

import pytest

from retrieval.filters import DocumentFilter
from retrieval.jobs import resync
from tests.flows.crawling import crawl
from tests.flows.crawls.site import SENTENCES, html, page, pages, xml

OTHERS = [f"/animal-{number}" for number in range(1, len(SENTENCES))]


def serve(site, *paths, **texts):
    """Serve a sitemap of these paths; the pages named in `texts` have that text, the others that of the owls."""
    numbers = count()

    def served(text):
        tail = "<footer>Generated at 12:03:{:02}</footer>"
        return lambda _: html(page(text, head='<link rel="canonical" href="/owls">', tail=tail.format(next(numbers))))

    site.pages = {path: served(texts.get(path.strip("/"), SENTENCES[0])) for path in paths}
    site.pages |= {path: html(page(text)) for path, text in zip(OTHERS, SENTENCES[1:], strict=True)}
    site.pages["/sitemap.xml"] = xml(pages(site, *paths, *OTHERS))


def ingest(space, site):
    run = space.run(crawl(space, "SITEMAP", ingest=True, url=f"{site.url}/sitemap.xml"))
    assert not run.failed
    return run


def ingested(space, site):
    """Paths of the visible documents, without the other animals."""
    rows = space.db.rows(
        "select external_id from documents d join partitions p on p.id = d.partition_id"
        " where p.namespace_id = %(id)s and d.deleted_at is null",
        {"id": space.scope.namespace},
    )
    return sorted({row["external_id"].removeprefix(site.url) for row in rows} - set(OTHERS))


def found_by(space, site, path):
    page_filter = DocumentFilter(external_ids=(f"{site.url}{path}",))
    matches = space.call(resync.start_resync(space.db, space.scope, page_filter, dry_run=True))
    return len(matches.documents)


def test_an_alias_with_a_text_of_its_own_is_a_document_again(space, site):
    serve(site, "/owls", "/larks")
    ingest(space, site)
    assert ingested(space, site) == ["/owls"]
    serve(site, "/owls", "/larks", larks="Larks sing high over the meadows in spring.")
    ingest(space, site)
    assert ingested(space, site) == ["/larks", "/owls"]
    assert [found_by(space, site, path) for path in ("/owls", "/larks")] == [1, 1]


@pytest.mark.parametrize("is_back", [False, True])
def test_a_known_page_with_the_text_of_another_leaves_with_the_second_run(space, site, is_back):
    larks = "Larks sing high over the meadows in spring."
    serve(site, "/owls", "/larks", larks=larks)
    ingest(space, site)
    serve(site, "/owls", "/larks")
    assert ingest(space, site).progress["removed"] == 0
    assert ingested(space, site) == ["/larks", "/owls"]
    if is_back:
        serve(site, "/owls", "/larks", larks=larks)
        ingest(space, site)
        serve(site, "/owls", "/larks")
    run = ingest(space, site)
    assert run.progress["removed"] == (0 if is_back else 1)
    assert ingested(space, site) == (["/larks", "/owls"] if is_back else ["/owls"])
    assert found_by(space, site, "/larks") == 1


def test_a_site_that_answers_with_one_page_loses_none(space, site):
    paths = [f"/bird-{number}" for number in range(8)]
    serve(site, *paths, **{path[1:]: f"Birds of kind {path}." for path in paths})
    ingest(space, site)
    serve(site, *paths)
    for _ in range(2):
        run = ingest(space, site)
        assert (run.progress["removed"], ingested(space, site)) == (0, paths)
    assert run.progress["awaitingConfirmation"] == 7
