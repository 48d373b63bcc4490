// Tiles and weights to their transforms and back, and the products between them.
#include "backends/cpu/isa/products/winograd.h"

#include <utility>

#include "backends/cpu/isa/half_vector.h"
#include "backends/cpu/isa/products/packing.h"
#include "backends/cpu/isa/products/product_vectors.h"
#include "backends/cpu/isa/products/winograd_transforms.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

constexpr int kSide = kWinogradSide, kSource = kSide + 2;

// What is in the image of a tile of side kExtent: all of it, mostly.
template <int kExtent>
struct Place {
  std::int64_t image, top, left;
  bool inside;
  const WinogradImages& of;

  Place(const WinogradImages& images, std::int64_t tile) : of(images) {
    const std::int64_t row = tile / images.tile_columns;
    image = row / images.tile_rows;
    top = images.top + row % images.tile_rows * kSide;
    left = images.left + tile % images.tile_columns * kSide;
    inside =
        top >= 0 && left >= 0 && top + kExtent <= images.height && left + kExtent <= images.width;
  }
  bool has(int i, int j) const {
    return top + i >= 0 && top + i < of.height && left + j >= 0 && left + j < of.width;
  }
  std::int64_t begin() const { return image * of.apart + (top * of.width + left) * kLanes; }
  std::int64_t step(int i, int j) const { return (i * of.width + j) * kLanes; }
};

// Elements outside of the image are zero.
template <class T, int kIn, void (*transform)(const Vector (&)[kIn], Vector (&)[kSource])>
void transform_tiles(const WinogradImages& images, const void* x, std::int64_t first,
                     std::int64_t count, float* to, std::int64_t apart) {
  for (std::int64_t t = 0; t < count; ++t, to += kLanes) {
    const Place<kIn> place(images, first + t);
    const T* const from = static_cast<const T*>(x) + place.begin();
    const auto put = [&](int i, int j, Vector v) { store(to + (i * kSource + j) * apart, v); };
    if (place.inside) {
      transform_tile<kIn, kSource>(
          transform, [&](int i, int j) { return load(from + place.step(i, j)); }, put);
    } else {
      transform_tile<kIn, kSource>(
          transform,
          [&](int i, int j) { return place.has(i, j) ? load(from + place.step(i, j)) : Vector{}; },
          put);
    }
  }
}

template <class T>
void result(const WinogradImages& images, const float* from, std::int64_t apart, std::int64_t first,
            std::int64_t count, const float* bias, bool relu, void* y) {
  const Vector shift = bias == nullptr ? Vector{} : load(bias);
  for (std::int64_t t = 0; t < count; ++t, from += kLanes) {
    const Place<kSide> place(images, first + t);
    T* const to = static_cast<T*>(y) + place.begin();
    transform_tile<kSource, kSide>(
        transform_back, [&](int i, int j) { return load(from + (i * kSource + j) * apart); },
        [&](int i, int j, Vector v) {
          if (place.inside || place.has(i, j)) {
            store(to + place.step(i, j), finished(v, 1, shift, relu));
          }
        });
  }
}

// --- weights -----------------------------------------------------------------------------------

constexpr std::int64_t kBlock = kLanes * kLanes;  // elements of one tap

template <class T>
void transform_block(const T* block, float* to, std::int64_t row, std::int64_t apart) {
  for (int channel = 0; channel < kLanes; ++channel, block += kLanes, to += row) {
    transform_tile<3, kSource>(
        transform_weights, [&](int i, int j) { return load(block + (i * 3 + j) * kBlock); },
        [&](int i, int j, Vector v) { store(to + (i * kSource + j) * apart, v); });
  }
}

template <class T>
void weights(const void* from, bool exchanged, float* to, std::int64_t row, std::int64_t apart) {
  const T* const block = static_cast<const T*>(from);
  if (!exchanged) return transform_block(block, to, row, apart);
  alignas(64) float turned[9 * kBlock];
  for (int tap = 0; tap < 9; ++tap) {
    Vector rows[kLanes];
    for (int r = 0; r < kLanes; ++r) rows[r] = load(block + tap * kBlock + r * kLanes);
    transpose(rows);
    for (int r = 0; r < kLanes; ++r) store(turned + (8 - tap) * kBlock + r * kLanes, rows[r]);
  }
  transform_block(turned, to, row, apart);
}

void weights_gradient(const float* from, std::int64_t row, std::int64_t apart, bool adds,
                      float* block) {
  for (int channel = 0; channel < kLanes; ++channel, block += kLanes, from += row) {
    transform_tile<kSource, 3>(
        transform_weights_back,
        [&](int i, int j) { return load(from + (i * kSource + j) * apart); },
        [&](int i, int j, Vector v) {
          float* const to = block + (i * 3 + j) * kBlock;
          store(to, adds ? load(to) + v : v);
        });
  }
}

// --- products ----------------------------------------------------------------------------------

// What the products round is most of the method's error, and grows with the length of a chain of
// additions. So chains end after so many channels and are then added.
constexpr std::int64_t kChain = 32;

// kRows tiles times one panel of kVectors vectors.
template <int kVectors, int kRows>
void tile_rows(const WinogradProduct& p, const float* a, const float* b, float* c,
               std::int64_t c_block) {
  for (std::int64_t channel = 0; channel < p.channels;) {
    const std::int64_t first = channel;
    const std::int64_t end = first + kChain < p.channels ? first + kChain : p.channels;
    Vector sums[kRows][kVectors]{};
    for (; channel < end; channel += kLanes, a += p.source_block) {
      for (int k = 0; k < kLanes; ++k, b += kVectors * kLanes) {
        Vector row[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) row[v] = load(b + v * kLanes);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const float factor = a[r * kLanes + k];
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) sums[r][v] += factor * row[v];
        }
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        float* const to = c + v * c_block + r * kLanes;
        store(to, first == 0 ? sums[r][v] : load(to) + sums[r][v]);
      }
    }
  }
}

using TileRows = void (*)(const WinogradProduct&, const float*, const float*, float*, std::int64_t);

template <int kVectors, int... kRows>
constexpr TileRows tile_rows_for(std::int64_t rows, std::integer_sequence<int, kRows...>) {
  constexpr TileRows all[] = {tile_rows<kVectors, kRows + 1>...};
  return all[rows - 1];
}

template <int kVectors>
void multiply_panel(const WinogradProduct& p, const float* panel, float* result,
                    std::int64_t result_block) {
  const RowGroups groups(p.tiles);
  for (std::int64_t group = 0; group < groups.count; ++group) {
    const std::int64_t begin = groups.begin(group) * kLanes;
    tile_rows_for<kVectors>(groups.size(group), std::make_integer_sequence<int, kGroupRows>{})(
        p, p.source + begin, panel, result + begin, result_block);
  }
}

// kRows channels times one panel, summed over tiles in registers and then added.
template <int kVectors, int kRows>
void channel_rows(const WinogradProduct& p, const float* a, const float* b, std::int64_t b_block,
                  bool adds, float* c) {
  Vector sums[kRows][kVectors]{};
  for (std::int64_t t = 0; t < p.tiles; ++t, a += kLanes, b += kLanes) {
    Vector row[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) row[v] = load(b + v * b_block);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] += a[r] * row[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v, c += kLanes) {
      store(c, adds ? load(c) + sums[r][v] : sums[r][v]);
    }
  }
}

template <int kVectors>
void add_up_panel(const WinogradProduct& p, const float* gradient, std::int64_t gradient_block,
                  bool adds, float* panel) {
  constexpr int kRows = kLanes == 16 ? 8 : 4;  // a block in two turns
  for (std::int64_t channel = 0; channel < p.channels; channel += kRows) {
    const float* const a = p.source + channel / kLanes * p.source_block + channel % kLanes;
    channel_rows<kVectors, kRows>(p, a, gradient, gradient_block, adds,
                                  panel + channel * kVectors * kLanes);
  }
}

// compute(number of vectors, column) for each panel.
template <class Whole, class Rest>
void each_panel(std::int64_t columns, const Whole& whole, const Rest& rest) {
  std::int64_t column = 0;
  for (; column + kPanelColumns <= columns; column += kPanelColumns) whole(column);
  for (; column < columns; column += kLanes) rest(column);
}

void multiply(const WinogradProduct& p, const float* weights, float* result,
              std::int64_t result_block) {
  const auto panel = [&](auto vectors) {
    return [&](std::int64_t column) {
      multiply_panel<decltype(vectors)::value>(
          p, weights + column * p.channels, result + column / kLanes * result_block, result_block);
    };
  };
  each_panel(p.columns, panel(std::integral_constant<int, kPanelVectors>{}),
             panel(std::integral_constant<int, 1>{}));
}

void add_up(const WinogradProduct& p, const float* gradient, std::int64_t gradient_block, bool adds,
            float* weights) {
  const auto panel = [&](auto vectors) {
    return [&](std::int64_t column) {
      add_up_panel<decltype(vectors)::value>(p, gradient + column / kLanes * gradient_block,
                                             gradient_block, adds, weights + column * p.channels);
    };
  };
  each_panel(p.columns, panel(std::integral_constant<int, kPanelVectors>{}),
             panel(std::integral_constant<int, 1>{}));
}

template <class T>
constexpr WinogradTransforms kTransforms{transform_tiles<T, kSource, transform_source>, result<T>,
                                         transform_tiles<T, kSide, transform_gradient>, weights<T>};

}  // namespace

extern const WinogradLoops winograd_loops;
const WinogradLoops winograd_loops{
    kLanes,
    kLanes >= 8,
    kLanes == 16 ? 28 : 24,
    {kTransforms<float>, kTransforms<Float16>, kTransforms<BFloat16>},
    weights_gradient,
    kPanelColumns,
    multiply,
    add_up};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
