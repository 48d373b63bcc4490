// Adds methods to the described instance and group normalization kernels, and binds data sources
// that are Python objects.
#include "mps/data_source.h"

namespace traingraph::python {
namespace {

using mps::CNNGroupNormalization;
using mps::CNNGroupNormalizationDataSource;
using mps::CNNInstanceNormalization;

constexpr const char* kInstanceSource = "MPSCNNInstanceNormalizationDataSource";
constexpr const char* kGroupSource = "MPSCNNGroupNormalizationDataSource";

class GroupSource final : public UserNormalizationSource<CNNGroupNormalizationDataSource> {
 public:
  using GammaAndBeta = std::shared_ptr<mps::CNNNormalizationGammaAndBetaState>;
  using UserNormalizationSource::UserNormalizationSource;
  std::int64_t number_of_groups() const override { return integer("number_of_groups"); }
  GammaAndBeta update_gamma_and_beta(mps::CommandBuffer& buffer,
                                     const mps::StateBatch& states) override {
    return new_state<GammaAndBeta>("update_gamma_and_beta",
                                   "MPSCNNNormalizationGammaAndBetaState | None",
                                   buffer.shared_from_this(), states);
  }
  bool update_gamma_and_beta(const mps::StateBatch& states) override {
    return says_yes(protocol_ == kGroupSource
                        ? "update_gamma_and_beta_with_group_normalization_state_batch"
                        : "update_gamma_and_beta_with_instance_normalization_state_batch",
                    states);
  }
  mps::CNNInstanceNormalizationDataSourcePtr copy(const mps::Device& device) override {
    return copied(device, [this](const py::object& object) {
      return image_normalization_source(object, protocol_);
    });
  }
};

}  // namespace

mps::CNNGroupNormalizationDataSourcePtr image_normalization_source(const py::object& object,
                                                                   const std::string& protocol) {
  return to_source<mps::GroupNormalizationOfArrays>(
      object, [&protocol](const py::object& user) -> mps::CNNGroupNormalizationDataSourcePtr {
        return std::make_shared<GroupSource>(user, protocol);
      });
}

py::object from_image_normalization_source(
    const mps::CNNInstanceNormalizationDataSourcePtr& source) {
  return from_source<GroupSource, mps::GroupNormalizationOfArrays>(source);
}

}  // namespace traingraph::python
