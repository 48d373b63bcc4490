// Over 400 lines: one check beside the other.
// The contract of a training graph from C++: each check prints its name, the first wrong one ends
// the program with status 1.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <traingraph/mps/mps.h>
#include <traingraph/traingraph.h>

namespace tg = traingraph;

namespace {

constexpr int kRows = 4;

void check(bool right, const char* name) {
  std::printf("%s: %s\n", name, right ? "ok" : "WRONG");
  if (!right) std::exit(1);
}

bool near(double a, double b) { return std::fabs(a - b) < 1e-5; }

template <class Call>
bool raises(const Call& call) {
  try {
    call();
  } catch (const tg::Error&) {
    return true;
  }
  return false;
}

tg::ExecutionArguments now() {
  tg::ExecutionArguments arguments;
  arguments.options = tg::ExecutionOptions::kSynchronous;
  return arguments;
}

// y = w x + b over four rows.
struct Line {
  std::vector<float> inputs{0, 1, 2, 3};
  std::vector<float> labels{5, 7, 9, 11};
  tg::TensorPtr x = tg::Tensor::create({{kRows, 1}});
  tg::TensorPtr y = tg::Tensor::create({{kRows, 1}});
  tg::TensorPtr w = tg::Tensor::filled({{1, 1}}, 0.5);
  tg::TensorPtr b = tg::Tensor::filled({{1, 1}}, 0.0);
  std::shared_ptr<tg::Graph> graph = std::make_shared<tg::Graph>();
  tg::LayerPtr layer = std::make_shared<tg::FullyConnected>(w, b, tg::ConvolutionDescriptor{});
  tg::TensorPtr result = graph->node(layer, x);

  std::shared_ptr<tg::TrainingGraph> training(bool with_loss) const {
    const tg::OptimizerDescriptor rate{.learning_rate = 0.05f};
    auto made = std::make_shared<tg::TrainingGraph>(
        std::vector<tg::GraphPtr>{graph},
        with_loss ? std::make_shared<tg::Loss>(tg::LossDescriptor{}) : nullptr,
        std::make_shared<tg::SGD>(rate));
    made->add_inputs({{"x", x}}, with_loss ? tg::NamedTensors{{"y", y}} : tg::NamedTensors{});
    return made;
  }
  tg::TensorData x_data() { return tg::TensorData::of(inputs.data(), {kRows, 1}); }
  tg::TensorData y_data() { return tg::TensorData::of(labels.data(), {kRows, 1}); }
  tg::ExecutionArguments fed() {
    tg::ExecutionArguments arguments = now();
    arguments.inputs = {{"x", x_data()}};
    arguments.loss_labels = {{"y", y_data()}};
    return arguments;
  }
};

float first(const tg::TensorPtr& tensor) {
  std::vector<float> values(
      static_cast<std::size_t>(tg::element_count(tensor->descriptor().shape)));
  tensor->copy_to(values.data(), values.size() * sizeof(float));
  return values[0];
}

void gradients() {
  Line line;
  const auto training = line.training(true);
  training->compile(tg::CompilationOptions::kComputeAllGradients, tg::Device::cpu());
  const tg::TensorPtr dx = training->gradient_tensor(line.x);
  training->bind_and_write_data({{"x", line.x_data()}, {"y", line.y_data()}},
                                {{"x", line.x}, {"y", line.y}});
  training->execute_forward(now());
  training->execute_gradient(now());
  check(near(first(dx), 0.5 * 2 * (0 - 5) / kRows), "gradient of an input");
  check(training->source_gradient_tensors(line.layer).front() == dx, "one handle per tensor");
}

void user_gradient() {
  Line line;
  const auto training = line.training(false);
  const tg::TensorPtr slot = training->allocate_user_gradient(line.result);
  training->compile(tg::CompilationOptions::kNone, tg::Device::cpu());
  training->bind_and_write_data({{"x", line.x_data()}}, {{"x", line.x}});
  training->execute_forward(now());
  check(raises([&] { training->execute_gradient(now()); }), "an unwritten gradient is refused");
  std::vector<float> ones(kRows, 1.0f);
  training->bind_and_write_data({{"g", tg::TensorData::of(ones.data(), {kRows, 1})}},
                                {{"g", slot}});
  training->execute_gradient(now());
  training->execute_optimizer_update(now());
  training->synchronize_updates();
  check(near(first(line.w), 0.5 - 0.05 * 6), "a gradient by hand updates");
}

void linked() {
  Line line;
  auto second = std::make_shared<tg::Graph>();
  const tg::TensorPtr w2 = tg::Tensor::filled({{1, 1}}, 2.0);
  const auto scale = std::make_shared<tg::FullyConnected>(w2, nullptr, tg::ConvolutionDescriptor{});
  second->node(scale, line.result);
  const auto front = std::make_shared<tg::InferenceGraph>(std::vector<tg::GraphPtr>{line.graph});
  const auto back = std::make_shared<tg::InferenceGraph>(std::vector<tg::GraphPtr>{second});
  front->add_inputs({{"x", line.x}});
  front->link({back});
  front->compile(tg::CompilationOptions::kLinkGraphs, tg::Device::cpu());
  back->compile(tg::CompilationOptions::kLinkGraphs, tg::Device::cpu());
  tg::ExecutionArguments fed = now();
  fed.inputs = {{"x", line.x_data()}};
  front->execute(fed);
  const tg::TensorData result = back->execute(now()).result();
  check(near(static_cast<const float*>(result.bytes)[3], 2 * 0.5 * 3), "linked graphs");
}

// One unit over two steps of one number.
void sequences() {
  const auto four = [](double value) {
    return std::vector<tg::TensorPtr>(4, tg::Tensor::filled({{1, 1}}, value));
  };
  tg::LSTMDescriptor descriptor;
  descriptor.result_mode = tg::LSTMResultMode::kOutputAndStates;
  const auto layer = std::make_shared<tg::LSTM>(descriptor, four(0.5), four(0.25),
                                                std::vector<tg::TensorPtr>{}, four(0.125));
  const auto graph = std::make_shared<tg::Graph>();
  const tg::TensorPtr x = tg::Tensor::create({{1, 2, 1}});
  graph->node(layer, x);
  const std::vector<tg::TensorPtr> results = graph->result_tensors(layer);
  check(results.size() == 3 && results[2]->descriptor().shape == tg::Shape{1, 1, 1, 1},
        "output and states of an LSTM");
  tg::InferenceGraph inference({graph});
  inference.add_inputs({{"x", x}});
  inference.compile(tg::CompilationOptions::kNone, tg::Device::cpu());
  std::vector<float> inputs{1, -2};
  tg::ExecutionArguments fed = now();
  fed.inputs = {{"x", tg::TensorData::of(inputs.data(), {1, 2, 1})}};
  const tg::TensorData result = inference.execute(fed).result();
  double h = 0, c = 0;
  for (int step = 0; step < 2; ++step) {
    const double sum =
        0.5 * static_cast<double>(inputs[static_cast<std::size_t>(step)]) + 0.25 * h + 0.125;
    const double gate = 1 / (1 + std::exp(-sum));
    c = gate * c + gate * std::tanh(sum);
    h = gate * std::tanh(c);
    check(near(static_cast<double>(static_cast<const float*>(result.bytes)[step]), h),
          "a step of an LSTM");
  }
  descriptor.hidden_size = 2;
  check(raises([&] { tg::LSTM(descriptor, four(0), four(0)); }), "weights of another size");
  descriptor.dropout = 1;
  check(raises([&] { descriptor.check("LSTM"); }), "a dropout of everything");
}

void constants() {
  Line line;
  tg::InferenceGraph inference({line.graph});
  inference.compile(tg::CompilationOptions::kNone, tg::Device::cpu(), {{"x", line.x}},
                    {{"x", line.x_data()}});
  const tg::TensorData result = inference.execute(now()).result();
  check(near(static_cast<const float*>(result.bytes)[2], 1.0), "constants");
}

void checked_gradients() {
  Line line;
  const auto training = line.training(true);
  training->compile(tg::CompilationOptions::kNone, tg::Device::cpu());
  const tg::GradientCheck found =
      tg::check_gradients(*training, {{"x", line.x_data()}}, {{"y", line.y_data()}});
  check(found.ok && found.rows.size() == 2, "gradients agree with differences");
  const tg::GradientRow& row = found.rows.front();
  const double slope = 0.5 * (0 * -5.0 + 1 * -6.5 + 2 * -8.0 + 3 * -9.5);
  check(row.parameter == "weights" && near(row.gradient, slope) && near(row.difference, slope),
        "a gradient and its difference");
  check(found.to_string().find("worst element") != std::string::npos, "a table of gradients");
  check(near(first(line.w), 0.5), "a check changes nothing");
}

void guard_and_profile() {
  Line line;
  const auto training = line.training(true);
  training->compile(tg::CompilationOptions::kNone, tg::Device::cpu());
  tg::ExecutionArguments fed = line.fed();
  fed.options = fed.options | tg::ExecutionOptions::kPerLayerProfiling;
  check(!training->execute(fed).profile()->layers().empty(), "a profile");
  line.inputs[1] = std::nanf("");
  fed.options = tg::ExecutionOptions::kSynchronous | tg::ExecutionOptions::kCheckNumerics;
  bool stopped = false;
  try {
    training->execute(fed);
  } catch (const tg::NumericError&) {
    stopped = true;
  }
  check(stopped, "bad numbers stop a step");
}

void micro_batches_and_fit(const std::string& path) {
  Line whole;
  Line parts;
  const auto one = whole.training(true);
  const auto two = parts.training(true);
  two->set_micro_batches(2);
  tg::FitArguments all;
  all.inputs = {{"x", whole.x_data()}};
  all.loss_labels = {{"y", whole.y_data()}};
  all.epochs = 50;
  one->compile(tg::CompilationOptions::kNone, tg::Device::cpu());
  two->compile(tg::CompilationOptions::kNone, tg::Device::cpu());
  const std::vector<tg::Epoch> epochs = one->fit(all);
  check(epochs.size() == 50 && epochs.back().loss < epochs.front().loss, "fit");
  all.batch_size = 2;
  two->fit(all);
  check(near(first(whole.w), first(parts.w)), "micro-batches");
  check(near(one->evaluate(all).loss, two->evaluate(all).loss), "evaluate");
  const tg::TensorData predicted = one->predict({{"x", whole.x_data()}});
  check(near(static_cast<const float*>(predicted.bytes)[1], first(whole.w) + first(whole.b)),
        "predict");

  one->save(path);
  Line fresh;
  const auto resumed = fresh.training(true);
  resumed->compile(tg::CompilationOptions::kNone, tg::Device::cpu());
  resumed->load(path);
  resumed->execute(fresh.fed());
  one->execute(whole.fed());
  check(first(fresh.w) == first(whole.w), "a checkpoint resumes bit for bit");
  std::filesystem::remove(path);
}

// Weights and biases from 0, of one number each.
class Zero final : public tg::mps::CNNConvolutionDataSource {
 public:
  tg::mps::CNNConvolutionDescriptor descriptor() const override { return {}; }
  tg::mps::SourceNumbers weights() const override { return std::span(&zero_, 1); }

 private:
  float zero_ = 0;
};

tg::mps::ImageBatch images(const tg::mps::Device& device, const std::vector<float>& values) {
  tg::mps::ImageDescriptor descriptor;
  descriptor.number_of_images = static_cast<std::int64_t>(values.size());
  const tg::mps::ImagePtr image = tg::mps::Image::create(device, descriptor);
  for (std::size_t k = 0; k < values.size(); ++k) {
    image->write_bytes(&values[k], sizeof(float), tg::mps::DataLayout::kChannelsHeightWidth,
                       static_cast<std::int64_t>(k));
  }
  return image->batch_representation();
}

// y = 2 x + 5 by kernels that are encoded one by one.
void encoded_kernels() {
  namespace mps = tg::mps;
  const mps::Device device = mps::Device::named("cpu");
  const auto source = std::make_shared<Zero>();
  const auto forward = std::make_shared<mps::CNNFullyConnected>(device, source);
  mps::CNNFullyConnectedGradient gradient(device, source);
  mps::CNNConvolutionWeightsAndBiasesState state(device, source->descriptor());
  mps::CNNLossDescriptor loss_descriptor;
  loss_descriptor.reduction_type = mps::CNNReductionType::kMean;
  mps::CNNLoss loss(device, loss_descriptor);
  tg::OptimizerDescriptor descriptor;
  descriptor.learning_rate = 0.05f;
  mps::NNOptimizerStochasticGradientDescent optimizer(device, 0, false, descriptor);
  const mps::ImageBatch x = images(device, {0, 1, 2, 3}), y = images(device, {5, 7, 9, 11});
  const mps::ImageBatch losses = images(device, {0, 0, 0, 0});
  mps::CNNLossLabelsBatch labels;
  for (std::size_t k = 0; k < 4; ++k) {
    labels.push_back(std::make_shared<mps::CNNLossLabels>(losses[k], y[k], nullptr));
  }
  mps::CommandBufferPtr buffer;
  for (int step = 0; step < 200; ++step) {
    buffer = device.make_command_queue()->make_command_buffer();
    mps::StateBatch states;
    const mps::ImageBatch result = forward->encode_batch(*buffer, x, states, false);
    const mps::ImageBatch errors = loss.encode_batch(*buffer, result, labels);
    gradient.encode_batch(*buffer, errors, x, states);
    auto& sums = static_cast<mps::CNNConvolutionGradientState&>(*states[0]);
    optimizer.encode(*buffer, sums, state, {}, state);
    forward->reload_weights_and_biases(*buffer, state);
    gradient.reload_weights_and_biases(*buffer, state);
    buffer->commit();
  }
  buffer->wait_until_completed();
  float weight = 0, bias = 0;
  state.weights()->read(&weight, sizeof(float));
  state.biases()->read(&bias, sizeof(float));
  check(near(weight, 2) && near(bias, 5), "encoded kernels");
}

// The weights of a node of a graph, which calls for their update.
class Trained final : public tg::mps::CNNConvolutionDataSource {
 public:
  using State = std::shared_ptr<tg::mps::CNNConvolutionWeightsAndBiasesState>;
  explicit Trained(const tg::mps::Device& device) : optimizer_(device, 0, false, rate()) {}
  tg::mps::CNNConvolutionDescriptor descriptor() const override { return {}; }
  tg::mps::SourceNumbers weights() const override { return std::span(&zero_, 1); }
  tg::mps::SourceNumbers bias_terms() const override { return std::span(&zero_, 1); }
  using CNNConvolutionDataSource::update;
  State update(tg::mps::CommandBuffer& buffer,
               const std::shared_ptr<tg::mps::CNNConvolutionGradientState>& gradient,
               const State& source) override {
    optimizer_.encode(buffer, *gradient, *source, {}, *source);
    now = source;
    return source;
  }
  State now;

 private:
  static tg::OptimizerDescriptor rate() {
    tg::OptimizerDescriptor descriptor;
    descriptor.learning_rate = 0.05f;
    return descriptor;
  }
  float zero_ = 0;
  tg::mps::NNOptimizerStochasticGradientDescent optimizer_;
};

// The same line by nodes and the graph that trains them.
void graph_of_nodes() {
  namespace mps = tg::mps;
  const mps::Device device = mps::Device::named("cpu");
  const auto source = std::make_shared<Trained>(device);
  const auto full =
      std::make_shared<mps::CNNFullyConnectedNode>(std::make_shared<mps::NNImageNode>(), source);
  mps::CNNLossDescriptor descriptor;
  descriptor.reduction_type = mps::CNNReductionType::kMean;
  const auto loss = std::make_shared<mps::CNNLossNode>(full->result_image(), descriptor);
  mps::NNGraph graph(device, {loss->training_graph().at(0)->result_image()}, {false});
  const mps::ImageBatch x = images(device, {0, 1, 2, 3}), y = images(device, {5, 7, 9, 11});
  const mps::ImageBatch losses = images(device, {0, 0, 0, 0});
  mps::StateBatch labels;
  for (std::size_t k = 0; k < 4; ++k) {
    labels.push_back(std::make_shared<mps::CNNLossLabels>(losses[k], y[k], nullptr));
  }
  mps::CommandBufferPtr buffer;
  for (int step = 0; step < 200; ++step) {
    buffer = device.make_command_queue()->make_command_buffer();
    graph.encode_batch(*buffer, {x}, {labels});
    buffer->commit();
  }
  buffer->wait_until_completed();
  float weight = 0, bias = 0;
  source->now->weights()->read(&weight, sizeof(float));
  source->now->biases()->read(&bias, sizeof(float));
  check(near(weight, 2) && near(bias, 5), "graph of nodes");
}

// A temporary image of a committed part, read by the next one.
void commit_and_continue() {
  namespace mps = tg::mps;
  const mps::Device device = mps::Device::named("cpu");
  const auto twice = std::make_shared<mps::CNNNeuron>(
      device, mps::NeuronDescriptor{mps::NeuronType::kLinear, 2, 0, 1, {}});
  const auto buffer = std::make_shared<mps::ContinuingCommandBuffer>(*device.make_command_queue());
  int parts = 0;
  const auto count = [&](const mps::CommandBufferPtr&) { ++parts; };
  const mps::ImageBatch middle = twice->encode_batch(*buffer, images(device, {1, 2}));
  buffer->add_completed_handler(count);
  const mps::CommandBufferPtr first = buffer->root_command_buffer();
  buffer->commit_and_continue();
  first->wait_until_completed();
  check(parts == 1 && buffer->status() == mps::CommandBufferStatus::kNotEnqueued, "first part");
  const mps::ImageBatch result = images(device, {0, 0});
  twice->encode_batch(*buffer, middle, result);
  buffer->set_predicate(std::make_shared<mps::Predicate>(device));  // zeros: nothing runs
  twice->encode_batch(*buffer, images(device, {1, 2}), result);
  buffer->add_completed_handler(count);
  buffer->commit();
  buffer->wait_until_completed();
  float last = 0;
  result[1]->read_bytes(&last, sizeof(float), mps::DataLayout::kChannelsHeightWidth, 0);
  check(parts == 2 && near(last, 8), "commit and continue");
  bool refused = false;
  try {
    buffer->commit_and_continue();
  } catch (const tg::InvalidArgument&) {
    refused = true;
  }
  check(refused, "commit and continue after commit");
}

// The gradient of x^4 + x^2, through nodes of several sources, of one, and of a loss.
void nodes_without_weights() {
  namespace mps = tg::mps;
  const mps::Device device = mps::Device::named("cpu");
  const auto x = std::make_shared<mps::NNImageNode>();
  const auto labels = std::make_shared<mps::NNImageNode>();
  const auto square = std::make_shared<mps::NNMultiplicationNode>(x, x);
  const auto both = std::make_shared<mps::NNConcatenationNode>(
      std::vector<mps::NNImageNodePtr>{square->result_image(), x});
  both->packs_channels = true;  // two channels; else zeros stand between them
  mps::Upsampling twice;
  twice.scale_x = twice.scale_y = 2;
  const auto large = std::make_shared<mps::CNNUpsamplingNearestNode>(both->result_image(), twice);
  const auto mean = std::make_shared<mps::NNReductionSpatialMeanNode>(large->result_image());
  mps::CNNLossDescriptor descriptor;
  descriptor.reduction_type = mps::CNNReductionType::kSum;
  const auto loss = std::make_shared<mps::NNForwardLossNode>(
      std::vector<mps::NNImageNodePtr>{mean->result_image(), labels}, descriptor);
  const auto ones = std::make_shared<mps::NNInitialGradientNode>(loss->result_image());
  const std::vector<mps::NNFilterNodePtr> last = ones->training_graph();
  check(last.size() == 1, "one image is differentiated");
  mps::NNGraph graph(device, {last[0]->result_image()}, {true});
  graph.set_makes_temporary_images(false);
  mps::ImageDescriptor size;
  size.feature_channels = 2;
  size.number_of_images = 4;
  const auto zeros = mps::Image::create(device, size)->batch_representation();
  const auto buffer = device.make_command_queue()->make_command_buffer();
  const mps::ImageBatch given = images(device, {0, 1, 2, 3});
  const auto found = graph.encode_batch(*buffer, {given, zeros}).images;
  buffer->commit();
  buffer->wait_until_completed();
  for (std::size_t k = 0; k < 4; ++k) {
    const auto value = static_cast<float>(k);
    float gradient = 0;
    found[k]->read_bytes(&gradient, sizeof(float), mps::DataLayout::kChannelsHeightWidth, 0);
    check(near(gradient, 4 * value * value * value + 2 * value), "nodes without weights");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  gradients();
  user_gradient();
  linked();
  sequences();
  constants();
  checked_gradients();
  guard_and_profile();
  micro_batches_and_fit(argv[1]);
  encoded_kernels();
  graph_of_nodes();
  commit_and_continue();
  nodes_without_weights();
}
