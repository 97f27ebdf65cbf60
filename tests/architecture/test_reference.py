"""The reference pages and `.env.example` match the code."""

import inspect
import json
import re
import shlex
import textwrap
from pathlib import Path

import jsonschema
import pytest
import yaml

import api_reference
import postman_collection
import settings_reference
from local import cli
from retrieval.settings import PROJECT_ROOT, Settings
from retrieval_client._sync.operations import Operations
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


def examples_of(section, language):
    return [
        textwrap.dedent(code)
        for code in re.findall(rf"^ *```{language}\n(.*?)^ *```", section, re.MULTILINE | re.DOTALL)
    ]


class RecordedClient:
    """`client` of an example: checks each call against the client's method."""

    @property
    def api(self):
        return self

    def __getattr__(self, name):
        signature = inspect.signature(getattr(Operations, name))
        return lambda *arguments, **options: signature.bind(None, *arguments, **options)


@pytest.mark.parametrize("page", sorted(page for page in REFERENCE_PAGES if page != "reference/api/types.md"))
def test_every_operation_has_examples_that_hold(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heat-pump-manual.pdf").touch()
    for section in re.split(r"^## ", REFERENCE_PAGES[page], flags=re.MULTILINE)[1:]:
        method, path = re.search(r"```text\n(\w+) (\S+)\n", section).groups()
        operation = DOCUMENT["paths"][path][method.lower()]
        command, *others = examples_of(section, "bash")
        words = shlex.split(command)
        assert (words[:2], others) == (["curl", "-sS"], [])
        if "-d" in words:
            [content] = operation["requestBody"]["content"].values()
            assert_valid(json.loads(words[words.index("-d") + 1]), content["schema"])
        for call in examples_of(section, "python"):
            eval(call, {"client": RecordedClient(), "Path": Path})
        answer = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
        if schema := answer.get("content", {}).get("application/json", {}).get("schema"):
            assert_valid(json.loads(examples_of(section, "json")[-1]), schema)


def test_the_postman_collection_has_every_operation_with_a_valid_body():
    collection = postman_collection.build_collection(DOCUMENT)
    requests = [item["request"] for folder in collection["item"] for item in folder["item"]]
    expected = [(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods]
    paths = ["/" + "/".join(request["url"]["path"]) for request in requests]
    names = [re.sub(r":(\w+)", r"{\1}", path) for path in paths]
    assert sorted(zip([request["method"] for request in requests], names, strict=True)) == sorted(expected)
    for request, name in zip(requests, names, strict=True):
        operation = DOCUMENT["paths"][name][request["method"].lower()]
        values = [pair["value"] for pair in request["url"]["variable"]]
        assert len(values) == name.count("{")
        assert "" not in values
        if request.get("body", {}).get("mode") == "raw":
            [content] = operation["requestBody"]["content"].values()
            assert_valid(json.loads(request["body"]["raw"]), content["schema"])


def assert_valid(value, schema):
    whole = {"components": DOCUMENT["components"], **schema}
    jsonschema.validate(value, whole, jsonschema.Draft202012Validator)


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
