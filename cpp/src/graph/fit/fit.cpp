// Training, epoch by epoch.
#include <traingraph/fit.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <traingraph/errors.h>
#include <traingraph/loss.h>

#include "graph/fit/batch_source.h"
#include "graph/fit/evaluate.h"
#include "graph/fit/fit_checks.h"
#include "graph/fit/given_samples.h"
#include "graph/fit/metrics.h"
#include "graph/fit/prepared_batches.h"
#include "graph/fit/rank_batches.h"
#include "graph/fit/resumed_fit.h"
#include "graph/fit/steps_in_flight.h"
#include "graph/run/executor.h"
#include "runtime/threads/interruption.h"

namespace traingraph {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostRows = std::numeric_limits<std::int64_t>::max();

class Fit {
 public:
  Fit(TrainingGraph& graph, GraphState& state, const FitArguments& arguments)
      : graph_(graph),
        state_(state),
        arguments_(arguments_of_rank(state, arguments)),
        progress_(arguments.progress != nullptr ? *arguments.progress : own_progress_) {}

  std::vector<Epoch> run() {
    if (!begin_over_ranks(graph_, state_, place_, arguments_, [&] { return prepare(); })) return {};
    distributed::RankGuard guard(state_.ranks.get());
    begin();
    // A fit that is to end, and was interrupted before all callbacks had heard of its last epoch,
    // has steps of it.
    while ((place_.ended == 0 || place_.steps > 0) && place_.epoch <= arguments_.epochs) {
      progress_.epoch = static_cast<int>(place_.epoch);
      Epoch epoch;
      if (!train(epoch) || !evaluate(epoch)) {
        guard.done();
        return progress_.epochs;
      }
      ask(epoch);
      take_from_first_rank(state_, place_.ended, graph_.optimizer().get());
      go_to_next_epoch(epoch);
    }
    // The last moment in which Ctrl-C finds a place to go on from.
    keeping_place("", [this] {
      keep_place();
      check_interruption();
    });
    for_callbacks([&](FitCallback& callback) { callback.end(graph_); });
    end_fit(state_, place_, progress_);
    guard.done();
    return progress_.epochs;
  }

 private:
  void take_samples() {
    if (arguments_.next_batch) {
      progress_.all_steps = arguments_.batch_count;
      source_ = std::make_unique<PreparedBatches>(state_, arguments_);
      const int ranks = count_of_ranks(state_);
      validation_batch_ =
          arguments_.validation ? batch_size_of(state_, 0, kMostRows, kFit, ranks) : 0;
      return;
    }
    const SampleData data = data_of(arguments_);
    Samples samples = samples_of(state_, data, true, kFit);
    const std::int64_t batch =
        batch_size_of(state_, arguments_.batch_size, samples.count(), kFit, count_of_ranks(state_));
    check_batch_of_ranks(state_, batch);
    check_batch_of_ranks(state_, samples.count() % batch);
    progress_.all_steps = (samples.count() + batch - 1) / batch;
    place_.samples = samples.count();
    place_.batch_size = validation_batch_ = batch;
    set_order(place_, state_, arguments_, progress_.all_steps);
    const std::shared_ptr<Executor> executor = state_.current_executor("fit");
    const ExecutionArguments& some = batch_of_rank(state_, samples, 0, batch).arguments;
    const std::int64_t rows = some.batch_size;
    executor->check_none_is_missing(some, {.call = "fit"});
    executor->check_integers(samples.batch(0, samples.count()).arguments, rows);
    if (place_.shuffle_seed) {
      samples.check_lengths(batch, true);
      check_all_move(state_, data, "shuffled; pass them, or shuffle=False");
    } else {
      check_all_are_sorted(state_, data, samples, batch);
    }
    source_ = std::make_unique<ArrayBatches>(state_, std::move(samples), batch);
  }

  void take_validation() {
    if (arguments_.validation) {
      in_the_validation([&] {
        validation_ = samples_of(state_, *arguments_.validation, true, kFit);
        validation_batch_ = std::min(validation_batch_, validation_->count());
        check_all_are_sorted(state_, *arguments_.validation, *validation_, validation_batch_);
      });
    }
    make_metrics(arguments_.metrics, loss_of(state_, kFit), kFit);
    check_monitors(arguments_, loss_->type);
  }

  Scoring scoring() const {
    return {kFit, validation_batch_, arguments_.metrics, arguments_.goes_on, true};
  }

  // Errors of ours say where.
  template <class Work>
  static void in_the_validation(Work work) {
    try {
      work();
    } catch (Error& error) {
      error.add(" in the validation");
      throw;
    }
  }

  // Refuses what can be, before callbacks or their files change. False: the fit is over.
  bool prepare() {
    check(arguments_);
    progress_ = {};
    loss_ = &loss_of(state_, kFit).descriptor();
    take_samples();
    take_validation();
    check_trains(graph_, state_);
    if (is_over(state_, arguments_, progress_)) return false;
    checkpoints_ = checkpoints_among(arguments_.callbacks);
    check_whole_steps(state_, checkpoints_, progress_.all_steps);
    place_.epoch = arguments_.first_epoch;
    goes_on_ = arguments_.resume && is_there_to_go_on(*arguments_.resume);
    check_files(arguments_, goes_on_);
    if (validation_) in_the_validation([&] { check_scoring(state_, *validation_, scoring()); });
    goes_on_ ? resume(*arguments_.resume) : check_updates(state_, arguments_, progress_.all_steps);
    return true;
  }

  void begin() {
    if (goes_on_) return resume_callbacks();
    warn_of_missing_file(arguments_, checkpoints_);
    place_.callbacks = placed_callbacks(arguments_);
    for_callbacks([&](FitCallback& callback) { callback.begin(graph_); });
    before_ = taken_place(state_, graph_.optimizer().get());
  }

  void resume(const std::string& path) {
    std::vector<PlacedCallback> callbacks;
    const FitPlacePtr kept = loaded_place(state_, path, [&](const FitPlace& place) {
      check_resumed(place, place_, arguments_);
      callbacks = resumed_callbacks(place, arguments_);
    });
    place_ = *kept;
    place_.callbacks = std::move(callbacks);
    tell_place(place_, arguments_.epochs, progress_);
    restore_rate(place_, path, graph_.optimizer().get());
  }

  void for_callbacks(const std::function<void(FitCallback&)>& call) {
    by_first_rank(state_, [&] {
      for (const FitCallbackPtr& callback : arguments_.callbacks) call(*callback);
    });
  }

  void resume_callbacks() {
    auto placed = place_.callbacks.begin();
    for_callbacks([&](FitCallback& callback) {
      const auto next = static_cast<int>(place_.epoch) + (placed->has_heard ? 1 : 0);
      callback.resume(graph_, next, placed->state);
      ++placed;
    });
    // Between two epochs a file may be what has ended the fit.
    if (place_.steps == 0) save_all();
  }

  // Whether to go on; false: the caller has ended the fit.
  bool train(Epoch& epoch) {
    epoch.number = static_cast<int>(place_.epoch);
    epoch.shuffle_seed = place_.shuffle_seed;
    progress_.steps = place_.steps;
    std::int64_t before = 0;
    keeping_place("", [&] { before = passes_now(state_) - place_.steps; });
    const Backend& device = state_.current_executor("fit")->backend();
    const Clock::time_point start = Clock::now();
    StepsInFlight steps(state_, device, arguments_,
                        LossSum(loss_->reduction, place_.loss_sum, place_.loss_count), progress_);
    bool goes_on = true;
    try {
      source_->begin(place_, device);
      goes_on = take_steps(steps);
    } catch (Error& error) {
      give_up(steps, before);
      if (!has_named_step_ && !steps.found_infinite_loss() && !source_->has_named_batch()) {
        error.add(" in step " + std::to_string(progress_.steps + 1) + " of epoch " +
                  std::to_string(epoch.number));
      }
      throw;
    } catch (...) {
      give_up(steps, before);
      throw;
    }
    count(steps);
    epoch.loss = steps.loss().value();
    epoch.steps = progress_.steps;
    epoch.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (const OptimizerPtr used = graph_.optimizer(); goes_on && used && !place_.epoch_rate) {
      place_.epoch_rate = used->learning_rate();
    }
    epoch.learning_rate = place_.epoch_rate.value_or(0);
    goes_on ? know_all_steps() : keep_place();
    return goes_on;
  }

  void know_all_steps() {
    const bool were_known = std::exchange(progress_.all_steps, progress_.steps) == progress_.steps;
    if (were_known || !arguments_.on_step) return;
    keeping_place("", [&] { arguments_.on_step(progress_); });
  }

  bool take_steps(StepsInFlight& steps) {
    std::int64_t submitted = place_.steps;
    while (source_->is_more()) {
      // Of several ranks the step before has asked all of them.
      const bool asks = state_.ranks == nullptr && arguments_.goes_on;
      if (steps.are_to_end() || (asks && !arguments_.goes_on())) {
        steps.wait();
        return false;
      }
      Samples::Batch* const batch = source_->next();
      if (batch == nullptr) {
        steps.wait();
        return !source_->is_ended();
      }
      if (arguments_.schedule) {  // the time steps of those that were submitted are counted
        Optimizer& used = *graph_.optimizer();
        used.set_learning_rate(static_cast<float>((*arguments_.schedule)(used.time_step() - 1)));
      }
      steps.add(*state_.current_executor("fit"), *batch);
      ++submitted;
      if (!checkpoints_.empty()) save_amid(steps, submitted);
    }
    steps.wait();
    return true;
  }

  void save_amid(StepsInFlight& steps, std::int64_t submitted) {
    for (const Checkpoint* file : checkpoints_) {
      if (!file->is_due_after(submitted)) continue;
      steps.wait();
      count(steps);
      keep_place();
      save(*file);
    }
  }

  bool evaluate(Epoch& epoch) {
    if (!validation_) return true;
    std::optional<Evaluation> found;
    keeping_place(" in the validation",
                  [&] { found = evaluate_samples(state_, *validation_, scoring()); });
    if (found) {
      epoch.validation = std::move(found);
      return true;
    }
    keep_place();
    return false;
  }

  void ask(const Epoch& epoch) {
    const auto hears = [this](PlacedCallback& placed, auto&& call) {
      if (placed.has_heard) return;
      keep_place();  // of a callback that saves
      if (!call()) place_.end_by(placed.kind);
      placed.has_heard = true;
    };
    keeping_place("", [&] {
      by_first_rank(state_, [&] {
        auto placed = place_.callbacks.begin();
        for (const FitCallbackPtr& callback : arguments_.callbacks) {
          hears(*placed++, [&] { return callback->after_epoch(graph_, epoch); });
        }
        if (arguments_.on_epoch) hears(*placed, [&] { return arguments_.on_epoch(epoch); });
      });
    });
  }

  // Only now it is listed: one that was interrupted before is in the list of the fit that goes on.
  void go_to_next_epoch(const Epoch& epoch) {
    move_to_next_epoch(place_);
    progress_.epochs.push_back(epoch);
    // Without callbacks nothing but what ends the next epoch needs to know.
    if (arguments_.callbacks.empty() && !arguments_.on_epoch) return;
    keeping_place("", [this] { keep_place(); });
    save_all();
  }

  // --- where it stands ---------------------------------------------------------------------------

  void count(const StepsInFlight& steps) {
    place_.steps = progress_.steps;
    place_.loss_sum = steps.loss().sum();
    place_.loss_count = steps.loss().count();
  }

  void keep_place() {
    place_.passes = passes_now(state_);
    place_.micro_batches = graph_.micro_batches();
    take_states(graph_.optimizer().get(), arguments_.callbacks, place_);
    const bool has_trained = place_.steps > 0 || !progress_.epochs.empty();
    if (!has_trained && is_put_back(state_, before_, place_)) return;
    state_.fit_place->set(std::make_shared<const FitPlace>(place_));
  }

  // Between the steps: errors of ours say where, behind `in`.
  template <class Work>
  void keeping_place(const char* in, Work work) {
    try {
      work();
    } catch (Error& error) {
      keep_place_or_none();
      add_step(error, in);
      throw;
    } catch (...) {
      keep_place_or_none();
      throw;
    }
  }

  void give_up(StepsInFlight& steps, std::int64_t before) {
    steps.give_up();
    count(steps);
    keep_place_or_none();
    // One that was interrupted as it was waited for, or has failed after others: nobody knows.
    const FitPlacePtr kept = state_.fit_place->get();
    if (kept != nullptr && kept->passes != before + place_.steps) state_.fit_place->set(nullptr);
  }

  void add_step(Error& error, const std::string& in = "") {
    error.add(in + " after step " + std::to_string(progress_.steps) + " of epoch " +
              std::to_string(progress_.epoch));
    has_named_step_ = true;
  }

  void save_all() {
    for (const Checkpoint* file : checkpoints_) save(*file);
  }

  void save(const Checkpoint& file) {
    try {
      by_first_rank(state_, [&] {
        if (is_first_rank(state_)) file.save(graph_);
      });
    } catch (Error& error) {
      add_step(error);
      throw;
    }
  }

  void keep_place_or_none() {
    try {
      keep_place();
    } catch (...) {
      state_.fit_place->set(nullptr);
    }
  }

  TrainingGraph& graph_;
  GraphState& state_;
  const FitArguments arguments_;
  FitProgress own_progress_;
  FitProgress& progress_;
  const LossDescriptor* loss_ = nullptr;
  std::unique_ptr<BatchSource> source_;
  std::optional<Samples> validation_;
  std::int64_t validation_batch_ = 0;
  std::vector<const Checkpoint*> checkpoints_;
  bool goes_on_ = false;         // with a fit that has begun
  bool has_named_step_ = false;  // what ends the fit
  FitPlacePtr before_;           // kept until a step has trained
  FitPlace place_;
};

}  // namespace

std::vector<Epoch> TrainingGraph::fit(const FitArguments& arguments) {
  const OnlyFit only(*state_->fit_place);
  return Fit(*this, *state_, arguments).run();
}

}  // namespace traingraph
