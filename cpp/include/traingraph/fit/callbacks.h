// What a fit is given to ask after each epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <traingraph/export.h>
#include <traingraph/graph.h>

namespace traingraph {

struct Epoch;

// What a fit asks after each epoch.
class TRAINGRAPH_API FitCallback {
 public:
  virtual ~FitCallback();
  // Before the first step.
  virtual void begin(TrainingGraph& graph);
  // False ends the training.
  virtual bool after_epoch(TrainingGraph& graph, const Epoch& epoch) = 0;
  // After the last epoch of a fit, unless an error ended it.
  virtual void end(TrainingGraph& graph);
  // What it remembers from epoch to epoch, by name: checkpoints hold it.
  virtual NamedData copy_state() const;
  // Where a fit goes on, what one remembers goes to that of the same kind, in their order. As it is
  // here: the name of its class.
  virtual std::string kind() const;
  // Instead of begin where a fit goes on: with what it remembered there, and the epoch that it
  // hears of next. Raises InvalidArgument for the state of another callback.
  virtual void resume(TrainingGraph& graph, int epoch, const NamedData& state);
  static const ClassDescription& class_description();

 protected:
  FitCallback() = default;
  FitCallback(const FitCallback&) = default;
};

using FitCallbackPtr = std::shared_ptr<FitCallback>;

// Ends the training after `patience` epochs in which a number has not become better than the best
// one by more than `min_delta`. The number is "loss", "accuracy" or the name of a metric: of the
// validation, and a loss without one of the epoch. A loss or an error is better lower, another
// metric higher, and NaN is never better. `restores_best`: the parameters of the best epoch stay.
class TRAINGRAPH_API EarlyStopping final : public FitCallback {
 public:
  explicit EarlyStopping(std::int64_t patience, double min_delta = 0, std::string monitor = "loss",
                         bool restores_best = true);
  void begin(TrainingGraph& graph) override;
  bool after_epoch(TrainingGraph& graph, const Epoch& epoch) override;
  void end(TrainingGraph& graph) override;
  NamedData copy_state() const override;
  // With what the state depends on: the monitor, min_delta, and whether it has the best weights.
  std::string kind() const override;
  void resume(TrainingGraph& graph, int epoch, const NamedData& state) override;
  std::int64_t patience() const { return patience_; }
  double min_delta() const { return min_delta_; }
  const std::string& monitor() const { return monitor_; }
  bool restores_best() const { return restores_best_; }
  // Of the fit that ran last; 0 and none before its first epoch.
  int best_epoch() const { return best_epoch_; }
  std::optional<double> best() const { return best_; }
  static const ClassDescription& class_description();

 private:
  std::int64_t patience_;
  double min_delta_;
  std::string monitor_;
  bool restores_best_;
  std::optional<double> best_;
  int best_epoch_ = 0;
  std::int64_t waited_ = 0;
  std::optional<bool> of_validation_;  // the epochs that it has heard of
  NamedData kept_;
};

// A row of numbers per epoch: epoch, loss, seconds, learning_rate, and validation_ before the loss,
// the accuracy and each metric that is one number. A file that is there gets more rows where
// `appends`, of the columns that it has, else it is replaced by the first row; one that is no such
// log is refused. A first epoch above 1 replaces the rows from it on, and keeps those before it.
class TRAINGRAPH_API CSVLog final : public FitCallback {
 public:
  explicit CSVLog(std::string path, bool appends = false);
  void begin(TrainingGraph& graph) override;
  // Raises FileError, and InvalidArgument for an epoch of other columns than those of the file.
  bool after_epoch(TrainingGraph& graph, const Epoch& epoch) override;
  std::string kind() const override;
  // Rows of this epoch and later ones are taken out of the file.
  void resume(TrainingGraph& graph, int epoch, const NamedData& state) override;
  const std::string& path() const { return path_; }
  bool appends() const { return appends_; }
  static const ClassDescription& class_description();

 private:
  std::string path_;
  bool appends_;
  bool keeps_rows_ = false;  // that are there before its first one
  std::string header_;       // of the file, once it has written a row
};

// Saves the graph with the place of the fit: after each epoch, when all callbacks have heard of it,
// and with `every_steps` above 0 after each so many steps of an epoch. A fit that is given the
// file as FitArguments::resume goes on from there, to the same bits.
class TRAINGRAPH_API Checkpoint final : public FitCallback {
 public:
  explicit Checkpoint(std::string path, std::int64_t every_steps = 0, Metadata metadata = {});
  bool after_epoch(TrainingGraph& graph, const Epoch& epoch) override;
  std::string kind() const override;
  // By the fit. Raises FileError.
  void save(const TrainingGraph& graph) const { graph.save(path_, metadata_); }
  bool is_due_after(std::int64_t steps) const {
    return every_steps_ > 0 && steps % every_steps_ == 0;
  }
  const std::string& path() const { return path_; }
  std::int64_t every_steps() const { return every_steps_; }
  const Metadata& metadata() const { return metadata_; }
  static const ClassDescription& class_description();

 private:
  std::string path_;
  std::int64_t every_steps_;
  Metadata metadata_;
};

}  // namespace traingraph
