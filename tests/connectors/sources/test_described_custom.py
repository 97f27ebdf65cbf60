"""Descriptions of the operator: the one that an address fits reads it; a command checks them."""

from __future__ import annotations

import json

import pytest

from connectors import registry
from local import cli
from retrieval.errors import Fatal
from retrieval.settings import Settings, load_settings
from retrieval.sync_filter import SyncFilter
from tests.connectors.sources.reading import Tokens
from tests.standins.account import Served, serving

NOTES = r"""
title: Notes
account: A notebook
documents: Notes
example: https://notes.example.com/handbook
editions:
  - url: (?P<site>https?://[^/?#]+)/(?P<notebook>[\w-]+)
    api: "{site}/api"
    headers: {Authorization: "Bearer {token}"}
streams:
  - name: notes
    list: /notebooks/{notebook}/notes
    items: notes
    id: "{site}/{notebook}/{id}"
    fields: {id: id}
    item_name: title
    path: notes/{id}
    content:
      get: /notes/{id}
      media_type: text/markdown
      title: title
      in_list: true
      text: "{{ title }}: {{ text }}"
    exists: {get: "/notes/{id}"}
"""


class Notes(Served):
    connector = "CUSTOM"

    def __init__(self):
        super().__init__()
        self.notes = {"1": "The lighthouse opens in spring.", "2": "Owls hunt at night."}

    def answer(self, handler, method, path, query, body):
        notes = {key: {"id": key, "title": f"Note {key}", "text": text} for key, text in self.notes.items()}
        if path == "/api/notebooks/handbook/notes":
            return handler.reply(200, {"notes": list(notes.values())})
        key = path.removeprefix("/api/notes/")
        return handler.reply(200 if key in notes else 404, notes.get(key, {}))


@pytest.fixture
def notes(tmp_path):
    account = Notes()
    account.folder = tmp_path / "descriptions"
    account.folder.mkdir()
    (account.folder / "notes.yaml").write_text(NOTES)
    (account.folder / "broken.yaml").write_text("title: [")
    with serving(account):
        account.config = {"url": f"{account.base}/handbook?view=1", "credentials": {"token": account.token()}}
        yield account


def make_settings(folder):
    return Settings(_env_file=None, fetch_allow="127.0.0.0/8", source_descriptions=folder)


def test_a_description_in_the_folder_reads_the_address_that_it_fits(notes, tmp_path):
    settings = make_settings(notes.folder)
    assert registry.read_config("CUSTOM", notes.config, settings).account == f"{notes.base}/handbook"
    tokens = Tokens(notes, settings)
    custom = registry.make_connector("CUSTOM", {}, settings)
    (page,) = custom.iter_changes(tokens, None)
    assert [item.properties["path"] for item in page.items] == ["notes/1", "notes/2"]
    raw = custom.fetch(tokens, page.items[0], tmp_path / "a")
    assert raw.path.read_text() == "Note 1: The lighthouse opens in spring."
    del notes.notes["1"]
    assert custom.is_deleted(tokens, page.items[0].external_id)
    chosen = custom.with_choice(SyncFilter(exclude=({"path": "notes/2"},)))
    assert len(list(chosen.iter_changes(tokens, None))) == 1
    assert [entry.path for entry in custom.browse(tokens, None, None).entries] == ["notes"]
    (notes.folder / "notes.yaml").unlink()
    with pytest.raises(Fatal, match=r"fits no description in RETRIEVAL_SOURCE_DESCRIPTIONS; not read: broken\.yaml"):
        list(registry.make_connector("CUSTOM", {}, settings).iter_changes(tokens, None))


@pytest.mark.parametrize(
    ("has_folder", "url", "problem"),
    [
        (False, "https://notes.example.com/handbook", "names their folder in RETRIEVAL_SOURCE_DESCRIPTIONS"),
        (True, "https://notes.example.com", "fits no description"),
        (True, "http://169.254.169.254/handbook", "cannot be used"),
    ],
)
def test_an_address_that_no_description_fits_is_refused_with_the_reason(notes, has_folder, url, problem):
    settings = make_settings(notes.folder if has_folder else None)
    with pytest.raises(ValueError, match=problem) as refused:
        registry.read_config("CUSTOM", {**notes.config, "url": url}, settings)
    assert refused.value.args[0] == "url"


def test_the_command_checks_a_description_and_reads_the_service(notes, monkeypatch, capsys):
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    monkeypatch.setenv("SOURCE_CREDENTIALS", json.dumps(notes.config["credentials"]))
    monkeypatch.chdir(notes.folder)
    load_settings.cache_clear()
    file = str(notes.folder / "notes.yaml")
    assert cli.main(["source", "check", file]) == 0
    assert cli.main(["source", "check", file, "--url", notes.config["url"]]) == 0
    shown = capsys.readouterr().out
    assert "notes.yaml is a valid description of Notes: notes." in shown
    assert f"Reads {notes.base}/handbook." in shown
    assert "Page 1: 2 items, the last one." in shown
    assert "notes: 'Note 1' at 'notes/1' has 39 bytes" in shown
    assert "canary" not in shown
    assert cli.main(["source", "check", str(notes.folder / "broken.yaml")]) == 1
    assert "broken.yaml: while parsing" in capsys.readouterr().err
    load_settings.cache_clear()
