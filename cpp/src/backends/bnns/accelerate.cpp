// Descriptors and checks that the kernels of this folder share.
#include "backends/bnns/accelerate.h"

#include <initializer_list>
#include <string>

#include <traingraph/errors.h>

#include "ir/epilogue.h"

namespace traingraph::bnns {
namespace {

BNNSNDArrayDescriptor described(BNNSDataLayout layout, std::initializer_list<std::size_t> sizes,
                                float* data) {
  BNNSNDArrayDescriptor descriptor{};
  descriptor.layout = layout;
  std::size_t axis = 0;
  for (std::size_t size : sizes) descriptor.size[axis++] = size;
  descriptor.data = data;
  descriptor.data_type = BNNSDataTypeFloat32;
  descriptor.data_scale = 1;
  return descriptor;
}

}  // namespace

Support plain_float32(const ir::Graph& graph, const ir::Node& node) {
  for (const std::vector<ir::ValueId>* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      const ir::Value& value = graph.value(id);
      if (value.type.data_type != DataType::kFloat32) {
        return Support::no(std::string("Accelerate: an operand of type ") +
                           name(value.type.data_type) + " (kernels take float32)");
      }
      if (!value.layout.plain()) return Support::no("Accelerate: a layout that is not plain");
    }
  }
  if (ir::has_fused_work(node)) return Support::no("Accelerate: an epilogue");
  return {};
}

void check(int status, const char* call) {
  if (status != 0) {
    throw DeviceError(std::string("[bnns] ") + call + " returned " + std::to_string(status));
  }
}

BNNSNDArrayDescriptor image(const Shape& x) {
  return described(BNNSDataLayoutImageCHW, {extent(x[3]), extent(x[2]), extent(x[1])}, nullptr);
}

BNNSNDArrayDescriptor convolution_weights(const Shape& w, float* data) {
  return described(BNNSDataLayoutConvolutionWeightsOIHW,
                   {extent(w[3]), extent(w[2]), extent(w[1]), extent(w[0])}, data);
}

BNNSNDArrayDescriptor vector(std::size_t elements, float* data) {
  return described(BNNSDataLayoutVector, {elements}, data);
}

BNNSFilterParameters client_pointers() {
  BNNSFilterParameters parameters{};
  parameters.flags = BNNSFlagsUseClientPtr;
  return parameters;
}

}  // namespace traingraph::bnns
