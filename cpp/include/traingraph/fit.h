#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <traingraph/export.h>
#include <traingraph/graph.h>

namespace traingraph {

// One pass over all samples, as it went.
struct TRAINGRAPH_API Epoch {
  int number = 0;          // from 1
  double loss = 0;         // what the loss's reduction gives over the whole epoch; none: the mean
  std::int64_t steps = 0;  // batches
  double seconds = 0;
  std::optional<std::uint64_t> shuffle_seed;  // what the order followed from; none: as given
  static const ClassDescription& class_description();
};

// Where a fit stands, whatever ends it: the epochs that are whole, the one that is not, and how
// many of its steps are.
struct TRAINGRAPH_API FitProgress {
  std::vector<Epoch> epochs;
  int epoch = 0;  // from 1; 0 before the first step
  std::int64_t steps = 0;
};

// All samples, along axis 0 of typed arrays, and how to go through them.
struct TRAINGRAPH_API FitArguments {
  NamedData inputs = {};
  NamedData loss_labels = {};
  NamedData loss_label_weights = {};
  std::int64_t batch_size = 0;  // 0: that of the tensors; the last batch may be smaller
  int epochs = 1;
  bool shuffle = true;  // false: in the order given
  // None: the graph's, with epochs counted on from its forward passes, so that a graph with the
  // state of another one goes on as that does.
  std::optional<std::uint64_t> shuffle_seed = {};
  // kCheckNumerics, or kSynchronous, which says no more than fit does anyway.
  ExecutionOptions options = ExecutionOptions::kNone;
  // Kept up to date, for who catches what fit raises; may be null.
  FitProgress* progress = nullptr;
  // Returning false ends the training after this epoch.
  std::function<bool(const Epoch&)> on_epoch = {};
  // Asked before each batch; returning false ends the training, or the evaluation, there.
  std::function<bool()> goes_on = {};
};

struct TRAINGRAPH_API Evaluation {
  double loss = 0;
  // The share of right classes, for softmax and sigmoid cross entropy. Rows labelled -1 do not
  // count.
  std::optional<double> accuracy;
  static const ClassDescription& class_description();
};

}  // namespace traingraph
