"""Copies and bytes of every kernel class: no property is lost, and the same bits are computed."""

import copy
import inspect
import json
import pickle

import numpy as np
import pytest
from coded import ARITHMETIC, CASES, FORWARD_ARITHMETIC, C, Channels, made, weights
from kernels import array, batch, commands

from traingraph import DataTypeError, InvalidArgument, _core, mps
from traingraph.mps.kernel_coding import plain


def described(cls):
    """Arguments and properties of a class by name, as the core says."""
    return _core._coded_names(cls.__name__)


def every_property(kernel):
    """What a kernel of this class shows, and what it was made with."""
    seen = {}
    for key in dir(type(kernel)):
        is_property = isinstance(inspect.getattr_static(type(kernel), key, None), property)
        if is_property and key not in ("device", "data_source"):
            value = getattr(kernel, key)
            is_kernel = isinstance(value, mps.MPSKernel)
            seen[key] = every_property(value) if is_kernel else plain(value)
    source = getattr(kernel, "data_source", None)
    names = ["weights", "bias_terms", "gamma", "beta"]
    if isinstance(kernel, mps.MPSCNNBatchNormalization):
        names += ["mean", "variance"]
    for name in names:
        if hasattr(source, name):
            value = getattr(source, name)()
            seen[f"data_source.{name}"] = None if value is None else np.asarray(value).tolist()
    return seen


def archived(kernel):
    return mps.NSKeyedArchiver.archived_data(with_root_object=kernel)


def unarchived(kernel, data, device="reference"):
    return mps.MPSKeyedUnarchiver.unarchived_object_of_class(
        type(kernel), from_data=data, device=device
    )


def test_every_kernel_class_has_a_case():
    kernels = {
        name for name in mps.__all__
        if inspect.isclass(getattr(mps, name)) and issubclass(getattr(mps, name), mps.MPSKernel)
    }  # fmt: skip
    abstract = {
        "MPSKernel", "MPSCNNKernel", "MPSCNNGradientKernel", "MPSCNNBinaryKernel", "MPSCNNPooling",
        "MPSCNNPoolingGradient", "MPSCNNArithmetic", "MPSCNNArithmeticGradient",
        "MPSCNNUpsampling", "MPSCNNUpsamplingGradient", "MPSNNReduceUnary", "MPSNNReduceBinary",
        "MPSNNOptimizer", "MPSNNGraph",
    }  # fmt: skip
    assert set(CASES) == kernels - abstract


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_lost(name):
    """Every property that a kernel shows survives; all that can be are other than at first."""
    kernel = made(name)
    expected = every_property(kernel)
    data = archived(kernel)
    coder = mps.MPSKeyedUnarchiver(for_reading_from=data, device="cpu")
    cls = type(kernel)
    others = [
        unarchived(kernel, data), cls(coder=coder), cls(coder=coder, device="reference"),
        kernel.copy(), kernel.copy(device="cpu"), copy.copy(kernel),
        copy.deepcopy(kernel), unarchived(kernel, archived(unarchived(kernel, data))),
        *(pickle.loads(pickle.dumps(kernel, protocol)) for protocol in range(6)),
    ]  # fmt: skip
    devices = ["reference", "cpu", "reference", "reference", "cpu", *["reference"] * 9]
    for other, device in zip(others, devices, strict=True):
        assert other is not kernel
        assert type(other) is cls
        assert other.device == mps.MTLDevice(device=device)
        assert every_property(other) == expected
    settable = {
        key for key in expected
        if getattr(inspect.getattr_static(cls, key, None), "fset", None) is not None
    }  # fmt: skip
    arguments, properties = described(cls)
    values = json.loads(data)["values"]
    assert set(values) == {*arguments, *properties}
    parts = {field for one in arguments if one.endswith("_descriptor") for field in values[one]}
    # makes_temporary_images says which allocator it is.
    assert settable - {"destination_image_allocator"} <= {*properties, *arguments, *parts}


@pytest.mark.parametrize("name", CASES)
def test_no_property_of_a_case_is_as_at_the_beginning(name):
    """So the test above would see that one is left out."""
    arguments, _ = CASES[name]
    given = {key: value() if callable(value) else value for key, value in arguments.items()}
    plain = getattr(mps, name)(device="reference", **given)
    kernel = made(name)
    for key in described(type(kernel))[1]:
        assert getattr(kernel, key) != getattr(plain, key), key


def values(shape, seed):
    return np.random.default_rng(seed).normal(size=shape)


def computed(kernel, forward=None):
    """What a kernel makes of the same images, by its properties as they are."""
    on, x = kernel.device, values((2, 12, 9, 9), 3)
    buffer = commands(on)
    if isinstance(kernel, mps.MPSCNNBinaryKernel):
        out = batch(on, values((2, 16, 12, 12), 4))
        kernel.encode_batch(
            buffer, primary_images=batch(on, values((2, 12, 9, 9), 5)),
            secondary_images=batch(on, values((2, 18, 9, 9), 6)), destination_images=out,
        )  # fmt: skip
    else:
        out = batch(on, values((2, 16, 12, 12), 4))
        kernel.encode_batch(buffer, source_images=batch(on, x), destination_images=out)
    buffer.commit()
    buffer.wait_until_completed()
    return array(out)


# Kernels with one source, whose result some rectangle of a destination can hold.
RUN = [
    "MPSCNNConvolution", "MPSCNNConvolutionTranspose", "MPSCNNNeuron", "MPSCNNBatchNormalization",
    "MPSCNNInstanceNormalization", "MPSCNNGroupNormalization", "MPSCNNCrossChannelNormalization",
    "MPSCNNSpatialNormalization", "MPSCNNLocalContrastNormalization", "MPSCNNDropout",
    "MPSCNNPoolingMax", "MPSCNNPoolingAverage", "MPSCNNPoolingL2Norm", "MPSCNNDilatedPoolingMax",
    "MPSCNNUpsamplingNearest", "MPSCNNUpsamplingBilinear", "MPSCNNSoftMax", "MPSCNNLogSoftMax",
    "MPSNNPad", "MPSNNSlice", "MPSCNNAdd", "MPSCNNMultiply", "MPSNNInitialGradient",
]  # fmt: skip


@pytest.mark.parametrize("name", RUN)
def test_the_same_bits_are_computed(name):
    def ready():
        kernel = made(name)
        if isinstance(kernel, mps.MPSCNNBinaryKernel):
            for key in ARITHMETIC.keys() & FORWARD_ARITHMETIC.keys():
                if "stride" in key:
                    setattr(kernel, key, 1)
            for key in ("x", "y"):
                setattr(kernel, f"primary_stride_in_pixels_{key}", 1)
            kernel.primary_stride_in_feature_channels = 1
            kernel.primary_source_feature_channel_max_count = 6
            kernel.primary_offset, kernel.secondary_offset = (1, 2), (2, 0)
        else:
            kernel.source_feature_channel_max_count = C
            if name != "MPSNNPad":
                kernel.offset = (0, 0) if "Upsampling" in name else (1, 2)
        kernel.clip_rect = ((1, 2), (3, 2))
        return kernel

    kernel = ready()
    expected = computed(kernel)
    assert np.abs(expected - values(expected.shape, 4)).max() > 0
    for other in (unarchived(kernel, archived(ready())), ready().copy()):
        np.testing.assert_array_equal(computed(other), expected)


@pytest.mark.parametrize(
    "name", ["MPSCNNConvolutionGradient", "MPSCNNConvolutionTransposeGradient"]
)
def test_a_gradient_kernel_of_bytes_computes_the_same(name):
    on = mps.MTLDevice(device="reference")
    forward = getattr(mps, name.removesuffix("Gradient"))(device=on, weights=weights())
    x = batch(on, values((2, C, 7, 7), 1))
    forward.makes_temporary_images = False
    results = []
    kernel = getattr(mps, name)(device=on, weights=weights())
    for one in (kernel, unarchived(kernel, archived(kernel)), kernel.copy()):
        one.makes_temporary_images = False
        buffer = commands(on)
        y, states = forward.encode_batch(
            buffer, source_images=x, destination_state_is_temporary=False
        )
        dx = one.encode_batch(
            buffer, source_gradients=y, source_images=x, gradient_states=states
        )  # fmt: skip
        buffer.commit()
        buffer.wait_until_completed()
        results.append((array(dx), np.array(states[0].gradient_for_weights)))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert np.abs(a).max() > 0
            np.testing.assert_array_equal(a, b)


def test_a_descriptor_of_a_convolution():
    given = weights().descriptor()
    data = archived(given)
    other = unarchived(given, data)
    assert given.supports_secure_coding
    content = json.loads(data)
    assert plain(other) == content["values"]
    for key, value in content["values"].items():
        assert plain(getattr(other, key)) == plain(getattr(given, key)) == value
    content["values"]["groups"] = "2"
    with pytest.raises(InvalidArgument, match="MPSCNNConvolutionDescriptor"):
        unarchived(given, json.dumps(content).encode())


@pytest.mark.parametrize(
    "name",
    ["MPSNNNeuronDescriptor", "MPSCNNLossDescriptor", "MPSNNOptimizerDescriptor",
     "MPSCNNConvolutionDescriptor", "MPSCNNDepthWiseConvolutionDescriptor",
     "MPSCNNSubPixelConvolutionDescriptor"],
)  # fmt: skip
def test_archives_have_all_that_a_descriptor_can_be_set_to(name):
    cls = getattr(mps, name)
    settable = {
        key for key in dir(cls)
        if getattr(inspect.getattr_static(cls, key), "fset", None) is not None
    }  # fmt: skip
    given = {
        "MPSNNNeuronDescriptor": lambda: cls.cnn_neuron_descriptor(with_type="elu"),
        "MPSCNNLossDescriptor": lambda: cls.cnn_loss_descriptor(
            with_type="log", reduction_type="mean"
        ),
        "MPSNNOptimizerDescriptor": lambda: cls(learning_rate=0.5),
    }.get(name, lambda: cls.cnn_convolution_descriptor(
        with_kernel_width=1, kernel_height=1, input_feature_channels=1, output_feature_channels=1
    ))  # fmt: skip
    assert settable
    assert settable <= set(given()._coded())


def test_an_optimizer_of_bytes_goes_on():
    kernel = made("MPSNNOptimizerAdam", "cpu")
    other = unarchived(kernel, archived(kernel), "cpu")
    assert other.time_step == 7
    assert (other.learning_rate, other.gradient_clip_max) == (0.125, 0.5)
    assert other.regularization_type == mps.MPSNNRegularizationType.L2


def test_data_sources_are_read_and_copied():
    """An archive asks between load() and purge(); a copy shares a source that cannot be copied."""
    source = Channels()
    kernel = mps.MPSCNNInstanceNormalization(device="cpu", data_source=source)
    before = source.loads, source.purges
    data = archived(kernel)
    assert (source.loads, source.purges) == (before[0] + 1, before[1] + 1)
    assert kernel.copy().data_source is source
    source.arrays *= 2  # the archive has what was there
    again = unarchived(kernel, data)
    np.testing.assert_array_equal(again.data_source.gamma() * 2, source.gamma())
    assert again.data_source.label() == "norm1"
    assert again.data_source.beta() is None

    class Copying(Channels):
        def copy(self, *, device):
            self.copied_to = device
            return Copying()

    kernel = mps.MPSCNNInstanceNormalization(device="cpu", data_source=Copying())
    other = kernel.copy(device="reference")
    assert other.data_source is not kernel.data_source
    assert kernel.data_source.copied_to == mps.MTLDevice(device="reference")

    class Refusing(Channels):
        def load(self):
            return self.loads == 0 and super().load()

    kernel = mps.MPSCNNInstanceNormalization(device="cpu", data_source=Refusing())
    with pytest.raises(ValueError, match="a data source to load"):
        archived(kernel)


def test_sources_of_bytes_are_sources():
    """What a kernel of bytes has serves other kernels, where it has what they ask for."""
    kernel = made("MPSCNNGroupNormalization")
    source = unarchived(kernel, archived(kernel)).data_source
    assert (source.number_of_groups, source.number_of_feature_channels) == (2, C)
    assert not source.gamma().flags.writeable
    assert unarchived(kernel, archived(kernel)).copy().data_source is not source
    other = mps.MPSCNNGroupNormalization(device="cpu", data_source=source)
    assert other.data_source is source
    assert other.copy().data_source is source
    kernel = made("MPSCNNInstanceNormalization")
    source = unarchived(kernel, archived(kernel)).data_source
    with pytest.raises(InvalidArgument, match="1 group or more but got 0"):
        mps.MPSCNNGroupNormalization(device="cpu", data_source=source)
    kernel = made("MPSCNNConvolution")
    source = unarchived(kernel, archived(kernel)).data_source
    assert mps.MPSCNNConvolution(device="cpu", weights=source).data_source is source
    assert source.data_type() == mps.MPSDataType.FLOAT64  # as the case has it
    assert (source.weights().shape, source.bias_terms().shape) == ((C, 3, 2, C // 2), (C,))


def damaged(data):
    """Archives that are no kernel's: every value in turn missing or of another kind."""
    content = json.loads(data)
    for key in content["values"]:
        for wrong in (None, -7, 10**30, "?", [], {}, [[1]], {"data": -1}):
            if content["values"][key] == wrong:
                continue
            yield key, json.dumps({**content, "values": {**content["values"], key: wrong}}).encode()
        rest = {k: v for k, v in content["values"].items() if k != key}
        yield key, json.dumps({**content, "values": rest}).encode()


@pytest.mark.parametrize(
    "name",
    ["MPSCNNConvolution", "MPSCNNBatchNormalization", "MPSCNNPoolingMax", "MPSNNOptimizerAdam",
     "MPSCNNNeuron", "MPSCNNLoss", "MPSNNPad", "MPSCNNConvolutionGradient", "MPSCNNDropout",
     "MPSCNNGroupNormalization"],
)  # fmt: skip
def test_damaged_archives_are_refused(name):
    """A typed error or, where the value is one that the property may have, a kernel."""
    kernel = made(name, "cpu")
    data, refused, texts = archived(kernel), set(), []
    for key, wrong in damaged(data):
        try:
            unarchived(kernel, wrong, "cpu")
        except InvalidArgument as error:
            texts.append(str(error))
            refused.add(key)
    assert all(name in text for text in texts)
    assert refused == set(json.loads(data)["values"])
    for length in range(0, len(data) - 1, max(len(data) // 40, 1)):
        with pytest.raises(InvalidArgument, match="expected an archive"):
            unarchived(kernel, data[:length], "cpu")
    with pytest.raises(InvalidArgument, match="expected an archive"):
        unarchived(kernel, b"[" * 100000, "cpu")


def test_archives_from_before_have_no_padding_of_two_sources():
    kernel = made("MPSCNNAdd")
    content = json.loads(archived(kernel))
    assert content["values"].pop("padding") == 32
    other = unarchived(kernel, json.dumps(content).encode())
    assert other.padding == mps.MPSNNPaddingMethod.SIZE_SAME
    assert other.secondary_offset == kernel.secondary_offset


@pytest.mark.parametrize("field", ["kernel_width", "groups", "output_feature_channels"])
@pytest.mark.parametrize("value", [0, -1, 3, 2**31, 2**62, 10**30, None, "2"])
def test_damaged_sizes_of_weights_are_refused(field, value):
    kernel = made("MPSCNNConvolution", "cpu")
    content = json.loads(archived(kernel))
    content["values"]["weights"]["descriptor"][field] = value
    with pytest.raises(InvalidArgument, match=r"MPSCNNConvolution"):
        unarchived(kernel, json.dumps(content).encode(), "cpu")


def test_the_unarchivers_other_forms(tmp_path):
    kernel = made("MPSNNOptimizerAdam", "cpu")
    data = archived(kernel)
    path = tmp_path / "kernel"
    path.write_bytes(data)
    on = mps.MTLDevice(device="cpu")
    read = mps.MPSKeyedUnarchiver
    assert read(for_reading_with=data, device=on).decode(for_key="time_step") == 7
    for other in (
        read.unarchive_object(with_data=data, device=on),
        read.unarchive_object(with_file=str(path), device=on),
        read.unarchive_top_level_object(with_data=data, device=on),
    ):
        assert type(other) is type(kernel)
        assert other.time_step == 7
        assert other.device == on
    content = json.dumps({"class": "MTLDevice", "values": {}}).encode()
    with pytest.raises(DataTypeError, match="can be decoded but got MTLDevice"):
        read.unarchive_object(with_data=content, device=on)
    with pytest.raises(InvalidArgument, match="an archive but got 5 other bytes"):
        read.unarchive_object(with_data=b"bytes", device=on)
    with pytest.raises(FileNotFoundError):
        read.unarchive_object(with_file=str(tmp_path / "none"), device=on)
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(InvalidArgument, match="an archive but got 64 other bytes"):
        read.unarchive_object(with_file=str(tmp_path / "huge"), device=on)
    assert read.unarchive_object(with_file=path, device=on).time_step == 7
    for number in (path.open("rb").fileno(), True):
        with pytest.raises(
            TypeError, match=r"with_file: str \| os.PathLike\[str\] but got '(int|bool)'"
        ):
            read.unarchive_object(with_file=number, device=on)
    with pytest.raises(InvalidArgument, match="a value for 'label' of nothing"):
        read(device=on).decode(for_key="label")
    with pytest.raises(TypeError, match="with_data"):
        read.unarchive_object(device=on)


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, [["\ud800"]]])
def test_texts_that_no_utf8_can_say_are_refused(value):
    """JSON can say them."""
    for name in ("MPSCNNConvolution", "MPSCNNPoolingMax", "MPSNNOptimizerAdam"):
        kernel = made(name, "cpu")
        values = json.loads(archived(kernel))["values"]
        for key in values:
            data = json.dumps({"class": name, "values": {**values, key: value}}).encode()
            with pytest.raises(InvalidArgument, match=r"UTF-8|expected|MPS"):
                unarchived(kernel, data, "cpu")


def test_padding_policies_as_objects():
    same = mps.MPSNNDefaultPadding.padding(with_method="size_valid_only")
    assert same.padding_method() == mps.MPSNNPaddingMethod.SIZE_VALID_ONLY
    assert "MPSNNDefaultPadding" in same.label()
    kernel = made("MPSCNNPoolingMax", "cpu")
    node = mps.MPSCNNPoolingMaxNode(source=mps.MPSNNImageNode(), filter_size=2)
    full = mps.MPSNNPaddingMethod.SIZE_FULL | mps.MPSNNPaddingMethod.ADD_REMAINDER_TO_BOTTOM_RIGHT
    kernel.padding = node.padding_policy = mps.MPSNNDefaultPadding.padding(with_method=full)
    assert kernel.padding == node.padding_policy == full
    with pytest.raises(InvalidArgument, match="MPSNNPaddingMethod but got 'nowhere'"):
        mps.MPSNNDefaultPadding.padding(with_method="nowhere")
