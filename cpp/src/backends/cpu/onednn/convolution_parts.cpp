// Runs the parts of a convolution or of one of its gradients (convolution_cut.h) on the backend's
// own threads. Each part is a primitive made for one thread.
#include <algorithm>
#include <cstring>

#include "backends/cpu/isa/reduce.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/onednn/convolution_cut.h"

namespace traingraph::cpu {
namespace {

using ir::Op;

constexpr int kWhole = -1;

// Along which axes parts cut an operand.
struct Axes {
  bool samples;  // whether axis 0 is the batch
  int channels;  // the axis that slices cut
};

// Of the inputs and the result.
std::vector<Axes> axes_of(const ir::Node& node) {
  if (node.op == Op::convolution_gradient_data) return {{true, kWhole}, {false, 1}, {true, 1}};
  if (node.op == Op::convolution_gradient_weights) return {{true, 1}, {true, kWhole}, {false, 0}};
  std::vector<Axes> axes = {{true, kWhole}, {false, 0}};
  if (node.inputs.size() > 2) axes.push_back({false, 1});  // the bias (1, O, 1, 1)
  axes.push_back({true, 1});
  return axes;
}

std::vector<ir::ValueId> operands_of(const ir::Node& node) {
  std::vector<ir::ValueId> ids = node.inputs;
  ids.push_back(node.outputs[0]);
  return ids;
}

std::size_t to_cache_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// The samples and the slice of channels that a part computes.
struct Part {
  std::int64_t first, samples, slice;
};

class Operand {
 public:
  Operand(const ir::Value& value, ir::ValueId id, Axes axes, const ConvolutionCut& cut) : id_(id) {
    const std::size_t bytes = ir::storage_bytes(value.type, value.layout);
    if (axes.samples) sample_ = bytes / static_cast<std::size_t>(value.type.shape[0]);
    if (cut.slices == 1) slice_ = sample_;
    if (axes.channels == kWhole || cut.slices == 1) return;
    const Slices slices = *slices_of(value.type, value.layout, axes.channels, cut.slices);
    slice_ = slices.bytes;
    distance_ = bytes / static_cast<std::size_t>(slices.runs);
    runs_ = axes.samples ? cut.images : slices.runs;
  }

  // Whether a part's slice lies in pieces: an input's is copied into one before, a result's from
  // one after.
  bool in_pieces() const { return runs_ > 1; }
  std::size_t copy_bytes(std::int64_t runs) const { return to_cache_lines(piece(runs)); }
  std::size_t copy_bytes() const { return in_pieces() ? copy_bytes(runs_) : 0; }
  bool same_copy(const Part& a, const Part& b) const { return sample_ == 0 && a.slice == b.slice; }

  std::byte* address(Pointers pointers, const Part& part) const {
    return pointers[id_] + static_cast<std::size_t>(part.first) * sample_ +
           static_cast<std::size_t>(part.slice) * slice_;
  }
  void copy(const std::byte* from, const Part& part, std::byte* to) const {
    const std::int64_t runs = sample_ == 0 ? runs_ : part.samples;
    for (std::int64_t run = 0; run < runs; ++run) {
      std::memcpy(to + piece(run), from + static_cast<std::size_t>(run) * distance_, slice_);
    }
  }
  // All but the first `left` samples of a result.
  void copy_back(const std::byte* from, const Part& part, std::int64_t left, std::byte* to) const {
    for (std::int64_t k = left; k < part.samples; ++k) {
      std::memcpy(to + static_cast<std::size_t>(k) * sample_, from + piece(k), slice_);
    }
  }

 private:
  std::size_t piece(std::int64_t run) const { return static_cast<std::size_t>(run) * slice_; }

  ir::ValueId id_;
  std::size_t sample_ = 0, slice_ = 0;  // bytes from one to the next
  std::int64_t runs_ = 1;               // pieces of a part's slice
  std::size_t distance_ = 0;            // between them
};

class ConvolutionParts : public Kernel {
 public:
  ConvolutionParts(const ir::Graph& graph, const ir::Node& node, const ConvolutionCut& cut,
                   MakeKernel make, int threads)
      : cut_(cut),
        samples_(graph.type(node.inputs[0]).shape[0]),
        threads_(std::min<std::int64_t>(threads, cut.parts())),
        workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())) {
    const std::vector<Axes> axes = axes_of(node);
    const std::vector<ir::ValueId> ids = operands_of(node);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      operands_.emplace_back(graph.value(ids[i]), ids[i], axes[i], cut_);
      if (i < node.inputs.size()) copies_bytes_ += operands_.back().copy_bytes();
    }
    whole_ = for_each_thread(graph, node, make, cut.images);
  }

  std::size_t workspace_bytes() const final { return slots_bytes() + shared_bytes(); }

 protected:
  using Kernels = std::vector<std::unique_ptr<Kernel>>;

  // What parts share behind the threads' own slots.
  virtual std::size_t shared_bytes() const = 0;
  std::byte* shared(Pointers pointers) const { return pointers[workspace_] + slots_bytes(); }

  Kernels for_each_thread(const ir::Graph& graph, const ir::Node& node, MakeKernel make,
                          std::int64_t samples) {
    Kernels kernels;
    for (std::int64_t thread = 0; thread < threads_; ++thread) {
      kernels.push_back(make_part(graph, node, make, samples, cut_.slices));
    }
    kernel_bytes_ = std::max(kernel_bytes_, to_cache_lines(kernels[0]->workspace_bytes()));
    return kernels;
  }

  const Operand& result() const { return operands_.back(); }
  std::int64_t samples_of_last() const { return samples_ - (cut_.ranges - 1) * cut_.images; }

  // compute(thread, part, number of its range, the thread's part before)
  template <class Compute>
  void each_part(const Compute& compute) {
    tasks_.share_out(cut_.parts(), static_cast<int>(threads_));
    parallel_for(threads_, static_cast<int>(threads_), [&](std::int64_t thread) {
      Part last{0, 0, kWhole};
      tasks_.take_all(thread, 1, [&](std::int64_t k, std::int64_t) {
        const std::int64_t range = k % cut_.ranges, first = range * cut_.images;
        const Part part{first, std::min(cut_.images, samples_ - first), k / cut_.ranges};
        compute(static_cast<std::size_t>(thread), part, range, last);
        last = part;
      });
    });
  }

  void run_part(Pointers pointers, std::size_t thread, Kernel& kernel, const Part& part,
                const Part& before, std::byte* to) const {
    constexpr std::size_t kMostOperands = 5;
    std::byte* addresses[kMostOperands];
    std::byte* slot = pointers[workspace_] + thread * (kernel_bytes_ + copies_bytes_);
    std::byte* copies = slot + kernel_bytes_;
    const std::size_t inputs = operands_.size() - 1;
    for (std::size_t i = 0; i < inputs; ++i) {
      const Operand& operand = operands_[i];
      addresses[i] = operand.address(pointers, part);
      if (!operand.in_pieces()) continue;
      if (!operand.same_copy(part, before)) operand.copy(addresses[i], part, copies);
      addresses[i] = copies;
      copies += operand.copy_bytes();
    }
    addresses[inputs] = to;
    addresses[inputs + 1] = slot;
    kernel.run(addresses);
  }

  ConvolutionCut cut_;
  std::int64_t samples_, threads_;
  Kernels whole_;

 private:
  std::size_t slots_bytes() const {
    return static_cast<std::size_t>(threads_) * (kernel_bytes_ + copies_bytes_);
  }

  SharedTasks tasks_;
  std::size_t workspace_;
  std::vector<Operand> operands_;  // inputs, then the result
  std::size_t kernel_bytes_ = 0, copies_bytes_ = 0;
};

// Each result in one part. All parts have equally many samples, so that a sample's result does not
// depend on where it is in the batch: the last one begins earlier, and what it has twice is left.
class ResultParts final : public ConvolutionParts {
 public:
  using ConvolutionParts::ConvolutionParts;

  void run(Pointers pointers) override {
    each_part([&](std::size_t thread, Part part, std::int64_t, const Part& last) {
      const std::int64_t twice = cut_.images - part.samples;
      part.first -= twice;
      part.samples = cut_.images;
      std::byte* const to = result().address(pointers, part);
      std::byte* const own = shared(pointers) + thread * result_bytes();
      const bool in_place = twice == 0 && !result().in_pieces();
      run_part(pointers, thread, *whole_[thread], part, last, in_place ? to : own);
      if (!in_place) result().copy_back(own, part, twice, to);
    });
  }

 private:
  // What a thread computes before it is copied.
  std::size_t result_bytes() const {
    const bool copies = result().in_pieces() || samples_of_last() < cut_.images;
    return copies ? result().copy_bytes(cut_.images) : 0;
  }
  std::size_t shared_bytes() const override {
    return static_cast<std::size_t>(threads_) * result_bytes();
  }
};

// The gradient of weights: each range of samples has its own, and these are added in their order.
class SumParts final : public ConvolutionParts {
 public:
  SumParts(const ir::Graph& graph, const ir::Node& node, const ConvolutionCut& cut, MakeKernel make,
           int threads)
      : ConvolutionParts(graph, node, cut, make, threads),
        weights_(node.outputs[0]),
        count_(ir::padded_elements(graph.type(weights_).shape, graph.value(weights_).layout)) {
    const std::int64_t rest = samples_of_last();
    if (rest < cut.images) rest_ = for_each_thread(graph, node, make, rest);
  }

  void run(Pointers pointers) override {
    auto* const weights = reinterpret_cast<float*>(pointers[weights_]);
    auto* const sums = cut_.ranges == 1 ? weights : reinterpret_cast<float*>(shared(pointers));
    each_part([&](std::size_t thread, const Part& part, std::int64_t range, const Part& last) {
      const Kernels& kernels = part.samples == cut_.images ? whole_ : rest_;
      auto* const all = reinterpret_cast<std::byte*>(sums + range * count_);
      const auto offset = result().address(pointers, part) - pointers[weights_];
      run_part(pointers, thread, *kernels[thread], part, last, all + offset);
    });
    if (cut_.ranges > 1) add(sums, weights);
  }

 private:
  static constexpr std::int64_t kColumns = 512;

  std::size_t shared_bytes() const override {
    return cut_.ranges == 1 ? 0 : static_cast<std::size_t>(cut_.ranges * count_) * sizeof(float);
  }

  // weights (count) = Σ sums (ranges, count)
  void add(const float* sums, float* weights) const {
    const std::int64_t blocks = (count_ + kColumns - 1) / kColumns;
    parallel_for(blocks, static_cast<int>(threads_), [&](std::int64_t block) {
      const std::int64_t first = block * kColumns, width = std::min(kColumns, count_ - first);
      double columns[kColumns] = {};
      loops().reduce->sum.columns(columns, sums + first, cut_.ranges, count_, width);
      for (std::int64_t j = 0; j < width; ++j) {
        weights[first + j] = static_cast<float>(columns[j]);
      }
    });
  }

  ir::ValueId weights_;
  std::int64_t count_;  // elements with padding
  Kernels rest_;
};

}  // namespace

std::unique_ptr<Kernel> make_part(const ir::Graph& graph, const ir::Node& node, MakeKernel make,
                                  std::int64_t samples, std::int64_t slices) {
  const std::vector<Axes> axes = axes_of(node);
  const std::vector<ir::ValueId> ids = operands_of(node);
  std::vector<ir::Type> types;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    types.push_back(graph.type(ids[i]));
    Shape& shape = types.back().shape;
    if (axes[i].samples) shape[0] = samples;
    if (axes[i].channels != kWhole) shape[static_cast<std::size_t>(axes[i].channels)] /= slices;
  }
  ir::Graph alone;
  alone.layers = graph.layers;
  alone.layer = node.layer;
  std::vector<ir::ValueId> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    inputs.push_back(alone.add_source(ir::Source::bound, 0, types[i], {}));
    alone.value(inputs.back()).layout = graph.value(ids[i]).layout;
  }
  auto attributes = std::get<ir::ConvolutionAttributes>(node.attributes);
  if (!attributes.result_shape.empty()) attributes.result_shape = types.back().shape;
  alone.add_node(node.op, attributes, inputs, {types.back()});
  alone.value(alone.nodes[0].outputs[0]).layout = graph.value(node.outputs[0]).layout;
  return make(alone, alone.nodes[0]);
}

std::unique_ptr<Kernel> make_parts(const ir::Graph& graph, const ir::Node& node,
                                   const ConvolutionCut& cut, MakeKernel make, int threads) {
  if (cut.parts() == 1) return make(graph, node);
  if (node.op == Op::convolution_gradient_weights) {
    return std::make_unique<SumParts>(graph, node, cut, make, threads);
  }
  return std::make_unique<ResultParts>(graph, node, cut, make, threads);
}

}  // namespace traingraph::cpu
