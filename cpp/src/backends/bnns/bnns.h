#pragma once

#include "runtime/memory/host_backend.h"

// The BNNS backend: Apple's Accelerate on the CPU of a Mac. Convolutions and pooling by BNNS,
// matrix products by its BLAS, the rest by the loops of the CPU backend, then the reference
// implementation. docs/backends/bnns.md says which op goes where and why.
namespace traingraph::bnns {

const Backend& backend();

// The kernels before the reference implementation, in the order they are tried.
const std::vector<KernelEntry>& own_entries();

// Each file's kernels.
const std::vector<KernelEntry>& convolution_entries();
const std::vector<KernelEntry>& pooling_entries();
const std::vector<KernelEntry>& matmul_entries();

}  // namespace traingraph::bnns
