// Copies and bytes of kernels from C++: each check prints its name, the first wrong one ends the
// program with status 1.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <traingraph/mps/mps.h>
#include <traingraph/traingraph.h>

namespace tg = traingraph;
namespace mps = traingraph::mps;

namespace {

void check(bool right, const char* name) {
  std::printf("%s: %s\n", name, right ? "ok" : "WRONG");
  if (!right) std::exit(1);
}

template <class Error, class Call>
bool raises(const Call& call) {
  try {
    call();
  } catch (const Error&) {
    return true;
  }
  return false;
}

// The coder of a program, which knows no device.
class Notebook : public mps::Coder {
 public:
  void encode(const mps::CodedValue& value, const std::string& key) override {
    pages_[key] = value;
  }
  mps::CodedValue decode(const std::string& key) const override {
    const auto found = pages_.find(key);
    if (found == pages_.end()) throw tg::InvalidArgument("expected a page of " + key);
    return found->second;
  }

 private:
  std::map<std::string, mps::CodedValue> pages_;
};

class NotebookOnReference final : public Notebook, public mps::DeviceProvider {
 public:
  mps::Device mps_mtl_device() const override { return mps::Device::named("reference"); }
};

// y = 2 x + 5; counts its loads and copies.
class Line final : public mps::CNNConvolutionDataSource {
 public:
  mps::CNNConvolutionDescriptor descriptor() const override { return {}; }
  mps::SourceNumbers weights() const override { return std::span(&weight_, 1); }
  mps::SourceNumbers bias_terms() const override { return std::span(&bias_, 1); }
  bool load() override { return ++loads != refused; }
  void purge() override { ++purges; }
  std::string label() const override { return "line"; }
  std::shared_ptr<mps::CNNConvolutionDataSource> copy(const mps::Device& device) override {
    const auto other = std::make_shared<Line>();
    other->copied_to = device.name();
    return other;
  }
  int loads = 0;
  int purges = 0;
  int refused = 0;  // the load that is
  std::string copied_to;

 private:
  float weight_ = 2;
  float bias_ = 5;
};

float of_three(mps::CNNKernel& kernel) {
  const mps::ImagePtr x = mps::Image::create(kernel.device(), {});
  const mps::ImagePtr y = mps::Image::create(kernel.device(), {});
  float value = 3;
  x->write_bytes(&value, sizeof value, mps::DataLayout::kChannelsHeightWidth, 0);
  const auto buffer = kernel.device().make_command_queue()->make_command_buffer();
  kernel.encode_batch(*buffer, {x}, {y});
  buffer->commit();
  buffer->wait_until_completed();
  y->read_bytes(&value, sizeof value, mps::DataLayout::kChannelsHeightWidth, 0);
  return value;
}

void weights() {
  const mps::Device cpu = mps::Device::named("cpu"), reference = mps::Device::named("reference");
  const auto source = std::make_shared<Line>();
  const auto kernel = std::make_shared<mps::CNNFullyConnected>(cpu, source);
  kernel->set_offset({1, 2, 0});
  const int loads = source->loads, purges = source->purges;
  const std::string data = mps::KeyedArchiver::archived_data(*kernel);
  check(source->loads == loads + 1 && source->purges == purges + 1,
        "a source is loaded and purged");
  const auto other =
      mps::KeyedUnarchiver::unarchived_object_of_class<mps::CNNFullyConnected>(data, reference);
  check(other->device() == reference && other->offset() == kernel->offset() &&
            other->label == "line" && other->data_source()->label() == "line",
        "a kernel of bytes");
  other->set_offset({});
  check(of_three(*other) == 11, "its weights");
  check(mps::KeyedArchiver::archived_data(*mps::KeyedUnarchiver::unarchived_kernel(data, cpu)) ==
            data,
        "the same bytes again");

  const mps::Kernel& base = *kernel;
  const auto copy = std::dynamic_pointer_cast<mps::CNNFullyConnected>(base.copy(reference));
  check(copy != nullptr && copy->data_source() != kernel->data_source() &&
            static_cast<Line&>(*copy->data_source()).copied_to == reference.name() &&
            copy->offset() == kernel->offset(),
        "a copy has a copy of the source");
  const auto again = std::dynamic_pointer_cast<mps::CNNFullyConnected>(other->copy());
  check(again->data_source() == other->data_source() && of_three(*again) == 11,
        "a source without a copy is shared");

  source->refused = source->loads + 1;
  check(raises<tg::InvalidArgument>([&] { mps::KeyedArchiver::archived_data(*kernel); }),
        "a source that does not load");
  check(raises<tg::DataTypeError>(
            [&] { mps::KeyedUnarchiver::unarchived_object_of_class<mps::CNNPooling>(data, cpu); }),
        "another class");
}

void coders() {
  const mps::Device cpu = mps::Device::named("cpu"), reference = mps::Device::named("reference");
  mps::KernelWindow window;
  window.kernel_width = window.stride_x = 3;
  mps::CNNPooling pooling(cpu, mps::CNNPoolingType::kAverage, window);
  pooling.label = "pool \"\xc3\xa9\"\n";
  pooling.set_zero_pad_size_x(2);
  Notebook notebook;
  pooling.encode_with_coder(notebook);
  const auto same = [&](const mps::KernelPtr& kernel, const mps::Device& device) {
    const auto other = std::dynamic_pointer_cast<mps::CNNPooling>(kernel);
    return other != nullptr && other->device() == device && other->window() == pooling.window() &&
           other->label == pooling.label && other->type() == pooling.type();
  };
  const std::string kind = pooling.kind();
  check(same(mps::kernel_with_coder(kind, notebook, cpu), cpu), "a coder and a device");
  check(raises<tg::InvalidArgument>([&] { mps::kernel_with_coder(kind, notebook); }),
        "neither a device nor a coder that has one");
  NotebookOnReference provider;
  pooling.encode_with_coder(provider);
  check(same(mps::kernel_with_coder(kind, provider), reference), "a coder that provides a device");
  check(same(mps::kernel_with_coder(kind, provider, cpu), cpu), "the given device goes first");
  check(
      raises<tg::InvalidArgument>([&] { mps::kernel_with_coder("MPSCNNDropout", notebook, cpu); }),
      "another kernel's values");
  check(raises<tg::DataTypeError>([&] { mps::kernel_with_coder("MTLDevice", notebook, cpu); }),
        "no kernel's class");
  mps::KeyedArchiver archiver;
  check(raises<tg::Unsupported>([&] { archiver.decode("label"); }), "an archiver reads nothing");
  const std::string data = mps::KeyedArchiver::archived_data(pooling);
  mps::KeyedUnarchiver unarchiver(data, reference);
  check(same(mps::kernel_with_coder(unarchiver.kind(), unarchiver), reference), "an unarchiver");
  pooling.label = "\xff";
  check(raises<tg::InvalidArgument>([&] { mps::KeyedArchiver::archived_data(pooling); }),
        "a text that is not UTF-8");
}

void descriptors_and_graphs() {
  const mps::Device cpu = mps::Device::named("cpu");
  mps::CNNDepthWiseConvolutionDescriptor descriptor;
  descriptor.input_feature_channels = descriptor.output_feature_channels = 4;
  const std::string data = mps::KeyedArchiver::archived_data(descriptor);
  const auto other = mps::KeyedUnarchiver::unarchived_convolution_descriptor(data);
  check(other.depth_wise && other.input_feature_channels == 4, "a descriptor of bytes");
  check(raises<tg::DataTypeError>([&] { mps::KeyedUnarchiver::unarchived_kernel(data, cpu); }),
        "a descriptor is no kernel");
  const auto node = std::make_shared<mps::CNNSoftMaxNode>(std::make_shared<mps::NNImageNode>());
  const mps::NNGraph graph(cpu, {node->result_image()}, {true});
  check(raises<tg::Unsupported>([&] { mps::KeyedArchiver::archived_data(graph); }) &&
            raises<tg::Unsupported>([&] { graph.copy(); }),
        "a graph has no bytes and no copy");
}

// Every beginning of an archive is a typed error.
void truncated() {
  const mps::Device cpu = mps::Device::named("cpu");
  mps::NNOptimizerAdam adam(cpu, 0.9, 0.999, 1e-8f, 7, {});
  const std::string data = mps::KeyedArchiver::archived_data(adam);
  bool right = true;
  for (std::size_t length = 0; length < data.size(); ++length) {
    right = right && raises<tg::InvalidArgument>([&] {
              mps::KeyedUnarchiver::unarchived_kernel(data.substr(0, length), cpu);
            });
  }
  check(right, "beginnings of an archive");
  const auto other =
      mps::KeyedUnarchiver::unarchived_object_of_class<mps::NNOptimizerAdam>(data, cpu);
  check(other->time_step() == 7 && other->beta2() == 0.999, "an optimizer goes on");
}

// What Python's kernels cannot have.
void of_cpp_alone() {
  const mps::Device cpu = mps::Device::named("cpu");
  tg::OptimizerDescriptor descriptor;
  descriptor.applies_gradient_clipping = true;
  descriptor.gradient_clipping_type = tg::GradientClippingType::kByNorm;
  descriptor.maximum_clipping_norm = 0.75f;
  const mps::NNOptimizerRMSProp optimizer(cpu, 0.75, 0.5f, descriptor);
  const auto found =
      std::dynamic_pointer_cast<mps::NNOptimizerRMSProp>(optimizer.copy())->descriptor();
  check(found.gradient_clipping_type == tg::GradientClippingType::kByNorm &&
            found.maximum_clipping_norm == 0.75f && found.applies_gradient_clipping,
        "clipping by a norm");
  mps::DropoutParameters parameters;
  parameters.seed = UINT64_MAX - 1;
  const std::string data = mps::KeyedArchiver::archived_data(mps::CNNDropout(cpu, parameters));
  const auto dropout = mps::KeyedUnarchiver::unarchived_object_of_class<mps::CNNDropout>(data, cpu);
  check(dropout->parameters() == parameters, "a seed of 64 bits");
}

}  // namespace

int main() {
  weights();
  coders();
  descriptors_and_graphs();
  truncated();
  of_cpp_alone();
}
