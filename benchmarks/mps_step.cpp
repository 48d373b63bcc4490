// The step of lenet_digits and resnet18_cifar from C++ in three forms: a TrainingGraph, a graph of
// MPS nodes, and MPS kernels encoded by hand, each with its encoding. Prints workload, form; tenth
// percentile, median and ninetieth in milliseconds of a step that is waited for and whose loss is
// read, and the median over the TrainingGraph's; median and ratio again for steps that are begun
// one after the other, fifty of them, of which the last is waited for; and whether the first losses
// are the TrainingGraph's. Arguments: device (cpu), threads (1), batch of resnet18_cifar (64),
// seconds per form (3).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <traingraph/traingraph.h>

#include "mps_kernels.h"

namespace {

using namespace traingraph;  // NOLINT: a program, not a library
using benchmarks::Workload;
using Kind = benchmarks::Layer::Kind;
using Rows = std::vector<benchmarks::Layer>;

struct Data {
  explicit Data(const Workload& w) : shape{w.batch, w.channels, w.size, w.size} {
    benchmarks::Numbers numbers;
    x = numbers.normal(element_count(shape), 1);
    for (std::int64_t n = 0; n < w.batch; ++n) {
      classes.push_back(static_cast<std::int32_t>(n * 7 % w.classes));
    }
  }
  Shape shape;
  std::vector<float> x;
  std::vector<std::int32_t> classes;
};

struct Step {
  std::function<float()> run;                    // waits; the loss
  std::function<std::function<void()>()> begin;  // what it returns waits
};

// --- TrainingGraph -------------------------------------------------------------------------------

TensorPtr tensor(const std::vector<float>& values, const Shape& shape) {
  return Tensor::create(
      TensorDescriptor(shape),
      TensorData::copy_of(values.data(), values.size() * sizeof(float), DataType::kFloat32, shape));
}

TensorPtr add(Graph& graph, benchmarks::Numbers& numbers, const Rows& rows, TensorPtr x) {
  const auto relu = [&](const TensorPtr& y) {
    return graph.node(std::make_shared<Activation>(ActivationDescriptor(ActivationType::kReLU)), y);
  };
  for (const benchmarks::Layer& row : rows) {
    const Shape from = x->descriptor().shape;
    ConvolutionDescriptor d;
    d.output_feature_channel_count = row.outputs;
    switch (row.kind) {
      case Kind::kDense: {
        const std::int64_t pixels = from.size() > 2 ? from[2] * from[3] : 1;
        d.input_feature_channel_count = from[1] * pixels;
        const TensorPtr weights =
            tensor(numbers.weights(row.outputs, from[1], pixels), {row.outputs, from[1] * pixels});
        const std::vector<float> zeros(static_cast<std::size_t>(row.outputs));
        if (from.size() > 2) x = graph.reshape({from[0], from[1] * pixels}, x);
        x = graph.node(std::make_shared<FullyConnected>(weights, tensor(zeros, {row.outputs}), d),
                       x);
        break;
      }
      case Kind::kConvolution: {
        d.input_feature_channel_count = row.inputs;
        d.kernel_height = d.kernel_width = row.kernel;
        d.stride_y = d.stride_x = row.stride;
        d.padding_policy = PaddingPolicy::kUsePaddingSize;
        d.padding_y = d.padding_x = row.kernel / 2;
        const TensorPtr weights =
            tensor(numbers.weights(row.outputs, row.inputs, row.kernel * row.kernel),
                   {row.outputs, row.inputs, row.kernel, row.kernel});
        x = graph.node(std::make_shared<Convolution>(weights, nullptr, d), x);
        break;
      }
      case Kind::kBatchNorm:
        x = graph.node(std::make_shared<BatchNormalization>(row.outputs), x);
        break;
      case Kind::kRelu:
        x = relu(x);
        break;
      case Kind::kMaxPool:
      case Kind::kAverage: {
        PoolingDescriptor p;
        p.type = row.kind == Kind::kMaxPool ? PoolingType::kMax : PoolingType::kAverage;
        p.kernel_height = p.kernel_width = p.stride_y = p.stride_x = row.kernel;
        p.padding_policy = PaddingPolicy::kValid;
        x = graph.node(std::make_shared<Pooling>(p), x);
        break;
      }
      case Kind::kResidual: {
        const TensorPtr left = add(graph, numbers, row.body, x);
        const TensorPtr right = add(graph, numbers, row.shortcut, x);
        x = relu(
            graph.node(std::make_shared<Arithmetic>(ArithmeticOperation::kAdd), {left, right}));
        break;
      }
    }
  }
  return x;
}

Step training_graph(const Workload& w, const Data& data, const std::string& device) {
  const auto x = Tensor::create(TensorDescriptor(data.shape));
  const auto y = Tensor::create(TensorDescriptor({w.batch}, DataType::kInt32));
  const auto graph = std::make_shared<Graph>();
  benchmarks::Numbers numbers;
  add(*graph, numbers, w.layers, x);
  OptimizerDescriptor d;
  d.learning_rate = w.adam ? 1e-3f : 0.01f;
  OptimizerPtr rule = std::make_shared<Adam>(d);
  if (!w.adam) {
    d.regularization_type = RegularizationType::kL2;
    d.regularization_scale = 5e-4f;
    rule = std::make_shared<SGD>(d, 0.9f);
  }
  LossDescriptor loss;
  loss.type = LossType::kSoftmaxCrossEntropy;
  const auto training = std::make_shared<TrainingGraph>(std::vector<GraphPtr>{graph},
                                                        std::make_shared<Loss>(loss), rule);
  training->add_inputs({{"x", x}}, {{"y", y}});
  training->compile(CompilationOptions::kNone, Device::named(device));
  ExecutionArguments arguments;
  arguments.inputs = {{"x", TensorData::copy_of(data.x.data(), data.x.size() * sizeof(float),
                                                DataType::kFloat32, data.shape)}};
  arguments.loss_labels = {
      {"y", TensorData::copy_of(data.classes.data(), data.classes.size() * sizeof(std::int32_t),
                                DataType::kInt32, {w.batch})}};
  ExecutionArguments waited = arguments;
  waited.options = ExecutionOptions::kSynchronous;
  return {[training, waited] {
            const TensorData result = training->execute(waited).result();
            return *static_cast<const float*>(static_cast<const void*>(result.bytes));
          },
          [training, arguments] {
            return [execution = training->execute(arguments)] { execution.wait(); };
          }};
}

// --- nodes ---------------------------------------------------------------------------------------

namespace mps = traingraph::mps;

mps::NNImageNodePtr add(benchmarks::Sources& sources, const Rows& rows, mps::NNImageNodePtr x) {
  mps::NNFilterNodePtr node;
  const auto relu = [](const mps::NNImageNodePtr& y) {
    return std::make_shared<mps::CNNNeuronNode>(y, benchmarks::relu_descriptor());
  };
  for (const benchmarks::Layer& row : rows) {
    switch (row.kind) {
      case Kind::kDense:
        node = std::make_shared<mps::CNNFullyConnectedNode>(x, sources.weights(row));
        break;
      case Kind::kConvolution:
        node = std::make_shared<mps::CNNConvolutionNode>(x, sources.weights(row));
        break;
      case Kind::kBatchNorm:
        node = std::make_shared<mps::CNNBatchNormalizationNode>(x, sources.normalization(row));
        break;
      case Kind::kRelu:
        node = relu(x);
        break;
      case Kind::kMaxPool:
        node = std::make_shared<mps::CNNPoolingMaxNode>(x, sources.window(row));
        break;
      case Kind::kAverage:
        node = std::make_shared<mps::CNNPoolingAverageNode>(x, sources.window(row));
        break;
      case Kind::kResidual: {
        mps::NNImageNodePtr left, right;
        sources.branches([&] { left = add(sources, row.body, x); },
                         [&] { right = add(sources, row.shortcut, x); });
        node = relu(std::make_shared<mps::NNAdditionNode>(left, right)->result_image());
        break;
      }
    }
    x = node->result_image();
  }
  return x;
}

// --- the images of both forms of the MPS layer
// ----------------------------------------------------

mps::ImagePtr image(const mps::Device& on, const float* values, const mps::ImageDescriptor& d) {
  mps::ImagePtr made = mps::Image::create(on, d);
  const std::size_t bytes = made->image_bytes();
  for (std::int64_t n = 0; n < d.number_of_images; ++n) {
    made->write_bytes(values + static_cast<std::size_t>(n) * (bytes / sizeof(float)), bytes,
                      mps::DataLayout::kChannelsHeightWidth, n);
  }
  return made;
}

struct Images {
  Images(const Workload& w, const Data& data, const mps::Device& on) {
    mps::ImageDescriptor d;
    d.number_of_images = w.batch;
    const std::vector<float> zeros(static_cast<std::size_t>(w.batch));
    losses = {image(on, zeros.data(), d)};
    d.feature_channels = w.classes;
    std::vector<float> truth(static_cast<std::size_t>(w.batch * w.classes));
    for (std::size_t n = 0; n < data.classes.size(); ++n) {
      truth[n * static_cast<std::size_t>(w.classes) + static_cast<std::size_t>(data.classes[n])] =
          1;
    }
    const mps::ImagePtr expected = image(on, truth.data(), d);
    labels = {std::make_shared<mps::CNNLossLabels>(losses[0], expected, nullptr)};
    states.assign(labels.begin(), labels.end());
    d.feature_channels = w.channels;
    d.width = d.height = w.size;
    x = {image(on, data.x.data(), d)};
  }
  float loss() const {
    float value = 0;
    losses[0]->read_bytes(&value, sizeof(value), mps::DataLayout::kChannelsHeightWidth, 0);
    return value;
  }
  mps::ImageBatch x, losses;
  mps::CNNLossLabelsBatch labels;
  mps::StateBatch states;
};

Step encoded(const mps::Device& on, const Images& images,
             const std::function<void(mps::CommandBuffer&)>& encode) {
  const auto commit = [queue = on.make_command_queue(), encode] {
    const mps::CommandBufferPtr buffer = queue->make_command_buffer();
    encode(*buffer);
    buffer->commit();
    return buffer;
  };
  return {[commit, images] {
            commit()->wait_until_completed();
            return images.loss();
          },
          [commit] { return [buffer = commit()] { buffer->wait_until_completed(); }; }};
}

Step nodes(const Workload& w, const Data& data, const mps::Device& on) {
  const Images images(w, data, on);
  benchmarks::Sources sources(on, w);
  const mps::NNImageNodePtr last = add(sources, w.layers, std::make_shared<mps::NNImageNode>());
  const auto loss = std::make_shared<mps::CNNLossNode>(last, benchmarks::loss_descriptor());
  const mps::NNFilterNodePtr first = loss->training_graph()[0];
  const auto graph = std::make_shared<mps::NNGraph>(
      on, std::vector<mps::NNImageNodePtr>{first->result_image()}, std::vector<bool>{false});
  return encoded(on, images, [graph, images](mps::CommandBuffer& buffer) {
    graph->encode_batch(buffer, {images.x}, {images.states});
  });
}

Step by_hand(const Workload& w, const Data& data, const mps::Device& on) {
  const Images images(w, data, on);
  benchmarks::Sources sources(on, w);
  const std::shared_ptr<benchmarks::Chain> layers = benchmarks::make_kernels(sources, w.layers);
  const auto loss = std::make_shared<mps::CNNLoss>(on, benchmarks::loss_descriptor());
  return encoded(on, images, [layers, loss, images](mps::CommandBuffer& buffer) {
    const mps::ImageBatch y = layers->forward(buffer, images.x);
    layers->gradient(buffer, loss->encode_batch(buffer, y, images.labels));
    layers->update(buffer);
  });
}

// --- measuring -----------------------------------------------------------------------------------

constexpr int kInFlight = 50;

struct Form {
  const char* name;
  Step step;
  std::vector<float> losses;
  std::vector<double> waited, in_flight;
};

double quantile(std::vector<double>& times, double share) {
  std::sort(times.begin(), times.end());
  return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
}

template <class Work>
double milliseconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

void sample(Form& form) {
  form.step.run();  // wakes what sleeps
  for (int k = 0; k < 5; ++k) {
    form.waited.push_back(milliseconds([&] { form.step.run(); }));
  }
  form.in_flight.push_back(milliseconds([&] {
                             for (int k = 1; k < kInFlight; ++k) form.step.begin();
                             form.step.begin()();
                           }) /
                           kInFlight);
}

void report(const Workload& w, const std::string& device, double seconds) {
  const Data data(w);
  const mps::Device on = mps::Device::named(device);
  std::vector<Form> forms = {{"TrainingGraph", training_graph(w, data, device), {}, {}, {}},
                             {"nodes", nodes(w, data, on), {}, {}, {}},
                             {"by hand", by_hand(w, data, on), {}, {}, {}}};
  for (Form& form : forms) {
    for (int k = 0; k < 3; ++k) form.losses.push_back(form.step.run());
    for (int k = 0; k < 3; ++k) form.step.run();
  }
  // In turn, so that whatever else the machine does meets all of them.
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration<double>(seconds * static_cast<double>(forms.size()));
  do {
    for (Form& form : forms) sample(form);
  } while (std::chrono::steady_clock::now() < end);
  const double waited = quantile(forms[0].waited, 0.5);
  const double in_flight = quantile(forms[0].in_flight, 0.5);
  for (Form& form : forms) {
    bool same = true;
    for (std::size_t k = 0; k < form.losses.size(); ++k) {
      const float expected = forms[0].losses[k];
      same = same && std::abs(form.losses[k] - expected) <= 5e-3f * std::abs(expected) + 1e-4f;
    }
    std::printf("%-14s %-13s %9.4f %9.4f %9.4f  %.3f  %9.4f  %.3f%s\n", w.name.c_str(), form.name,
                quantile(form.waited, 0.1), quantile(form.waited, 0.5), quantile(form.waited, 0.9),
                quantile(form.waited, 0.5) / waited, quantile(form.in_flight, 0.5),
                quantile(form.in_flight, 0.5) / in_flight, same ? "" : "  (losses differ)");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int count, char** words) {
  const std::string device = count > 1 ? words[1] : "cpu";
  Platform::set_thread_count(count > 2 ? std::atoi(words[2]) : 1);
  const double seconds = count > 4 ? std::atof(words[4]) : 3;
  report(benchmarks::lenet_digits(), device, seconds);
  report(benchmarks::resnet18_cifar(count > 3 ? std::atoi(words[3]) : 64), device, seconds);
  return 0;
}
