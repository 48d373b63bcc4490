#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <traingraph/fit.h>

namespace traingraph {

// All samples of a fit: arrays whose axis 0 counts them, cut into batches without a copy, or
// gathered into one buffer per array once they are shuffled.
class Samples {
 public:
  // Raises typed errors for what does not fit the declared tensors or has another count of samples.
  void add(const NamedData& arrays, const NamedTensors& declared, const char* what,
           NamedData ExecutionArguments::* to);

  std::int64_t count() const { return count_; }
  // Another order for each epoch of a seed, the same in every process.
  void shuffle(std::uint64_t seed, int epoch);
  // Samples [first, first + rows) of the order. Valid until the next batch.
  ExecutionArguments batch(std::int64_t first, std::int64_t rows);

 private:
  struct Column {
    std::string name;
    TensorData all;
    std::size_t row_bytes;
    NamedData ExecutionArguments::* to;
    std::vector<std::byte> buffer;
  };
  std::vector<Column> columns_;
  std::vector<std::int64_t> order_;  // empty: as given
  std::int64_t count_ = 0;
};

}  // namespace traingraph
