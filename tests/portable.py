"""What some builds of the core do not have, and the tests about just that."""

from traingraph import _core

# Beginnings of tests' names, and why they are skipped.
NO_ONEDNN = (
    "tests/graph/test_thread_starts.py::test_a_step_whose_threads_cannot_be_started",
    "tests/layers/test_transposed_convolution.py::test_the_cpu_takes_every_pass_itself",
    "tests/passes/test_fusion.py::test_convolution_takes_bias_and_activation",
    "tests/passes/test_fusion.py::test_preferred_layouts_flow_through_the_network",
    "tests/passes/test_layout.py::test_a_kernel_that_wants_plain_weights_decides_as_well",
    "tests/passes/test_layout.py::test_the_first_kernel_decides",
    "tests/python/test_thread_count.py",
    "tests/python/test_threads.py::test_the_user_decides",
    "tests/python/test_threads.py::test_waiting_threads_give_their_core_away",
    "tests/runtime/test_cpu_half_winograd.py::test_no_tensor_is_widened",
    "tests/runtime/test_cpu_levels.py::test_an_unknown_level_is_refused",
    "tests/runtime/test_cpu_levels.py::test_lower_levels",
    "tests/runtime/test_cpu_winograd.py::test_the_reason_of_a_refusal",
    "tests/runtime/test_cpu_winograd.py::test_the_switch",
    "tests/runtime/test_onednn_bfloat16.py",
    "tests/runtime/test_onednn_kernels.py",
    "tests/runtime/test_tables.py::test_the_flag_in_the_table_tells_the_truth",
    "tests/test_packaging.py::test_another_onednn_in_the_process_is_not_used",
    "tests/test_packaging.py::test_core_links_a_private_onednn",
    "tests/test_packaging.py::test_private_onednn_runs_on_old_systems",
)
NO_PLUGIN = (
    "tests/python/test_device.py::test_names",
    "tests/runtime/test_device_double.py",
    "tests/runtime/test_plugin.py",
    "tests/test_examples.py::test_wrong_options_end_in_one_line[['--device', 'gpu']-GPU]",
)


def why_skipped(name: str) -> str:
    """Why this build has nothing that a test of this name could test; empty where it has."""
    if _core.onednn_version() == "none" and name.startswith(NO_ONEDNN):
        return "a portable core has no oneDNN, OpenMP and loops per instruction level"
    if "metal" in _core.backends() and name.startswith(NO_PLUGIN):
        return "the GPU of this build is Metal's, without a plugin"
    return ""
