"""Salesforce as people read it: names in place of ids, custom fields by label, comments, emails, articles, files."""

from __future__ import annotations

import pytest

from retrieval.errors import Fatal
from tests.connectors.sources.reading import list_items, open_connector, read, texts

SERVICE = "SALESFORCE"

LIGHTNING = "https://acme.lightning.force.com/lightning/r"


def comment(number, *, public=True):
    about = {"CreatedDate": f"2026-05-14T10:{number:02}:00.000+0000", "CreatedBy": {"Name": "Ada Berg"}}
    return {"Id": f"00a{number}", "CommentBody": f"Comment <{number}>.", "IsPublished": public, **about}


def test_a_case_has_people_custom_fields_by_label_and_all_comments(account, tmp_path):
    key = account.put("Owls in the tower", "They <hoot>.\nAll night.")
    account.fields[key] = {
        "Status": "Working",
        "Account": {"Name": "Owl Ltd"},
        "Contact": {"Name": "Ada Berg"},
        "CreatedBy": {"Name": "Cleo Dahl"},
        "Habitat__c": "Barn;Wood",
        "Place__c": {"latitude": 1},
    }
    account.comments[key] = [comment(number, public=number != 2) for number in range(1, 5)]
    account.page = 3
    text = texts(account, tmp_path)[account.locate(key)]
    assert text.startswith("<h1>00000001: Owls in the tower</h1>")
    for line in (
        "Status: Working",
        "Account: Owl Ltd",
        "Contact: Ada Berg",
        "Owner: Bob Lund",
        "Creator: Cleo Dahl",
        "Natural habitat: Barn; Wood",
    ):
        assert f"{line}<br>" in text
    assert "Place" not in text
    assert "<p>They &lt;hoot&gt;.<br>All night.</p>" in text
    assert "<h2>Ada Berg, 14 May 2026 10:02 (internal)</h2>\n<p>Comment &lt;2&gt;.</p>" in text
    assert text.count("<h2>Ada Berg") == 4
    assert list_items(account)[0][account.locate(key)].properties["owner"] == "Bob Lund"


def test_published_articles_keep_their_address_in_a_new_version_and_emails_name_their_case(account, tmp_path):
    article = {
        "Id": "ka01",
        "KnowledgeArticleId": "kA01",
        "Language": "en_US",
        "PublishStatus": "Online",
        "Title": "Feeding owls",
        "SystemModstamp": "2026-05-14T10:00:00.000+0000",
        "Answer__c": "<p>At <b>dusk</b>.</p>",
        "Audience__c": "Keepers & guests",
    }
    account.articles = [article, {**article, "Id": "ka02", "KnowledgeArticleId": "kA02", "PublishStatus": "Draft"}]
    account.emails = [
        {
            "Id": "02s1",
            "ParentId": "500",
            "Parent": {"CaseNumber": "0007"},
            "Subject": "Help",
            "FromName": "Ada Berg",
            "HtmlBody": "<p>Who?</p>",
            "SystemModstamp": "2026-05-14T10:00:00.000+0000",
        }
    ]
    account.articles.append({**article, "Id": "ka05", "KnowledgeArticleId": "kA05"})
    account.emails.append({**account.emails[0], "Id": "02s2"})
    account.page = 1
    name = f"{LIGHTNING}/Knowledge__kav/kA01/view?language=en_US"
    contents = texts(account, tmp_path)
    other = f"{LIGHTNING}/Knowledge__kav/kA05/view?language=en_US"
    assert contents.keys() == {name, other, *(f"{LIGHTNING}/EmailMessage/{key}/view" for key in ("02s1", "02s2"))}
    assert "<h2>Answer</h2>\n<p>At <b>dusk</b>.</p>" in contents[name]
    assert "<h2>Audience</h2>\n<p>Keepers &amp; guests</p>" in contents[name]
    assert "Case: 0007<br>\nFrom: Ada Berg<br>" in contents[f"{LIGHTNING}/EmailMessage/02s1/view"]
    items, last = list_items(account)
    assert items[name].properties["url"] == f"{LIGHTNING}/Knowledge__kav/ka01/view"
    account.articles[0] = {**article, "Id": "ka03", "SystemModstamp": "2026-06-14T10:00:00.000+0000"}
    account.emails.append({**account.emails[0], "Id": "02s3", "SystemModstamp": "2099-06-14T10:00:00.000+0000"})
    later, last = list_items(account, last.cursor)
    email = f"{LIGHTNING}/EmailMessage/02s3/view"
    assert (later.keys(), later[name].version != items[name].version) == ({name, other, email}, True)
    connector, tokens = open_connector(account)
    assert connector.version(tokens, name) == later[name].version
    account.articles[0]["PublishStatus"] = "Archived"
    assert connector.is_deleted(tokens, name)


def test_a_deleted_case_is_removed_by_the_next_run_and_missing_objects_are_no_error(account):
    keys = [account.put(f"Case {number}", "x") for number in range(3)]
    account.emails = account.articles = None
    _, last = list_items(account)
    account.delete(keys[1])
    account.requests.clear()
    items, last = list_items(account, last.cursor)
    assert {name: item.deleted for name, item in items.items()} == {account.locate(keys[1]): True}
    assert len(account.requests) == 5
    account.delete(keys[2])
    account.page = 1
    items, last = list_items(account, last.cursor)
    assert {name for name, item in items.items() if item.deleted} == set(map(account.locate, keys[1:]))
    account.emails, account.hidden = [], "EmailMessage"
    with pytest.raises(Fatal, match=r"INVALID_FIELD\. Give the user who runs the app access"):
        list_items(account)


def test_files_of_cases_are_members(account, tmp_path):
    key = account.put("Owls", "x")
    version = {"Title": "plan", "FileExtension": "txt", "LatestPublishedVersionId": "0681"}
    account.files[key] = [{"ContentDocument": version}]
    account.downloads = {"/services/data/v66.0/sobjects/ContentVersion/0681/VersionData": b"a plan"}
    assert read(account, tmp_path)[account.locate(key)][1] == {"plan.txt": b"a plan"}
