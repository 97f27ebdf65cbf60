"""ServiceNow as people read it: names in place of ids, comments and work notes apart, files."""

from __future__ import annotations

from tests.connectors.sources.reading import list_items, read, texts

SERVICE = "SERVICENOW"


def put_incident(account):
    key = account.put("Owls in the tower", "They <hoot>.\nAll night.")
    account.fields[key] = {
        "state": "In Progress",
        "caller_id": "Ada Berg",
        "opened_at": "2026-05-14 10:32:00",
        "u_habitat": "Barn",
        "u_wing_span": "1 m",
        "comments": "2026-05-15 09:00:00 - Bob Lund (Additional comments)\nThey are gone.\n\n"
        "2026-05-14 11:00:00 - Ada Berg (Additional comments)\nWho can help?\n\n",
        "work_notes": "2026-05-14 12:00:00 - Bob Lund (Work notes)\nSECRET call to the keeper\n\n",
    }
    return key


def test_an_incident_has_people_custom_fields_and_comments_and_its_work_notes_apart(account, tmp_path):
    key, other = put_incident(account), account.put("No notes", "x")
    contents = texts(account, tmp_path)
    text = contents[account.locate(key)]
    assert "<h1>INC0000001: Owls in the tower</h1>" in text
    for line in ("State: In Progress", "Caller: Ada Berg", "Opened: 14 May 2026", "Natural habitat: Barn"):
        assert f"{line}<br>" in text
    assert "wing span: 1 m<br>" in text
    assert "<p>They &lt;hoot&gt;.<br>All night.</p>" in text
    assert "<h2>2026-05-14 11:00:00 - Ada Berg (Additional comments)</h2>\n<p>Who can help?</p>" in text
    assert "SECRET" not in text
    notes = contents[f"{account.locate(key)}&notes=work"]
    assert "<h2>2026-05-14 12:00:00 - Bob Lund (Work notes)</h2>\n<p>SECRET call to the keeper</p>" in notes
    assert "Who can help" not in notes
    assert contents.keys() == {account.locate(key), f"{account.locate(key)}&notes=work", account.locate(other)}
    item = list_items(account)[0][account.locate(key)]
    assert item.properties["createdAt"].endswith("Z")
    assert item.properties["owner"] == "Ada Berg"


def test_published_articles_have_category_and_author_and_retired_ones_are_removed(account, tmp_path):
    published = {
        "number": "KB0010001",
        "short_description": "Feeding owls",
        "text": "<p>At <b>dusk</b>.</p>",
        "workflow_state": "published",
        "kb_category": "Birds",
        "author": "Ada Berg",
        "sys_updated_on": "2026-05-14 10:00:00",
    }
    account.articles = {"a1": published, "a2": {**published, "workflow_state": "draft"}}
    name = "https://acme.service-now.com/kb_view.do?sys_kb_id=a1"
    contents = texts(account, tmp_path)
    assert contents.keys() == {name}
    assert "Number: KB0010001<br>\nCategory: Birds<br>\nAuthor: Ada Berg<br>" in contents[name]
    assert "<p>At <b>dusk</b>.</p>" in contents[name]
    _, last = list_items(account)
    published["workflow_state"] = "retired"
    items, last = list_items(account, last.cursor)
    assert (items, last.whole) == ({}, True)


def test_files_of_incidents_and_articles_are_members(account, tmp_path):
    key = put_incident(account)
    account.articles = {"a1": {"workflow_state": "published", "sys_updated_on": "2026-05-14 10:00:00"}}
    account.files = {key: ["plan.txt"], "a1": ["guide.txt"]}
    account.downloads = {
        f"/api/now/attachment/{key}-plan.txt/file": b"a plan",
        "/api/now/attachment/a1-guide.txt/file": b"a guide",
    }
    contents = read(account, tmp_path)
    assert {name: files for name, (_, files) in contents.items()} == {
        account.locate(key): {"plan.txt": b"a plan"},
        f"{account.locate(key)}&notes=work": {},
        "https://acme.service-now.com/kb_view.do?sys_kb_id=a1": {"guide.txt": b"a guide"},
    }
