// Values of each loss and their derivatives, with weights, reductions and label smoothing.
#include "loss_terms.h"

#include <algorithm>
#include <cmath>

namespace apple {
namespace {

// One value of a loss, and its derivatives.
struct Term {
  double value, by_source, by_label;
};

double sign(double y) { return y > 0 ? 1 : y < 0 ? -1 : 0; }

Extent extent_of(const Picture& picture) {
  return {picture.width(), picture.height(), picture.channels};
}

double count_of(Extent e) { return static_cast<double>(e.width * e.height * e.channels); }

// Of a prediction y and a label t, in an image of so many elements. Where Apple's text shows
// another gradient than the derivative of its loss, this is the derivative, as in traingraph.mps.
Term term(const Loss& loss, double y, double t, double elements) {
  switch (loss.type) {
    case MPSCNNLossTypeMeanAbsoluteError:
      return {std::abs(y - t), sign(y - t), -sign(y - t)};
    case MPSCNNLossTypeMeanSquaredError:
      return {(y - t) * (y - t), 2 * (y - t), -2 * (y - t)};
    case MPSCNNLossTypeSigmoidCrossEntropy: {
      const double label = t * (1 - loss.smoothing) + loss.smoothing / 2;
      return {std::max(y, 0.0) - y * label + std::log1p(std::exp(-std::abs(y))),
              1 / (1 + std::exp(-y)) - label, -y * (1 - loss.smoothing)};
    }
    case MPSCNNLossTypeCategoricalCrossEntropy:
      return {-t * std::log(y), -t / y, -std::log(y)};
    case MPSCNNLossTypeHinge: {
      const double rest = 1 - t * y;
      return rest > 0 ? Term{rest, -t, -y} : Term{0, 0, 0};
    }
    case MPSCNNLossTypeHuber: {
      const double d = y - t;
      if (std::abs(d) <= loss.delta) return {d * d / 2, d, -d};
      return {loss.delta * (std::abs(d) - loss.delta / 2), loss.delta * sign(d),
              -loss.delta * sign(d)};
    }
    // 1 - sum t y: each element has its share of the 1.
    case MPSCNNLossTypeCosineDistance:
      return {1 / elements - t * y, -t, -y};
    case MPSCNNLossTypeLog: {
      const double yes = y + loss.epsilon, no = 1 - y + loss.epsilon;
      return {-t * std::log(yes) - (1 - t) * std::log(no), -t / yes + (1 - t) / no,
              -std::log(yes) + std::log(no)};
    }
    // Predictions are logarithms.
    case MPSCNNLossTypeKullbackLeiblerDivergence:
      if (t == 0) return {0, 0, 0};
      return {t * (std::log(t) - y), -t, std::log(t) - y + 1};
    default:
      fail("a loss of an unknown type");
  }
}

bool has_class_weights(const Loss& loss, const LossTerms& image) {
  return loss.type == MPSCNNLossTypeSoftMaxCrossEntropy && image.weights.has_value() &&
         image.weights->channels != 1;
}

// Calls visit(channel, term) for the channels of one texel; of softmax their values are added up.
template <class Visit>
void each_term(const Loss& loss, const LossTerms& image, NSUInteger x, NSUInteger y, Visit visit) {
  const Picture &source = image.source, &labels = image.labels;
  if (loss.type != MPSCNNLossTypeSoftMaxCrossEntropy) {
    const double elements = count_of(extent_of(source));
    for (NSUInteger c = 0; c < source.channels; ++c)
      visit(c, term(loss, source.get(x, y, c), labels.get(x, y, c), elements));
    return;
  }
  const double classes = loss.classes > 1 ? loss.classes : static_cast<double>(source.channels);
  const auto label = [&](NSUInteger c) {
    return labels.get(x, y, c) * (1 - loss.smoothing) + loss.smoothing / classes;
  };
  // A weight for each label: part of it, for the gradients read all labels of a texel.
  const auto own = [&](NSUInteger c) {
    return has_class_weights(loss, image) ? image.weights->get(x, y, c) : 1;
  };
  double most = source.get(x, y, 0), sum = 0, total = 0;
  for (NSUInteger c = 1; c < source.channels; ++c)
    most = std::max<double>(most, source.get(x, y, c));
  for (NSUInteger c = 0; c < source.channels; ++c) {
    sum += std::exp(source.get(x, y, c) - most);
    total += own(c) * label(c);
  }
  for (NSUInteger c = 0; c < source.channels; ++c) {
    const double logarithm = source.get(x, y, c) - most - std::log(sum);
    visit(c, Term{-own(c) * label(c) * logarithm, std::exp(logarithm) * total - own(c) * label(c),
                  -own(c) * (1 - loss.smoothing) * logarithm});
  }
}

// What multiplies the values of each image: of the reduction alone.
std::vector<double> shares(const Loss& loss, const std::vector<LossTerms>& images) {
  std::vector<double> counts;
  for (const LossTerms& image : images) {
    double count = 1;
    if (loss.reduction == MPSCNNReductionTypeMean)
      count = count_of(loss.values_of(extent_of(image.source)));
    if (loss.reduction == MPSCNNReductionTypeSumByNonZeroWeights) {
      count = 0;
      image.weights->each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
        count += image.weights->get(x, y, c) != 0;
      });
    }
    counts.push_back(count);
  }
  const bool counted = loss.reduction == MPSCNNReductionTypeMean ||
                       loss.reduction == MPSCNNReductionTypeSumByNonZeroWeights;
  if (loss.across_batch && counted) {
    double sum = 0;
    for (double count : counts) sum += count;
    std::fill(counts.begin(), counts.end(), sum);
  }
  for (double& count : counts) count = 1 / std::max(count, 1.0);
  return counts;
}

// The factor of one value: the loss's weight and that of the image, which removes what is not
// finite where it is 0.
double weighted(const Loss& loss, const LossTerms& image, NSUInteger x, NSUInteger y, NSUInteger c,
                double value) {
  if (image.weights.has_value() && !has_class_weights(loss, image)) {
    const double own = image.weights->get(x, y, image.weights->channels == 1 ? 0 : c);
    value = own == 0 ? 0 : own * value;
  }
  return loss.weight * value;
}

}  // namespace

Extent Loss::values_of(Extent source) const {
  if (type == MPSCNNLossTypeSoftMaxCrossEntropy) source.channels = 1;
  return source;
}

Extent Loss::reported_of(Extent source) const {
  return reduction == MPSCNNReductionTypeNone ? values_of(source) : Extent{1, 1, 1};
}

void check_terms(const Loss& loss, const std::vector<LossTerms>& images, const char* what) {
  for (const LossTerms& image : images) {
    const Extent source = extent_of(image.source);
    if (!(extent_of(image.labels) == source)) broken(what, "labels and source differ in size");
    const bool fits = !image.weights.has_value() ||
                      extent_of(*image.weights) == loss.values_of(source) ||
                      (has_class_weights(loss, image) && extent_of(*image.weights) == source);
    if (!fits) broken(what, "weights have not the size of the values, or of a softmax's labels");
    if (!image.weights.has_value() && loss.reduction == MPSCNNReductionTypeSumByNonZeroWeights)
      broken(what, "a sum by non-zero weights has no weights");
  }
}

void report(const Loss& loss, const std::vector<LossTerms>& images, const Pictures& reports) {
  const std::vector<double> share = shares(loss, images);
  double all = 0;
  for (std::size_t index = 0; index < images.size(); ++index) {
    const LossTerms& image = images[index];
    double of_image = 0;
    for (NSUInteger y = 0; y < image.source.height(); ++y)
      for (NSUInteger x = 0; x < image.source.width(); ++x) {
        double of_texel = 0;
        const bool each = loss.reduction == MPSCNNReductionTypeNone;
        const bool softmax = loss.type == MPSCNNLossTypeSoftMaxCrossEntropy;
        each_term(loss, image, x, y, [&](NSUInteger c, Term term) {
          const double value = weighted(loss, image, x, y, c, term.value);
          if (each && !softmax) reports[index].set(x, y, c, static_cast<float>(value));
          of_texel += value;
        });
        if (each && softmax) reports[index].set(x, y, 0, static_cast<float>(of_texel));
        of_image += of_texel * share[index];
      }
    all += of_image;
    if (loss.reduction != MPSCNNReductionTypeNone)
      reports[index].set(0, 0, 0, loss.across_batch ? 0 : static_cast<float>(of_image));
  }
  if (loss.reduction != MPSCNNReductionTypeNone && loss.across_batch)
    reports[0].set(0, 0, 0, static_cast<float>(all));
}

void differentiate(const Loss& loss, const std::vector<LossTerms>& images, const Pictures& incoming,
                   bool by_labels, const Pictures& results) {
  const std::vector<double> share = shares(loss, images);
  const bool reduced = loss.reduction != MPSCNNReductionTypeNone;
  const auto gradient = [&](std::size_t index, NSUInteger x, NSUInteger y, NSUInteger c) -> double {
    if (incoming.empty()) return 1;
    if (reduced) return incoming[loss.across_batch ? 0 : index].get(0, 0, 0);
    return incoming[index].get(x, y, incoming[index].channels == 1 ? 0 : c);
  };
  for (std::size_t index = 0; index < images.size(); ++index)
    for (NSUInteger y = 0; y < images[index].source.height(); ++y)
      for (NSUInteger x = 0; x < images[index].source.width(); ++x)
        each_term(loss, images[index], x, y, [&](NSUInteger c, Term term) {
          const double slope =
              weighted(loss, images[index], x, y, c, by_labels ? term.by_label : term.by_source);
          results[index].set(x, y, c,
                             static_cast<float>(slope * share[index] * gradient(index, x, y, c)));
        });
}

}  // namespace apple
