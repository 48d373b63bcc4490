#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "backends/cuda/few_bytes.h"
#include "backends/cuda/late_reads.h"

namespace traingraph::cuda {

// What travels with one run: as nodes of a recorded one, else launched before and behind it.
struct Cargo {
  struct In {
    std::byte* to = nullptr;
    std::array<std::byte, kFewBytes> bytes{};
    std::size_t count = 0;
  };
  struct Out {
    LateReads::Place* place = nullptr;
    const std::byte* from = nullptr;
    std::size_t count = 0;
  };
  std::optional<In> in;
  std::optional<Out> out;

  void launch_in(cudaStream_t stream) const {
    if (in) write_few_bytes(in->to, in->bytes.data(), in->count, stream);
  }
  void launch_out(cudaStream_t stream) const {
    if (out) read_few_bytes(out->place->bytes, out->from, out->count, stream);
  }
};

}  // namespace traingraph::cuda
