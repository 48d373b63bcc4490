"""Draws programs over every public class and function, with extremes among ordinary numbers."""

import ast
from random import Random

import signatures
from signatures import FORMS, Form

import traingraph as tg
from traingraph import mps

PRELUDE = (
    'import sys\nsys.path[:0] = ["tests/fuzz", "tests/mps", "tests"]\nfrom program_parts import *\n'
)
"""What is pasted before a program, in the repository's root."""
WHOLE = ["0", "-1", "2**16", "2**24", "2**31 - 1", "2**31", "2**32", "2**53", "2**62", "2**63 - 1",
         "2**63", "-(2**31)", "-(2**63)"]  # fmt: skip
REAL = ['float("nan")', 'float("inf")', '-float("inf")', "0.0", "-1.0", "1e308", "1e-320",
        "2.0**31", "2.0**53", "2.0**62"]  # fmt: skip
SHAPES = [["2", "4", "5", "5"], ["2", "100"], ["2", "4", "25"], ["4"], ["1", "4", "1", "1"]]
# Types that are given as they are, by the name of the argument where it says more.
BY_NAME = {
    "coder": None,
    "weights": "Source({MPSCNNConvolutionDescriptor})",
    "data_source": "Channels({int}, {float})",
    "padding_policy": 'mps.MPSNNPaddingMethod.SIZE_SAME',
    "gradient_state": "forward.result_state",
    "source_gradient": 'node("dy")',
    "gradient_images": '[node("dy")]',
    "graph_objects": "[tg.MLCGraph()]",
    "gpu_devices": "[tg.MLCDevice.gpu({int})]",
    "inputs_data": '{{"x0": np.zeros((2, 4, 5, 5), np.float32)}}',
    "inputs": '{{"x0": np.zeros((2, 4, 5, 5), np.float32)}}',
    "labels": '{{"labels": np.zeros((2, 4, 5, 5), np.float32)}}',
    "loss_labels_data": '{{"labels": np.zeros((2, 4, 5, 5), np.float32)}}',
    "convolution_gradient_state": "forward.result_state",
    "convolution_transpose_gradient_state": "forward.result_state",
    "forward_filter": "forward",
    "deallocator": "lambda view, length: None",
    "with_handle": '"x"',
    "data": '{{"x0": np.zeros((2, 4, 5, 5), np.float32)}}',
    "with_mean": "np.ones(4, np.float32)",
    "variance": "np.ones(4, np.float32)",
    "indices": 'tensor(data_type="int32")',
    "to": '"int8"',
    "slice_range": "({int}, {int})",
    "kernel_weights": "np.ones((4, 1, 1, 4), np.float32)",
    "bias_terms": "None",
    "path": None,
    "options": '"synchronous"',
    "bytes": "b'0' * 64",
    "for_inputs": '{{"x0": tensor()}}',
}  # fmt: skip
BY_TYPE = {
    "MLCTensor": "tensor()",
    "MLCLayer": "tg.MLCActivationLayer.relu()",
    "MLCDevice": '"cpu"',
    "MTLDevice": '"cpu"',
    "MLCOptimizer": "tg.MLCSGDOptimizer(learning_rate=0.5)",
    "MLCTensorData": "np.ones(200, np.float32)",
    "MLCDataType": '"float32"',
    "MPSNNImageNode": "node()",
    "MPSImage": "image()",
    "MTLCommandBuffer": "commands(mps.MTLDevice(device='cpu'))",
    "MTLCommandQueue": "mps.MTLDevice(device='cpu').make_command_queue()",
    "MTLBuffer": "mps.MTLBuffer(device='cpu', length={int})",
    "MPSVector": "mps.MPSVector(device='cpu', descriptor={MPSVectorDescriptor})",
    "ArrayLike": "np.ones(200, np.float32)",
    "Buffer": "bytearray(800)",
    "bool": None,
    "str": '"text"',
    "None": "None",
}
# What methods are called on, where it is not a drawn construction.
RECEIVERS = {
    "MLCPlatform": "tg.MLCPlatform",
    "MLCGraph": "tg.MLCGraph()",
    "MLCTrainingGraph": "trained()",
    "MLCInferenceGraph": "inference()",
    "MPSImage": "image()",
    "MPSTemporaryImage": "temporary()",
    "MPSNNImageNode": "node()",
    "MPSCommandBuffer": "mps.MPSCommandBuffer(command_buffer=commands(image().device))",
}
# Methods that are called by other names, or whose arguments only a run gives.
ENCODINGS = ("encode", "encode_batch", "result_state", "result_state_batch",
             "temporary_result_state", "temporary_result_state_batch",
             "destination_image_descriptor", "encode_with_coder", "load", "save")  # fmt: skip
# Public classes and functions of which no program is drawn, and why.
NOT_DRAWN = {
    **dict.fromkeys(["MLCLayer", "MPSKernel", "MPSNNFilterNode", "MPSNNGradientFilterNode",
                     "MLCOptimizer", "MPSCNNKernel", "MPSCNNBinaryKernel", "MPSCNNGradientKernel",
                     "MPSCNNPooling", "MPSCNNPoolingGradient", "MPSCNNUpsampling",
                     "MPSCNNUpsamplingGradient", "MPSCNNArithmetic", "MPSCNNArithmeticGradient",
                     "MPSCNNNormalizationNode", "MPSCNNPoolingGradientNode", "MPSNNReduceUnary",
                     "MPSNNReduceBinary", "MPSNNUnaryReductionNode", "MPSNNBinaryArithmeticNode",
                     "MPSNNArithmeticGradientNode", "MPSNNOptimizer", "MPSNNScaleNode",
                     "MPSCNNPoolingNode"],
                    "a base without a constructor; what it has is drawn of its classes"),
    **dict.fromkeys(["MPSState", "MPSNNGradientState", "MPSNNBinaryGradientState",
                     "MPSCNNArithmeticGradientState",
                     "MPSCNNBatchNormalizationState", "MPSCNNConvolutionGradientState",
                     "MPSCNNConvolutionTransposeGradientState", "MPSCNNDropoutGradientState",
                     "MPSCNNGroupNormalizationGradientState",
                     "MPSCNNInstanceNormalizationGradientState", "MPSNNStateNode",
                     "MPSNNGradientStateNode", "MPSNNBinaryGradientStateNode",
                     "MPSNNArithmeticGradientStateNode", "MPSCNNConvolutionGradientStateNode",
                     "MPSCNNConvolutionTransposeGradientStateNode"],
                    "made by kernels and nodes alone"),
    **dict.fromkeys(["Epoch", "Evaluation", "GradientCheck", "GradientRow", "Profile",
                     "MLCExecution"], "a record of a run"),
    **dict.fromkeys(["MPSCNNConvolutionDataSource", "MPSCNNBatchNormalizationDataSource",
                     "MPSCNNGroupNormalizationDataSource", "MPSCNNInstanceNormalizationDataSource"],
                    "what the user's sources begin from: Source and Channels stand for them"),
    **dict.fromkeys(["RateSchedule", "EarlyStopping", "CSVLog", "Checkpoint"],
                    "given to a fit, which no program has"),
    **dict.fromkeys(["MTLOrigin", "MTLRegion", "MTLSize"], "tuples: drawn as arguments"),
    **dict.fromkeys(["MPSKeyedUnarchiver", "NSKeyedArchiver"], "the target `archives`"),
    **dict.fromkeys(["MPSImageBatch", "MPSStateBatch"], "names for lists"),
    **dict.fromkeys(["get_num_threads", "create_system_default_device", "sequential",
                     "state_batch_increment_read_count", "state_batch_synchronize",
                     "MTLCommandQueue", "MTLCommandBuffer",
                     "MTLDevice", "MPSNNDefaultPadding", "MPSNNLabelsNode",
                     "MLCTensorOptimizerDeviceData"],
                    "takes no numbers, or those of others"),
}  # fmt: skip


class Draw:
    """One program. An argument has the same value in the whole program: gradients fit theirs."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.share = random.choice([0.04, 0.1, 0.1, 0.25, 0.6])
        self.known: dict[str, str] = {}
        self.lines: list[str] = []

    def number(self, is_whole: bool) -> str:
        if self.random.random() < self.share:
            return self.random.choice(WHOLE if is_whole else REAL)
        if is_whole:
            return self.random.choice(["1", "1", "2", "3", "4", "4", "5"])
        return self.random.choice(["0.5", "0.25", "1.0", "2.0", "0.0", "0.9"])

    def text(self, pattern: str) -> str:
        """A pattern with numbers and objects put in."""
        while "{" in pattern.replace("{{", ""):
            begin = pattern.replace("{{", "__").index("{")
            end = pattern.index("}", begin)
            name = pattern[begin + 1 : end]
            new = self.number(name == "int") if name in ("int", "float") else self.made(name)
            new = new.replace("{", "{{").replace("}", "}}")
            pattern = pattern[:begin] + new + pattern[end + 1 :]
        return pattern.replace("{{", "{").replace("}}", "}")

    def made(self, name: str, depth: int = 0) -> str:
        """An expression that constructs an object of a class."""
        ways = [form for form in FORMS[name] if makes(form)]
        numbers = [form for form in ways if form.takes_numbers]
        form = self.random.choice(numbers if numbers and self.random.random() < 0.9 else ways)
        return self.call(form, f"{form.module}.{name}", depth)

    def call(self, form: Form, before: str, depth: int = 0) -> str:
        if form.kind in ("static", "method"):
            before += f".{form.name}"
        given = []
        for place, (name, type, may) in enumerate(form.arguments):
            is_dull = self.random.random() < 0.6 or not signatures.has_numbers(type)
            if may and is_dull and self.random.random() < 0.9:
                continue
            value = self.value(type, name, depth)
            if value is None:
                if may:
                    continue
                raise LookupError(f"{form}: {name}: {type}")
            by_name = place >= len(form.arguments) - form.keywords or len(given) < place
            given.append(f"{name}={value}" if by_name else value)
        return f"{before}({', '.join(given)})"

    def value(self, type: str, name: str, depth: int = 0) -> str | None:
        if name == "data" and "Mapping" not in type:
            return "np.ones(200, np.float32)"
        if name in BY_NAME and type != "bool" and not plain_number(type):
            pattern = BY_NAME[name]
            if pattern is None:
                return None
            if "MPSNNImageNode" not in type or "node" in pattern:
                return self.text(pattern)
        key = f"{name}: {type}"
        if key not in self.known or self.random.random() < 0.1:
            value = self.typed(ast.parse(type, mode="eval").body, name, depth)
            if value is None:
                return None
            self.known[key] = value
        return self.known[key]

    def typed(self, type: ast.expr, name: str, depth: int) -> str | None:
        if isinstance(type, ast.BinOp):
            ways = [type.left, type.right]
            found = [one for way in ways if (one := self.typed(way, name, depth)) is not None]
            ways = [one for one in found if one not in ("None", '"text"')]
            return self.random.choice(ways or found or [None])
        if isinstance(type, ast.Subscript):
            return self.several(type, name, depth)
        if isinstance(type, ast.Constant):
            return "None"
        word = type.attr if isinstance(type, ast.Attribute) else ast.unparse(type)
        if word in ("int", "SupportsInt", "SupportsIndex"):
            return self.number(True)
        if word in ("float", "SupportsFloat"):
            return self.number(False)
        if word == "bool":
            return self.random.choice(["True", "False"])
        owner = getattr(tg, word, None) or getattr(mps, word, None)
        if owner is not None and signatures.is_enum(owner):
            return f'"{self.random.choice(sorted(owner.__members__)).lower()}"'
        if word in BY_TYPE:
            pattern = BY_TYPE[word]
            return None if pattern is None else self.text(pattern)
        if word in FORMS and depth < 3 and any(map(makes, FORMS[word])):
            return self.made(word, depth + 1)
        return None

    def several(self, type: ast.Subscript, name: str, depth: int) -> str | None:
        word = ast.unparse(type.value).rpartition(".")[2]
        inside = type.slice.elts if isinstance(type.slice, ast.Tuple) else [type.slice]
        if word == "tuple":
            if ast.unparse(inside[-1]) == "Ellipsis" or ast.unparse(inside[-1]) == "...":
                inside = [inside[0]] * self.random.choice([2, 2, 3])
            parts = [self.typed(one, name, depth) for one in inside]
            return None if None in parts else f"({', '.join(map(str, parts))})"
        if word not in ("Sequence", "list", "Iterable"):
            return None
        if ast.unparse(inside[0]) == "int":
            return self.extents(name)
        count = self.random.choice([1, 1, 2, 4])
        parts = [self.typed(inside[0], name, depth) for _ in range(count)]
        return None if None in parts else f"[{', '.join(map(str, parts))}]"

    def extents(self, name: str) -> str:
        shape = list(self.random.choice(SHAPES))
        if name == "dimensions":
            shape = [str(k) for k in range(4)]
            self.random.shuffle(shape)
        elif name != "shape":
            shape = self.random.choice([["1", "3"], ["2", "2"], ["1", "1", "2"]])
        shape = [self.random.choice(WHOLE) if self.random.random() < self.share / 2 else one
                 for one in shape]  # fmt: skip
        return f"[{', '.join(shape)}]"


def plain_number(type: str) -> bool:
    return bool(signatures.NUMBERS & set(type.replace("typing.", "").split(" | ")))


def makes(form: Form) -> bool:
    """Whether it constructs an object of its class."""
    if any(name == "coder" for name, _, _ in form.arguments):
        return False
    word = form.result.rpartition(".")[2]
    return form.kind == "constructor" or (form.kind == "static" and word == form.owner)


def calls(name: str) -> list[Form]:
    """Methods and setters that take numbers."""
    return [
        form for form in FORMS[name]
        if form.takes_numbers and form.kind in ("method", "setter", "static")
        and form.name not in ENCODINGS and not makes(form)
    ]  # fmt: skip


NAMES = sorted(set(FORMS) - set(NOT_DRAWN))


# What `forward` is, by the class that takes its state, where their names do not say it.
FORWARDS = {
    "MPSCNNConvolutionTransposeNode": "MPSCNNConvolutionNode",
    "MPSNNLossGradientNode": "MPSNNForwardLossNode",
}


def forward_of(name: str) -> str | None:
    """The class whose gradient a class is."""
    if name in FORWARDS:
        return FORWARDS[name]
    other = name.replace("GradientNode", "Node") if name.endswith("Node") else name
    other = other.removesuffix("Gradient")
    return other if "Gradient" in name and other != name and other in NAMES else None


def program(random: Random, name: str | None = None) -> str:
    name = name or random.choice(NAMES)
    draw = Draw(random)
    module = FORMS[name][0].module if FORMS[name] else "tg"
    if FORMS[name] and FORMS[name][0].kind == "function":
        draw.lines.append(draw.call(random.choice(FORMS[name]), f"{module}.{name}"))
        draw.lines.append("use(image())" if module == "mps" else "use(tensor())")
        return "\n".join(draw.lines) + "\n"
    forward = forward_of(name)
    before = [forward_of(forward), forward] if forward is not None else []
    draw.lines += [f"forward = {draw.made(one)}" for one in before if one is not None]
    draw.lines.append(f"one = {RECEIVERS.get(name) or draw.made(name)}")
    if name in RECEIVERS and any(map(makes, FORMS[name])) and random.random() < 0.5:
        draw.lines[-1] = f"one = {draw.made(name)}"
    every = calls(name)
    for form in random.sample(every, min(len(every), random.choice([0, 1, 1, 2, 3]))):
        if form.kind == "setter":
            value = draw.value(form.arguments[0][1], form.name)
            draw.lines.append(f"one.{form.name} = {value}")
        else:
            call = draw.call(form, "one")
            if name == "MLCGraph":
                draw.lines += ["x = tensor()", f"result = {call.replace('tensor()', 'x')}",
                               "train(one, result, [x])"]  # fmt: skip
            else:
                draw.lines += [f"result = {call}", "use(result)"]
    if forward is not None and not name.endswith("Node"):
        draw.lines.append("use(one, forward=forward)")
    elif "Node" not in name and module == "mps" and random.random() < 0.3:
        draw.lines.append("use(one, with_destination=True)")
    else:
        draw.lines.append("use(one)")
    return "\n".join(draw.lines) + "\n"
