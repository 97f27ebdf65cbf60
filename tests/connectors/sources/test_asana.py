"""Asana as people read it: people, sections and custom fields by name, comments, subtasks, files."""

from __future__ import annotations

from tests.connectors.sources.reading import list_items, open_connector, read, texts
from tests.standins.services_tasks import PROJECT, WORKSPACE

SERVICE = "ASANA_WORKSPACE"


def put_task(account):
    key = account.put("Paint the tower", "In <strong>June</strong>.")
    account.fields[key] = {
        "assignee": {"gid": "7", "name": "Bob Lund"},
        "created_by": {"gid": "8", "name": "Ada Berg"},
        "followers": [{"gid": "7", "name": "Bob Lund"}, {"gid": "8", "name": "Ada Berg"}],
        "tags": [{"gid": "9", "name": "outside"}],
        "due_on": "2026-06-30",
        "memberships": [{"project": {"gid": PROJECT, "name": "Zoo"}, "section": {"gid": "5", "name": "Doing"}}],
        "custom_fields": [
            {"gid": "3", "name": "Cost", "display_value": "900"},
            {"gid": "4", "name": "Risk", "display_value": None},
        ],
    }
    account.subtasks[key] = [
        {"gid": "90", "name": "Buy paint", "completed": True, "assignee": {"gid": "8", "name": "Ada Berg"}},
        *({"gid": str(number), "name": f"Coat {number}", "completed": False} for number in (91, 92)),
    ]
    about = {"created_at": "2026-05-14T10:32:00.000Z", "created_by": {"gid": "8", "name": "Ada Berg"}}
    account.stories[key] = [
        {"gid": "1", "resource_subtype": "assigned", "text": "Ada assigned to Bob", **about},
        *(
            {"gid": "2", "resource_subtype": "comment_added", "html_text": f"<body>Red <em>{n}</em>?</body>", **about}
            for n in range(3)
        ),
    ]
    return key


def test_a_task_has_people_sections_and_custom_fields_by_name_its_subtasks_and_all_comments(account, tmp_path):
    key = put_task(account)
    account.page = 2
    text = texts(account, tmp_path)[account.locate(key)]
    for line in (
        "Status: open",
        "Assignee: Bob Lund",
        "Creator: Ada Berg",
        "Collaborators: Bob Lund, Ada Berg",
        "Tags: outside",
        "Due: 30 June 2026",
        "Project: Zoo / Doing",
        "Cost: 900",
    ):
        assert f"{line}<br>" in text
    assert "Risk" not in text
    assert "In <strong>June</strong>." in text
    assert "<p>Subtask: Buy paint (completed, Ada Berg)</p>" in text
    assert "<p>Subtask: Coat 92 (open)</p>" in text
    assert "assigned to Bob" not in text
    comments = text.split("<h2>Ada Berg, 14 May 2026 10:32</h2>\n")[1:]
    assert [comment.strip() for comment in comments] == [f"Red <em>{n}</em>?" for n in range(3)]
    item = list_items(account)[0][account.locate(key)]
    assert item.properties["path"] == f"Zoo/{key}"


def test_projects_are_documents_with_status_updates_and_a_new_one_is_read_by_the_next_run(account, tmp_path):
    account.projects[PROJECT] |= {"owner": {"gid": "8", "name": "Ada Berg"}, "html_notes": "<body>A zoo.</body>"}
    author = {"created_at": "2026-05-14T10:32:00.000Z", "created_by": {"gid": "7", "name": "Bob Lund"}}
    week = {"html_text": "<body>Good.</body>", "status_type": "on_track", **author}
    account.updates = [{"title": f"Week {number}", **week} for number in (18, 19, 20)]
    account.page = 1
    project = f"https://app.asana.com/1/{WORKSPACE}/project/{PROJECT}"
    text = texts(account, tmp_path)[project]
    assert "Owner: Ada Berg<br>" in text
    assert "A zoo.\n\n<h2>Week 18, Bob Lund" in text
    assert text.endswith("<h2>Week 20, Bob Lund, 14 May 2026 (on track)</h2>\nGood.")
    _, last = list_items(account)
    account.projects["1202"] = {"name": "Pond", "modified_at": "2026-05-14T10:00:00.000Z"}
    items, last = list_items(account, last.cursor)
    assert f"https://app.asana.com/1/{WORKSPACE}/project/1202" in items
    del account.projects["1202"]
    connector, tokens = open_connector(account)
    gone = f"https://app.asana.com/1/{WORKSPACE}/project/1202"
    assert [connector.is_deleted(tokens, name) for name in (project, gone)] == [False, True]
    account.projects["1203"] = {"name": "Aviary", "archived": True}
    assert connector.is_deleted(tokens, f"https://app.asana.com/1/{WORKSPACE}/project/1203")


def test_files_at_asana_are_members_and_others_are_links(account, tmp_path):
    key = put_task(account)
    account.downloads = {"/signed/plan": b"a plan", "/signed/map": b"a map"}
    account.files[key] = [
        {"gid": "1", "name": "plan.txt", "host": "asana", "download_url": f"{account.base}/signed/plan"},
        {
            "gid": "2",
            "name": "Budget",
            "host": "gdrive",
            "view_url": "https://docs.example.com/1",
            "download_url": None,
        },
        {"gid": "3", "name": "map.txt", "host": "asana", "download_url": f"{account.base}/signed/map"},
    ]
    account.page = 1
    text, files = read(account, tmp_path)[account.locate(key)]
    assert files == {"plan.txt": b"a plan", "map.txt": b"a map"}
    assert '<p>Link: <a href="https://docs.example.com/1">Budget</a></p>' in text


def test_a_deleted_task_is_noticed_by_the_number_of_its_project(account):
    keys = [account.put(f"Task {number}", "x") for number in range(3)]
    account.projects["1202"] = {"name": "Pond", "modified_at": "2026-05-14T10:00:00.000Z"}
    _, last = list_items(account)
    account.requests.clear()
    items, last = list_items(account, last.cursor)
    assert not [name for name in items if "/task/" in name]
    assert len(account.requests) == 6  # projects as parents and as documents, changes and numbers of two projects
    account.delete(keys[1])
    items, last = list_items(account, last.cursor)
    assert {name for name in items if "/task/" in name} == {account.locate(keys[0]), account.locate(keys[2])}
    assert last.whole
