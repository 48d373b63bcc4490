// `Job`: everything one execution needs, settled when it is submitted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <traingraph/graph.h>

#include "graph/data/device_staging.h"
#include "graph/lowering/check_integers.h"
#include "graph/program/compiled_graph.h"
#include "graph/run/execution_state.h"

namespace traingraph {

// How far a step has come: how many micro-batches are summed, and of how many rows.
struct StepPosition {
  std::uint64_t step = 0;  // counts the steps of an executor, from 1
  int summed = 0;
  std::int64_t rows = 0;
};

// What a call's rows are among those of all ranks.
struct GlobalRows {
  std::int64_t before = 0;  // of the ranks before
  std::int64_t rows = 0;    // 0: the call has rows for no purpose but to take part
  std::int64_t all = 0;
};

// What a loss compared: prediction and labels.
using Scored = std::pair<TensorData, TensorData>;

// What fit, evaluate and predict say of a call beside its arguments.
struct CallDetails {
  const char* call = "execute";           // for messages
  ChosenRows rows = {};                   // of its arrays on the device
  SampleRows samples = {};                // what its rows are among all samples
  bool keeps_bound = false;               // its arguments do not replace what was bound, nor last
  std::optional<GlobalRows> global = {};  // none: each rank has as many
  bool predicts = false;                  // in Mode::prediction
  Scored* scored = nullptr;               // receives copies before the next execution runs
};

struct Job {
  CompiledPtr graph;
  std::int64_t rows = 0;  // of the batch; the program may have more
  Run run = Run::forward;
  std::vector<BoundArray> bound;
  std::vector<std::pair<ir::ValueId, TensorData>> outputs;
  OptimizerPtr optimizer;  // of an update, else null
  float learning_rate = 0;
  std::int64_t time_step = 0;   // if none before it fails that is in flight
  std::int64_t given_back = 0;  // time steps, when it was submitted
  double corrected_learning_rate = 0;
  // The first forward pass of a step counts; its other micro-batches share the count.
  bool starts_step = true;
  bool accumulates = false;
  int rank = ir::kNone;        // of those that train together; kNone: one alone
  int draw = 0;                // which of its step's micro-batches and ranks it is, from 0
  std::int64_t first_row = 0;  // in the batch of all of them
  GlobalRows global;
  StepPosition after;  // where its step stands when it has run
  bool timed = false;
  bool profiled = false;
  bool checked = false;
  CompletionHandler handler;
  Scored* scored = nullptr;
  SampleRows samples = {};
  // Whether the call may begin the next execution before this one's result has come.
  bool defers_result = false;
  std::unique_ptr<PendingRead> pending;  // that result
  std::unique_ptr<PendingRead> outside;  // what checks of indices have found, if deferred
  std::shared_ptr<ExecutionState> state;
  std::shared_ptr<void> queued;  // while it waits, for what ranks do beside it; null: nothing
};

}  // namespace traingraph
