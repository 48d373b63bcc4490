#pragma once

#include <memory>
#include <string>

#include <traingraph/describe.h>
#include <traingraph/normalization.h>

// What descriptions of the normalization layers have in common.
namespace traingraph {

inline Argument channels_argument() {
  return argument<std::int64_t>("feature_channel_count", "C.", &kOneOrMore);
}
inline Argument beta_argument() {
  return optional_argument<TensorPtr>("beta", "The shift; None: no shift.");
}
inline Argument gamma_argument() {
  return optional_argument<TensorPtr>("gamma", "The factor; None is 1.");
}
inline Argument epsilon_argument() {
  return argument("variance_epsilon", 1e-5f, "The number added to the variance.", &kNotNegative);
}
inline Argument momentum_argument() {
  return argument("momentum", 0.99f, "The share that running statistics keep in a step.", &kShare);
}

// By its arguments, of which running statistics may be missing.
template <class L>
std::shared_ptr<L> running_layer(const Given& given) {
  return std::make_shared<L>(given.get<std::int64_t>("feature_channel_count"),
                             given.get<TensorPtr>("mean"), given.get<TensorPtr>("variance"),
                             given.get<TensorPtr>("beta"), given.get<TensorPtr>("gamma"),
                             given.get<float>("variance_epsilon"), given.get<float>("momentum"));
}

// A layer with running statistics that are given; `none` stands behind the texts of those that it
// may be without.
template <class L>
Describing<L, Layer> describe_running(const char* name, const char* summary,
                                      const std::string& none = "") {
  Describing<L, Layer> described(name, summary);
  described.property("feature_channel_count", &L::channels, "C.")
      .property("mean", &L::mean, ("The running mean" + none + ".").c_str())
      .property("variance", &L::variance, ("The running variance" + none + ".").c_str())
      .optional_parameter("beta", &L::beta, "The shift, or None.")
      .optional_parameter("gamma", &L::gamma, "The factor, or None.")
      .property("variance_epsilon", &L::variance_epsilon, "The number added to the variance.")
      .property("momentum", &L::momentum, "The share that running statistics keep in a step.")
      .form({channels_argument(), argument<TensorPtr>("mean", "The running mean."),
             argument<TensorPtr>("variance", "The running variance."), beta_argument(),
             gamma_argument(), epsilon_argument(), momentum_argument()},
            running_layer<L>);
  return described;
}

}  // namespace traingraph
