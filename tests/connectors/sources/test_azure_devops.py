"""Azure DevOps as people read it: fields, people, comments and files of work items, and pages of wikis."""

from __future__ import annotations

from retrieval.sync_filter import SyncFilter
from tests.connectors.sources.reading import list_items, open_connector, read, texts
from tests.standins.azure_devops import WIKI

SERVICE = "AZURE_DEVOPS_ORGANIZATION"


def make_comment(number, **more):
    about = {"createdBy": {"displayName": "Bob Lund"}, "createdDate": f"2026-05-14T10:{number:02}:00Z"}
    return {"id": number, "text": f"<div>Words {number}.</div>", "isDeleted": False, **about, **more}


def test_a_work_item_has_people_dates_custom_fields_and_texts_of_several_fields(account, tmp_path):
    key = account.put("Paint the tower", "<div>In June.</div>")
    account.about[key] = {
        "System.State": "Active",
        "System.AssignedTo": {"displayName": "Bob Lund"},
        "System.ChangedBy": {"displayName": "Cleo Dahl"},
        "System.AreaPath": "Zoo\\Tower",
        "System.IterationPath": "Zoo\\Sprint 3",
        "System.Tags": "paint; red",
        "System.Parent": 4,
        "Microsoft.VSTS.Common.Priority": 2,
        "Microsoft.VSTS.Common.StackRank": 17.5,
        "Microsoft.VSTS.Scheduling.DueDate": "2026-05-14T00:00:00Z",
        "Microsoft.VSTS.TCM.ReproSteps": "<div>Look up.</div>",
        "Custom.Keeper": {"displayName": "Dan Ek"},
        "Custom.Place": "Bridge & harbour",
    }
    account.relations[key] = [{"rel": "Hyperlink", "url": "https://example.com/a", "attributes": {"comment": "Plan"}}]
    text = texts(account, tmp_path)[account.locate(key)]
    assert text.startswith("<h1>Paint the tower</h1>")
    for line in (
        f"Work item: Bug {key}",
        "State: Active",
        "Assigned to: Bob Lund",
        "Created by: Ada Berg",
        "Changed by: Cleo Dahl",
        "Area: Zoo\\Tower",
        "Iteration: Zoo\\Sprint 3",
        "Tags: paint; red",
        "Parent: 4",
        "Priority: 2",
        "DueDate: 14 May 2026",
        "Keeper: Dan Ek",
        "Place: Bridge &amp; harbour",
    ):
        assert f"{line}<br>" in text, line
    assert "StackRank" not in text
    for part in (
        "<h2>Description</h2>\n<div>In June.</div>",
        "<h2>ReproSteps</h2>\n<div>Look up.</div>",
        '<p>Link: <a href="https://example.com/a">Plan</a></p>',
    ):
        assert part in text, part
    account.rename(key, "Paint")
    item = list_items(account)[0][account.locate(key)]
    assert (item.properties["path"], item.properties["owner"]) == (f"Zoo/work_items/{key}", "Ada Berg")
    assert item.properties["createdAt"] == account.items[key].created.isoformat()
    assert item.properties["modifiedAt"] == account.items[key].updated.isoformat()


def test_comments_of_several_pages_are_read_and_deleted_ones_are_not(account, tmp_path):
    key = account.put("Paint", "x")
    account.page = 2
    account.comments[key] = [
        make_comment(1),
        make_comment(2, isDeleted=True),
        make_comment(3, format="markdown", text="a <b\nc"),
    ]
    first, second = texts(account, tmp_path)[account.locate(key)].split("<h2>")[-2:]
    assert first.startswith("Bob Lund, 14 May 2026 10:01</h2>\n<div>Words 1.</div>")
    assert second.startswith("Bob Lund, 14 May 2026 10:03</h2>\na &lt;b<br>c")


def test_attached_files_are_members_and_other_relations_are_not(account, tmp_path):
    key = account.put("Paint", "x")
    place = "/acme/_apis/wit/attachments/1"
    account.downloads = {place: b"plan"}
    file = {"rel": "AttachedFile", "url": f"{account.base}{place}", "attributes": {"name": "plan.txt"}}
    account.relations[key] = [file, {"rel": "System.LinkTypes.Hierarchy-Reverse", "url": f"{account.base}/x"}]
    text, files = read(account, tmp_path)[account.locate(key)]
    assert files == {"plan.txt": b"plan"}
    assert "not read" not in text


def test_deleted_items_are_gone_with_the_next_run_and_moved_ones_are_in_their_new_project(account):
    account.projects = ["Zoo", "Pond"]
    keys = [account.put(f"Item {number}", "x") for number in range(3)]
    _, last = list_items(account)
    account.delete(keys[0])
    old, account.projects_of[keys[1]] = account.locate(keys[1]), "Pond"
    account.change(keys[1], "y")
    items, last = list_items(account, last.cursor)
    assert not last.whole
    assert {name: item.deleted for name, item in items.items()} == {
        account.locate(keys[0]): True,
        account.locate(keys[1]): False,
    }
    assert items[account.locate(keys[1])].properties["path"] == f"Pond/work_items/{keys[1]}"
    connector, tokens = open_connector(account)
    assert [connector.is_deleted(tokens, name) for name in (old, account.locate(keys[2]))] == [True, False]


def test_pages_of_a_wiki_are_read_by_their_titles_and_gone_with_the_next_run(account, tmp_path):
    account.pages = {"/Home.md": "Welcome.", "/Home/Night-shift%2Dplan.md": "At ten."}
    base = f"https://dev.azure.com/acme/p-1/_wiki/wikis/{WIKI}?pagePath=/"
    read_texts = texts(account, tmp_path)
    assert read_texts == {
        f"{base}Home": "# Home\n\nWelcome.",
        f"{base}Home/Night%20shift-plan": "# Night shift-plan\n\nAt ten.",
    }
    items, last = list_items(account)
    assert items[f"{base}Home/Night%20shift-plan"].properties["path"] == "wikis/Zoo.wiki/Home/Night shift-plan"
    before = items[f"{base}Home"].version
    account.pages = {"/Home.md": "Hello."}
    items, last = list_items(account, last.cursor)
    assert items[f"{base}Home"].version != before
    assert items.keys() == {f"{base}Home"}
    connector, tokens = open_connector(account)
    assert connector.is_deleted(tokens, f"{base}Home/Night%20shift-plan")


def test_one_project_is_chosen_by_its_name(account):
    account.projects = ["Zoo", "Pond"]
    keys = [account.put(f"Item {number}", "x") for number in range(2)]
    account.projects_of[keys[1]] = "Pond"
    connector, tokens = open_connector(account)
    chosen = connector.with_choice(SyncFilter(include=({"path": "Pond"},)))
    listed = [item.external_id for page in chosen.iter_changes(tokens, None) for item in page.items]
    assert listed == [account.locate(keys[1])]


def test_an_address_of_a_browser_is_a_project_or_the_organization(account):
    for url, values in {
        "https://dev.azure.com/acme/Zoo/_workitems/edit/7": {"organization": "acme", "project": "Zoo"},
        "https://dev.azure.com/acme/_settings/users": {"organization": "acme"},
        "https://acme.visualstudio.com/Zoo/_boards": {"organization": "acme", "project": "Zoo"},
    }.items():
        about = open_connector(account)[0].about
        found = about.find_edition(url)[1]
        assert {name: value for name, value in found.items() if name != "url"} == values
