"""The pages of docs/ say what happens: their Python blocks run, their names exist."""

import json
import re
import runpy
import subprocess
from pathlib import Path

import numpy as np
import pytest

import traingraph

ROOT = Path(__file__).resolve().parents[1]
CLASSES = sorted(path for path in (ROOT / "docs/classes").glob("*.md") if path.stem != "README")
OTHERS = [
    path
    for folder in ("docs", "docs/backends")
    for path in sorted((ROOT / folder).glob("*.md"))
    if path.stem != "checkpoints"
]
PAGES = [*CLASSES, *OTHERS]  # tests/checkpoint runs that page, in a folder of its own
HEADERS = "\n".join(path.read_text() for path in (ROOT / "cpp/include").rglob("*.h"))

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def python(text: str) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def run(code: str) -> tuple[list[str], list[str]]:
    """What a page's blocks print, one after another, and what their comments promise.

    A line `print(…)  # text` promises its text, in the order of the lines.
    """
    printed: list[str] = []

    def show(*values: object) -> None:
        printed.append(" ".join(map(str, values)))

    namespace: dict[str, object] = {"__name__": "page", "print": show}
    exec(compile(code, "page", "exec"), namespace)
    return printed, re.findall(r"^ *print\(.*\)  # (.+)$", code, re.MULTILINE)


@every_page
def test_blocks_do_what_they_say(page: Path) -> None:
    code = python(page.read_text())
    for package in ("torch", "sklearn"):
        if re.search(rf"^(import|from) {package}\b", code, re.MULTILINE):
            pytest.importorskip(package)
    printed, promised = run(code)
    assert printed == promised


def test_a_broken_promise_is_found() -> None:
    assert run("print(1 + 1)  # 2")[0] == ["2"]
    printed, promised = run("print(1 + 1)  # 3")
    assert printed != promised
    printed, promised = run("print(1 + 1)")
    assert printed != promised
    with pytest.raises(NameError):
        run("undefined")


# --- names ---------------------------------------------------------------------------------------


def names_of(text: str) -> set[str]:
    """What a page is about: its headings, and the first column of its tables."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    rows = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    return {name for heading in headings for name in heading.split(", ")} | set(rows)


@pytest.mark.parametrize("name", sorted(traingraph.__all__))
def test_every_public_name_has_a_page_with_an_example(name: str) -> None:
    pages = [page for page in CLASSES if name in names_of(page.read_text())]
    assert pages, f"no page of docs/classes is about {name}"
    examples = [python(page.read_text()) for page in CLASSES]
    assert any(re.search(rf"\b{name}\b", example) for example in examples), name


@pytest.mark.parametrize("name", sorted(traingraph.nn.__all__))
def test_every_short_form_is_shown_on_a_page(name: str) -> None:
    examples = [python(page.read_text()) for page in CLASSES]
    assert any(re.search(rf"\bnn\.{name}\b", example) for example in examples), name


def test_every_class_page_has_an_example_and_a_name_in_cpp() -> None:
    for page in CLASSES:
        text = page.read_text()
        assert python(text), page.name
        assert re.search(r"^C\+\+: ", text, re.MULTILINE), page.name


def unknown(text: str) -> list[str]:
    """Names of members, in Python or C++, that are none. A table's first column may be Swift."""
    wrong = []
    text = re.sub(r"^\| `[^|]*\|", "|", text, flags=re.MULTILINE)
    for owner, member in re.findall(r"\b(MLC\w+|MemoryPlan)\.(\w+)", text):
        cls = getattr(traingraph, owner, getattr(traingraph._core, owner, None))
        if cls is None or (member != "md" and not hasattr(cls, member)):
            wrong.append(f"{owner}.{member}")
    for owner, member in re.findall(r"\btraingraph::(\w+)(?:::(\w+))?", text):
        kinds = "class|struct|enum class|namespace|using|TensorPtr|TRAINGRAPH_API"
        declared = rf"\b({kinds})\b.*\b{owner}\b"
        if not re.search(declared, HEADERS) or (
            member and not re.search(rf"\b{member}\b", HEADERS)
        ):
            wrong.append(f"traingraph::{owner}::{member}".removesuffix("::"))
    return wrong


@every_page
def test_names_exist(page: Path) -> None:
    assert unknown(page.read_text()) == []


def test_an_unknown_name_is_found() -> None:
    assert unknown("MLCTensor.data traingraph::Tensor traingraph::Tensor::copy_to") == []
    assert unknown("MLCTensor.dta") == ["MLCTensor.dta"]
    assert unknown("MLCTensors.data") == ["MLCTensors.data"]
    assert unknown("traingraph::Tensr") == ["traingraph::Tensr"]
    assert unknown("traingraph::Tensor::copy_too") == ["traingraph::Tensor::copy_too"]


# --- the table of calls --------------------------------------------------------------------------


def calls(column: int) -> list[str]:
    """The code of one column of the table Swift, Python, C++; what has an ellipsis is no code."""
    text = (ROOT / "docs/from_ml_compute.md").read_text()
    table = text[text.index("| Swift |") : text.index("The order of calls")].splitlines()[2:]
    spans = [re.findall(r"`([^`]+)`", row.split(" | ")[column]) for row in table if row]
    return [span for row in spans for span in row if "…" not in span]


def objects() -> dict[str, object]:
    """What the names in the table's Python stand for: a compiled training graph and its parts."""
    d = traingraph.MLCTensorDescriptor(shape=[4, 1])
    x, y = traingraph.MLCTensor(descriptor=d), traingraph.MLCTensor(descriptor=d)
    array = np.zeros((4, 1), np.float32)
    channels = traingraph.MLCConvolutionDescriptor(
        kernel_sizes=(1, 1), input_feature_channel_count=1, output_feature_channel_count=1
    )
    w, b = (traingraph.MLCTensor(shape=[1, 1], fill_with_data=0.0) for _ in range(2))
    layer = traingraph.MLCFullyConnectedLayer(weights=w, biases=b, descriptor=channels)
    graph = traingraph.MLCGraph()
    result = graph.node(layer, source=x)
    loss = traingraph.MLCLossLayer.mean_squared_error(reduction_type="mean")
    adam = traingraph.MLCAdamOptimizer(learning_rate=0.1)
    training = traingraph.MLCTrainingGraph(graph_objects=[graph], loss_layer=loss, optimizer=adam)
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    values, tensors = {"x": array, "y": array}, {"x": x, "y": y}
    training.bind_and_write_data(values, for_inputs=tensors)
    handle = training.execute_forward(options="synchronous")
    training.execute_gradient(options="synchronous")
    memory, tensor = bytearray(16), traingraph.MLCTensor(data=array)
    other = traingraph.MLCTrainingGraph(graph_objects=[traingraph.MLCGraph()])
    return {**vars(traingraph), **locals()}


def test_python_calls_of_the_table() -> None:
    found = calls(1)
    assert len(found) > 20
    for call in found:
        names = objects()
        if "graph.node" in call:
            one = "source=" in call
            names["layer"] = (
                traingraph.MLCActivationLayer.relu()
                if one
                else traingraph.MLCArithmeticLayer(operation="add")
            )
        if ".link(" in call:  # before a compile
            graph = traingraph.MLCGraph()
            names["training"] = traingraph.MLCTrainingGraph(graph_objects=[graph])
        eval(call, names)


CPP = """
#include <traingraph/traingraph.h>
using namespace traingraph;
void calls(TensorDescriptor d, TensorData data, void* p, std::size_t n, TensorPtr x, TensorPtr y,
           TensorPtr w, TensorPtr b, TensorPtr tensor, LayerPtr layer, LayerPtr loss,
           ConvolutionDescriptor channels, OptimizerPtr adam, GraphPtr graph,
           TensorPtr result, std::vector<GraphPtr> graphs, TrainingGraph& training,
           std::shared_ptr<TrainingGraph> other,
           InferenceGraph& inference, ExecutionArguments arguments, NamedData values,
           NamedTensors tensors, std::function<void()> f) {
%s
}
"""


def test_cpp_calls_of_the_table(tmp_path: Path) -> None:
    found = calls(2)
    assert len(found) > 20
    for name, lines, compiles in (
        ("calls", found, True),
        ("wrong", ["training.no_such_call()"], False),
    ):
        source = tmp_path / f"{name}.cpp"
        source.write_text(CPP % "".join(f"  (void)({line}, 0);\n" for line in lines))
        command = ["c++", "-std=c++20", "-fsyntax-only", "-I", ROOT / "cpp/include", source]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode == 0) is compiles, done.stderr


def test_the_page_on_architecture_stays_short() -> None:
    lines = (ROOT / "docs/architecture.md").read_text().splitlines()
    assert len(lines) <= 200
    assert max(map(len, lines)) <= 120


def test_tables_are_those_of_the_package() -> None:
    tables = runpy.run_path(str(ROOT / "docs/class_tables.py"))
    texts = [path.read_text() for path in tables["PAGES"]]
    for text in texts:
        assert tables["updated"](text) == text, "run python docs/class_tables.py"
    found = {name for text in texts for name in re.findall(r"<!-- arguments: (\w+)", text)}
    assert {layer.__name__ for layer in tables["layers"]()} <= found
    assert sum("<!-- support -->" in text for text in texts) == 1
    empty = "<!-- arguments: MLCDropoutLayer -->\n<!-- end -->\n"
    assert "| `seed` | int |" in tables["updated"](empty)


def test_the_short_table_of_layers_is_that_of_the_long_one() -> None:
    page = (ROOT / "docs/support.md").read_text()
    said = page.split("<!-- layers -->\n")[1].split("<!-- end -->\n")[0]
    rows = re.findall(r"^\| MLC(\w+)Layer \| [^|]*float32[^|]* \| (.*) \|$", page, re.MULTILINE)
    assert f"All {len(rows)} layers run on *reference*, *cpu*, *cuda* and *bnns*." in said
    for name, cells in rows:
        exception = re.search(
            rf"^\| (?:[\w, ]+, )?{name}(?:, [\w, ]+)? \| (.*) \|$", said, re.MULTILINE
        )
        *whole, metal, bnns = cells.split(" | ")
        assert {*whole, bnns} == {"runs"}
        assert (exception[1] if exception else "runs") == metal, name


def test_what_changes_in_the_long_table_changes_the_short_one() -> None:
    with_layers = runpy.run_path(str(ROOT / "docs" / "class_tables.py"))["with_layers"]
    head = "| layer | types | reference | cpu | cuda | metal | bnns |\n"
    runs = "| MLCSoftmaxLayer | float32, float64 | runs | runs | runs | runs | runs |\n"
    odd = "| MLCLossLayer | float32 | runs | runs | no kernel of loss | composed | runs |\n"
    other = "| MLCLossLayer | int8 | x | x | x | x | x |\n"
    empty = "a\n<!-- layers -->\n<!-- end -->\nb\n"

    def said(page: str) -> str:
        return with_layers(empty + page).split("-->\n")[1].removesuffix("<!-- end ")

    devices = "*reference*, *cpu*"
    assert said(head + runs + other) == (
        f"All 1 layers run on {devices}, *cuda*, *metal* and *bnns*.\n"
    )
    assert said(head + runs + odd + other) == (
        f"All 2 layers run on {devices} and *bnns*. On *cuda* and *metal* some layers lack kernels "
        "of their own:\n\n| layers | cuda | metal |\n|---|---|---|\n| Loss | no | composed |\n"
    )


# --- environment variables -----------------------------------------------------------------------

# Functions of the core that are given the name of a variable.
READS = re.compile(r'\b(?:getenv|environment|stack_bytes_of)\(("\w+"|\w+)\)')
# One process of `verify` tells another one by it.
PRIVATE = {"TRAINGRAPH_VERIFY_RECORD"}


def first_column(text: str) -> set[str]:
    cells = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)(?:=\w+)?`", cell)}


def test_environment_variables_and_options_are_those_of_the_page() -> None:
    page = (ROOT / "docs/environment.md").read_text()
    running, building, options = re.split(r"^## When building|^Options of CMake", page, flags=re.M)
    core = "".join(path.read_text() for path in (ROOT / "cpp/src").rglob("*.cpp"))
    read = set(READS.findall(core))
    assert {name for name in read if not name.startswith('"')} == {"name", "variable"}
    package = "".join(path.read_text() for path in (ROOT / "python/traingraph").rglob("*.py"))
    named = set(re.findall(r'"((?:TRAINGRAPH|OMP|GOMP)_[A-Z_]+)"', package))
    found = {name.strip('"') for name in read if name.startswith('"')} | named - PRIVATE
    assert first_column(running) == found
    project = (ROOT / "pyproject.toml").read_text()
    assert set(re.findall(r"if\.env\.(\w+)", project)) <= first_column(building)
    cmake = (ROOT / "CMakeLists.txt").read_text()
    declared = re.findall(r"^(?:option\((\w+)|set\((TRAINGRAPH_\w+) .*CACHE)", cmake, re.MULTILINE)
    assert first_column(options) == {one or other for one, other in declared}


def test_presets_are_those_of_contributing_and_set_options_that_exist() -> None:
    presets = json.loads((ROOT / "CMakePresets.json").read_text())
    page = (ROOT / "CONTRIBUTING.md").read_text()
    cmake = (ROOT / "CMakeLists.txt").read_text()
    for preset in presets["configurePresets"]:
        if not preset.get("hidden"):
            assert f"`{preset['name']}`" in page or f"--preset {preset['name']}" in page
        for name in preset.get("cacheVariables", {}):
            assert name.startswith("CMAKE_") or re.search(rf"(option|set)\({name}\b", cmake), name
    names = {preset["name"] for preset in presets["configurePresets"]}
    scripts = [*(ROOT / "tests").glob("*.sh"), ROOT / "CONTRIBUTING.md"]
    used = {
        name for path in scripts for name in re.findall(r"--preset (\w[\w-]*)", path.read_text())
    }
    assert {"dev", "tidy", "unity-off"} <= used <= names
    assert {"asan", "tsan"} <= set(
        re.findall(r"preset=(\w+)", (ROOT / "tests/sanitize.sh").read_text())
    )


# --- the classes of MPS --------------------------------------------------------------------------


def test_the_page_of_mps_classes_is_made_from_the_package() -> None:
    import mps_classes

    assert mps_classes.page() == mps_classes.PAGE.read_text(), "run python tools/mps_classes.py"
    assert set(mps_classes.GROUPS) <= set(re.findall(r"^\| ([^|]+) \| `", mps_classes.page(), re.M))
