"""Runs of a question set: settings, progress, measures with intervals, wins and losses, history."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import charts, frame, question_sets, url_state, widgets
from ui.parts.labels import format_milliseconds, parse_time
from ui.parts.widgets import escape_markdown

METRIC_LABELS = {
    "ndcgAt10": "nDCG@10",
    "recallAt10": "Recall@10",
    "recallAt100": "Recall@100",
    "mrr": "MRR",
    "spanRecallAt10": "Span recall@10",
}
MAX_LISTED_RUNS = 30
# Of a run, most changed first.
MAX_CHANGED_QUESTIONS = 50
PROGRESS_CHECK_SECONDS = 2.0
OPEN_STATUSES = frozenset({"QUEUED", "RUNNING"})
DEFAULT_SETTINGS: list[Json] = [
    {"Name": "semantic", "Semantic weight": 1.0},
    {"Name": "hybrid", "Semantic weight": 0.5},
    {"Name": "keyword", "Semantic weight": 0.0},
]
SETTING_COLUMNS = (
    "Name",
    "Semantic weight",
    "Top K",
    "Per document",
    "Reranking",
    "Half-life (days)",
    "Recency weight",
)


def start_comparison(person: session.Person, namespace: str, evaluation: Json) -> None:
    st.caption("Each row is a setting, searched with every question. Differences are relative to the first row.")
    column = st.column_config
    rows = st.data_editor(
        [{**dict.fromkeys(SETTING_COLUMNS), **row} for row in DEFAULT_SETTINGS],
        num_rows="dynamic",
        placeholder="default",
        hide_index=True,
        width="stretch",
        key=f"settings-{evaluation['id']}",
        column_config={
            "Name": column.TextColumn(required=True, max_chars=100),
            "Semantic weight": column.NumberColumn(required=True, min_value=0.0, max_value=1.0, step=0.05, default=0.5),
            "Top K": column.NumberColumn(min_value=1, max_value=100, step=1, help="100 if empty."),
            "Per document": column.NumberColumn(min_value=1, max_value=100, step=1),
            "Reranking": column.CheckboxColumn(help="Needs a namespace with a reranker."),
            "Half-life (days)": column.NumberColumn(min_value=0.01),
            "Recency weight": column.NumberColumn(min_value=0.0, max_value=1.0, step=0.05),
        },
    )
    compare = partial(_start_run, person, namespace, evaluation["id"], rows)
    st.button("Compare settings", type="primary", icon=":material/compare_arrows:", on_click=compare)


def _start_run(person: session.Person, namespace: str, evaluation: str, rows: list[Json]) -> None:
    with frame.shown_refusal(frame.keep_outcome):
        body = {"namespaceId": namespace, "settings": [build_setting(row) for row in rows]}
        run = widgets.post_once(person, f"/v1/evaluations/{evaluation}/runs", body)["run"]
        session.set_parameters(run=run["id"], tab="Results")


def build_setting(row: Json) -> Json:
    """Convert a table row to the API's setting, without empty cells (None or NaN)."""
    row = {name: value for name, value in row.items() if value is not None and value == value}  # noqa: PLR0124
    semantic = min(max(float(row.get("Semantic weight") or 0), 0.0), 1.0)
    body: Json = {
        "name": str(row.get("Name") or "").strip(),
        "semanticWeight": round(semantic, 6),
        "keywordWeight": round(1 - semantic, 6),
        "rerank": bool(row.get("Reranking")),
    }
    for column, name in (("Top K", "topK"), ("Per document", "perDocument")):
        if row.get(column):
            body[name] = int(row[column])
    if row.get("Half-life (days)"):
        weight = row.get("Recency weight")
        body["recency"] = {
            "halfLifeDays": float(row["Half-life (days)"]),
            "weight": 0.2 if weight is None else float(weight),
        }
    return body


def show_results(person: session.Person, namespace: str, evaluation: Json) -> None:
    runs = _list_runs(person, namespace, evaluation)
    if not runs:
        widgets.show_empty("Not compared yet.", "Choose settings under Compare and start a run.")
        return
    labels = {run["id"]: _run_label(run) for run in runs}
    if linked := session.read_id("run"):
        labels.setdefault(linked, f"Run {linked[-6:]}")
    choice: Json = {"default": runs[0]["id"], "options": labels, "writes_default": True}
    run_id = url_state.bind_field(st.selectbox, "run", "Run", prefix="measured", **choice)
    path = f"/v1/evaluations/{evaluation['id']}/runs/{run_id}"
    run = person.api.get(path, namespaceId=namespace, questionLimit=0)["run"]
    widgets.status_badge(run["status"])
    if run["status"] in OPEN_STATUSES:
        fetch = partial(person.api.get, path, namespaceId=namespace, questionLimit=0)
        frame.follow(
            {"run": run},
            fetch,
            lambda data: data["run"]["status"] in OPEN_STATUSES,
            _show_progress,
            PROGRESS_CHECK_SECONDS,
        )
    elif run["status"] == "FAILED":
        st.error(f"The run failed: {escape_markdown(run['error'] or '')}", icon=":material/error:")
    else:
        _show_measures(run)
        for setting in run["settings"]:
            if calibration := setting.get("calibration"):
                unanswered = f"{calibration['refusedAt95']:.0%} of {calibration['unanswerable']:,} questions"
                st.caption(f"{escape_markdown(setting['name'])}: {unanswered} without an answer are recognized.")
        _show_changes(person, namespace, evaluation, run, path)


def _list_runs(person: session.Person, namespace: str, evaluation: Json) -> list[Json]:
    path = f"/v1/evaluations/{evaluation['id']}/runs"
    return list(person.api.get(path, namespaceId=namespace, pageSize=MAX_LISTED_RUNS)["runs"])


def _run_label(run: Json) -> str:
    names = ", ".join(setting["name"] for setting in run["settings"])
    # The browser keeps the label that was chosen: it does not change with the run.
    created = f"{parse_time(run['createdAt']):%d %b %Y, %H:%M:%S} UTC"
    return f"{created} · {names if len(names) <= 60 else names[:60] + ' …'}"


def _show_progress(data: Json) -> None:
    progress = data["run"]["progress"]
    if progress is None:
        is_queued = data["run"]["status"] == "QUEUED"
        st.progress(0.0, "Queued: it begins when a worker is free." if is_queued else "Begins …")
    else:
        share = progress["asked"] / max(progress["total"], 1)
        st.progress(min(share, 1.0), f"{progress['asked']:,} of {progress['total']:,} searches")


def _show_measures(run: Json) -> None:
    settings = run["settings"]
    first = settings[0]["name"]
    metric_names = [
        name for name in METRIC_LABELS if any((setting.get("metrics") or {}).get(name) for setting in settings)
    ]
    widgets.show_table([_measure_row(setting, first, metric_names) for setting in settings])
    st.caption(
        "In brackets the 95 % interval of the mean, by a paired bootstrap over the questions. Better and worse count"
        f" the questions whose first right document stands higher or lower than under “{escape_markdown(first)}”."
    )
    metric = _choose_metric(metric_names, "measure")
    measured = [(setting["name"], setting["metrics"][metric]) for setting in settings if setting["metrics"].get(metric)]
    if not any(value["value"] for _, value in measured):
        depth = 100 if metric == "recallAt100" else 10
        st.info(f"No setting found a judged document in its first {depth}.")
        return
    st.markdown(describe_winner(measured, METRIC_LABELS[metric]))
    if len({value["value"] for _, value in measured}) == 1:
        return
    left_column, right_column = st.columns(2)
    with left_column:
        rows = [_make_interval(name, value["value"], value["ci95"]) for name, value in measured]
        charts.interval_chart(rows, title=f"{METRIC_LABELS[metric]}, 95 % interval")
    differences = [
        _make_interval(name, value["value"] - measured[0][1]["value"], value["deltaCi95"])
        for name, value in measured
        if value["deltaCi95"]
    ]
    if differences:
        with right_column:
            charts.interval_chart(differences, title=f"Difference from {first}, 95 % interval", zero=True)


def _choose_metric(names: list[str], key: str) -> str:
    choice: Json = {"default": names[0], "required": True, "format_func": METRIC_LABELS.__getitem__, "key": key}
    return str(st.segmented_control("Measure", names, **choice) or names[0])


def describe_winner(measured: Sequence[tuple[str, Json]], metric: str) -> str:
    """Describe the best setting in a sentence; the first stays unless another is clearly better."""
    # Only an interval without 0 is a reason to act.
    (first, base), *others = measured
    better = [(name, value) for name, value in others if (value["deltaCi95"] or [0])[0] > 0]
    if not others:
        return f"**{escape_markdown(first)}** has a {metric} of {base['value']:.3f}."
    if not better:
        return (
            f":gray-badge[no clear winner] No setting has a clearly higher {metric} than **{escape_markdown(first)}**."
        )
    name, value = max(better, key=lambda entry: float(entry[1]["value"]))
    change, (low, high) = value["value"] - base["value"], value["deltaCi95"]
    return (
        f":green-badge[winner] **{escape_markdown(name)}** has the best {metric}, {value['value']:.3f}:"
        f" {change:+.3f} [{low:+.3f}, {high:+.3f}] against {escape_markdown(first)}."
    )


def _make_interval(name: str, value: float, bounds: list[float]) -> Json:
    return {"setting": name, "value": value, "low": bounds[0], "high": bounds[1]}


def _measure_row(setting: Json, first: str, metric_names: Sequence[str]) -> Json:
    compared, latency = setting.get("compared"), setting["latencyMs"]
    outcome = f"{compared['better']} / {compared['same']} / {compared['worse']}" if compared else f"({first})"
    return {
        "Setting": setting["name"],
        "Semantic weight": setting["semanticWeight"],
        **{METRIC_LABELS[name]: _format_measure(setting["metrics"].get(name)) for name in metric_names},
        "Latency p50": format_milliseconds(latency["p50"]),
        "Latency p95": format_milliseconds(latency["p95"]),
        "Better / same / worse": outcome,
        **({"Reranked": setting["reranked"]} if setting.get("reranked") is not None else {}),
    }


def _format_measure(measured: Json | None) -> str:
    return "-" if not measured else "{:.3f} [{:.3f}, {:.3f}]".format(measured["value"], *measured["ci95"])


def _show_changes(person: session.Person, namespace: str, evaluation: Json, run: Json, path: str) -> None:
    names = [setting["name"] for setting in run["settings"]]
    st.header("Wins and losses")
    against = names[1:] or names
    changed = st.selectbox(
        f"Questions that changed most against “{escape_markdown(names[0])}” under",
        against,
        disabled=len(against) < 2,
        key=f"changed-{run['id']}",
    )
    query = {"changed": changed} if len(names) > 1 else {}
    questions = person.api.get(path, namespaceId=namespace, questionLimit=MAX_CHANGED_QUESTIONS, **query)["run"][
        "questions"
    ]
    rows = [question_row(setting, names[0], changed) for setting in questions]
    chosen = widgets.clicked_row(rows, "changes_table", [setting["query"] for setting in questions])
    st.caption("Ranks are those of the first right document. Click a row to look at the question in the search lab.")
    if chosen is not None:
        question_sets.link_lab(evaluation["id"], {"query": chosen})


def question_row(question: Json, first: str, changed: str) -> Json:
    if "error" in question:
        return {"Change": "failed", "Question": question["query"]} | dict.fromkeys((first, changed), question["error"])
    ranks = {
        name: min((rank for rank in question["ranks"].get(name, []) if rank is not None), default=None)
        for name in (first, changed)
    }
    former, current = (ranks[name] or 10_000 for name in (first, changed))
    mark = "=" if former == current else "▲ win" if current < former else "▼ loss"
    shown = {name: str(rank or "not found") for name, rank in ranks.items()}
    return {"Change": mark, "Question": question["query"], **shown}
