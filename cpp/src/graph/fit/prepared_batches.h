// Batches that a function makes, ahead of the steps in a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include <traingraph/fit.h>

#include "graph/fit/batch_source.h"
#include "graph/state/graph_state.h"

namespace traingraph {

class PreparedBatches final : public BatchSource {
 public:
  PreparedBatches(const GraphState& state, const FitArguments& fit);
  // Waits for the batch that is being made; no longer where Ctrl-C comes again.
  ~PreparedBatches() override;

  void begin(const FitPlace& place, const Backend& device) override;
  bool is_more() override { return true; }
  // Raises what the function has raised.
  Samples::Batch* next() override;
  bool is_ended() const override { return is_ended_; }
  bool has_named_batch() const override { return has_named_batch_; }

 private:
  struct Epoch;

  void check_are_all(const Epoch& epoch) const;
  void end();

  const GraphState& state_;
  const FitArguments& fit_;
  const Backend* device_ = nullptr;
  std::shared_ptr<Epoch> epoch_;  // null: none has begun
  std::thread thread_;
  std::optional<Samples> current_;  // what the step reads
  bool is_first_ = true;            // of this fit
  bool is_ended_ = false;
  bool has_named_batch_ = false;
};

}  // namespace traingraph
