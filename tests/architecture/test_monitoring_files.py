"""Dashboard, alert rules and runbook use existing metrics, and every alert has a runbook section."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from retrieval.metrics.catalog import CATALOG, Kind
from retrieval.settings import PROJECT_ROOT

DEPLOY = PROJECT_ROOT / "deploy"
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((DEPLOY / "grafana" / "retrieval.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RUNBOOK = (PROJECT_ROOT / "docs" / "runbook.md").read_text()
EXPRESSIONS = [rule["expr"] for rule in RULES] + [target["expr"] for panel in PANELS for target in panel["targets"]]
METRICS_BY_SAMPLE = {name: metric for metric in CATALOG.values() for name in metric.sample_names()}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_each_figure_that_is_asked_for_is_told_with_the_labels_that_are_asked_for(expression):
    metrics = re.findall(r"\b(retrieval_\w+)(?:\{([^}]*)\})?", expression)
    assert metrics
    for name, labels in metrics:
        assert name in METRICS_BY_SAMPLE, f"{name} is no figure"
        metric = METRICS_BY_SAMPLE[name]
        for label, comparison, label_value in re.findall(r'(\w+)\s*(=~|!=|=)\s*"([^"]*)"', labels):
            assert label in metric.labels
            assert comparison != "=" or label_value in metric.labels[label], f"{label} is never {label_value}"
            assert comparison != "=~" or set(label_value.split("|")) <= set(metric.labels[label])
        if metric.kind is not Kind.GAUGE:
            assert re.search(rf"(rate|increase)\({name}\b", expression), f"{name} only ever grows"
    by = {label.strip() for labels in re.findall(r"by \(([^)]*)\)", expression) for label in labels.split(",")}
    assert by - {"le"} <= {label for name, _ in metrics for label in METRICS_BY_SAMPLE[name].labels}
    assert expression.count("(") == expression.count(")")


def test_each_alert_says_what_to_do_and_the_runbook_holds_nothing_else():
    names = [rule["alert"] for rule in RULES]
    assert re.findall(r"^## (.+)$", RUNBOOK, re.MULTILINE) == names
    for rule in RULES:
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        section = RUNBOOK.partition(f"## {rule['alert']}\n")[2].partition("\n## ")[0]
        assert len(section.split()) > 25


def test_every_figure_is_described_and_shown_or_watched():
    described = (PROJECT_ROOT / "docs" / "operations" / "monitoring.md").read_text()
    together = "\n".join(EXPRESSIONS)
    for metric in CATALOG.values():
        assert metric.name in described or metric.name.removeprefix("retrieval_database_") in described, metric.name
        assert any(name in together for name in metric.sample_names()), (
            f"{metric.name} is on no dashboard and in no rule"
        )


needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (Debian's prometheus) here")


def promtool(*arguments):
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_prometheus_takes_its_configuration_with_the_rules():
    promtool("check", "config", str(DEPLOY / "prometheus" / "prometheus.yaml"))
