// Metrics over the batches of an evaluation.
#include "graph/fit/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include <traingraph/errors.h>
#include <traingraph/message_text.h>

#include "runtime/numbers/half.h"

namespace traingraph {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

template <class T>
void append(std::vector<double>& to, const TensorData& data) {
  const T* from = static_cast<const T*>(data.bytes);
  to.assign(from, from + element_count(data.shape));
}

std::vector<double> numbers_of(const TensorData& data) {
  std::vector<double> numbers;
  if (ir::is_half(data.data_type)) {
    std::vector<float> wide(static_cast<std::size_t>(element_count(data.shape)));
    widen(data.data_type, data.bytes, wide.data(), wide.size());
    numbers.assign(wide.begin(), wide.end());
  } else if (data.data_type == DataType::kFloat64) {
    append<double>(numbers, data);
  } else if (data.data_type == DataType::kInt32) {
    append<std::int32_t>(numbers, data);
  } else if (data.data_type == DataType::kInt64) {
    append<std::int64_t>(numbers, data);
  } else {
    append<float>(numbers, data);
  }
  return numbers;
}

[[noreturn]] void refuse(const std::string& subject, const std::string& expected,
                         const std::string& got) {
  throw InvalidArgument(subject + " expected " + expected + " but got " + got);
}

constexpr std::int64_t kNoClass = -1;

// Each position of a batch with the label's class, the class of the largest logit, kNoClass where
// one is NaN, and its logits, which are a step apart.
template <class Each>
void each_position(const TensorData& predictions, const TensorData& labels, const Each& each) {
  const std::vector<double> logits = numbers_of(predictions), given = numbers_of(labels);
  const Shape& shape = predictions.shape;
  const std::int64_t classes = shape.size() > 1 ? shape[1] : 1;
  const std::int64_t inner = shape.empty() ? 1 : element_count(shape) / (shape[0] * classes);
  const bool are_classes = !is_floating_point(labels.data_type);
  for (std::int64_t first = 0; first < element_count(shape); first += classes * inner) {
    for (std::int64_t at = first; at < first + inner; ++at) {
      const auto largest = [&](const std::vector<double>& of) {
        std::int64_t best = 0;
        for (std::int64_t c = 1; c < classes; ++c) {
          if (of[static_cast<std::size_t>(at + c * inner)] >
              of[static_cast<std::size_t>(at + best * inner)]) {
            best = c;
          }
        }
        return best;
      };
      const auto is_zero = [&](const std::vector<double>& of) {
        bool zero = true;
        for (std::int64_t c = 0; c < classes; ++c) {
          zero = zero && of[static_cast<std::size_t>(at + c * inner)] == 0;
        }
        return zero;
      };
      const std::int64_t label =
          are_classes ? static_cast<std::int64_t>(
                            given[static_cast<std::size_t>(first / classes + at - first)])
                      : largest(given);
      // A row that is ignored, or has no label at all.
      if (label < 0 || (!are_classes && is_zero(given))) continue;
      const auto logit = [&](std::int64_t c) {
        return logits[static_cast<std::size_t>(at + c * inner)];
      };
      bool is_number = true;
      for (std::int64_t c = 0; c < classes; ++c) is_number = is_number && !std::isnan(logit(c));
      each(label, is_number ? largest(logits) : kNoClass, logit);
    }
  }
}

// The mean of numbers; NaN if one is, or if there are none.
class Mean : public Metric {
 public:
  MetricValue value() const override { return {{}, {sum_ / static_cast<double>(all_)}}; }
  bool has_counted() const override { return all_ > 0; }
  std::vector<double> counted() const override { return {sum_, static_cast<double>(all_)}; }
  void forget() override {
    sum_ = 0;
    all_ = 0;
  }
  void add(const std::vector<double>& counted) override {
    sum_ += counted[0];
    all_ += static_cast<std::int64_t>(counted[1]);
  }

 protected:
  void add_one(double number) {
    sum_ += number;
    ++all_;
  }
  // Of a prediction, which is none where it is NaN.
  void add_one(bool is_number, bool is_right) { add_one(!is_number ? kNone : is_right ? 1 : 0); }

 private:
  double sum_ = 0;
  std::int64_t all_ = 0;
};

// The largest logit against the class of the label.
class ClassAccuracy final : public Mean {
 public:
  void count(const TensorData& predictions, const TensorData& labels) override {
    each_position(predictions, labels, [&](std::int64_t label, std::int64_t found, const auto&) {
      add_one(found != kNoClass, label == found);
    });
  }
};

// Each logit's sign against a label of 0 or 1.
class SignAccuracy final : public Mean {
 public:
  void count(const TensorData& predictions, const TensorData& labels) override {
    const std::vector<double> logits = numbers_of(predictions), given = numbers_of(labels);
    for (std::size_t k = 0; k < logits.size(); ++k) {
      add_one(!std::isnan(logits[k]), (logits[k] > 0) == (given[k] > 0.5));
    }
  }
};

// Whether fewer than k classes are before that of the label, in the order of descending logits; of
// equal ones, as for accuracy, the first class is before.
class TopAccuracy final : public Mean {
 public:
  TopAccuracy(std::string subject, std::int64_t k) : subject_(std::move(subject)), k_(k) {}
  void check(const Shape& predictions, const Shape&) const override {
    const std::int64_t classes = predictions.size() > 1 ? predictions[1] : 1;
    if (k_ <= classes) return;
    refuse(subject_, "k of at most " + std::to_string(classes) + ", the count of classes,",
           std::to_string(k_));
  }
  void count(const TensorData& predictions, const TensorData& labels) override {
    const std::int64_t classes = predictions.shape.size() > 1 ? predictions.shape[1] : 1;
    each_position(predictions, labels,
                  [&](std::int64_t label, std::int64_t found, const auto& logit) {
                    std::int64_t before = 0;
                    for (std::int64_t c = 0; c < classes; ++c) {
                      before += logit(c) > logit(label) || (c < label && logit(c) == logit(label));
                    }
                    add_one(found != kNoClass, before < k_);
                  });
  }

 private:
  std::string subject_;
  std::int64_t k_;
};

// The mean of |difference|^power over all numbers.
class MeanError final : public Mean {
 public:
  MeanError(std::string subject, int power) : subject_(std::move(subject)), power_(power) {}
  void check(const Shape& predictions, const Shape& labels) const override {
    if (predictions == labels) return;
    refuse(subject_, "labels of the predictions' shape " + to_string(predictions),
           to_string(labels));
  }
  void count(const TensorData& predictions, const TensorData& labels) override {
    const std::vector<double> found = numbers_of(predictions), given = numbers_of(labels);
    for (std::size_t k = 0; k < found.size(); ++k) {
      const double difference = std::abs(found[k] - given[k]);
      add_one(power_ == 2 ? difference * difference : difference);
    }
  }

 private:
  std::string subject_;
  int power_;
};

// The chance that a sample of class 1 has a higher score than one of class 0, ties half: the score
// is the one logit, or the second less the first. NaN without samples of both, or if a score is.
class AreaUnderCurve final : public Metric {
 public:
  AreaUnderCurve(std::string subject, LossType type) : subject_(std::move(subject)), type_(type) {}
  void check(const Shape& predictions, const Shape&) const override {
    const std::int64_t classes = predictions.size() > 1 ? predictions[1] : 1;
    const bool is_softmax = type_ == LossType::kSoftmaxCrossEntropy;
    if (classes == (is_softmax ? 2 : 1)) return;
    refuse(subject_, is_softmax ? "two classes" : "one logit per sample", std::to_string(classes));
  }
  void count(const TensorData& predictions, const TensorData& labels) override {
    if (type_ == LossType::kSoftmaxCrossEntropy) {
      each_position(predictions, labels, [&](std::int64_t label, std::int64_t, const auto& logit) {
        scores_.emplace_back(logit(1) - logit(0), label == 1);
      });
      return;
    }
    const std::vector<double> logits = numbers_of(predictions), given = numbers_of(labels);
    for (std::size_t k = 0; k < logits.size(); ++k) scores_.emplace_back(logits[k], given[k] > 0.5);
  }
  MetricValue value() const override {
    // An order with NaN is none.
    if (std::ranges::any_of(scores_, [](const auto& one) { return std::isnan(one.first); })) {
      return {{}, {kNone}};
    }
    std::vector<std::pair<double, bool>> sorted = scores_;
    std::ranges::sort(sorted);
    double below = 0, won = 0;  // samples of class 0 below, and what those of class 1 win over them
    for (std::size_t k = 0; k < sorted.size();) {
      double equal[2] = {0, 0};
      const double score = sorted[k].first;
      for (; k < sorted.size() && sorted[k].first == score; ++k) ++equal[sorted[k].second ? 1 : 0];
      won += equal[1] * (below + equal[0] / 2);
      below += equal[0];
    }
    return {{}, {won / (below * (static_cast<double>(sorted.size()) - below))}};
  }
  // Pairs of a score and its class.
  std::vector<double> counted() const override {
    std::vector<double> numbers;
    for (const auto& [score, is_one] : scores_) {
      numbers.insert(numbers.end(), {score, is_one ? 1.0 : 0.0});
    }
    return numbers;
  }
  void forget() override { scores_.clear(); }
  void add(const std::vector<double>& counted) override {
    for (std::size_t k = 0; k + 1 < counted.size(); k += 2) {
      scores_.emplace_back(counted[k], counted[k + 1] != 0);
    }
  }

 private:
  std::string subject_;
  LossType type_;
  std::vector<std::pair<double, bool>> scores_;
};

// Samples by the class of the label, a row each, and the class predicted, which NaN has not.
class ConfusionMatrix final : public Metric {
 public:
  explicit ConfusionMatrix(LossType type) : type_(type) {}
  void count(const TensorData& predictions, const TensorData& labels) override {
    if (type_ == LossType::kSigmoidCrossEntropy) {
      classes_ = 2;
      counts_.resize(4);
      const std::vector<double> logits = numbers_of(predictions), given = numbers_of(labels);
      for (std::size_t k = 0; k < logits.size(); ++k) {
        count(given[k] > 0.5 ? 1 : 0, std::isnan(logits[k]) ? kNoClass : logits[k] > 0 ? 1 : 0);
      }
      return;
    }
    classes_ = predictions.shape.size() > 1 ? predictions.shape[1] : 1;
    counts_.resize(static_cast<std::size_t>(classes_ * classes_));
    each_position(predictions, labels, [&](std::int64_t label, std::int64_t found, const auto&) {
      count(label, found);
    });
  }
  MetricValue value() const override { return {{classes_, classes_}, counts_}; }
  std::vector<double> counted() const override { return counts_; }
  void forget() override { std::ranges::fill(counts_, 0); }
  void add(const std::vector<double>& counted) override {
    if (counts_.size() < counted.size()) counts_.resize(counted.size());
    classes_ = std::lround(std::sqrt(static_cast<double>(counts_.size())));
    for (std::size_t k = 0; k < counted.size(); ++k) counts_[k] += counted[k];
  }

 private:
  void count(std::int64_t label, std::int64_t found) {
    if (found != kNoClass) ++counts_[static_cast<std::size_t>(label * classes_ + found)];
  }

  LossType type_;
  std::int64_t classes_ = 0;
  std::vector<double> counts_;
};

constexpr const char* kTop = "top_<k>";

std::optional<std::int64_t> top_of(const std::string& name) {
  if (!name.starts_with("top_")) return std::nullopt;
  std::int64_t k = 0;
  const char* const end = name.data() + name.size();
  const auto [last, code] = std::from_chars(name.data() + 4, end, k);
  if (code != std::errc() || last != end || k < 1) return std::nullopt;
  return k;
}

}  // namespace

bool has_accuracy(LossType type) {
  return type == LossType::kSoftmaxCrossEntropy || type == LossType::kSigmoidCrossEntropy;
}

bool larger_is_better(const std::string& name) {
  return name == "accuracy" || name == "auc" || top_of(name).has_value();
}

const std::vector<std::string>& metric_names() {
  static const std::vector<std::string> names{"accuracy",           kTop,  "mean_absolute_error",
                                              "mean_squared_error", "auc", kConfusionMatrix};
  return names;
}

bool is_metric(const std::string& name) {
  const bool is_listed = std::ranges::find(metric_names(), name) != metric_names().end();
  return top_of(name).has_value() || (is_listed && name != kTop);
}

namespace {

MetricPtr make_metric(const std::string& name, LossType type, const std::string& call) {
  const std::string subject = call + " metric '" + name + "'";
  const bool is_softmax = type == LossType::kSoftmaxCrossEntropy;
  if (name == "mean_absolute_error") return std::make_unique<MeanError>(subject, 1);
  if (name == "mean_squared_error") return std::make_unique<MeanError>(subject, 2);
  const std::optional<std::int64_t> k = top_of(name);
  if (!is_metric(name)) {
    std::string listed;
    for (const std::string& one : metric_names()) listed += (listed.empty() ? "" : ", ") + one;
    throw InvalidArgument(call + " expected a metric of " + listed + " but got '" + name + "'" +
                          did_you_mean(name, metric_names()));
  }
  if (!has_accuracy(type) || (k && !is_softmax)) {
    refuse(subject,
           k ? "the loss softmax_cross_entropy"
             : "the loss softmax_cross_entropy or sigmoid_cross_entropy",
           "another one");
  }
  if (k) return std::make_unique<TopAccuracy>(subject, *k);
  if (name == "auc") return std::make_unique<AreaUnderCurve>(subject, type);
  if (name == kConfusionMatrix) return std::make_unique<ConfusionMatrix>(type);
  return make_accuracy(type);
}

}  // namespace

void add_over_ranks(Metric& metric, distributed::Ranks& ranks) {
  const std::vector<double> own = metric.counted();
  std::string bytes(own.size() * sizeof(double), '\0');
  if (!own.empty()) std::memcpy(bytes.data(), own.data(), bytes.size());
  metric.forget();
  // In the order of ranks, on all of them.
  for (const std::string& one : ranks.all_texts(bytes)) {
    std::vector<double> counted(one.size() / sizeof(double));
    if (!counted.empty()) std::memcpy(counted.data(), one.data(), one.size());
    metric.add(counted);
  }
}

MetricPtr make_accuracy(LossType type) {
  if (type == LossType::kSoftmaxCrossEntropy) return std::make_unique<ClassAccuracy>();
  return std::make_unique<SignAccuracy>();
}

std::vector<MetricPtr> make_metrics(const std::vector<std::string>& names, const Loss& loss,
                                    const std::string& call) {
  if (!names.empty() && dynamic_cast<const ExpressionLoss*>(&loss) != nullptr) {
    throw InvalidArgument(
        call +
        " expected for metrics a loss layer, which has predictions and labels, as "
        "nn.model makes for loss='mse', but got an expression; compute '" +
        names.front() + "' of what predict() returns");
  }
  std::vector<MetricPtr> metrics;
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (std::find(names.begin(), name, *name) != name) {
      throw InvalidArgument(call + " expected each metric once but got '" + *name + "' twice");
    }
    metrics.push_back(make_metric(*name, loss.descriptor().type, call));
  }
  return metrics;
}

}  // namespace traingraph
