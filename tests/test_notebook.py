"""The notebook in examples/, run as Jupyter does, and the tables that it shows."""

import json
import pickle
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from traingraph import nn

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "notebook.ipynb"


class Table(HTMLParser):
    """The cells of each row; what is not closed in its order fails."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.caption, self.rows, self.tags = "", list[list[str]](), list[str]()
        self.feed(html)
        self.close()
        assert self.tags == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("table", "caption", "thead", "tbody", "tr", "th", "td")
        assert all(name == "style" for name, _ in attrs)
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.tags.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.tags[-1] == "caption":
            self.caption += data
        else:
            assert self.tags[-1] in ("th", "td")
            self.rows[-1][-1] += data


def table(shown: object) -> Table:
    return Table(shown._repr_html_())  # type: ignore[attr-defined]


ODD = "</td><script>alert('&amp;')</script> \"Ω\""


def model() -> tg.MLCTrainingGraph:
    made = nn.model([nn.dense(3), "relu", nn.dense(2)], input=4, device="cpu")
    made.layers[0].label = ODD
    return made


def test_a_graph_and_its_summary() -> None:
    made = model()
    of_graph, summary = table(made), made.summary()
    assert of_graph.caption == repr(made)
    assert of_graph.rows == table(summary).rows
    head, first, *_, last = of_graph.rows
    assert head == ["layer", "result", "id", "parameters"]
    assert first == [f"FullyConnected 4 → 3 '{ODD}'", "(32, 3)", str(made.layers[0].layer_id), "15"]
    assert last == ["all layers", "", "", "23"]
    # Each line of the text is a row.
    assert isinstance(summary, str)
    assert len(summary.splitlines()) == len(of_graph.rows)
    assert ODD in summary
    again = pickle.loads(pickle.dumps(summary))
    assert (again, again._repr_html_()) == (str(summary), summary._repr_html_())
    graph = tg.MLCGraph()
    assert table(graph).rows[1:] == [["all layers", "", "", "0"]]
    graph.node(tg.MLCActivationLayer.relu(), source=tg.MLCTensor(shape=[2, 3]))
    assert len(table(graph).rows) == 3
    assert len(table(tg.MLCInferenceGraph(graph_objects=[graph]).summary()).rows) == 3


def test_a_plan_of_memory() -> None:
    plan = model().memory_plan()
    shown = table(plan)
    assert shown.caption == f"MemoryPlan of {plan.total_bytes} bytes"
    rows = {tuple(row[:2]): int(row[2]) for row in shown.rows[1:7]}
    assert rows["total", "asked for"] == plan.total_bytes
    assert rows["arena", "shared"] == plan.arena_bytes
    entries = [[e.name, e.kind, str(e.bytes)] for e in plan.entries]
    assert sorted(shown.rows[7:]) == sorted(entries)
    assert any(ODD in row[0] for row in shown.rows)
    large = nn.model([nn.dense(4), "tanh"] * 30, input=4, device="cpu").memory_plan()
    *listed, rest = table(large).rows[7:]
    assert rest[:2] == [f"{len(large.entries) - len(listed)} smaller ones", "sum"]
    sizes = [int(row[2]) for row in listed]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) + int(rest[2]) == sum(e.bytes for e in large.entries)


def test_a_profile() -> None:
    step = model().execute(
        inputs_data={"x": np.zeros((32, 4), np.float32)},
        loss_labels_data={"y": np.zeros(32, np.int32)},
        options="synchronous|per_layer_profiling",
    )
    assert step.profile is not None
    shown = table(step.profile)
    assert [row[0] for row in shown.rows[1:-1]] == [one.layer for one in step.profile.layers]
    for row, layer in zip(shown.rows[1:], step.profile.layers, strict=False):
        times = [layer.forward, layer.gradient, layer.update, layer.seconds]
        assert [float(text) for text in row[1:]] == pytest.approx(
            [t * 1e6 for t in times], abs=0.06
        )
    assert shown.rows[-1][0] == "all layers"
    assert sum(float(row[-1]) for row in shown.rows[1:-1]) == pytest.approx(
        float(shown.rows[-1][-1]), abs=0.5
    )


def test_names_of_many_letters_are_shortened() -> None:
    made = nn.model([nn.dense(3)], input=4, device="cpu")
    for letters in ("Ω" * 100_000, "a" * 100_000 + "end"):
        made.layers[0].label = letters
        made.compile(device="cpu")
        step = made.execute(
            inputs_data={"x": np.zeros((32, 4), np.float32)},
            loss_labels_data={"y": np.zeros(32, np.int32)},
            options="synchronous|per_layer_profiling",
        )
        plan, summary = made.memory_plan(), made.summary()
        for shown in (made, summary, plan, step.profile):
            assert len(shown._repr_html_()) < 20_000
            assert f"{letters[:50]}" in shown._repr_html_()
            assert "…" in shown._repr_html_()
        assert len(summary) < 2_000
        assert max(len(line) for line in str(plan).splitlines()) < 300
        assert step.profile is not None
        assert max(len(line) for line in step.profile.table().splitlines()) < 300
        assert any(letters in entry.name for entry in plan.entries)  # the numbers have it whole


def test_the_notebook_is_kept_without_outputs() -> None:
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("ipykernel")
    nbclient: Any = pytest.importorskip("nbclient")
    nbformat: Any = pytest.importorskip("nbformat")
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    graph, summary, plan, printed, profile = ([output] for (output,) in outputs)
    tables = [Table(one[0].data["text/html"]) for one in (graph, summary, plan, profile)]
    assert tables[0].caption.startswith("<MLCTrainingGraph of 3 layers on ")
    assert tables[0].rows[-1] == ["all layers", "", "", "4810"]
    assert tables[1].rows[1][0] == "FullyConnected 64 → 64 'pixels <64>'"
    assert tables[2].rows[5][0] == "total"
    assert tables[3].rows[-1][0] == "all layers"
    assert float(printed[0].text.removeprefix("accuracy ")) > 0.85
