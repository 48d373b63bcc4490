"""Multi-head attention against PyTorch: the result and every gradient, in float64."""

import itertools

import numpy as np
import pytest
from test_multihead_attention import INF, Options, later

from harness import train

KINDS = ("key", "shared", "per head", "shared numbers", "numbers")


def torch_module(torch, options):
    model, same = options.model, options.key == options.value == options.model
    module = torch.nn.MultiheadAttention(
        model, options.heads, bias=options.biases, add_bias_kv=options.attention_biases,
        add_zero_attn=options.zero, kdim=options.key, vdim=options.value, batch_first=True,
        dtype=torch.float64,
    )  # fmt: skip
    weights = [torch.tensor(w) for w in options.weights]
    with torch.no_grad():
        if same:
            module.in_proj_weight.copy_(torch.cat(weights[:3]))
        else:
            for part, w in zip(
                (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight),
                weights[:3],
                strict=True,
            ):
                part.copy_(w)
        module.out_proj.weight.copy_(weights[3])
        if options.biases:
            module.in_proj_bias.copy_(torch.tensor(np.concatenate(options.given[:3])))
            module.out_proj.bias.copy_(torch.tensor(options.given[3]))
        if options.attention_biases:
            module.bias_k.copy_(torch.tensor(options.rows[0]).reshape(1, 1, -1))
            module.bias_v.copy_(torch.tensor(options.rows[1]).reshape(1, 1, -1))
    if same:
        slopes = lambda: list(module.in_proj_weight.grad.chunk(3))  # noqa: E731
    else:
        slopes = lambda: [  # noqa: E731
            p.grad for p in (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        ]

    def gradients():
        found = [*slopes(), module.out_proj.weight.grad]
        if options.biases:
            found += [*module.in_proj_bias.grad.chunk(3), module.out_proj.bias.grad]
        if options.attention_biases:
            found += [module.bias_k.grad.reshape(-1), module.bias_v.grad.reshape(-1)]
        return found

    return module, gradients


MASKS = [(), *((kind,) for kind in KINDS), *(("key", kind) for kind in KINDS[1:])]
PAIRS = list(itertools.product([False, True], repeat=4))


@pytest.mark.parametrize("masks", MASKS, ids=" and ".join)
@pytest.mark.parametrize(("dimensions", "biases", "rows", "zero"), PAIRS)
def test_pytorch(masks, dimensions, biases, rows, zero):
    """The result and every gradient, in float64."""
    others = {"key": 5, "value": 3} if dimensions else {}
    options = Options(masks, biases=biases, attention_biases=rows, zero=zero, **others)
    compare_with_pytorch(options, masks)


@pytest.mark.parametrize("masks", MASKS, ids=" and ".join)
@pytest.mark.parametrize("extents", [(2, 4, 4), (3, 1, 5), (2, 5, 3), (2, 3, 5)])
def test_pytorch_causal(extents, masks):
    compare_with_pytorch(Options(masks, extents=extents, causal=True), masks)


def compare_with_pytorch(options, masks):
    torch = pytest.importorskip("torch")
    module, parameter_gradients = torch_module(torch, options)
    sources = [torch.tensor(s, requires_grad=True) for s in options.sources]
    given = {"key_padding_mask": None, "attn_mask": None}
    trained = []
    for kind, mask in zip(masks, options.masks, strict=True):
        # PyTorch wants masks of one kind.
        numbers_ = np.where(mask, -INF, 0.0) if mask.dtype == bool else mask
        made = torch.tensor(numbers_)
        if mask.dtype != bool:
            trained.append(made.requires_grad_())
        shared = kind.startswith("shared")
        given["key_padding_mask" if kind == "key" else "attn_mask"] = made[0] if shared else made
    if options.causal:
        behind = torch.tensor(np.where(later(*(s.shape[1] for s in options.sources[:2])), -INF, 0))
        mask = given["attn_mask"]
        given["attn_mask"] = behind if mask is None else mask + behind
        given["is_causal"] = mask is None
    result = module(*sources, **given, need_weights=False)[0]
    case = options.case("beside PyTorch")
    np.testing.assert_allclose(case.trained, result.detach().numpy(), rtol=1e-12, atol=1e-12)
    ((result - torch.tensor(case.target)) ** 2).sum().backward()
    right = [t.grad for t in [*sources, *trained]] + parameter_gradients()
    _, found = train(case, case.target)
    assert len(found) == len(right)
    scale = max(float(g.abs().max()) for g in right)
    for one, grad in zip(found, right, strict=True):
        np.testing.assert_allclose(one, grad.numpy(), rtol=0, atol=1e-12 * scale)
