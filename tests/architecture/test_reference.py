"""The reference pages and `.env.example` match the code."""

import re

import pytest
import yaml

import api_reference
import settings_reference
from local import cli
from retrieval.settings import PROJECT_ROOT, Settings
from tests.api.description import DOCUMENT

REFERENCE_PAGES = api_reference.render_pages(DOCUMENT)
GENERATED_PAGES = {*REFERENCE_PAGES, "reference/permissions.md", "reference/settings.md", "reference/cli.md"}


def test_the_example_of_settings_is_up_to_date():
    assert (PROJECT_ROOT / ".env.example").read_text(encoding="utf-8") == settings_reference.render_example(), (
        "run `python docs/generators/settings_reference.py`"
    )


def test_every_setting_is_described():
    documented = {field for fields in settings_reference.list_settings().values() for field, _ in fields}
    assert documented == set(Settings.model_fields)


def test_every_command_and_option_is_described():
    parser = cli.make_parser(settings_reference.RecordingParser)
    commands = list(settings_reference.list_commands(parser, parser.prog))
    undescribed = [name for name, description, _ in commands if not description]
    undescribed += [
        f"{name} {action.dest}" for name, _, command in commands for action in command.arguments if not action.help
    ]
    for _, _, command in commands:
        names = {name for action in command.arguments for name in action.option_strings}
        assert set(re.findall(r"--[a-z][a-z-]+", command.format_usage())) <= names
    assert len(commands) > 40
    assert not undescribed, "Give each of these a `help` in local/."


def test_every_operation_is_on_the_page_of_its_tag():
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            assert f"\n{method.upper()} {path}\n" in REFERENCE_PAGES[api_reference.page_of_tag(operation["tags"][0])]


def test_every_field_is_shown():
    text = "".join(REFERENCE_PAGES.values())
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for field in schema.get("properties", {}):
            is_documented = f">{field}</code>" in text
            assert (
                is_documented or field in ("success", "message", "data") or name.startswith(("Error", "TenantError"))
            ), field


def test_the_navigation_names_every_page_that_is_made():
    navigation = str(yaml.safe_load((PROJECT_ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert not [page for page in GENERATED_PAGES if page not in navigation], "Add these to nav in mkdocs.yml."


@pytest.mark.parametrize("value", ["/srv/a files,/srv/b", '["/srv/a files", "/srv/b"]'])
def test_a_list_is_read_with_commas_or_as_json(value, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_SOURCE_FOLDERS", value)
    monkeypatch.setenv("RETRIEVAL_OPENAI_MODELS", value.replace("/srv/a files", "small").replace("/srv/b", "large"))
    settings = Settings(_env_file=None)
    assert settings.source_folders == ["/srv/a files", "/srv/b"]
    assert settings.openai_models == ["small", "large"]
