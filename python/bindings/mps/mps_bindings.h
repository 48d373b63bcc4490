// Declares the bind functions of the MPS surface, one per family in the order that base classes
// need, and the conversions that they share.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include <traingraph/mps/mps.h>

#include "bindings.h"
#include "classes/described_class.h"
#include "classes/signature.h"
#include "convert/enums.h"
#include "mps/batch.h"

namespace traingraph::python {

// Of what descriptions consist of.
void remember_mps_types();
void bind_mps_device(py::module_& module);
void bind_mps_image(py::module_& module);
void bind_mps_batches(py::module_& module);
void bind_mps_kernel_classes(py::module_& module);
void bind_mps_kernel(py::module_& module);
void bind_mps_coding(py::module_& module);
void bind_mps_stored_sources(py::module_& module);
void bind_mps_dropout(py::module_& module);
void bind_mps_convolution_descriptor(py::module_& module);
void bind_mps_batch_normalization(py::module_& module);
void bind_mps_loss(py::module_& module);
void bind_mps_optimizer(py::module_& module);
void bind_mps_arithmetic(py::module_& module);
void bind_mps_rearrangement(py::module_& module);
void bind_mps_convolution_transpose(py::module_& module);
void bind_mps_nodes(py::module_& module);
void bind_mps_graph(py::module_& module);

TRAINGRAPH_ENUM(mps::ChannelFormat, "MPSImageFeatureChannelFormat");
TRAINGRAPH_ENUM(mps::DataLayout, "MPSDataLayout");
TRAINGRAPH_ENUM(mps::EdgeMode, "MPSImageEdgeMode");
TRAINGRAPH_ENUM(mps::CommandBufferStatus, "MTLCommandBufferStatus");
TRAINGRAPH_ENUM(mps::NeuronType, "MPSCNNNeuronType");
TRAINGRAPH_ENUM(mps::CNNConvolutionGradientOption, "MPSCNNConvolutionGradientOption");
TRAINGRAPH_ENUM(mps::CNNConvolutionWeightsLayout, "MPSCNNConvolutionWeightsLayout");
TRAINGRAPH_ENUM(mps::CNNLossType, "MPSCNNLossType");
TRAINGRAPH_ENUM(mps::CNNReductionType, "MPSCNNReductionType");
TRAINGRAPH_ENUM(mps::NNComparisonType, "MPSNNComparisonType");
TRAINGRAPH_ENUM(mps::NNRegularizationType, "MPSNNRegularizationType");
TRAINGRAPH_ENUM(mps::NNTrainingStyle, "MPSNNTrainingStyle");
TRAINGRAPH_ENUM(mps::CNNBatchNormalizationFlags, "MPSCNNBatchNormalizationFlags");

// Of the class that Apple gives the node: several of them may be one in C++.
py::object from_node(const mps::NNFilterNodePtr& node);

// (location, length), as NSRange has them.
mps::Neighbours to_neighbours(py::handle value, const Where& where);
// A device from one, from an MTLDevice's name as text, or from an MLCDevice.
mps::Device to_mps_device(py::handle value);
// Before data sources are asked, which needs the GIL: handlers of queued runs may need it as well.
inline mps::Device idle(const mps::Device& device) {
  const ReleasedGil released;
  device.wait_until_idle();
  return device;
}
// An object of the user's, with the methods of MPSCNNConvolutionDataSource, or one over arrays; and
// back.
mps::CNNConvolutionDataSourcePtr to_convolution_source(const py::object& value);
py::object from_convolution_source(const mps::CNNConvolutionDataSourcePtr& source);
// Of the class that the sizes are of.
py::object from_convolution_descriptor(const mps::CNNConvolutionDescriptor& descriptor);
// MPSDataType by member, name or raw value.
DataType from_mps_data_type(py::handle value);
py::object to_mps_data_type(DataType type);

// Data sources over the user's objects.
mps::CNNBatchNormalizationDataSourcePtr batch_normalization_source(const py::object& object);
// Of instance or of group normalization, by the name of Apple's protocol.
mps::CNNGroupNormalizationDataSourcePtr image_normalization_source(const py::object& object,
                                                                   const std::string& protocol);
py::object from_batch_normalization_source(const mps::CNNBatchNormalizationDataSourcePtr& source);
py::object from_image_normalization_source(
    const mps::CNNInstanceNormalizationDataSourcePtr& source);
// MPSNNPaddingMethod by member, name or number, or an object with padding_method(); and back.
mps::PaddingPolicy padding_policy(const py::object& value);
py::object from_padding_policy(const mps::PaddingPolicy& policy);
// A default allocator, or an object of the user's with image() and image_batch(); and back.
mps::ImageAllocatorPtr to_allocator(const py::object& value, const Where& where);
py::object from_allocator(const mps::ImageAllocatorPtr& allocator);
// The kernel of a call, of the class that Apple gives it.
py::object from_kernel(const mps::Kernel* kernel);
// The user's object for a handle, or None.
py::object from_handle(const mps::HandlePtr& handle);

// Elements of a NumPy array or anything that offers one, in this type, with their owner.
mps::SourceNumbers elements_of(py::handle value, DataType type, const char* subject,
                               const char* what);

}  // namespace traingraph::python

namespace pybind11::detail {

template <>
class type_caster<traingraph::mps::NNFilterNodePtr>
    : public copyable_holder_caster<traingraph::mps::NNFilterNode,
                                    traingraph::mps::NNFilterNodePtr> {
 public:
  static handle cast(const traingraph::mps::NNFilterNodePtr& node, return_value_policy, handle) {
    return traingraph::python::from_node(node).release();
  }
};

}  // namespace pybind11::detail
