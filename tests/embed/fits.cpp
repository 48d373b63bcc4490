// Fits that go on, and fits over batches that a function makes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <traingraph/traingraph.h>

namespace tg = traingraph;

namespace {

constexpr std::int64_t kSamples = 50, kBatch = 16, kInputs = 3;

void check(bool holds, const char* what) { std::printf("%s: %s\n", what, holds ? "ok" : "FAILED"); }

struct Data {
  std::vector<float> x = std::vector<float>(kSamples * kInputs);
  std::vector<std::int32_t> y = std::vector<std::int32_t>(kSamples);
  Data() {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 41) / 20 - 1;
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[kInputs * i] > 0 ? 1 : 0;
  }
  tg::SampleData rows(std::int64_t first, std::int64_t count) {
    const auto* const at = x.data() + first * kInputs;
    const auto bytes = static_cast<std::size_t>(count) * sizeof(std::int32_t);
    return {.inputs = {{"x", tg::TensorData::of(at, {count, kInputs})}},
            .loss_labels = {{"y", tg::TensorData::copy_of(y.data() + first, bytes,
                                                          tg::DataType::kInt32, {count})}}};
  }
};

std::shared_ptr<tg::TrainingGraph> network() {
  tg::Platform::set_rng_seed(3);
  tg::nn::ModelOptions options;
  options.input = {kInputs};
  options.batch_size = kBatch;
  options.optimizer = tg::nn::adam(0.05f);
  return tg::nn::model({tg::nn::dense(8), "relu", tg::nn::dropout(0.25f), tg::nn::dense(2)},
                       options);
}

// Callbacks of the program's own: one keeps state, the other none.
class Counting final : public tg::FitCallback {
 public:
  bool after_epoch(tg::TrainingGraph&, const tg::Epoch&) override { return ++heard > 0; }
  tg::NamedData copy_state() const override {
    return {{"heard", tg::TensorData::copy_of(&heard, sizeof heard, tg::DataType::kInt64, {})}};
  }
  void resume(tg::TrainingGraph&, int, const tg::NamedData& state) override {
    std::memcpy(&heard, state.at(0).second.bytes, sizeof heard);
  }
  std::int64_t heard = 0;
};
class Silent final : public tg::FitCallback {
 public:
  bool after_epoch(tg::TrainingGraph&, const tg::Epoch&) override { return true; }
};

bool same(const tg::TrainingGraph& a, const tg::TrainingGraph& b) {
  const tg::NamedData left = a.copy_state(), right = b.copy_state();
  for (std::size_t k = 0; k < left.size(); ++k) {
    const auto* const one = static_cast<const std::byte*>(left[k].second.bytes);
    const auto* const other = static_cast<const std::byte*>(right[k].second.bytes);
    if (!std::equal(one, one + left[k].second.length, other)) return false;
  }
  return left.size() == right.size();
}

tg::FitArguments training(Data& data, const std::string& path) {
  const tg::SampleData all = data.rows(0, kSamples);
  tg::FitArguments fit{.inputs = all.inputs, .loss_labels = all.loss_labels, .epochs = 20};
  fit.validation = data.rows(0, 20);
  fit.schedule = tg::RateSchedule::cosine(0.05, 60);
  fit.callbacks = {std::make_shared<tg::EarlyStopping>(3),
                   std::make_shared<tg::Checkpoint>(path, 1, tg::Metadata{{"run", "7"}})};
  fit.resume = path;
  return fit;
}

void fits_go_on(Data& data, const std::string& path) {
  std::filesystem::remove(path);
  const auto whole = network(), begun = network(), resumed = network();
  whole->fit(training(data, path));
  std::filesystem::remove(path);
  tg::FitArguments first = training(data, path);
  int asked = 0;
  first.goes_on = [&asked] { return ++asked != 7; };
  begun->fit(first);
  check(begun->load(path) == tg::Metadata{{"run", "7"}}, "metadata comes back");
  const std::vector<tg::Epoch> rest = resumed->fit(training(data, path));
  check(rest.front().number == 2 && same(*whole, *resumed), "a fit goes on to the same bits");
  begun->load(path);
  tg::FitArguments other = training(data, path);
  other.batch_size = 8;
  bool is_refused = false;
  try {
    begun->fit(other);
  } catch (const tg::InvalidArgument&) {
    is_refused = true;
  }
  check(is_refused, "another batch size is refused");
}

void callbacks_find_what_is_theirs(Data& data, const std::string& path) {
  std::filesystem::remove(path);
  const auto begun = network(), resumed = network();
  const auto counting = std::make_shared<Counting>(), counting_on = std::make_shared<Counting>();
  tg::FitArguments fit = training(data, path);
  fit.epochs = 3;
  const std::vector<tg::FitCallbackPtr> own = fit.callbacks;
  fit.callbacks.insert(fit.callbacks.begin(), counting);
  begun->fit(fit);
  fit.epochs = 5;
  fit.callbacks = {std::make_shared<Silent>(), own[1], own[0], counting_on};
  resumed->fit(fit);
  check(counting->heard == 3 && counting_on->heard == 5, "state goes to the callback of its kind");
  check(Silent().kind().ends_with("Silent"), "a kind is the name of the class");
  fit.callbacks.pop_back();
  std::string text;
  try {
    network()->fit(fit);
  } catch (const tg::InvalidArgument& error) {
    text = error.what();
  }
  const bool names_both = text.find("EarlyStopping(monitor='loss'), ") != std::string::npos &&
                          text.find("Counting, as the fit") != std::string::npos;
  check(names_both, "state that nobody takes is named");
}

void batches_are_those_of_arrays(Data& data) {
  const auto arrays = network(), made = network();
  const tg::SampleData all = data.rows(0, kSamples);
  arrays->fit(
      {.inputs = all.inputs, .loss_labels = all.loss_labels, .epochs = 3, .shuffle = false});
  tg::FitArguments fit{.epochs = 3};
  fit.next_batch = [&data](int, std::int64_t number, tg::SampleData& batch) {
    const std::int64_t first = number * kBatch;
    if (first >= kSamples) return false;
    batch = data.rows(first, std::min(kBatch, kSamples - first));
    return true;
  };
  check(made->fit(fit).back().steps == 4 && same(*arrays, *made), "batches train as arrays");
  fit.next_batch = [](int, std::int64_t, tg::SampleData&) -> bool {
    throw std::runtime_error("no more disk");
  };
  std::string text;
  try {
    made->fit(fit);
  } catch (const std::runtime_error& error) {
    text = error.what();
  }
  check(text == "no more disk", "what the function raises arrives");
}

}  // namespace

int main(int, char** arguments) {
  Data data;
  fits_go_on(data, arguments[1]);
  callbacks_find_what_is_theirs(data, arguments[1]);
  batches_are_those_of_arrays(data);
}
