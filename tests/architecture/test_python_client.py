"""The generated Python client matches the OpenAPI description."""

import importlib.util

import pytest

from retrieval.settings import PROJECT_ROOT

pytestmark = pytest.mark.service


def test_the_client_is_as_the_api_describes_itself():
    # `python clients/python/generate.py` writes the client.
    spec = importlib.util.spec_from_file_location("generate_client", PROJECT_ROOT / "clients/python/generate.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert [str(path) for path, text in generator.written().items() if path.read_text(encoding="utf-8") != text] == []
