"""Intercom as people read it: people, tags and attributes by name, replies and notes, articles, files."""

from __future__ import annotations

from tests.connectors.sources.reading import list_items, open_connector, read, texts

SERVICE = "INTERCOM"

APP = "https://app.intercom.com/a/apps/abcd1234"


def make_part(body, kind="comment", **fields):
    author = {"type": "admin", "name": "Bob Lund"}
    return {"id": body, "part_type": kind, "body": body, "created_at": 1778754720, "author": author, **fields}


def put_conversation(account):
    key = account.put("Owls in the tower", "Who can help?")
    account.about[key] = {
        "admin_assignee_id": 31,
        "team_assignee_id": "41",
        "tags": {"tags": [{"name": "birds"}, {"name": "night"}]},
        "custom_attributes": {"Habitat": "Barn", "Empty": None, "Urgent": True},
        "conversation_rating": {"rating": 5, "remark": "Quick."},
    }
    account.parts[key] = [
        make_part("<p>We come.</p>"),
        make_part("<p>SECRET key is at the desk.</p>", "note"),
        make_part(None, "assignment"),
        make_part("<p>To you.</p>", "assignment", author={"type": "admin", "name": "", "email": "cleo@example.com"}),
        make_part("", "comment", redacted=True),
    ]
    return key


def test_a_conversation_has_people_tags_attributes_replies_and_notes(account, tmp_path):
    key = put_conversation(account)
    text = texts(account, tmp_path)[account.locate(key)]
    assert text.startswith("<h1>Owls in the tower</h1>")
    for line in (
        "Status: open",
        "Assignee: Bob Lund",
        "Team: Night shift",
        "Tags: birds, night",
        "Rating: 5",
        "Habitat: Barn",
        "Urgent: yes",
    ):
        assert f"{line}<br>" in text
    assert "Empty" not in text
    first, reply, note, handover = text.split("<h2>")[1:]
    assert handover.strip() == "cleo@example.com, 14 May 2026 10:32</h2>\n<p>To you.</p>"
    assert first.startswith("Ada Berg, ")
    assert "<p>Who can help?</p>" in first
    assert reply.strip() == "Bob Lund, 14 May 2026 10:32</h2>\n<p>We come.</p>"
    assert note.strip() == "Note of Bob Lund, 14 May 2026 10:32</h2>\n<p>SECRET key is at the desk.</p>"


def test_published_articles_have_all_languages_and_an_unpublished_one_is_removed(account, tmp_path):
    article = {
        "id": "71",
        "title": "Feeding owls",
        "body": "<p>At <b>dusk</b>.</p>",
        "state": "published",
        "author_id": 31,
        "parent_id": 51,
        "default_locale": "en",
        "created_at": 1778754720,
        "updated_at": 1778754720,
        "translated_content": {
            "type": "article_translated_content",
            "en": {"title": "Feeding owls", "body": "<p>At dusk.</p>", "state": "published"},
            "de": {"title": "Eulen füttern", "body": "<p>Abends.</p>", "state": "published"},
            "fr": {"title": "Brouillon", "body": "<p>Non.</p>", "state": "draft"},
        },
    }
    account.articles = [article, {**article, "id": "72", "state": "draft"}]
    contents = texts(account, tmp_path)
    assert contents.keys() == {f"{APP}/articles/articles/71/show"}
    text = contents[f"{APP}/articles/articles/71/show"]
    assert "Collection: Birds<br>\nAuthor: Bob Lund<br>" in text
    assert text.count("<h1>") == 2
    assert "<h1>Eulen füttern (de)</h1>\n<p>Abends.</p>" in text
    account.articles.append({**article, "id": "73", "updated_at": 1778754721})
    account.page = 1
    items, last = list_items(account)
    assert items.keys() == {f"{APP}/articles/articles/{key}/show" for key in ("71", "73")}
    account.requests.clear()
    assert list_items(account, last.cursor)[0].keys() == {f"{APP}/articles/articles/73/show"}
    assert (
        account.requests.count("GET /articles") == 2
    )  # the first page, which ends before the last run, and the number
    account.articles.pop()
    assert list_items(account, last.cursor)[1].whole
    article["state"] = "draft"
    connector, tokens = open_connector(account)
    assert connector.is_deleted(tokens, f"{APP}/articles/articles/71/show")


def test_a_deleted_conversation_is_noticed_by_its_number(account):
    keys = [account.put(f"Conversation {number}", "x") for number in range(3)]
    _, last = list_items(account)
    account.delete(keys[1])
    items, last = list_items(account, last.cursor)
    assert (items.keys(), last.whole) == ({account.locate(keys[0]), account.locate(keys[2])}, True)


def test_files_of_replies_are_members(account, tmp_path):
    key = put_conversation(account)
    account.downloads = {"/signed/plan": b"a plan"}
    file = {"type": "upload", "name": "plan.txt", "url": f"{account.base}/signed/plan"}
    account.parts[key][0]["attachments"] = [file]
    assert read(account, tmp_path)[account.locate(key)][1] == {"plan.txt": b"a plan"}
