#pragma once

#include "runtime/host_backend.h"

// The BNNS backend: Apple's Accelerate on the CPU of a Mac. Convolutions, pooling and Adam's step
// by BNNS, matrix products by its BLAS, the rest by vDSP and vForce; reference loops for what none
// of them computes exactly. docs/apple.md says which op goes where and why.
namespace traingraph::bnns {

const Backend& backend();

// Each file's kernels. Entries of one op are tried in the order in which bnns.cpp joins the files.
const std::vector<KernelEntry>& convolution_entries();
const std::vector<KernelEntry>& pooling_entries();
const std::vector<KernelEntry>& matmul_entries();
const std::vector<KernelEntry>& batch_norm_entries();
const std::vector<KernelEntry>& softmax_entries();
const std::vector<KernelEntry>& cross_entropy_entries();
const std::vector<KernelEntry>& reduce_entries();
const std::vector<KernelEntry>& adam_entries();
const std::vector<KernelEntry>& elementwise_entries();

}  // namespace traingraph::bnns
