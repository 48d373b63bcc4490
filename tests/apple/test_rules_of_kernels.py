"""Rules of images, states and command buffers that the doubles watch over, seen on convolutions."""

import numpy as np
from convolution_case import CASES, Convolution
from mps_session import Session, broken, session
from objective_c import Object, Runtime


def encode(s: Session, kernel: Object, source: Object, result: Object) -> None:
    form = "encodeToCommandBuffer:sourceImage:destinationImage:"
    kernel.send(form, s.commands, source, result)


def gradient_encoding(s: Session, it: Convolution, backward: Object, states: Object) -> None:
    backward.send(
        "encodeBatchToCommandBuffer:sourceGradients:sourceImages:gradientStates:"
        "destinationGradients:",
        s.commands, s.batch(it.gradient), s.batch(it.x), states, s.blank_batch(*it.x.shape),
    )  # fmt: skip


def states_of(s: Session, it: Convolution) -> Object:
    return it.forward(s).send(
        "resultStateBatchForSourceImage:sourceStates:destinationImage:",
        s.batch(it.x), None, s.blank_batch(*it.gradient.shape),
    )  # fmt: skip


def test_a_temporary_image_is_read_as_often_as_it_says(runtime: Runtime) -> None:
    def twice(s: Session) -> None:
        it = Convolution(CASES[1])
        kernel, source = it.forward(s), s.temporary(it.x.shape[1:])
        for _ in range(2):
            encode(s, kernel, source, s.blank(it.gradient.shape[1:]))

    assert "read more often than its readCount says" in broken(runtime, twice)


def test_a_temporary_image_is_read_to_its_end(runtime: Runtime) -> None:
    def never(s: Session) -> None:
        s.temporary((4, 2, 2))

    assert "released with reads left in its readCount" in broken(runtime, never)


def test_a_temporary_image_has_one_command_buffer(runtime: Runtime) -> None:
    def other(s: Session) -> None:
        it = Convolution(CASES[1])
        source = s.temporary(it.x.shape[1:])
        s.next_commands()
        encode(s, it.forward(s), source, s.blank(it.gradient.shape[1:]))

    assert "another command buffer than its own" in broken(runtime, other)


def test_a_read_count_is_not_raised_from_zero(runtime: Runtime) -> None:
    def raised(s: Session) -> None:
        it = Convolution(CASES[1])
        source = s.temporary(it.x.shape[1:])
        encode(s, it.forward(s), source, s.blank(it.gradient.shape[1:]))
        source.send("setReadCount:", 1)

    assert "raised from 0" in broken(runtime, raised)


def test_a_destination_is_no_source(runtime: Runtime) -> None:
    def alias(s: Session) -> None:
        it = Convolution(CASES[1])
        image = s.image(it.x[0])
        encode(s, it.forward(s), image, image)

    assert "a destination image is also a source" in broken(runtime, alias)


def test_nothing_is_encoded_after_the_commit(runtime: Runtime) -> None:
    def late(s: Session) -> None:
        it = Convolution(CASES[1])
        s.run()
        encode(s, it.forward(s), s.image(it.x[0]), s.blank(it.gradient.shape[1:]))

    assert "after the commit of its command buffer" in broken(runtime, late)


def test_no_encoder_is_open_where_a_kernel_is_encoded(runtime: Runtime) -> None:
    def open_encoder(s: Session) -> None:
        it = Convolution(CASES[1])
        s.commands.send("computeCommandEncoder")
        encode(s, it.forward(s), s.image(it.x[0]), s.blank(it.gradient.shape[1:]))

    assert "while another encoder is not ended" in broken(runtime, open_encoder)


def test_a_source_has_the_channels_of_the_weights(runtime: Runtime) -> None:
    def fewer(s: Session) -> None:
        it = Convolution(CASES[1])
        encode(s, it.forward(s), s.image(it.x[0][:4]), s.blank(it.gradient.shape[1:]))

    assert "has not the input channels" in broken(runtime, fewer)


def test_offsets_of_a_gradient_are_set(runtime: Runtime) -> None:
    def unset(s: Session) -> None:
        it = Convolution(CASES[1])
        backward = it.backward(s)
        backward.send("setKernelOffsetX:", 0)
        gradient_encoding(s, it, backward, states_of(s, it))

    assert "belong to no offset of the forward kernel" in broken(runtime, unset)


def test_a_gradient_has_the_size_of_the_forward_result(runtime: Runtime) -> None:
    def smaller(s: Session) -> None:
        it = Convolution(CASES[1])
        it.gradient, states = it.gradient[..., :2, :2], states_of(s, it)
        it.gradient = np.concatenate([it.gradient, it.gradient], 3)
        gradient_encoding(s, it, it.backward(s), states)

    assert "not the size of the forward result" in broken(runtime, smaller)


def test_a_state_is_of_one_batch(runtime: Runtime) -> None:
    def again(s: Session) -> None:
        it = Convolution(CASES[1])
        states = states_of(s, it)
        gradient_encoding(s, it, it.backward(s), states)
        s.run()
        s.next_commands()
        gradient_encoding(s, it, it.backward(s), states)

    assert "a state of one command buffer is used with another one" in broken(runtime, again)


def test_gradients_of_weights_need_a_state(runtime: Runtime) -> None:
    def without(s: Session) -> None:
        it = Convolution(CASES[1])
        it.backward(s).send(
            "encodeToCommandBuffer:primaryImage:secondaryImage:destinationImage:",
            s.commands, s.image(it.gradient[0]), s.image(it.x[0]), s.blank(it.x.shape[1:]),
        )  # fmt: skip

    assert "works with a gradient state only" in broken(runtime, without)


def test_buffers_of_weights_are_long_enough(runtime: Runtime) -> None:
    def short(s: Session) -> None:
        it = Convolution(CASES[1])
        state = s.make(
            "MPSCNNConvolutionWeightsAndBiasesState", "initWithWeights:biases:",
            s.buffer(it.w[:1]), s.buffer(it.b),
        )  # fmt: skip
        it.forward(s).send("reloadWeightsAndBiasesWithCommandBuffer:state:", s.commands, state)

    assert "too short for the weights" in broken(runtime, short)


def test_a_temporary_state_is_used_to_its_last_read(runtime: Runtime) -> None:
    def again(s: Session) -> None:
        it = Convolution(CASES[1])
        states = it.forward(s).send(
            "temporaryResultStateBatchForCommandBuffer:sourceImage:sourceStates:destinationImage:",
            s.commands, s.batch(it.x), None, s.blank_batch(*it.gradient.shape),
        )  # fmt: skip
        for _ in range(2):
            gradient_encoding(s, it, it.backward(s), states)

    assert "a temporary state is used after its last read" in broken(runtime, again)


def test_a_temporary_state_is_read_to_its_end(runtime: Runtime) -> None:
    def never(s: Session) -> None:
        it = Convolution(CASES[1])
        it.forward(s).send(
            "temporaryResultStateForCommandBuffer:sourceImage:sourceStates:destinationImage:",
            s.commands, s.image(it.x[0]), None, s.blank(it.gradient.shape[1:]),
        )  # fmt: skip

    assert "a temporary state is released with reads left" in broken(runtime, never)


def test_a_destination_is_given_once(runtime: Runtime) -> None:
    def twice(s: Session) -> None:
        it = Convolution(CASES[1])
        result = s.blank(it.gradient.shape[1:])
        form = "encodeBatchToCommandBuffer:sourceImages:destinationImages:"
        results = s.runtime.array([result, result])
        it.forward(s).send(form, s.commands, s.batch(it.x), results)

    assert "a destination image is given twice" in broken(runtime, twice)


def test_a_batch_has_a_result_for_each_source(runtime: Runtime) -> None:
    def fewer(s: Session) -> None:
        it = Convolution(CASES[1])
        form = "encodeBatchToCommandBuffer:sourceImages:destinationImages:"
        results = s.blank_batch(1, *it.gradient.shape[1:])
        it.forward(s).send(form, s.commands, s.batch(it.x), results)

    assert "1 destination images for 2 images" in broken(runtime, fewer)


def test_an_image_counts_once_in_a_batch_that_repeats_it(runtime: Runtime) -> None:
    it = Convolution(CASES[1])
    with session(runtime) as s:
        source = s.temporary(it.x.shape[1:])
        form = "encodeBatchToCommandBuffer:sourceImages:destinationImages:"
        sources = s.runtime.array([source, source])
        it.forward(s).send(form, s.commands, sources, s.blank_batch(*it.gradient.shape))
        assert source.send("readCount") == 0


def test_what_nobody_wrote_is_no_number(runtime: Runtime) -> None:
    with session(runtime) as s:
        assert np.isnan(s.read(s.blank((5, 2, 3)))).all()
