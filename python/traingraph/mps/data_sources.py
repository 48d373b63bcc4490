"""What the user's data sources begin from; any object with the same methods serves as well."""

from typing import Any

from traingraph._core import MPSCNNConvolutionDescriptor, MPSDataType


class _DataSource:
    """What every data source has."""

    def load(self) -> bool:
        """Called before anything is read; False refuses."""
        return True

    def purge(self) -> None:
        """Called when everything was read."""

    def label(self) -> str | None:
        """A name for messages."""
        return None


class _NormalizationDataSource(_DataSource):
    """Gamma, beta and epsilon of a normalization."""

    def gamma(self) -> Any:
        """Factors, or None for ones."""
        return None

    def beta(self) -> Any:
        """Terms, or None for zeros."""
        return None

    def epsilon(self) -> float:
        """What is added to variances: the smallest normal number."""
        return 1.1754943508222875e-38


class MPSCNNConvolutionDataSource(_DataSource):
    """Weights (O, kernel_height, kernel_width, I / groups) and biases (O) of a convolution."""

    def data_type(self) -> MPSDataType:
        """What an element of the weights is."""
        return MPSDataType.FLOAT32

    def descriptor(self) -> MPSCNNConvolutionDescriptor:
        """The sizes; asked for whenever the weights are read."""
        raise NotImplementedError(f"{type(self).__name__} has no descriptor()")

    def weights(self) -> Any:
        """An array of the weights."""
        raise NotImplementedError(f"{type(self).__name__} has no weights()")

    def bias_terms(self) -> Any:
        """An array of the biases, or None."""
        return None

    def update(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> Any:
        """Called by a graph that trains on the device: encodes the update.

        Returns the state with the new weights, which may be source_state, or None: unchanged.
        """
        return None

    def update_with_gradient_state(self, gradient_state: Any, source_state: Any) -> bool:
        """Called by a graph that trains on the CPU, after the run.

        Returns whether the graph shall load this source anew.
        """
        return False


class MPSCNNBatchNormalizationDataSource(_NormalizationDataSource):
    """Gamma, beta and the statistics of inference, one number per channel."""

    def number_of_feature_channels(self) -> int:
        """How many channels."""
        raise NotImplementedError(f"{type(self).__name__} has no number_of_feature_channels()")

    def mean(self) -> Any:
        """Means of inference, or None for zeros."""
        return None

    def variance(self) -> Any:
        """Variances of inference, or None for ones."""
        return None

    def update_gamma_and_beta(self, command_buffer: Any, batch_normalization_state: Any) -> Any:
        """Encodes an update on the device; the state with new values, or None: unchanged."""
        return None

    def update_mean_and_variance(self, command_buffer: Any, batch_normalization_state: Any) -> Any:
        """Encodes an update on the device; the state with new values, or None: unchanged."""
        return None

    def update_gamma_and_beta_with_batch_normalization_state(self, state: Any) -> bool:
        """Called after the run; whether the graph shall load gamma and beta anew."""
        return False

    def update_mean_and_variance_with_batch_normalization_state(self, state: Any) -> bool:
        """Called after the run; whether the graph shall load the statistics anew."""
        return False


class MPSCNNInstanceNormalizationDataSource(_NormalizationDataSource):
    """Gamma and beta, one number per channel."""

    #: How many channels; a subclass sets it.
    number_of_feature_channels: int

    def update_gamma_and_beta(self, command_buffer: Any, state_batch: Any) -> Any:
        """Called by a graph that trains on the device, with a state per image: encodes the update.

        The gradients of the images are the source's to add up. Returns the state with new values,
        or None: unchanged.
        """
        return None

    def update_gamma_and_beta_with_instance_normalization_state_batch(self, states: Any) -> bool:
        """Called after the run, with a state per image; whether the graph shall load anew."""
        return False


class MPSCNNGroupNormalizationDataSource(MPSCNNInstanceNormalizationDataSource):
    """The same, with groups of neighbouring channels that have their statistics in common."""

    #: How many groups; they divide the channels.
    number_of_groups: int

    def update_gamma_and_beta_with_group_normalization_state_batch(self, states: Any) -> bool:
        """Called after the run, with a state per image; whether the graph shall load anew."""
        return False
