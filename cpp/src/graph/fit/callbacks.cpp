// What a fit can be given to ask after each epoch.
#include <traingraph/fit/callbacks.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <utility>

#include <traingraph/errors.h>
#include <traingraph/fit.h>

#include "graph/fit/metrics.h"
#include "ir/number_text.h"
#include "runtime/numbers/range.h"

namespace traingraph {
namespace {

[[noreturn]] void refuse(const char* subject, const std::string& expected, const std::string& got) {
  throw InvalidArgument(std::string("[") + subject + "] expected " + expected + " but got " + got);
}

// As Python reads it back.
std::string text_of(double value) {
  return std::isfinite(value) ? number_text(value) : short_text(value);
}

// None where the epoch has not the number.
std::optional<double> number_of(const Epoch& epoch, const std::string& name) {
  if (name == "loss") return epoch.validation ? epoch.validation->loss : epoch.loss;
  if (!epoch.validation) return std::nullopt;
  for (const auto& [known, value] : epoch.validation->metrics) {
    if (known == name && value.shape.empty()) return value.numbers.front();
  }
  return name == "accuracy" ? epoch.validation->accuracy : std::nullopt;
}

}  // namespace

FitCallback::~FitCallback() = default;
void FitCallback::begin(TrainingGraph&) {}
void FitCallback::end(TrainingGraph&) {}

// --- early stopping ------------------------------------------------------------------------------

EarlyStopping::EarlyStopping(std::int64_t patience, double min_delta, std::string monitor,
                             bool restores_best)
    : patience_(patience),
      min_delta_(min_delta),
      monitor_(std::move(monitor)),
      restores_best_(restores_best) {
  expect_in(kOneOrMore, "EarlyStopping", "patience", static_cast<double>(patience_));
  expect_in(kNotNegative, "EarlyStopping", "min_delta", min_delta_);
}

void EarlyStopping::begin(TrainingGraph&) {
  best_.reset();
  best_epoch_ = 0;
  waited_ = 0;
  kept_.clear();
}

bool EarlyStopping::after_epoch(TrainingGraph& graph, const Epoch& epoch) {
  const std::optional<double> now = number_of(epoch, monitor_);
  if (!now) {
    refuse("EarlyStopping", "an epoch with the number '" + monitor_ + "', which it is to watch",
           epoch.validation ? "a validation without it: name it in metrics" : "no validation");
  }
  const double gain = !best_ ? 0 : larger_is_better(monitor_) ? *now - *best_ : *best_ - *now;
  const bool is_better = !std::isnan(*now) && (!best_ || gain > min_delta_);
  if (!is_better) return ++waited_ < patience_;
  best_ = now;
  best_epoch_ = epoch.number;
  waited_ = 0;
  if (!restores_best_) return true;
  const NamedTensors parameters = graph.named_parameters();
  kept_ = graph.copy_state();
  std::erase_if(kept_, [&](const auto& value) {
    return std::ranges::none_of(parameters, [&](const auto& p) { return p.first == value.first; });
  });
  return true;
}

void EarlyStopping::end(TrainingGraph& graph) {
  if (!kept_.empty()) graph.load_state(kept_);
  kept_.clear();
}

// --- a file --------------------------------------------------------------------------------------

CSVLog::CSVLog(std::string path, bool appends) : path_(std::move(path)), appends_(appends) {
  if (path_.empty()) refuse("CSVLog", "a path", "an empty one");
}

void CSVLog::begin(TrainingGraph&) { has_header_ = appends_ && std::ifstream(path_).peek() != EOF; }

bool CSVLog::after_epoch(TrainingGraph&, const Epoch& epoch) {
  std::string names = "epoch,loss,seconds,learning_rate";
  std::string row = std::to_string(epoch.number) + "," + text_of(epoch.loss) + "," +
                    text_of(epoch.seconds) + "," + text_of(epoch.learning_rate);
  const auto add = [&](const std::string& name, std::optional<double> value) {
    names += ",validation_" + name;
    row += "," + (value ? text_of(*value) : "");
  };
  if (epoch.validation) {
    add("loss", epoch.validation->loss);
    add("accuracy", epoch.validation->accuracy);
    for (const auto& [name, value] : epoch.validation->metrics) {
      if (value.shape.empty() && name != "accuracy") add(name, value.numbers.front());
    }
  }
  const bool is_first = !std::exchange(has_header_, true);
  std::ofstream file(path_, is_first ? std::ios::trunc : std::ios::app);
  if (is_first) file << names << "\n";
  file << row << "\n" << std::flush;
  if (!file) throw FileError(path_, "[CSVLog] expected to write a row", errno);
  return true;
}

}  // namespace traingraph
