"""The reference is made from the code: nothing of it is missing, and `.env.example` is up to date."""

import argparse

import yaml

import api_reference
import settings_reference
from local import cli
from retrieval.settings import PROJECT, Settings
from tests.api.description import DOCUMENT

PAGES = api_reference.render_pages(DOCUMENT)
GENERATED = {*PAGES, "reference/permissions.md", "reference/settings.md", "reference/cli.md"}


def test_the_example_of_settings_is_up_to_date():
    assert (PROJECT / ".env.example").read_text(encoding="utf-8") == settings_reference.render_example(), (
        "run `python docs/generators/settings_reference.py`"
    )


def test_every_setting_is_described():
    listed = {field for fields in settings_reference.list_settings().values() for field, _ in fields}
    assert listed == set(Settings.model_fields)


def test_every_command_and_option_is_described():
    parser = cli._parser()
    commands = list(settings_reference.list_commands(parser, parser.prog))
    descriptions = settings_reference.describe_commands(parser)
    assert {name.removeprefix("retrieval ") for name, _ in commands} <= set(descriptions)
    undescribed = [
        f"{name} {action.dest}"
        for name, command in commands
        for action in command._actions
        if not action.help and not isinstance(action, argparse._SubParsersAction)
    ]
    assert undescribed == []


def test_every_operation_is_on_the_page_of_its_tag():
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            assert f"\n{method.upper()} {path}\n" in PAGES[api_reference.page_of_tag(operation["tags"][0])]


def test_every_field_is_shown():
    text = "".join(PAGES.values())
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for field in schema.get("properties", {}):
            shown = f">{field}</code>" in text
            assert shown or field in ("success", "message", "data") or name.startswith(("Error", "TenantError")), field


def test_the_navigation_names_every_page_that_is_made():
    navigation = str(yaml.safe_load((PROJECT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert not [page for page in GENERATED if page not in navigation], "Add these to nav in mkdocs.yml."
