// Where the batches of a fit come from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "graph/fit/rank_batches.h"
#include "graph/fit/samples.h"
#include "graph/state/fit_place.h"

namespace traingraph {

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // An epoch from the batch on where it stands.
  virtual void begin(const FitPlace& place, const Backend& device) = 0;
  // False: the epoch is over. True: perhaps.
  virtual bool is_more() = 0;
  // Changed by the next one; null: the epoch is over.
  virtual Samples::Batch* next() = 0;
  // Whether that was because FitArguments::goes_on has ended the fit.
  virtual bool is_ended() const { return false; }
  // Whether what it has raised says of which batch it is.
  virtual bool has_named_batch() const { return false; }
};

class ArrayBatches final : public BatchSource {
 public:
  // `batch`: of all ranks.
  ArrayBatches(const GraphState& state, Samples samples, std::int64_t batch)
      : state_(state), samples_(std::move(samples)), batch_(batch) {}

  void begin(const FitPlace& place, const Backend& device) override {
    samples_.arrange({place.shuffle_seed, place.order, batch_}, device);
    first_ = place.steps * batch_;
  }
  bool is_more() override { return first_ < samples_.count(); }
  Samples::Batch* next() override {
    const std::int64_t rows = std::min(batch_, samples_.count() - first_);
    return &batch_of_rank(state_, samples_, std::exchange(first_, first_ + rows), rows);
  }

 private:
  const GraphState& state_;
  Samples samples_;
  std::int64_t batch_;
  std::int64_t first_ = 0;
};

}  // namespace traingraph
