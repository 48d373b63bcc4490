// What a fit can be given to ask after each epoch.
#include <traingraph/fit/callbacks.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string_view>
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

constexpr const char* kBest = "best";
constexpr const char* kBestEpoch = "best_epoch";
constexpr const char* kWaited = "waited";
constexpr std::string_view kKept = "kept.";

[[noreturn]] void refuse_state(const std::string& expected, const NamedData& got) {
  std::string names;
  for (const auto& [name, data] : got) names += (names.empty() ? "" : ", ") + name;
  throw InvalidArgument("[fit] expected the state of " + expected +
                        " for a callback but the fit to go on with has " +
                        (names.empty() ? "none" : "that of another one: " + names));
}

template <class T>
TensorData number(T value, DataType type) {
  return TensorData::copy_of(&value, sizeof value, type, {});
}

// None where it is not there, or no such number.
template <class T>
std::optional<T> number_in(const NamedData& state, const char* name, DataType type) {
  const auto found = std::ranges::find(state, name, &NamedData::value_type::first);
  if (found == state.end()) return std::nullopt;
  if (found->second.data_type != type || !found->second.shape.empty()) return std::nullopt;
  T value{};
  std::memcpy(&value, found->second.bytes, sizeof value);
  return value;
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
NamedData FitCallback::copy_state() const { return {}; }

void FitCallback::resume(TrainingGraph& graph, int, const NamedData& state) {
  if (!state.empty()) refuse_state("none", state);
  begin(graph);
}

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

NamedData EarlyStopping::copy_state() const {
  NamedData state{{kBestEpoch, number(std::int64_t{best_epoch_}, DataType::kInt64)},
                  {kWaited, number(waited_, DataType::kInt64)}};
  if (best_) state.emplace_back(kBest, number(*best_, DataType::kFloat64));
  for (const auto& [name, data] : kept_) state.emplace_back(std::string(kKept) + name, data);
  return state;
}

void EarlyStopping::resume(TrainingGraph& graph, int, const NamedData& state) {
  const auto epoch = number_in<std::int64_t>(state, kBestEpoch, DataType::kInt64);
  const auto waited = number_in<std::int64_t>(state, kWaited, DataType::kInt64);
  if (!epoch || !waited) refuse_state("an EarlyStopping", state);
  begin(graph);
  best_ = number_in<double>(state, kBest, DataType::kFloat64);
  best_epoch_ = static_cast<int>(*epoch);
  waited_ = *waited;
  for (const auto& [name, data] : state) {
    if (name.starts_with(kKept)) kept_.emplace_back(name.substr(kKept.size()), data);
  }
}

// --- files ---------------------------------------------------------------------------------------

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

void CSVLog::resume(TrainingGraph& graph, int epoch, const NamedData& state) {
  FitCallback::resume(graph, epoch, state);
  std::string kept, row;
  std::ifstream before(path_, std::ios::binary);
  bool is_header = true;
  while (std::getline(before, row)) {
    const bool is_whole = !before.eof();  // the process may have been killed amid the last one
    const std::size_t digits = std::min(row.find(','), row.size());
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(row.data(), row.data() + digits, number);
    const bool is_row = error == std::errc() && number < epoch;
    if (is_whole && (std::exchange(is_header, false) || is_row)) kept += row + "\n";
  }
  before.close();
  has_header_ = !kept.empty();
  std::ofstream file(path_, std::ios::binary | std::ios::trunc);
  file << kept << std::flush;
  if (!file) throw FileError(path_, "[CSVLog] expected to write the rows that stay", errno);
}

Checkpoint::Checkpoint(std::string path, std::int64_t every_steps, Metadata metadata)
    : path_(std::move(path)), every_steps_(every_steps), metadata_(std::move(metadata)) {
  if (path_.empty()) refuse("Checkpoint", "a path", "an empty one");
  expect_in(kLimit, "Checkpoint", "every_steps", static_cast<double>(every_steps_));
}

bool Checkpoint::after_epoch(TrainingGraph&, const Epoch&) { return true; }

}  // namespace traingraph
