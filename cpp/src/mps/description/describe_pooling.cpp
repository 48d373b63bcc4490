// Pooling and its gradients.
#include <iterator>
#include <string>

#include <traingraph/mps/pooling.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

struct PoolingKind {
  CNNPoolingType type;
  const char* name;
  const char* summary;
  const char* gradient;  // its summary
};
constexpr PoolingKind kPoolingClasses[] = {
    {CNNPoolingType::kMax, "MPSCNNPoolingMax",
     "The largest pixel; edge mode CLAMP at the beginning.",
     "dy goes to the first largest pixel of its window."},
    {CNNPoolingType::kAverage, "MPSCNNPoolingAverage",
     "The mean: over the whole window with edge mode ZERO, over the image's part with CLAMP.",
     "dy over the count, to each pixel of its window."},
    {CNNPoolingType::kL2Norm, "MPSCNNPoolingL2Norm", "The root of the sum of squares.",
     "dy x / y, and 0 where y is 0."},
    {CNNPoolingType::kDilatedMax, "MPSCNNDilatedPoolingMax",
     "The largest pixel of a window with gaps.",
     "dy goes to the first largest pixel of its window."},
};

// In the order that archives have.
struct PoolingSize {
  const char* name;
  std::int64_t KernelWindow::* member;
  const char* text;
};
constexpr PoolingSize kPoolingSizes[] = {
    {"kernel_width", &KernelWindow::kernel_width, "The window's columns."},
    {"kernel_height", &KernelWindow::kernel_height, "The window's rows."},
    {"stride_in_pixels_x", &KernelWindow::stride_x, "Columns from one window to the next."},
    {"stride_in_pixels_y", &KernelWindow::stride_y, "Rows from one window to the next."},
    {"dilation_rate_x", &KernelWindow::dilation_x, "Columns from one of a window to the next."},
    {"dilation_rate_y", &KernelWindow::dilation_y, "Rows from one of a window to the next."},
};

constexpr std::size_t kFirstRate = 4;  // what dilated kernels alone have

// Programs give the rates before the strides.
std::vector<Argument> window_arguments(bool is_dilated, bool is_gradient) {
  std::vector<Argument> arguments{device_argument()};
  for (const std::size_t k : {0, 1, 4, 5, 2, 3}) {
    const PoolingSize& size = kPoolingSizes[k];
    const bool is_rate = k >= kFirstRate;
    if (is_rate && !is_dilated) continue;
    // Apple marks the form without rates as unavailable in the gradient alone.
    const bool has_default = k >= 2 && !(is_rate && is_gradient);
    arguments.push_back(has_default ? argument(size.name, std::int64_t{1}, size.text, &kOfWindow)
                                    : argument<std::int64_t>(size.name, size.text, &kOfWindow));
  }
  return arguments;
}

// By arguments whose names begin with the prefix.
template <class K>
auto making(CNNPoolingType type, const std::string& prefix) {
  return [type, prefix](const Given& given) {
    KernelWindow window;
    for (const PoolingSize& size : kPoolingSizes) {
      const std::any* const number = given.find(prefix + size.name);
      if (number != nullptr) window.*size.member = std::any_cast<std::int64_t>(*number);
    }
    return std::make_shared<K>(given.get<Device>("device"), type, window);
  };
}

template <class D>
void describe_source_size(D& described) {
  using K = CNNPoolingGradient;
  described.settable(
      "source_size",
      [](const K& kernel) {
        const Region& size = kernel.source_size();
        return Extent{size.width, size.height, size.depth};
      },
      [](K& kernel, const Extent& size) {
        kernel.set_source_size({{}, size.width, size.height, size.depth});
      },
      "(width, height) of the incoming gradient from primary_offset on that counts, as far as it "
      "is there; everything at the beginning. Errors: nothing, or a part of the images.");
}

template <class K>
void describe_kind(Classes& classes, const PoolingKind& kind) {
  constexpr bool kIsGradient = std::is_same_v<K, CNNPoolingGradient>;
  const bool is_dilated = kind.type == CNNPoolingType::kDilatedMax;
  auto described = describe_kernel<K, K>(std::string(kind.name) + (kIsGradient ? "Gradient" : ""),
                                         kIsGradient ? kind.gradient : kind.summary);
  // Archives have what the properties of the base class are called.
  const std::string prefix = kIsGradient ? "secondary_" : "";
  for (std::size_t k = 0; k < (is_dilated ? std::size(kPoolingSizes) : kFirstRate); ++k) {
    const PoolingSize& size = kPoolingSizes[k];
    described.kept_argument(
        prefix + size.name,
        [member = size.member](const K& kernel) { return kernel.window().*member; }, size.text);
  }
  described.coded_by(making<K>(kind.type, prefix))
      .form(window_arguments(is_dilated, kIsGradient), making<K>(kind.type, ""))
      .text(kIsGradient ? "The secondary offset is the forward kernel's offset."
                        : "Shapes: (N, C, H, W) to (N, C, ceil(H / stride), ceil(W / stride)) "
                          "unless the padding policy says otherwise. The window at position i "
                          "begins at offset - floor(extent / 2) + stride i.");
  if (kind.type == CNNPoolingType::kAverage) {
    constexpr const char* kZeros =
        "The zeros on either side of the image that an average counts with edge mode CLAMP.";
    described
        .settable(
            "zero_pad_size_x", [](const K& kernel) { return kernel.window().zero_pad_x; },
            &K::set_zero_pad_size_x, kZeros)
        .in(kLimit)
        .settable(
            "zero_pad_size_y", [](const K& kernel) { return kernel.window().zero_pad_y; },
            &K::set_zero_pad_size_y, kZeros)
        .in(kLimit);
    // Archives have it last.
    if constexpr (kIsGradient) describe_source_size(described);
  }
  classes.push_back(described);
}

}  // namespace

void describe_pooling(Classes& classes) {
  classes.push_back(Describing<CNNPooling, Kernel, CNNKernel>("MPSCNNPooling",
                                                              "Joins the pixels of each window."));
  Describing<CNNPoolingGradient, Kernel, CNNGradientKernel> gradient(
      "MPSCNNPoolingGradient", "Spreads each gradient over its window.");
  describe_source_size(gradient);
  classes.push_back(gradient);
  for (const PoolingKind& kind : kPoolingClasses) {
    describe_kind<CNNPooling>(classes, kind);
    describe_kind<CNNPoolingGradient>(classes, kind);
  }
}

}  // namespace traingraph::mps
