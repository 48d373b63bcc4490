// The register of filters, and the checks that all layers share.
#include "filter.h"

#include <mutex>
#include <set>

namespace accelerate_double {
namespace {

struct Register {
  std::mutex mutex;
  std::set<const void*> filters;
};

// Lives as long as the process: kernels may end after everything static.
Register& all() {
  static Register& instance = *new Register;
  return instance;
}

bool exists(BNNSFilter filter) {
  const std::lock_guard lock(all().mutex);
  return all().filters.count(filter) > 0;
}

}  // namespace

BNNSFilter enter(Filter* filter) {
  const std::lock_guard lock(all().mutex);
  all().filters.insert(filter);
  return filter;
}

Filter& living(BNNSFilter filter, Filter::Kind kind, const char* call) {
  require(filter != nullptr, call, "the filter is null");
  require(exists(filter), call, "the filter was destroyed, or never created");
  Filter& found = *static_cast<Filter*>(filter);
  require(found.kind == kind, call, "the filter is of another kind");
  return found;
}

std::size_t living_filters() {
  const std::lock_guard lock(all().mutex);
  return all().filters.size();
}

void require_described(const BNNSNDArrayDescriptor& descriptor, BNNSDataLayout layout,
                       const char* call) {
  require(descriptor.layout == layout, call, "a descriptor has another layout");
  require(descriptor.data_type == BNNSDataTypeFloat32, call, "a descriptor is not float32");
  const int rank = layout == BNNSDataLayoutVector                   ? 1
                   : layout == BNNSDataLayoutConvolutionWeightsOIHW ? 4
                                                                    : 3;
  std::size_t dense = 1;
  for (int axis = 0; axis < rank; ++axis) {
    require(descriptor.size[axis] > 0, call, "an extent of a descriptor is 0");
    const std::size_t stride = descriptor.stride[axis];
    require(stride == 0 || stride == dense, call, "the double takes dense arrays only");
    dense *= descriptor.size[axis];
  }
}

void require_window(const Filter& filter, const std::size_t after[2], const char* call) {
  const Window& w = filter.window;
  for (int axis = 0; axis < 2; ++axis) {
    require(w.kernel[axis] > 0 && w.stride[axis] > 0, call, "a kernel or stride of 0");
    require(w.dilation[axis] > 0, call, "a dilation of 0");
    const std::size_t taps = (w.kernel[axis] - 1) * w.dilation[axis] + 1;
    const std::size_t padded = filter.in[axis] + w.before[axis] + after[axis];
    require(padded >= taps && (padded - taps) / w.stride[axis] + 1 == filter.out[axis], call,
            "the output's extents do not follow from the input's");
  }
}

void require_batch(const void* data, std::size_t batch, std::size_t stride, std::size_t elements,
                   const char* call) {
  require(data != nullptr, call, "an array is null");
  require(batch > 0, call, "a batch of 0");
  require(batch == 1 || stride >= elements, call, "the samples of a batch overlap");
}

float* gradient_memory(const BNNSNDArrayDescriptor& delta, const std::size_t sizes[3],
                       std::size_t batch, std::size_t stride, const char* call) {
  require_described(delta, BNNSDataLayoutImageCHW, call);
  for (int axis = 0; axis < 3; ++axis) {
    require(delta.size[axis] == sizes[axis], call, "a gradient has another size than its array");
  }
  require_batch(delta.data, batch, stride, sizes[0] * sizes[1] * sizes[2], call);
  return static_cast<float*>(delta.data);
}

}  // namespace accelerate_double

using accelerate_double::Filter;

void BNNSFilterDestroy(BNNSFilter filter) {
  constexpr const char* kCall = "BNNSFilterDestroy";
  accelerate_double::refuses(kCall);
  if (filter == nullptr) return;
  auto& all = accelerate_double::all();
  {
    const std::lock_guard lock(all.mutex);
    accelerate_double::require(all.filters.erase(filter) == 1, kCall,
                               "the filter was destroyed, or never created");
  }
  auto* found = static_cast<Filter*>(filter);
  delete[] found->copy;
  delete found;
}
