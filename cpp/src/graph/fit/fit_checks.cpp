// Checks of what a fit is given, also against the one that it goes on with.
#include "graph/fit/fit_checks.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <traingraph/errors.h>
#include <traingraph/message_text.h>

#include "graph/fit/csv_file.h"
#include "graph/fit/metrics.h"
#include "graph/fit/resumed_fit.h"
#include "graph/run/executor.h"
#include "graph/state/load_checkpoint.h"
#include "ir/number_text.h"
#include "runtime/files/file.h"

namespace traingraph {
namespace {

// What says something of one execution alone.
constexpr std::pair<ExecutionOptions, const char*> kNotOfFit[] = {
    {ExecutionOptions::kSkipWritingInputDataToDevice, "SKIP_WRITING_INPUT_DATA_TO_DEVICE"},
    {ExecutionOptions::kProfiling, "PROFILING"},
    {ExecutionOptions::kForwardForInference, "FORWARD_FOR_INFERENCE"},
    {ExecutionOptions::kPerLayerProfiling, "PER_LAYER_PROFILING"},
};

void check_has_batches_alone(const FitArguments& arguments) {
  const auto refuse = [](const std::string& what) {
    throw InvalidArgument(
        "[fit] expected either arrays or batches, which have their own sizes and "
        "order, but got batches and " +
        what);
  };
  if (!arguments.inputs.empty()) refuse("inputs");
  if (!arguments.loss_labels.empty()) refuse("labels");
  if (!arguments.loss_label_weights.empty()) refuse("label_weights");
  if (arguments.batch_size != 0) refuse("batch_size=" + std::to_string(arguments.batch_size));
  if (!arguments.shuffle_seed) return;
  refuse("shuffle_seed=" + std::to_string(*arguments.shuffle_seed));
}

void check_callbacks(const std::vector<FitCallbackPtr>& callbacks) {
  for (auto at = callbacks.begin(); at != callbacks.end(); ++at) {
    if (*at == nullptr) throw InvalidArgument("[fit] expected callbacks but got a null pointer");
    if (std::find(callbacks.begin(), at, *at) == at) continue;
    throw InvalidArgument("[fit] expected each callback once but got " + (*at)->kind() +
                          " twice; make one for each place");
  }
  std::string restoring;
  std::int64_t count = 0;
  for (const FitCallbackPtr& callback : callbacks) {
    const auto* const stopping = dynamic_cast<const EarlyStopping*>(callback.get());
    if (stopping == nullptr || !stopping->restores_best()) continue;
    restoring += (count++ == 0 ? "" : ", ") + stopping->kind();
  }
  if (count <= 1) return;
  throw InvalidArgument("[fit] expected one EarlyStopping that restores the best weights but got " +
                        std::to_string(count) + ": " + restoring +
                        "; pass restores_best=False to all others");
}

// How a fit would have the number, or which one is meant.
std::string advice_for(const std::string& monitor, bool validates, bool has_accuracy) {
  for (const std::string_view prefix : {"val_", "validation_"}) {
    const std::string rest = monitor.substr(std::min(prefix.size(), monitor.size()));
    if (!monitor.starts_with(prefix) || (rest != "loss" && !is_metric(rest))) continue;
    return "; did you mean '" + rest + "', which is of the validation?";
  }
  if (monitor == kConfusionMatrix) return "; a matrix is no number to watch";
  if (monitor == "accuracy" && !has_accuracy) return "; it is of losses of classifiers";
  if (is_metric(monitor)) {
    return validates ? "; name it in metrics" : "; it is of the validation, pass one";
  }
  std::vector<std::string> names = metric_names();
  names.emplace_back("loss");
  return did_you_mean(monitor, names);
}

}  // namespace

void check_monitors(const FitArguments& arguments, LossType type) {
  const bool validates = arguments.validation.has_value();
  std::vector<std::string> numbers{"loss"};
  if (validates && has_accuracy(type)) numbers.emplace_back("accuracy");
  for (const std::string& name : arguments.metrics) {
    const bool is_known = std::ranges::find(numbers, name) != numbers.end();
    if (!is_known && name != kConfusionMatrix) numbers.push_back(name);
  }
  for (const FitCallbackPtr& callback : arguments.callbacks) {
    const auto* const stopping = dynamic_cast<const EarlyStopping*>(callback.get());
    if (stopping == nullptr) continue;
    const std::string& monitor = stopping->monitor();
    if (std::ranges::find(numbers, monitor) != numbers.end()) continue;
    std::string listed;
    for (const std::string& number : numbers) listed += (listed.empty() ? "" : ", ") + number;
    throw InvalidArgument("[EarlyStopping] expected monitor of " + listed + " but got '" + monitor +
                          "'" + advice_for(monitor, validates, has_accuracy(type)));
  }
}

void check(const FitArguments& arguments) {
  if (arguments.first_epoch < 1) {
    throw InvalidArgument("[fit] expected first_epoch of at least 1 but got " +
                          std::to_string(arguments.first_epoch));
  }
  if (arguments.epochs < arguments.first_epoch) {
    throw InvalidArgument(arguments.first_epoch == 1
                              ? "[fit] expected at least 1 epoch but got " +
                                    std::to_string(arguments.epochs)
                              : "[fit] expected epochs, the number of the last one, of at least " +
                                    std::to_string(arguments.first_epoch) +
                                    ", the first one, but "
                                    "got " +
                                    std::to_string(arguments.epochs));
  }
  for (const auto& [option, name] : kNotOfFit) {
    if (!has(arguments.options, option)) continue;
    throw InvalidArgument(
        std::string("[fit] expected options of SYNCHRONOUS and CHECK_NUMERICS but got ") + name);
  }
  if (!arguments.metrics.empty() && !arguments.validation) {
    throw InvalidArgument("[fit] expected validation, which metrics are of, but got none");
  }
  if (arguments.next_batch) check_has_batches_alone(arguments);
  check_callbacks(arguments.callbacks);
}

void check_files(const FitArguments& arguments, bool goes_on) {
  std::vector<std::string> paths;
  const auto check_is_its_own = [&paths](const std::string& subject, const std::string& path) {
    const auto is_it = [&path](const std::string& other) { return is_one_file(path, other); };
    if (std::ranges::any_of(paths, is_it)) {
      throw InvalidArgument(subject + " expected a file of its own but got '" + path +
                            "', which another callback writes");
    }
    paths.push_back(path);
  };
  const bool validates = arguments.validation.has_value();
  const std::string header = csv_row(csv_columns(validates, arguments.metrics));
  for (const FitCallbackPtr& callback : arguments.callbacks) {
    if (const auto* const log = dynamic_cast<const CSVLog*>(callback.get())) {
      check_is_its_own("[CSVLog]", log->path());
      check_writable(log->path());
      const bool keeps_rows = log->appends() || goes_on || arguments.first_epoch > 1;
      const CsvFile there = read_csv(log->path());
      keeps_rows ? check_same_columns(log->path(), there, header)
                 : check_is_log(log->path(), there);
    }
    if (const auto* const file = dynamic_cast<const Checkpoint*>(callback.get())) {
      check_is_its_own("[Checkpoint]", file->path());
      check_replaceable(file->path());
      check_is_checkpoint(file->path());
    }
  }
}

void check_trains(const TrainingGraph& graph, GraphState& state) {
  if (graph.optimizer() == nullptr) {
    throw InvalidArgument(
        "[fit] expected an optimizer, without which steps change nothing; give one to the "
        "training graph or to compile_optimizer");
  }
  if (state.current_executor("fit")->changes_parameters()) return;
  bool has_some = false, may_change = false;
  for (const LayerPtr& layer : graph.layers()) {
    for (const TensorParameter* parameter : layer->parameters()) {
      has_some = true;
      may_change = may_change || parameter->is_updatable;
    }
  }
  throw InvalidArgument(
      "[fit] expected parameters that steps change but " +
      std::string(!has_some     ? "got a graph without parameters"
                  : !may_change ? "all of them are frozen; set is_updatable"
                                : "no gradient of the loss reaches any of them; the loss has to "
                                  "read what they make, not through stop_gradient"));
}

void check_updates(GraphState& state, const FitArguments& arguments, std::int64_t all_steps) {
  const std::int64_t micro_batches = state.micro_batches;
  const std::int64_t batches = all_steps * (arguments.epochs - arguments.first_epoch + 1);
  const std::int64_t summed = passes_now(state) % micro_batches;
  if (all_steps == 0 || summed + batches >= micro_batches) return;
  throw InvalidArgument("[fit] expected batches for an update, which takes micro_batches=" +
                        std::to_string(micro_batches) + " of them, but got " +
                        std::to_string(batches) +
                        " in all epochs; train more epochs, or lower micro_batches");
}

OnlyFit::OnlyFit(KeptFitPlace& place) : place_(place) {
  if (place_.begin_run()) return;
  throw InvalidArgument(
      "[fit] expected no other fit of this graph, which one runs already: in its callbacks and "
      "batches execute() trains a step");
}

std::string shuffle_of(const FitPlace& place) {
  return place.shuffle_seed ? "shuffle_seed=" + std::to_string(*place.shuffle_seed)
                            : "shuffle=False";
}

void check_resumed(const FitPlace& place, const FitPlace& begun, const FitArguments& arguments) {
  const auto refuse = [](const std::string& expected, const std::string& got) {
    throw InvalidArgument("[fit] expected " + expected +
                          ", as the fit to go on with has, but got " + got);
  };
  const auto check_number = [&](const char* what, std::int64_t expected, std::int64_t got) {
    if (got != expected) refuse(what + std::to_string(expected), std::to_string(got));
  };
  const auto source = [](const FitPlace& of) { return of.samples == 0 ? "batches" : "arrays"; };
  if ((place.samples == 0) != (begun.samples == 0)) refuse(source(place), source(begun));
  check_number("samples: ", place.samples, begun.samples);
  check_number("batch_size=", place.batch_size, begun.batch_size);
  const bool may_differ = place.shuffle_seed && arguments.shuffle && !arguments.shuffle_seed;
  if (!may_differ && place.shuffle_seed != begun.shuffle_seed) {
    refuse(shuffle_of(place),
           place.shuffle_seed || arguments.shuffle_seed ? shuffle_of(begun) : "shuffle=True");
  }
  const std::int64_t done = place.steps > 0 ? place.epoch : place.epoch - 1;
  if (arguments.epochs < done) {
    refuse("epochs of at least " + std::to_string(done), std::to_string(arguments.epochs));
  }
  if (arguments.first_epoch > place.epoch) {
    refuse("first_epoch of at most " + std::to_string(place.epoch),
           std::to_string(arguments.first_epoch));
  }
  for (std::size_t k = 0; k < place.callbacks.size(); ++k) {
    const auto stray = stray_number(place.callbacks[k], place.epoch);
    if (!stray) continue;
    throw InvalidArgument("[fit] expected of the fit to go on with" +
                          (arguments.resume->empty() ? "" : " in '" + *arguments.resume + "'") +
                          " 'fit.callbacks." + std::to_string(k + 1) + "." + stray->name + "' " +
                          stray->expected + " but got " + stray->got);
  }
  for (const PlacedCallback& callback : place.callbacks) {
    const std::optional<bool> watched = watched_validation(callback.kind, callback.state);
    if (!watched || *watched == arguments.validation.has_value()) continue;
    const std::string which = "validation, whose loss " + callback.kind + " watches";
    refuse(*watched ? which : "no " + which, *watched ? "none" : "one");
  }
}

}  // namespace traingraph
