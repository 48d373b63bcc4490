// Writes the place of a fit into a checkpoint, and reads it.
#include "graph/checkpoint/fit_entries.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <traingraph/errors.h>

#include "ir/number_text.h"

namespace traingraph {
namespace {

constexpr const char* kSteps = "fit.steps";
constexpr const char* kLossSum = "fit.loss_sum";
constexpr const char* kLossCount = "fit.loss_count";
constexpr const char* kRate = "fit.learning_rate";
constexpr const char* kEpochRate = "fit.epoch_rate";
constexpr const char* kSeed = "fit.shuffle_seed";
// Of each callback, by its position from 1: whether it has heard, behind its kind; and its state.
constexpr std::string_view kHeard = "fit.heard.", kCallbacks = "fit.callbacks.";
// Of each of those that have ended the fit, counted from 1: 1, behind its kind.
constexpr std::string_view kEndedBy = "fit.ended_by.";

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

struct Number {
  const char* name;
  std::int64_t FitPlace::* member;
  std::int64_t least = 0, most = kMost;
  bool may_lack = false;  // in files of before
};
constexpr Number kNumbers[] = {
    {"fit.epoch", &FitPlace::epoch, 1, std::numeric_limits<int>::max()},
    {kSteps, &FitPlace::steps},
    {"fit.samples", &FitPlace::samples},
    {"fit.batch_size", &FitPlace::batch_size},
    {"fit.micro_batches", &FitPlace::micro_batches, 1, std::numeric_limits<int>::max(), true},
    {"fit.order", &FitPlace::order},
    {kLossCount, &FitPlace::loss_count},
    {"fit.ended", &FitPlace::ended, 0, 1},
};

template <class T>
TensorData entry(T value, DataType type) {
  return TensorData::copy_of(&value, sizeof value, type, {});
}

class FitReader {
 public:
  FitReader(const NamedData& entries, const std::string& source)
      : entries_(entries), source_(source) {}

  bool has(const char* name) const { return find(name) != entries_.end(); }

  template <class T>
  T number(const char* name, DataType type) {
    const auto found = find(name);
    if (found == entries_.end()) refuse(quoted(name), "none");
    const TensorData& data = found->second;
    if (data.data_type != type || !data.shape.empty()) {
      refuse(quoted(name) + " of one " + traingraph::name(type),
             std::string(traingraph::name(data.data_type)) + " " + to_string(data.shape));
    }
    read_.insert(name);
    T value{};
    std::memcpy(&value, data.bytes, sizeof value);
    return value;
  }

  std::int64_t number(const Number& of) {
    const auto value = number<std::int64_t>(of.name, DataType::kInt64);
    if (value >= of.least && value <= of.most) return value;
    const bool is_low = value < of.least;
    refuse(quoted(of.name) + " of at " + (is_low ? "least " : "most ") +
               std::to_string(is_low ? of.least : of.most),
           value);
  }

  float rate(const char* name) {
    const auto value = number<float>(name, DataType::kFloat32);
    if (!std::isfinite(value)) refuse("a finite " + quoted(name), short_text(value));
    return value;
  }

  // Whether a fit may stand there. The loss may be NaN, as that of its steps was.
  void check(const FitPlace& place) const {
    const std::int64_t batch = place.batch_size;
    const auto expect_most = [this](const char* name, std::int64_t most, std::int64_t value) {
      if (value > most) refuse(quoted(name) + " of at most " + std::to_string(most), value);
    };
    const auto expect_least = [this](const char* name, std::int64_t least, std::int64_t value) {
      if (value < least) refuse(quoted(name) + " of at least " + std::to_string(least), value);
    };
    expect_most("fit.batch_size", place.samples, batch);
    if (place.samples > 0) {
      expect_least("fit.batch_size", 1, batch);
      expect_most(kSteps, (place.samples - 1) / batch + 1, place.steps);
    }
    expect_least(kLossCount, place.steps, place.loss_count);
    if (place.steps > 0) return;
    expect_most(kLossCount, 0, place.loss_count);
    if (place.loss_sum != 0) {
      refuse(quoted(kLossSum) + " of 0, of no steps,", short_text(place.loss_sum));
    }
  }

  std::vector<PlacedCallback> callbacks() {
    std::map<std::int64_t, PlacedCallback> found;
    for (const auto& [name, data] : entries_) {
      const auto of = position_in(name, kHeard);
      if (!of) continue;
      const std::int64_t heard = number({name.c_str(), nullptr, 0, 1});
      found[of->first] = {.kind = of->second, .has_heard = heard == 1};
    }
    if (has(kAllHeard)) add_unnamed(found);
    for (const auto& [name, data] : entries_) {
      const auto of = position_in(name, kCallbacks);
      if (!of || !found.contains(of->first)) continue;
      found[of->first].state.emplace_back(of->second, data);
      read_.insert(name);
    }
    std::vector<PlacedCallback> result;
    for (auto& [position, callback] : found) result.push_back(std::move(callback));
    return result;
  }

  std::vector<std::string> ended_by() {
    std::map<std::int64_t, std::string> found;
    for (const auto& [name, data] : entries_) {
      const auto of = position_in(name, kEndedBy);
      if (of && number({name.c_str(), nullptr, 1, 1}) == 1) found[of->first] = of->second;
    }
    std::vector<std::string> result;
    for (const auto& [position, kind] : found) result.push_back(kind);
    return result;
  }

  void finish() const {
    for (const auto& [name, data] : entries_) {
      if (!read_.contains(name)) refuse("no " + quoted(name), "one");
    }
  }

 private:
  // Files of before name no kinds: those up to this position have heard.
  static constexpr const char* kAllHeard = "fit.heard";
  static constexpr std::int64_t kMostUnnamed = 1 << 16;

  // The position, and what follows it.
  static std::optional<std::pair<std::int64_t, std::string>> position_in(const std::string& name,
                                                                         std::string_view behind) {
    if (!name.starts_with(behind)) return std::nullopt;
    const char* const end = name.data() + name.size();
    std::int64_t position = 0;
    const auto [last, code] = std::from_chars(name.data() + behind.size(), end, position);
    if (code != std::errc() || last == end || *last != '.' || position < 1) return std::nullopt;
    return std::pair(position, std::string(last + 1, end));
  }

  void add_unnamed(std::map<std::int64_t, PlacedCallback>& found) {
    std::int64_t all = number({kAllHeard, nullptr, 0, kMostUnnamed});
    const std::int64_t heard = all;
    for (const auto& [name, data] : entries_) {
      const auto of = position_in(name, kCallbacks);
      if (of && of->first <= kMostUnnamed) all = std::max(all, of->first);
    }
    for (std::int64_t position = 1; position <= all; ++position) {
      found[position].has_heard = position <= heard;
    }
  }

  NamedData::const_iterator find(std::string_view name) const {
    return std::ranges::find(entries_, name, &NamedData::value_type::first);
  }
  static std::string quoted(const std::string& name) { return "'" + name + "'"; }
  [[noreturn]] void refuse(const std::string& expected, std::int64_t got) const {
    refuse(expected, std::to_string(got));
  }
  [[noreturn]] void refuse(const std::string& expected, const std::string& got) const {
    throw InvalidArgument("[load] expected of the fit in " + source_ + " " + expected +
                          " but got " + got);
  }

  const NamedData& entries_;
  const std::string& source_;
  std::set<std::string> read_;
};

}  // namespace

NamedData entries_of(const FitPlace& place) {
  NamedData entries;
  for (const Number& number : kNumbers) {
    entries.emplace_back(number.name, entry(place.*number.member, DataType::kInt64));
  }
  entries.emplace_back(kLossSum, entry(place.loss_sum, DataType::kFloat64));
  if (place.shuffle_seed) entries.emplace_back(kSeed, entry(*place.shuffle_seed, DataType::kInt64));
  if (place.learning_rate) {
    entries.emplace_back(kRate, entry(*place.learning_rate, DataType::kFloat32));
  }
  if (place.epoch_rate) {
    entries.emplace_back(kEpochRate, entry(*place.epoch_rate, DataType::kFloat32));
  }
  std::int64_t position = 0;
  for (const std::string& kind : place.ended_by) {
    entries.emplace_back(std::string(kEndedBy) + std::to_string(++position) + "." + kind,
                         entry(std::int64_t{1}, DataType::kInt64));
  }
  position = 0;
  for (const PlacedCallback& callback : place.callbacks) {
    const std::string of = std::to_string(++position) + ".";
    const std::int64_t heard = callback.has_heard ? 1 : 0;
    entries.emplace_back(std::string(kHeard) + of + callback.kind, entry(heard, DataType::kInt64));
    for (const auto& [name, data] : callback.state) {
      entries.emplace_back(std::string(kCallbacks) + of + name, data);
    }
  }
  return entries;
}

FitPlace place_of(const NamedData& entries, const std::string& source) {
  FitReader reader(entries, source);
  FitPlace place;
  for (const Number& number : kNumbers) {
    if (number.may_lack && !reader.has(number.name)) continue;
    place.*number.member = reader.number(number);
  }
  place.loss_sum = reader.number<double>(kLossSum, DataType::kFloat64);
  if (reader.has(kSeed)) {
    place.shuffle_seed = reader.number<std::uint64_t>(kSeed, DataType::kInt64);
  }
  if (reader.has(kRate)) place.learning_rate = reader.rate(kRate);
  if (reader.has(kEpochRate)) place.epoch_rate = reader.rate(kEpochRate);
  place.ended_by = reader.ended_by();
  place.callbacks = reader.callbacks();
  reader.finish();
  reader.check(place);
  return place;
}

}  // namespace traingraph
