#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <traingraph/fit.h>
#include <traingraph/loss.h>

#include "distributed/ranks.h"

namespace traingraph {

// A number, or some, of what a network predicts of samples whose labels are known. Predictions are
// what the loss reads: logits, for cross entropies.
class Metric {
 public:
  virtual ~Metric() = default;
  // Raises InvalidArgument for predictions and labels of shapes that it is not of.
  virtual void check(const Shape&, const Shape&) const {}
  // A batch: predictions (N, C, …), labels of that shape, or integer classes without axis 1.
  virtual void count(const TensorData& predictions, const TensorData& labels) = 0;
  // NaN where a prediction that counts is NaN.
  virtual MetricValue value() const = 0;
  // Whether there was a position that counts.
  virtual bool has_counted() const { return true; }
  // What it has counted; nothing of it stays; and what one of its kind has, added to it.
  virtual std::vector<double> counted() const = 0;
  virtual void forget() = 0;
  virtual void add(const std::vector<double>& counted) = 0;
};

// Whether the loss is one of a classifier.
bool has_accuracy(LossType type);
using MetricPtr = std::unique_ptr<Metric>;
// `call`: for messages. Raises InvalidArgument for a name that is none, that this loss lacks, or
// that is there twice.
std::vector<MetricPtr> make_metrics(const std::vector<std::string>& names, const Loss& loss,
                                    const std::string& call);
// Whether the predictions' class is that of the labels, for a loss of a classifier.
MetricPtr make_accuracy(LossType type);
inline constexpr const char* kConfusionMatrix = "confusion_matrix";  // the one that is no number
// The metric of all ranks together, in place of each one's.
void add_over_ranks(Metric& metric, distributed::Ranks& ranks);
// As messages list them: "top_<k>" stands for those of each k.
const std::vector<std::string>& metric_names();
bool is_metric(const std::string& name);
// Whether a larger value of a metric of this name is a better one; so is not that of an error.
bool larger_is_better(const std::string& name);

}  // namespace traingraph
