"""What a printed program of nodes begins with: data sources that train, and images of arrays."""

import numpy as np

from traingraph import mps


def made(node, **properties):
    for key, value in properties.items():
        setattr(node, key, value)
    return node


def images(on, array, separate=False):
    """A batch of (N, C, H, W): images of one object, or an object each."""
    if separate:
        return [images(on, array[k : k + 1])[0] for k in range(len(array))]
    n, c, h, w = array.shape
    descriptor = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format=array.dtype.name, width=w, height=h, feature_channels=c,
        number_of_images=n,
    )  # fmt: skip
    image = mps.MPSImage(device=on, image_descriptor=descriptor)
    for k in range(n):
        image.write_bytes(np.ascontiguousarray(array[k]), image_index=k)
    return image.batch_representation()


def array(batch, dtype):
    rows = []
    for one in batch:
        rows.append(np.empty((one.feature_channels, one.height, one.width), dtype))
        one.read_bytes(rows[-1])
    return np.stack(rows)


def flat(buffer):
    """A copy of the numbers of a buffer."""
    return np.array(buffer).reshape(-1)


def vector(on, values, buffer=None):
    kind = {"with_length": values.size, "data_type": values.dtype.name}
    descriptor = mps.MPSVectorDescriptor.vector_descriptor(**kind)
    if buffer is None:
        buffer = mps.MTLBuffer(device=on, bytes=np.zeros_like(values).tobytes())
    return mps.MPSVector(buffer=buffer, descriptor=descriptor)


class Trained:
    """Two arrays and how they are trained: by an optimizer on the device, or by plain descent."""

    state = None

    def train(self, on, arrays, optimizer, slots, rate):
        self.on, self.arrays, self.optimizer, self.rate = on, list(arrays), optimizer, rate
        given = [values for values in arrays if values is not None]
        self.slots = {f"{name}_vectors": [vector(on, a) for a in given] for name in slots}

    def descend(self, gradients):
        for k, gradient in enumerate(gradients):
            if self.arrays[k] is not None:
                step = np.float64(np.float32(self.rate)) * gradient.reshape(self.arrays[k].shape)
                self.arrays[k] = (self.arrays[k] - step).astype(self.arrays[k].dtype)
        return True


class Weights(mps.MPSCNNConvolutionDataSource, Trained):
    def __init__(self, descriptor, *training):
        self.sizes = descriptor
        self.train(*training)

    def descriptor(self):
        return self.sizes

    def data_type(self):
        return mps.MPSDataType[self.arrays[0].dtype.name.upper()]

    def values(self):
        if self.state is None:
            return self.arrays
        buffers = [self.state.weights, self.state.biases]
        return [None if one is None else flat(one) for one in buffers]

    def weights(self):
        return self.values()[0].reshape(self.arrays[0].shape)

    def bias_terms(self):
        return self.values()[1]

    def update(self, command_buffer, gradient_state, source_state):
        self.state = source_state
        self.optimizer.encode(
            command_buffer, convolution_gradient_state=gradient_state,
            convolution_source_state=source_state, result_state=source_state, **self.slots,
        )  # fmt: skip
        return source_state

    def update_with_gradient_state(self, gradient_state, source_state):
        names = ("gradient_for_weights", "gradient_for_biases")
        return self.descend([flat(getattr(gradient_state, name)) for name in names])


class Affine(Trained):
    """Gamma and beta, which are always float32."""

    def __init__(self, channels, groups, epsilon, *training):
        self.small, self.number_of_groups = epsilon, groups
        self.statistics = np.full(2 * channels, np.nan)
        self.begin(channels)
        self.train(*training)
        buffers = [mps.MTLBuffer(device=self.on, bytes=a.tobytes()) for a in self.arrays]
        gamma, beta = buffers
        self.held = mps.MPSCNNNormalizationGammaAndBetaState(gamma=gamma, beta=beta)

    def begin(self, channels):
        self.number_of_feature_channels = channels

    def values(self):
        if self.state is None:
            return self.arrays
        return [flat(one).view(np.float32) for one in (self.state.gamma, self.state.beta)]

    def gamma(self):
        return self.values()[0]

    def beta(self):
        return self.values()[1]

    def epsilon(self):
        return self.small


class ByBatch(Affine, mps.MPSCNNBatchNormalizationDataSource):
    def begin(self, channels):
        self.channels = channels

    def number_of_feature_channels(self):
        return self.channels

    def update_gamma_and_beta(self, command_buffer, batch_normalization_state):
        self.state = self.held
        self.optimizer.encode(
            command_buffer, batch_normalization_state=batch_normalization_state,
            result_state=self.held, **self.slots,
        )  # fmt: skip
        return self.held

    def update_gamma_and_beta_with_batch_normalization_state(self, state):
        return self.descend([flat(state.gradient_for_gamma()), flat(state.gradient_for_beta())])

    def update_mean_and_variance_with_batch_normalization_state(self, state):
        self.statistics = np.concatenate([flat(state.mean()), flat(state.variance())])
        return False


class ByImage(Affine, mps.MPSCNNGroupNormalizationDataSource):
    def update_gamma_and_beta(self, command_buffer, state_batch):
        """One image after the other, which is the sum where the rule is plain descent."""
        self.state = self.held
        for name, values in zip(("gamma", "beta"), self.arrays, strict=True):
            own = vector(self.on, values, getattr(self.held, name))
            for state in state_batch:
                buffer = getattr(state, f"gradient_for_{name}")
                like = np.empty(values.shape, "f8" if buffer.length > 4 * values.size else "f4")
                self.optimizer.encode(
                    command_buffer, input_gradient_vector=vector(self.on, like, buffer),
                    input_values_vector=own, result_values_vector=own,
                )  # fmt: skip
        return self.held

    def update_gamma_and_beta_with_group_normalization_state_batch(self, states):
        names = ("gradient_for_gamma", "gradient_for_beta")
        return self.descend([sum(flat(getattr(s, name)) for s in states) for name in names])

    update_gamma_and_beta_with_instance_normalization_state_batch = (
        update_gamma_and_beta_with_group_normalization_state_batch
    )
