"""`make docs` fails for dead links, dead anchors and unrendered Markdown."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from retrieval.settings import PROJECT_ROOT

FAULTS = """
[gone](no-such-page.md), [nowhere](concepts.md#no-such-heading)

```python path/to/file.py
x = 1
```

<div>
## Heading in a block
</div>
"""


@pytest.mark.slow
def test_a_dead_link_or_a_broken_fence_fails_the_build_of_the_site(tmp_path):
    shutil.copytree(PROJECT_ROOT / "docs", tmp_path / "docs")
    with (tmp_path / "docs" / "quickstart.md").open("a", encoding="utf-8") as page:
        page.write(FAULTS)
    (tmp_path / "mkdocs.yml").write_text(
        f"INHERIT: {PROJECT_ROOT}/mkdocs.yml\ndocs_dir: {tmp_path}/docs\nsite_dir: {tmp_path}/site\n"
        f"hooks: [{PROJECT_ROOT}/docs/hooks.py]\n"
    )
    recipe = subprocess.run(
        ["env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL", "-u", "ARGS", "make", "--dry-run", "docs"],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()[-1]
    program, *arguments = recipe.split()
    mkdocs = [sys.executable, "-m", Path(program).name, *arguments, "--config-file", str(tmp_path / "mkdocs.yml")]
    built = subprocess.run(mkdocs, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 1
    assert "'no-such-page.md', but the target is not found" in built.stderr
    assert "does not contain an anchor '#no-such-heading'" in built.stderr
    assert "quickstart.md: a code fence is rendered as text" in built.stderr
    assert 'quickstart.md: the heading "Heading in a block" is not rendered as one' in built.stderr
    assert "Aborted with 4 warnings" in built.stdout + built.stderr


def test_the_lint_of_continuous_integration_builds_the_site_in_strict_mode():
    commands = subprocess.run(
        ["env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL", "-u", "ARGS", "make", "--dry-run", "lint"],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert ".venv/bin/mkdocs build --strict\n" in commands
    assert "\nmake lint ||" in (PROJECT_ROOT / ".ci" / "run").read_text()
