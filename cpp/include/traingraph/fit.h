#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <traingraph/export.h>
#include <traingraph/graph.h>

namespace traingraph {

// One pass over all samples, as it went.
struct TRAINGRAPH_API Epoch {
  int number = 0;          // from 1
  double loss = 0;         // what the loss's reduction gives over the whole epoch; none: the mean
  std::int64_t steps = 0;  // batches
  double seconds = 0;
};

// All samples, along axis 0 of typed arrays, and how to go through them.
struct TRAINGRAPH_API FitArguments {
  NamedData inputs;
  NamedData loss_labels;
  NamedData loss_label_weights;
  std::int64_t batch_size = 0;  // 0: that of the tensors; the last batch may be smaller
  int epochs = 1;
  std::optional<std::uint64_t> shuffle_seed;  // none: in the order given
  // Returning false ends the training after this epoch.
  std::function<bool(const Epoch&)> on_epoch;
  // Asked before each batch; returning false ends the training there.
  std::function<bool()> goes_on;
};

struct TRAINGRAPH_API Evaluation {
  double loss = 0;
  // The share of right classes, for softmax and sigmoid cross entropy. Rows labelled -1 do not
  // count.
  std::optional<double> accuracy;
};

}  // namespace traingraph
