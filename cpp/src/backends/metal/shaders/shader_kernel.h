// What kernels of hand-written shaders share.
#pragma once

#include <type_traits>
#include <vector>

#include "backends/metal/device/kernel.h"
#include "backends/metal/shaders/arguments.h"

namespace traingraph::metal {

// One dispatch of a shader: its operands in the shader's order, and its arguments.
template <class Arguments>
class ShaderKernel final : public Kernel {
 public:
  ShaderKernel(const Shader& shader, std::vector<ir::ValueId> operands, const Arguments& arguments,
               std::int64_t threads)
      : shader_(shader),
        operands_(std::move(operands)),
        addresses_(operands_.size()),
        arguments_(arguments),
        threads_(threads) {}

  void encode(Pointers pointers, Encoding& encoding) override {
    for (std::size_t i = 0; i < operands_.size(); ++i) addresses_[i] = pointers[operands_[i]];
    encoding.run(shader_, addresses_.data(), addresses_.size(), &arguments_,
                 std::is_empty_v<Arguments> ? 0 : sizeof(Arguments), threads_);
  }

 private:
  const Shader& shader_;
  std::vector<ir::ValueId> operands_;
  std::vector<const std::byte*> addresses_;
  Arguments arguments_;
  std::int64_t threads_;
};

template <class Arguments>
std::unique_ptr<Kernel> dispatch(Device& device, const char* shader,
                                 std::vector<ir::ValueId> operands, const Arguments& arguments,
                                 std::int64_t threads) {
  return std::make_unique<ShaderKernel<Arguments>>(device.shader(shader), std::move(operands),
                                                   arguments, threads);
}

// Several kernels, one after another.
class Sequence final : public Kernel {
 public:
  void add(std::unique_ptr<Kernel> kernel) { kernels_.push_back(std::move(kernel)); }
  void encode(Pointers pointers, Encoding& encoding) override {
    for (const auto& kernel : kernels_) kernel->encode(pointers, encoding);
  }

 private:
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

// An extent or number of elements as shaders count: `supports` has seen that it fits.
inline int narrow(std::int64_t number) { return static_cast<int>(number); }

// Floating-point operands of float32, at most eight axes, and fewer than 2^31 elements.
// `supports_float` also refuses what a kernel has to say that it takes: an epilogue, a prologue or
// coefficients of batch norm.
Support supports_float_operands(const ir::Graph& graph, const ir::Node& node);
Support supports_float(const ir::Graph& graph, const ir::Node& node);

shader::Extents extents_of(const Shape& shape);
// Of a dense tensor broadcast to another shape: 0 along broadcast axes.
shader::Strides broadcast_strides(const Shape& source, const Shape& shape);
shader::Window window_of(const ir::Window& window);
// (n, c, h, w) of x, y's and the groups, from either op of a convolution.
shader::Convolution convolution_of(const ir::ConvolutionAttributes& a, const Shape& x,
                                   const Shape& y);

// So many numbers of float32 from one place to another; the shader is "copy_runs".
inline void copy_row(Encoding& encoding, const Shader& copy_runs, const std::byte* from,
                     const std::byte* to, std::int64_t count) {
  const shader::Runs all{narrow(count), 0, 0, 0, 0};
  const std::byte* buffers[] = {from, to};
  encoding.run(copy_runs, buffers, 2, &all, sizeof all, count);
}

// The lines of the table, one function per family.
std::vector<KernelEntry> elementwise_entries();
std::vector<KernelEntry> reduce_entries();
std::vector<KernelEntry> matmul_entries();
std::vector<KernelEntry> convolution_entries();
std::vector<KernelEntry> batch_norm_entries();
std::vector<KernelEntry> pooling_entries();
std::vector<KernelEntry> softmax_entries();
std::vector<KernelEntry> cross_entropy_entries();
std::vector<KernelEntry> data_movement_entries();
std::vector<KernelEntry> indexing_entries();
std::vector<KernelEntry> dropout_entries();
std::vector<KernelEntry> reorder_entries();
std::vector<KernelEntry> widened_entries();

}  // namespace traingraph::metal
