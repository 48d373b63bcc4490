#pragma once

#include "runtime/memory/host_backend.h"

// The CPU backend: hand-written vectorised loops, oneDNN for convolutions and for matrix products
// where it is faster, the reference implementation for what neither takes.
namespace traingraph::cpu {

const Backend& backend();

// The kernels of this folder, in the order they are tried; the reference implementation is last.
std::vector<KernelEntry> own_entries();

// Of these the kernels of float32, and what a library computes in 16 bits.
std::vector<KernelEntry> float32_entries();

// Each file's kernels. Entries of one op are tried in the order in which cpu.cpp joins the files.
const std::vector<KernelEntry>& elementwise_entries();
const std::vector<KernelEntry>& reduce_entries();
const std::vector<KernelEntry>& small_matmul_entries();
const std::vector<KernelEntry>& blocked_matmul_entries();
const std::vector<KernelEntry>& batch_norm_entries();
const std::vector<KernelEntry>& embedding_entries();
const std::vector<KernelEntry>& row_norm_entries();
const std::vector<KernelEntry>& pooling_entries();
const std::vector<KernelEntry>& softmax_entries();
const std::vector<KernelEntry>& cross_entropy_entries();
const std::vector<KernelEntry>& compare_entries();
const std::vector<KernelEntry>& extremum_entries();
const std::vector<KernelEntry>& indexing_entries();
const std::vector<KernelEntry>& lstm_entries();
const std::vector<KernelEntry>& attention_entries();
const std::vector<KernelEntry>& data_movement_entries();
const std::vector<KernelEntry>& select_entries();
const std::vector<KernelEntry>& element_indexing_entries();
const std::vector<KernelEntry>& check_indices_entries();
const std::vector<KernelEntry>& dropout_entries();
// Products of operands of 16 bits that are widened as they are read.
const std::vector<KernelEntry>& small_half_matmul_entries();
const std::vector<KernelEntry>& blocked_half_matmul_entries();
// All other ops over operands of 16 bits.
const std::vector<KernelEntry>& widened_entries();
const std::vector<KernelEntry>& winograd_entries();

}  // namespace traingraph::cpu
