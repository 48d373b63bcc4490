"""Any layer alone in a training graph without loss and optimizer: programs calculate by it."""

import numpy as np
import pytest
from gradient_rows import losses
from gradient_rows.measure import choices_of
from gradient_rows.rows import ROWS
from gradient_rows.sample import data_of

import traingraph as tg
from harness import everywhere

ALONE = [row for row in ROWS if row not in losses.ROWS]


def calculated(sample, data, device, declared_first):
    tg.MLCPlatform.set_rng_seed_to(3)
    names = {role: f"p{k}" for k, role in enumerate(data.parameters)}
    variables = {
        names[role]: tg.MLCTensor(data=np.array(array, np.float32))
        for role, array in data.parameters.items()
    }
    text = sample.layer.expression(sample.options, sample.shapes, names)
    layer = eval(text, {"tg": tg, **sample.namespace, **variables})
    arrays = [np.asarray(a, np.float32 if a.dtype.kind == "f" else a.dtype) for a in data.sources]
    inputs = {
        f"s{k}": tg.MLCTensor(shape=list(a.shape), data_type=a.dtype.name)
        for k, a in enumerate(arrays)
    }
    graph = tg.MLCGraph()
    graph.node(layer, sources=list(inputs.values()))
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    if not declared_first:
        training.compile(device=device)
    training.add_inputs(inputs)
    if declared_first:
        training.compile(device=device)
    result = training.execute(
        inputs_data=dict(zip(inputs, arrays, strict=True)), options="synchronous"
    ).result
    return np.asarray(result)


@everywhere
@pytest.mark.parametrize("row", ALONE, ids=lambda row: row.label)
def test_compiled_before_its_inputs_are_declared(row, device):
    sample = row.make(choices_of(row, True)[0][0])
    data = data_of(sample, row.label, "float32")
    found, right = (calculated(sample, data, device, first) for first in (False, True))
    assert found.dtype == right.dtype
    assert found.shape == right.shape
    assert found.tobytes() == right.tobytes()
