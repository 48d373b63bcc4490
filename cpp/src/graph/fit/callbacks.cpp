// What a fit can be given to ask after each epoch.
#include <traingraph/fit/callbacks.h>

#include <cxxabi.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include <traingraph/errors.h>
#include <traingraph/fit.h>

#include "graph/fit/csv_file.h"
#include "graph/fit/fit_checks.h"
#include "graph/fit/metrics.h"
#include "graph/state/own_metadata.h"
#include "ir/number_text.h"
#include "runtime/files/file.h"
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
constexpr const char* kOfValidation = "of_validation";
constexpr const char* kEarlyStopping = "EarlyStopping(";
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

// Whether the best weights are those of the graph, which else the end of the fit would show.
void check_kept(const NamedTensors& expected, const NamedData& kept) {
  const auto refuse = [](const std::string& name, const std::string& wanted,
                         const std::string& got) {
    throw InvalidArgument(
        "[fit] expected of the best weights, which an EarlyStopping of the fit to go on with has "
        "kept, '" +
        name + "' " + wanted + " but got " + got);
  };
  const auto text = [](DataType type, const Shape& shape) {
    return std::string(name(type)) + " " + to_string(shape);
  };
  for (const auto& [name, tensor] : expected) {
    const TensorDescriptor& d = tensor->descriptor();
    const auto found = std::ranges::find(kept, name, &NamedData::value_type::first);
    const std::string wanted = "of " + text(d.data_type, d.shape);
    if (found == kept.end()) {
      refuse(name, wanted, "none");
    } else if (found->second.data_type != d.data_type || found->second.shape != d.shape) {
      refuse(name, wanted, text(found->second.data_type, found->second.shape));
    }
  }
  for (const auto& entry : kept) {
    const auto is_it = [&entry](const auto& other) { return other.first == entry.first; };
    if (std::ranges::none_of(expected, is_it)) refuse(entry.first, "to be absent", "it");
  }
}

// None where the epoch has not the number; NaN where it is of nothing, as of labels that do not
// count.
std::optional<double> number_of(const Epoch& epoch, const std::string& name) {
  if (name == "loss") return epoch.validation ? epoch.validation->loss : epoch.loss;
  if (!epoch.validation) return std::nullopt;
  for (const auto& [known, value] : epoch.validation->metrics) {
    if (known == name && value.shape.empty()) return value.numbers.front();
  }
  if (name != "accuracy") return std::nullopt;
  return epoch.validation->accuracy.value_or(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

std::optional<bool> watched_validation(const std::string& kind, const NamedData& state) {
  if (!kind.starts_with(kEarlyStopping)) return std::nullopt;
  const auto found = number_in<std::int64_t>(state, kOfValidation, DataType::kInt64);
  return found ? std::optional(*found != 0) : std::nullopt;
}

std::optional<StrayNumber> stray_number(const PlacedCallback& callback, std::int64_t epoch) {
  const NamedData& state = callback.state;
  const auto has = [&state](const char* name) {
    return std::ranges::find(state, name, &NamedData::value_type::first) != state.end();
  };
  const bool is_stopping =
      callback.kind.empty() ? has(kWaited) : callback.kind.starts_with(kEarlyStopping);
  if (!is_stopping) return std::nullopt;
  const struct {
    const char* name;
    std::int64_t most;
    bool may_lack;
  } numbers[] = {{kBestEpoch, epoch, false}, {kWaited, epoch, false}, {kOfValidation, 1, true}};
  for (const auto& of : numbers) {
    if (of.may_lack && !has(of.name)) continue;
    const auto value = number_in<std::int64_t>(state, of.name, DataType::kInt64);
    if (value && *value >= 0 && *value <= of.most) continue;
    return StrayNumber{of.name, "from 0 to " + std::to_string(of.most),
                       value          ? std::to_string(*value)
                       : has(of.name) ? "another type"
                                      : "none"};
  }
  const bool has_best = *number_in<std::int64_t>(state, kBestEpoch, DataType::kInt64) > 0;
  const auto best = number_in<double>(state, kBest, DataType::kFloat64);
  if (best && std::isnan(*best)) return StrayNumber{kBest, "that is a number", short_text(*best)};
  if (has_best == best.has_value()) return std::nullopt;
  return StrayNumber{kBest, has_best ? "of one float64" : "to be absent, without a best epoch,",
                     has_best ? "none" : "one"};
}

FitCallback::~FitCallback() = default;
void FitCallback::begin(TrainingGraph&) {}
void FitCallback::end(TrainingGraph&) {}
NamedData FitCallback::copy_state() const { return {}; }

std::string FitCallback::kind() const {
  const char* const mangled = typeid(*this).name();
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : mangled;
}

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
  if (!monitor_.empty()) return;
  refuse("EarlyStopping", "monitor: loss, accuracy or the name of a metric", "an empty text");
}

void EarlyStopping::begin(TrainingGraph&) {
  best_.reset();
  best_epoch_ = 0;
  waited_ = 0;
  of_validation_.reset();
  kept_.clear();
}

bool EarlyStopping::after_epoch(TrainingGraph& graph, const Epoch& epoch) {
  const std::optional<double> now = number_of(epoch, monitor_);
  if (!now) {
    refuse("EarlyStopping", "an epoch with the number '" + monitor_ + "', which it is to watch",
           epoch.validation ? "a validation without it: name it in metrics" : "no validation");
  }
  of_validation_ = epoch.validation.has_value();
  const double gain = !best_ ? 0 : larger_is_better(monitor_) ? *now - *best_ : *best_ - *now;
  const bool is_better = !std::isnan(*now) && (!best_ || gain > min_delta_);
  if (!is_better) return ++waited_ < patience_;
  best_ = now;
  best_epoch_ = epoch.number;
  waited_ = 0;
  if (!restores_best_) return true;
  kept_.clear();
  for (const auto& [name, tensor] : graph.named_parameters()) {
    const TensorDescriptor& d = tensor->descriptor();
    TensorData data = TensorData::copy_of(nullptr, 0, d.data_type, d.shape);
    tensor->copy_to(data.bytes, data.length);
    kept_.emplace_back(name, std::move(data));
  }
  return true;
}

void EarlyStopping::end(TrainingGraph& graph) {
  if (!kept_.empty()) graph.load_state(kept_);
  kept_.clear();
}

NamedData EarlyStopping::copy_state() const {
  NamedData state{{kBestEpoch, number(std::int64_t{best_epoch_}, DataType::kInt64)},
                  {kWaited, number(waited_, DataType::kInt64)}};
  if (of_validation_) {
    state.emplace_back(kOfValidation, number(std::int64_t{*of_validation_}, DataType::kInt64));
  }
  if (best_) state.emplace_back(kBest, number(*best_, DataType::kFloat64));
  for (const auto& [name, data] : kept_) state.emplace_back(std::string(kKept) + name, data);
  return state;
}

std::string EarlyStopping::kind() const {
  std::string kind = std::string(kEarlyStopping) + "monitor='" + monitor_ + "'";
  if (min_delta_ != 0) kind += ", min_delta=" + text_of(min_delta_);
  if (!restores_best_) kind += ", restores_best=False";
  return kind + ")";
}

void EarlyStopping::resume(TrainingGraph& graph, int, const NamedData& state) {
  const auto epoch = number_in<std::int64_t>(state, kBestEpoch, DataType::kInt64);
  const auto waited = number_in<std::int64_t>(state, kWaited, DataType::kInt64);
  if (!epoch || !waited) refuse_state("an EarlyStopping", state);
  begin(graph);
  best_ = number_in<double>(state, kBest, DataType::kFloat64);
  best_epoch_ = static_cast<int>(*epoch);
  of_validation_ = watched_validation(kind(), state);
  waited_ = *waited;
  for (const auto& [name, data] : state) {
    if (name.starts_with(kKept)) kept_.emplace_back(name.substr(kKept.size()), data);
  }
  check_kept(restores_best_ && best_ ? graph.named_parameters() : NamedTensors(), kept_);
}

// --- files ---------------------------------------------------------------------------------------

CSVLog::CSVLog(std::string path, bool appends) : path_(std::move(path)), appends_(appends) {
  if (path_.empty()) refuse("CSVLog", "a path", "an empty one");
}

void CSVLog::begin(TrainingGraph&) {
  keeps_rows_ = appends_;
  header_.clear();
}

bool CSVLog::after_epoch(TrainingGraph&, const Epoch& epoch) {
  std::vector<std::string> row{std::to_string(epoch.number), text_of(epoch.loss),
                               text_of(epoch.seconds), text_of(epoch.learning_rate)};
  std::vector<std::string> metrics;
  if (const std::optional<Evaluation>& of = epoch.validation) {
    row.push_back(text_of(of->loss));
    row.push_back(of->accuracy ? text_of(*of->accuracy) : "");
    for (const auto& [name, value] : of->metrics) {
      if (!value.shape.empty() || name == "accuracy") continue;
      metrics.push_back(name);
      row.push_back(text_of(value.numbers.front()));
    }
  }
  const std::string header = csv_row(csv_columns(epoch.validation.has_value(), metrics));
  const bool is_first = header_.empty();
  if (is_first && !keeps_rows_ && epoch.number > 1) {  // of FitArguments::first_epoch
    keep_rows_before(path_, epoch.number);
    keeps_rows_ = true;
  }
  const CsvFile before = is_first && keeps_rows_ ? read_csv(path_) : CsvFile{.header = header_};
  check_same_columns(path_, before, header);
  std::string text = before.header.empty() ? header + "\n" : before.ends_in_row ? "\n" : "";
  text += csv_row(row) + "\n";
  write_text(path_, text, before.header.empty() ? Write::replace : Write::append);
  header_ = header;
  return true;
}

std::string CSVLog::kind() const { return "CSVLog"; }

void CSVLog::resume(TrainingGraph& graph, int epoch, const NamedData& state) {
  FitCallback::resume(graph, epoch, state);
  keep_rows_before(path_, epoch);
  keeps_rows_ = true;
  header_.clear();
}

Checkpoint::Checkpoint(std::string path, std::int64_t every_steps, Metadata metadata)
    : path_(std::move(path)), every_steps_(every_steps), metadata_(std::move(metadata)) {
  if (path_.empty()) refuse("Checkpoint", "a path", "an empty one");
  expect_in(kLimit, "Checkpoint", "every_steps", static_cast<double>(every_steps_));
  check_metadata(metadata_, "[Checkpoint]");
}

bool Checkpoint::after_epoch(TrainingGraph&, const Epoch&) { return true; }
std::string Checkpoint::kind() const { return "Checkpoint"; }

}  // namespace traingraph
