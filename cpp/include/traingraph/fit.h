// What fit and evaluate take and give.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <traingraph/export.h>
#include <traingraph/fit/callbacks.h>
#include <traingraph/fit/rate_schedule.h>
#include <traingraph/graph.h>

namespace traingraph {

// Records are the same where their numbers are, and NaN is the same as NaN.

// What a metric gives over all samples: one number without a shape, or a matrix.
struct TRAINGRAPH_API MetricValue {
  Shape shape;
  std::vector<double> numbers;
  bool operator==(const MetricValue& other) const;
};
using Metrics = std::vector<std::pair<std::string, MetricValue>>;

struct TRAINGRAPH_API Evaluation {
  double loss = 0;
  // The share of right classes, for softmax and sigmoid cross entropy. Rows labelled -1 do not
  // count.
  std::optional<double> accuracy;
  Metrics metrics;  // that were asked for
  bool operator==(const Evaluation& other) const;
  static const ClassDescription& class_description();
};

// One pass over all samples, as it went.
struct TRAINGRAPH_API Epoch {
  int number = 0;          // from 1, or from the fit's first epoch
  double loss = 0;         // what the loss's reduction gives over the whole epoch; none: the mean
  std::int64_t steps = 0;  // batches
  double seconds = 0;      // of its steps; where a fit goes on in an epoch, of the rest
  std::optional<std::uint64_t> shuffle_seed;  // what the order followed from; none: as given
  double learning_rate = 0;                   // of its last step
  std::optional<Evaluation> validation;       // after it, where the fit was given samples for it
  bool operator==(const Epoch& other) const;
  static const ClassDescription& class_description();
};

// Where a fit stands, whatever ends it: the epochs that are whole, the one that is not, and how
// many of its steps are.
struct TRAINGRAPH_API FitProgress {
  std::vector<Epoch> epochs;
  // Its number, of the last one where none is left; 0 before the first step, and before a file to
  // go on from is loaded: then nothing of the graph has changed.
  int epoch = 0;
  std::int64_t steps = 0;
  std::int64_t all_steps = 0;  // of an epoch
  double loss = 0;             // of the epoch's steps so far
  std::string ended_by;        // the callbacks that have ended it; "": none
};

struct TRAINGRAPH_API SampleData {
  NamedData inputs = {};
  NamedData loss_labels = {};
  NamedData loss_label_weights = {};
};

// All samples, along axis 0 of typed arrays, and how to go through them.
struct TRAINGRAPH_API FitArguments {
  NamedData inputs = {};
  NamedData loss_labels = {};
  NamedData loss_label_weights = {};
  std::int64_t batch_size = 0;  // 0: that of the tensors; the last batch may be smaller
  int epochs = 1;               // the number of the last one
  bool shuffle = true;          // false: in the order given
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
  int first_epoch = 1;  // its number: a training that goes on counts on
  // Evaluated after each epoch, in batches of the same size.
  std::optional<SampleData> validation = {};
  // Of the validation, and of evaluate: accuracy, top_<k>, mean_absolute_error, mean_squared_error,
  // auc, confusion_matrix.
  std::vector<std::string> metrics = {};
  // The rate of each step, which the optimizer keeps; none: the optimizer's stays.
  std::optional<RateSchedule> schedule = {};
  // Asked in this order after each epoch, before on_epoch; all of them, whatever one of them says.
  std::vector<FitCallbackPtr> callbacks = {};
  // After each step that is known to be done; again after the last one of an epoch, where that only
  // now says how many there are.
  std::function<void(const FitProgress&)> on_step = {};
  // A checkpoint that was saved within such a fit: loaded, and the fit goes on from there. A file
  // that is not there yet begins the fit. Its learning rate goes before the optimizer's. Empty:
  // goes on from where the graph stands in a fit, also behind a whole one, with the rate of then,
  // unless the optimizer's was set since.
  std::optional<std::string> resume = {};
  // Instead of the arrays above: fills the batch of this number, from 0, of this epoch, and returns
  // false where the epoch is over before it. Called in order, by a thread of its own, ahead of the
  // steps; what it fills in is copied there. A fit that goes on in an epoch leaves out those that
  // have trained.
  std::function<bool(int epoch, std::int64_t number, SampleData& batch)> next_batch = {};
  std::int64_t batch_count = 0;  // of an epoch of next_batch; 0: not known
  // Told of the first loss of an epoch that is not finite; none: that raises NumericError.
  std::function<void(const std::string&)> on_nonfinite = {};
  // Told where the fit begins anew: no file is at `resume`, and no Checkpoint of `callbacks` writes
  // it.
  std::function<void(const std::string&)> on_missing_file = {};
};

}  // namespace traingraph
