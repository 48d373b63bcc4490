// Batch normalization and its gradient by vDSP. BNNS's own gradient reads what the last forward
// call has left in its filter, and nothing but the moving averages shows the batch's statistics;
// here mean and deviation are values of the graph, and the gradient is given them.
#include <algorithm>
#include <cmath>

#include "backends/bnns/bnns.h"
#include "backends/bnns/list_loop.h"
#include "backends/bnns/sums.h"
#include "ir/ending.h"

namespace traingraph::bnns {
namespace {

// x (N, C, S). The elements of a channel are N runs of S, or one run with distance C where S is 1.
struct Channels {
  std::size_t channels, runs, length, between_runs, between_channels;
  vDSP_Stride stride;

  explicit Channels(const Shape& x) {
    channels = extent(x[1]);
    const std::size_t space = elements(x) / (extent(x[0]) * channels);
    const bool single = space == 1;
    runs = single ? 1 : extent(x[0]);
    length = single ? extent(x[0]) : space;
    stride = single ? static_cast<vDSP_Stride>(channels) : 1;
    between_runs = channels * space;
    between_channels = space;
  }

  double count() const { return static_cast<double>(runs * length); }

  // f(offset of the first element) for each run of a channel.
  template <class F>
  void each_run(std::size_t channel, const F& f) const {
    for (std::size_t run = 0; run < runs; ++run) {
      f(run * between_runs + channel * between_channels);
    }
  }
};

class Forward final : public Kernel {
 public:
  Forward(const ir::Graph& graph, const ir::Node& node)
      : channels_(graph.type(node.inputs[0]).shape),
        epsilon_(std::get<ir::BatchNormAttributes>(node.attributes).epsilon),
        node_(node),
        epilogue_(graph, node, std::get<ir::BatchNormAttributes>(node.attributes).epilogue, 3) {}

  std::size_t workspace_bytes() const override { return epilogue_.workspace_bytes(); }

  // Two passes: the variance is that of differences from the mean, which y holds in between.
  void run(Pointers pointers) override {
    const Channels& k = channels_;
    const float* x = read(pointers, node_.inputs[0]);
    float* y = write(pointers, node_.outputs[0]);
    for (std::size_t c = 0; c < k.channels; ++c) {
      double total = 0;
      k.each_run(c, [&](std::size_t at) { total += sum({x + at, k.stride}, k.length); });
      const double mean = total / k.count();
      const auto negative_mean = static_cast<float>(-mean);
      double squares = 0;
      k.each_run(c, [&](std::size_t at) {
        vDSP_vsadd(x + at, k.stride, &negative_mean, y + at, k.stride, k.length);
        squares += sum_of_squares({y + at, k.stride}, k.length);
      });
      const double variance = squares / k.count();
      const double inverse_deviation = 1 / std::sqrt(variance + epsilon_);
      const auto scale = static_cast<float>(
          inverse_deviation * static_cast<double>(read(pointers, node_.inputs[1])[c]));
      const float* beta = read(pointers, node_.inputs[2]) + c;
      k.each_run(c, [&](std::size_t at) {
        vDSP_vsmsa(y + at, k.stride, &scale, beta, y + at, k.stride, k.length);
      });
      write(pointers, node_.outputs[1])[c] = static_cast<float>(mean);
      write(pointers, node_.outputs[2])[c] = static_cast<float>(inverse_deviation);
      write(pointers, node_.outputs[3])[c] = static_cast<float>(variance);
    }
    epilogue_.run(pointers);
  }

 private:
  Channels channels_;
  double epsilon_;
  ir::Node node_;
  Epilogue epilogue_;
};

// With z = (x - mean) inverse_deviation and M elements per channel: dbeta = Σ dy, dgamma = Σ dy z,
// dx = gamma inverse_deviation (dy - dbeta / M - z dgamma / M). All are overwritten. dx may have
// the bytes of dy or of x, so the sums leave it alone, and differences from the mean are in a tile.
class Gradient final : public Kernel {
 public:
  Gradient(const ir::Graph& graph, const ir::Node& node)
      : channels_(graph.type(node.inputs[1]).shape),
        node_(node),
        workspace_(workspace_of(graph, node)) {}

  std::size_t workspace_bytes() const override { return kTile * sizeof(float); }

  void run(Pointers pointers) override {
    const Channels& k = channels_;
    float* tile = reinterpret_cast<float*>(pointers[workspace_]);
    const float* dy = read(pointers, node_.inputs[0]);
    const float* x = read(pointers, node_.inputs[1]);
    float* dx = write(pointers, node_.outputs[0]);
    for (std::size_t c = 0; c < k.channels; ++c) {
      const float negative_mean = -read(pointers, node_.inputs[2])[c];
      const auto inverse_deviation = static_cast<double>(read(pointers, node_.inputs[3])[c]);
      const auto gamma = static_cast<double>(read(pointers, node_.inputs[4])[c]);
      double dbeta = 0, products = 0;
      each_tile(c, [&](std::size_t at, std::size_t length) {
        vDSP_vsadd(x + at, k.stride, &negative_mean, tile, 1, length);
        dbeta += sum({dy + at, k.stride}, length);
        products += dot({dy + at, k.stride}, {tile, 1}, length);
      });
      const double dgamma = products * inverse_deviation;
      // Times the slope last: of large values its product with of_x is too small for float32.
      const double slope = gamma * inverse_deviation;
      const auto of_x = static_cast<float>(-inverse_deviation * dgamma / k.count());
      const auto of_sum = static_cast<float>(slope);
      const auto shift = static_cast<float>(-slope * dbeta / k.count());
      each_tile(c, [&](std::size_t at, std::size_t length) {
        vDSP_vsadd(x + at, k.stride, &negative_mean, tile, 1, length);
        vDSP_vsma(tile, 1, &of_x, dy + at, k.stride, tile, 1, length);
        vDSP_vsmsa(tile, 1, &of_sum, &shift, dx + at, k.stride, length);
      });
      write(pointers, node_.outputs[1])[c] = static_cast<float>(dgamma);
      write(pointers, node_.outputs[2])[c] = static_cast<float>(dbeta);
    }
  }

 private:
  static constexpr std::size_t kTile = 2048;

  // f(offset of the first element, elements) for each tile of a channel's runs.
  template <class F>
  void each_tile(std::size_t channel, const F& f) const {
    const auto stride = static_cast<std::size_t>(channels_.stride);
    channels_.each_run(channel, [&](std::size_t at) {
      for (std::size_t begin = 0; begin < channels_.length; begin += kTile) {
        f(at + begin * stride, std::min(kTile, channels_.length - begin));
      }
    });
  }

  Channels channels_;
  ir::Node node_;
  std::size_t workspace_;  // its place among the pointers
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (node.op == ir::Op::batch_norm_gradient && ir::has_ending(node)) {
    return Support::no("vDSP: a gradient of batch normalization with a prologue");
  }
  // As on cpu: what two values or one leave of the gradient is less than float32's rounding.
  if (node.op == ir::Op::batch_norm_gradient) {
    const Shape& shape = graph.type(node.inputs[1]).shape;
    if (element_count(shape) <= 2 * shape[1]) {
      return Support::no("vDSP: a gradient of batch normalization where two values cancel");
    }
  }
  if (std::get<ir::BatchNormAttributes>(node.attributes).coefficients != ir::Coefficients::inside) {
    return Support::no("vDSP: coefficients of batch normalization");
  }
  return plain_float32(graph, node);
}

template <class K>
std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<K>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& batch_norm_entries() {
  static const std::vector<KernelEntry> entries = {
      {ir::Op::batch_norm, supports, make<Forward>, nullptr, takes_epilogue},
      {ir::Op::batch_norm_gradient, supports, make<Gradient>}};
  return entries;
}

}  // namespace traingraph::bnns
