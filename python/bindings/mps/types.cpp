// What the descriptions of kernels consist of, in Python.
#include <algorithm>

#include <traingraph/mps/classes.h>

#include "classes/described_class.h"
#include "classes/python_types.h"
#include "convert/data.h"
#include "convert/errors.h"
#include "mps/coding.h"
#include "mps/encoding.h"

namespace traingraph::python {
namespace {

using mps::Device;

std::string subject_of(const Where& where) { return where.subject + "." + where.name; }

// Three numbers.
template <typename T>
struct Extents {
  T operator()(py::handle value, const Where& where) const {
    const auto numbers = convert_list<std::int64_t>(value, where);
    if (numbers.size() == 3) return T{numbers[0], numbers[1], numbers[2]};
    throw InvalidArgument("[" + where.subject + "] expected " + where.name +
                          " (width, height, depth) but got " + std::to_string(numbers.size()) +
                          " numbers");
  }
};

}  // namespace

mps::Neighbours to_neighbours(py::handle value, const Where& where) {
  const auto numbers = convert_list<std::int64_t>(value, where);
  if (numbers.size() == 2) return {numbers[0], numbers[1]};
  throw InvalidArgument("[" + where.subject + "] expected " + where.name +
                        " (location, length) but got " + std::to_string(numbers.size()) +
                        " numbers");
}

namespace {

void remember_places() {
  remember<mps::Offset>(
      "collections.abc.Sequence[int]", "tuple[int, int, int]",
      [](py::handle value, const Where& where) {
        return to_offset(value, subject_of(where).c_str());
      },
      [](const mps::Offset& offset) { return from_offset(offset); });
  remember<mps::Region>(
      "typing.Any", "typing.Any",
      [](py::handle value, const Where& where) {
        return to_region(value, subject_of(where).c_str());
      },
      [](const mps::Region& region) { return from_region(region); });
  remember<mps::Extent>(
      "collections.abc.Sequence[int]", "typing.Any",
      [](py::handle value, const Where& where) {
        const py::tuple origin_and_size = py::make_tuple(py::make_tuple(0, 0), value);
        const mps::Region region = to_region(origin_and_size, subject_of(where).c_str());
        return mps::Extent{region.width, region.height, region.depth};
      },
      [](const mps::Extent& extent) -> py::object {
        return from_region({{}, extent.width, extent.height, extent.depth})[py::int_(1)];
      });
  remember<mps::Neighbours>(
      "tuple[int, int]", "tuple[int, int]",
      [](py::handle value, const Where& where) { return to_neighbours(value, where); },
      [](const mps::Neighbours& range) { return py::make_tuple(range.first, range.count); });
  remember<mps::Coordinate>(
      "tuple[int, int, int]", "tuple[int, int, int]",
      [](py::handle value, const Where& where) {
        const auto numbers = convert_list<std::int64_t>(value, where);
        if (numbers.size() != 3) refuse(where, value);
        return mps::Coordinate{numbers[0], numbers[1], numbers[2]};
      },
      [](const mps::Coordinate& at) { return py::make_tuple(at.x, at.y, at.channel); });
  remember<mps::MaskStride>(
      "tuple[int, int, int]", "tuple[int, int, int]", Extents<mps::MaskStride>{},
      [](const mps::MaskStride& s) { return py::make_tuple(s.x, s.y, s.channels); });
  remember<mps::Size>("tuple[int, int, int]", "typing.Any", Extents<mps::Size>{},
                      [](const mps::Size& size) {
                        return py::module_::import("traingraph.mps")
                            .attr("MTLSize")(size.width, size.height, size.depth);
                      });
}

void remember_numbers() {
  remember<mps::CodedValue>(
      "typing.Any", "typing.Any", [](py::handle value, const Where&) { return to_coded(value); },
      [](const mps::CodedValue& value) { return from_coded(value); });
  remember<mps::ElementType>(
      "MPSDataType | str", "MPSDataType",
      [](py::handle value, const Where&) { return mps::ElementType{from_mps_data_type(value)}; },
      [](const mps::ElementType& element) { return to_mps_data_type(element.type); });
  remember<mps::CNNLossData>(
      "numpy.typing.ArrayLike", "numpy.typing.ArrayLike",
      [](py::handle value, const Where& where) {
        return mps::CNNLossData{readable_data(value, DataType::kFloat32,
                                              {where.subject.c_str(), where.name.c_str(), {}})};
      },
      [](const mps::CNNLossData&) { return py::none(); });
}

auto instance_source(const py::object& object) {
  return image_normalization_source(object, "MPSCNNInstanceNormalizationDataSource");
}
auto group_source(const py::object& object) {
  return image_normalization_source(object, "MPSCNNGroupNormalizationDataSource");
}

template <typename Source, auto kLoad, auto kCast>
void remember_source() {
  remember<Source>(
      "typing.Any", "typing.Any",
      [](py::handle value, const Where&) {
        return kLoad(py::reinterpret_borrow<py::object>(value));
      },
      [](const Source& source) { return kCast(source); });
}

void remember_sources() {
  remember_source<mps::CNNConvolutionDataSourcePtr, to_convolution_source,
                  from_convolution_source>();
  remember_source<mps::CNNBatchNormalizationDataSourcePtr, batch_normalization_source,
                  from_batch_normalization_source>();
  remember_source<mps::CNNInstanceNormalizationDataSourcePtr, instance_source,
                  from_image_normalization_source>();
  remember_source<mps::CNNGroupNormalizationDataSourcePtr, group_source,
                  from_image_normalization_source>();
  remember<mps::Float32Elements>(
      "numpy.typing.ArrayLike", "numpy.typing.ArrayLike",
      [](py::handle value, const Where& where) {
        const Target target{where.subject.c_str(), where.name.c_str(), {}};
        const TensorData data = readable_data(any_array(value, target), DataType::kFloat32, target);
        const auto* const first = static_cast<const std::byte*>(data.bytes);
        return mps::Float32Elements{{first, first + data.length}};
      },
      [](const mps::Float32Elements&) { return py::none(); });
  remember_part<mps::NeuronDescriptor>("MPSNNNeuronDescriptor");
  remember<std::shared_ptr<mps::CNNNeuron>>("MPSCNNNeuron");
  remember<std::shared_ptr<mps::CNNConvolution>>("MPSCNNConvolution");
  remember<std::shared_ptr<mps::CNNConvolutionTranspose>>("MPSCNNConvolutionTranspose");
  remember<std::shared_ptr<mps::CNNBatchNormalization>>("MPSCNNBatchNormalization");
  remember<std::shared_ptr<mps::CNNInstanceNormalization>>("MPSCNNInstanceNormalization");
  remember<std::shared_ptr<mps::CNNGroupNormalization>>("MPSCNNGroupNormalization");
}

// Whether it may be an object of the program's.
bool is_data_source(const std::any& value) {
  const std::type_info& type = value.type();
  return type == typeid(mps::CNNConvolutionDataSourcePtr) ||
         type == typeid(mps::CNNBatchNormalizationDataSourcePtr) ||
         type == typeid(mps::CNNInstanceNormalizationDataSourcePtr) ||
         type == typeid(mps::CNNGroupNormalizationDataSourcePtr);
}

// The device's work: who makes a kernel of a coder or a data source calls the program's object,
// with the GIL, and handlers of queued runs may need it as well.
void wait_before_making(const Given& given) {
  const std::any& device = *given.find("device");
  if (const std::any* const coder = given.find("coder")) {
    using CoderPtr = std::shared_ptr<const mps::Coder>;
    const auto* const provider =
        dynamic_cast<const mps::DeviceProvider*>(std::any_cast<const CoderPtr&>(*coder).get());
    if (device.has_value()) {
      idle(std::any_cast<const Device&>(device));
    } else if (provider != nullptr) {
      idle(provider->mps_mtl_device());
    }
  } else if (std::ranges::any_of(given.values(),
                                 [](const auto& named) { return is_data_source(named.second); })) {
    idle(std::any_cast<const Device&>(device));
  }
}

}  // namespace

void remember_mps_types() {
  remember<Device>(
      "MTLDevice | MLCDevice | str", "MTLDevice",
      [](py::handle value, const Where&) { return to_mps_device(value); },
      [](const Device& device) { return py::cast(device); });
  remember<std::shared_ptr<const mps::Coder>>(
      "typing.Any", "typing.Any",
      [](py::handle value, const Where&) {
        return to_coder(py::reinterpret_borrow<py::object>(value));
      },
      [](const std::shared_ptr<const mps::Coder>&) { return py::none(); });
  remember_places();
  remember_numbers();
  remember<mps::PaddingPolicy>(
      "typing.Any", "typing.Any",
      [](py::handle value, const Where&) {
        return padding_policy(py::reinterpret_borrow<py::object>(value));
      },
      [](const mps::PaddingPolicy& policy) { return from_padding_policy(policy); });
  remember<mps::ImageAllocatorPtr>(
      "typing.Any", "typing.Any",
      [](py::handle value, const Where& where) {
        return to_allocator(py::reinterpret_borrow<py::object>(value), where);
      },
      [](const mps::ImageAllocatorPtr& allocator) { return from_allocator(allocator); });
  remember_sources();
  remember<std::vector<float>>(
      "collections.abc.Iterable[float]", "list[float]",
      [](py::handle value, const Where& where) { return convert_list<float>(value, where); },
      [](const std::vector<float>& numbers) { return py::cast(numbers); });
  remember<std::shared_ptr<mps::CNNConvolutionWeightsAndBiasesState>>(
      "MPSCNNConvolutionWeightsAndBiasesState");
  remember<std::shared_ptr<mps::CNNNormalizationGammaAndBetaState>>(
      "MPSCNNNormalizationGammaAndBetaState");
  remember<std::shared_ptr<mps::CNNNormalizationMeanAndVarianceState>>(
      "MPSCNNNormalizationMeanAndVarianceState");
  remember<std::shared_ptr<mps::Buffer>>("MTLBuffer");
  remember<mps::CommandBufferPtr>("MTLCommandBuffer");
  remember<std::shared_ptr<mps::CommandQueue>>("MTLCommandQueue");
  remember<mps::PredicatePtr>(
      "MPSPredicate", "MPSPredicate",
      [](py::handle value, const Where& where) {
        return convert<std::shared_ptr<mps::Predicate>>(value, where);
      },
      [](const mps::PredicatePtr& predicate) {
        return py::cast(std::const_pointer_cast<mps::Predicate>(predicate));
      });
  remember_given<std::exception_ptr>(
      "Exception", [](const std::exception_ptr& error) { return to_python(error); });
  remember<mps::KernelPtr>("MPSKernel");
  remember<mps::ImagePtr>("MPSImage");
  remember<mps::ImageBatch>("collections.abc.Sequence[MPSImage]");
  remember_list<mps::ImageDescriptor>("MPSImageDescriptor", "collections.abc.Iterable");
  remember_enumerations<mps::EdgeMode, mps::NeuronType, mps::CNNLossType, mps::CNNReductionType,
                        mps::NNComparisonType, mps::NNRegularizationType, mps::DataLayout,
                        mps::CNNConvolutionGradientOption, mps::CNNConvolutionWeightsLayout,
                        mps::ChannelFormat, mps::CommandBufferStatus>();
}

void bind_mps_kernel_classes(py::module_& module) {
  for (const ClassDescription& description : mps::value_classes()) {
    bind_described(module, description, python::ownership<void>());
  }
  for (const ClassDescription& description : mps::state_classes()) {
    bind_described(module, description, python::ownership<mps::State>());
  }
  Ownership ownership = python::ownership<mps::Kernel>();
  ownership.before_making = wait_before_making;
  for (const ClassDescription& description : mps::kernel_classes()) {
    bind_described(module, description, ownership);
  }
}

}  // namespace traingraph::python
