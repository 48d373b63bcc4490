// The thread that makes batches, and the queue between it and the steps.
#include "graph/fit/prepared_batches.h"

#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <traingraph/errors.h>
#include <traingraph/mutex.h>

#include "graph/fit/fit_checks.h"
#include "graph/fit/given_samples.h"
#include "graph/fit/rank_batches.h"

namespace traingraph {
namespace {

constexpr std::size_t kMostReady = 4;
constexpr std::chrono::milliseconds kBetweenLooks{20};

// The function may use its arrays again for the next batch.
void own(NamedData& arrays) {
  for (auto& [name, data] : arrays) {
    // Raw bytes are refused.
    if (data.gpu >= 0 || data.bytes == nullptr || data.data_type == DataType::kInvalid) continue;
    data = TensorData::copy_of(data.bytes, data.length, data.data_type, data.shape);
  }
}

}  // namespace

// What the thread and the fit share; the thread may outlive the fit.
struct PreparedBatches::Epoch {
  std::shared_ptr<const GraphState> graph;
  std::function<bool(int, std::int64_t, SampleData&)> next;
  int number;
  std::int64_t done;  // so many batches have trained before

  Mutex mutex;
  Condition changed;
  std::deque<Samples> ready;
  std::int64_t made = 0;
  std::exception_ptr error;  // behind those
  bool is_over = false;      // nothing follows
  bool is_unwanted = false;

  bool wait_for_place() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return is_unwanted || ready.size() < kMostReady; });
    return !is_unwanted;
  }

  void add(SampleData& data) {
    own(data.inputs);
    own(data.loss_labels);
    own(data.loss_label_weights);
    Samples samples = samples_of(*graph, data, true, kFit);
    samples.check_lengths(samples.count(), false);
    const std::lock_guard lock(mutex);
    ready.push_back(std::move(samples));
    changed.notify_all();
  }

  void make_all() {
    while (wait_for_place()) {
      SampleData data;
      if (!next(number, made, data)) break;
      if (made >= done) add(data);
      ++made;
    }
  }

  // The thread.
  void run() {
    std::exception_ptr found;
    try {
      make_all();
    } catch (Error& wrong) {
      wrong.add(" in batch " + std::to_string(made + 1) + " of epoch " + std::to_string(number));
      found = std::current_exception();
    } catch (...) {
      found = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    error = std::move(found);
    is_over = true;
    changed.notify_all();
  }
};

PreparedBatches::PreparedBatches(const GraphState& state, const FitArguments& fit)
    : state_(state), fit_(fit) {}

PreparedBatches::~PreparedBatches() { end(); }

void PreparedBatches::begin(const FitPlace& place, const Backend& device) {
  is_first_ = epoch_ == nullptr;
  end();
  device_ = &device;
  epoch_ = std::make_shared<Epoch>();
  epoch_->graph = state_.snapshot();
  epoch_->next = fit_.next_batch;
  epoch_->number = static_cast<int>(place.epoch);
  epoch_->done = place.steps;
  thread_ = std::thread([epoch = epoch_] { epoch->run(); });
}

Samples::Batch* PreparedBatches::next() {
  Epoch& epoch = *epoch_;
  std::unique_lock lock(epoch.mutex);
  while (epoch.ready.empty() && !epoch.is_over) {
    if (epoch.changed.wait_for(lock, kBetweenLooks) == std::cv_status::no_timeout) continue;
    lock.unlock();
    is_ended_ = fit_.goes_on && !fit_.goes_on();
    if (is_ended_) return nullptr;
    lock.lock();
  }
  if (epoch.ready.empty()) {
    has_named_batch_ = true;
    if (epoch.error != nullptr) std::rethrow_exception(epoch.error);
    check_are_all(epoch);
    return nullptr;
  }
  current_.emplace(std::move(epoch.ready.front()));
  epoch.ready.pop_front();
  epoch.changed.notify_all();
  lock.unlock();
  const std::int64_t rows = current_->count();
  if (current_->is_sorted()) current_->arrange({{}, 0, rows}, *device_);
  return &batch_of_rank(state_, *current_, 0, rows);
}

void PreparedBatches::check_are_all(const Epoch& epoch) const {
  const std::string number = std::to_string(epoch.number);
  if (epoch.made < epoch.done) {
    throw InvalidArgument("[fit] expected more than " + std::to_string(epoch.done) +
                          " batches of epoch " + number + ", which have trained, but got " +
                          std::to_string(epoch.made));
  }
  if (epoch.made != 0) return;
  if (is_first_) {
    throw InvalidArgument(
        "[fit] expected batches but got no batch; what was gone through before, as "
        "a generator, has none left");
  }
  throw InvalidArgument(
      "[fit] expected batches for epoch " + number +
      " but got none: what makes them has ended, as a generator does after one pass; pass what "
      "begins anew in each epoch");
}

void PreparedBatches::end() {
  if (epoch_ == nullptr) return;
  std::unique_lock lock(epoch_->mutex);
  epoch_->is_unwanted = true;
  epoch_->changed.notify_all();
  bool is_left = false;
  while (!epoch_->is_over && !is_left) {
    if (epoch_->changed.wait_for(lock, kBetweenLooks) == std::cv_status::no_timeout) continue;
    lock.unlock();
    try {
      if (fit_.goes_on) fit_.goes_on();
    } catch (...) {
      is_left = true;  // Ctrl-C again: what makes the batch does not come back
    }
    lock.lock();
  }
  lock.unlock();
  is_left ? thread_.detach() : thread_.join();
  epoch_ = nullptr;
}

}  // namespace traingraph
