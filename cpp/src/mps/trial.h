#pragma once

#include <vector>

#include "mps/recording.h"

namespace traingraph::mps {

// Whether a backend's kernel by its name gives what the ops of the operation give: one encoding,
// over storages like these, tried with numbers of its own, once per process for each `application`.
// What a library's pages leave open, or print against calculus, is then decided by the machine.
bool comes_out_right(const Backend& backend, const ir::NamedKernelAttributes& application,
                     const Excerpt& encoding, const std::vector<StoragePtr>& like);

}  // namespace traingraph::mps
