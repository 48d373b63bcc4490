// The samples of a fit, and the batches that they are cut into.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <traingraph/fit.h>

#include "graph/data/device_staging.h"
#include "graph/lowering/check_integers.h"
#include "graph/run/job.h"

namespace traingraph {

// All samples of a fit: arrays whose axis 0 counts them, cut into batches without a copy. In
// another order, rows of arrays on the host are gathered there, those of arrays on the device by
// it. What has one row for all samples is given to each batch as it is.
class Samples {
 public:
  // `call`: for messages.
  Samples(std::int64_t declared_batch, std::string call)
      : declared_batch_(declared_batch), call_(std::move(call)) {}

  // Raises typed errors for what does not fit the declared tensors or has another count of samples.
  void add(const NamedData& arrays, const NamedTensors& declared, const char* what,
           NamedData ExecutionArguments::* to);

  std::int64_t count() const { return count_; }
  // The arrays of sequences' lengths: by the first one the samples of each batch are sorted;
  // without any they are not.
  void sort_by(const std::vector<std::string>& names);
  // Raises InvalidArgument where the lengths of others do not descend as well.
  void check_lengths(std::int64_t batch, bool is_shuffled) const;
  bool is_sorted() const { return !lengths_.empty(); }
  // Whether the lengths do in each batch of the samples as given.
  bool descend(std::int64_t batch) const { return lengths_.front().descend(batch); }
  // Another order for each epoch of a seed, the same in every process; no seed: as given. Then by
  // descending lengths in each batch.
  struct Order {
    std::optional<std::uint64_t> seed;
    std::int64_t epoch;
    std::int64_t batch;
  };
  void arrange(const Order& order, const Backend& device);
  // Which sample is in this place.
  std::int64_t at(std::int64_t place) const {
    return order_.empty() ? place : order_[static_cast<std::size_t>(place)];
  }
  // Samples [first, first + rows) of the order; changed by the next batch. Of arrays on the device
  // the call means `chosen`.
  struct Batch {
    ExecutionArguments arguments;
    ChosenRows chosen;
    SampleRows samples;
    std::optional<GlobalRows> global = {};  // of several ranks
  };
  Batch& batch(std::int64_t first, std::int64_t rows);

 private:
  struct Column {
    std::string name;
    TensorData all;
    std::size_t row_bytes;
    NamedData ExecutionArguments::* to;
    std::size_t position;  // there
    // Where rows are gathered. A batch that may still be read keeps its own.
    std::vector<std::shared_ptr<std::byte[]>> buffers;
  };
  void gather(Column& column, std::int64_t first, std::int64_t rows, TensorData& data);
  void shuffle(std::uint64_t seed, std::int64_t epoch);
  void sort(std::int64_t batch);

  std::int64_t declared_batch_;
  std::string call_;
  std::vector<Column> columns_;
  struct Lengths {
    std::string name;
    std::vector<std::int64_t> of;  // of the samples as given
    bool descend(std::int64_t batch) const;
  };
  std::vector<Lengths> lengths_;
  std::vector<std::int64_t> order_;    // empty: as given
  std::shared_ptr<std::byte> places_;  // the same in the device's memory, if arrays lie there
  Batch batch_;
  std::int64_t count_ = 0;
  std::int64_t most_rows_ = 0;  // of a batch that is gathered
};

}  // namespace traingraph
