// What kernels of shaders are given beside buffers: the same text for the library and for Metal's
// compiler. Numbers are of 32 bits.
#pragma once

namespace shader {

// Enumerators, because Metal has no constants at namespace scope but those in its constant memory.
enum Limits {
  kAxes = 8,
  kListInputs = 16,
  kListResults = 8,
  kListRegisters = 64,
  kDimensions = 12,  // of a layout
};

// A walk over a tensor: extents, outermost first, and what one step along each axis means for an
// operand. Strides are 0 along broadcast axes.
struct Strides {
  int step[kAxes];
};
struct Extents {
  int rank;
  int extent[kAxes];
};

// One step of a scalar list: registers, -1 where there is none.
struct Step {
  int function, x, y, to;
  float p, q;
};
struct List {
  int inputs, steps, results;
  int result_registers[kListResults];
  Extents extents;
  Strides inputs_strides[kListInputs];
};

struct Reduce {
  int kind;  // ir::ReduceKind
  Extents kept, reduced;
  Strides kept_strides, reduced_strides;
  int count;  // elements that are reduced to one
};

// y (…, rows, columns) = alpha a b; an element of a or b by its row, column and inner index.
struct Matmul {
  int rows, columns, inner;
  int a_row, a_inner, b_inner, b_column;
  float alpha;
  Extents matrices;
  Strides a_matrix, b_matrix;
};

// A window over the last two axes of x (planes, h, w); y is (planes, p, q).
struct Window {
  int size[2], stride[2], dilation[2], padding[2];
};
// x (n, c, h, w), weights (o, c / groups, size), y (n, o, p, q)
struct Convolution {
  int n, c, h, w, o, p, q, groups;
  Window window;
};
struct Pooling {
  int kind;  // ir::PoolingKind
  int h, w, p, q;
  int counts_padding, index_bytes;  // of the window index of max pooling; 0: there is none
  Window window;
};

// Tensors (n, c, s), s what follows the channels.
struct Channels {
  int n, c, s;
  float epsilon;
};

// What kernels of Metal Performance Shaders left per channel, and their epsilon.
struct Statistics {
  float epsilon;
};

// Rows along one axis: element k of row (o, i) is at (o extent + k) inner + i.
struct Rows {
  int extent, inner, logarithm;
};

// Which 16-bit type: 0 float16, 1 bfloat16; 2: bits that are only moved.
struct Half {
  int kind;
};

// Labels: 0 a distribution of float32, else the bytes of an integer class.
struct CrossEntropy {
  int classes, inner, label_bytes;
  float scale, share;
};

// Runs of `run` elements: from the start of each source run to `at` in each target run.
struct Runs {
  int run, source_run, target_run, source_at, target_at;
};

// The same with zeros before the run, and after it up to `row` elements.
struct Padded {
  int run, before, row, target_run, target_at;
};

// Everything by strides: target element, counted along extents.
struct Moved {
  Extents extents;
  Strides source, target;
};

// What `indices` pick of a tensor along `axis`; as strides of the tensor and of what is picked.
struct Picked {
  int axis, slices, index_bytes, adds, onto_zeros;
  Extents tensor, picked;
};

// without: 0, or which source is zero.
struct Select {
  Extents extents;
  Strides condition, x, y;
  int without;
};

struct Dropout {
  unsigned int seed_low, seed_high, threshold;
  float scale;
  int per_row;  // elements of a row of the batch
};

// A place in memory along one dimension: which axis, what one step of it is in coordinates.
struct Dimension {
  int axis, divisor, extent, stride;
};
struct Reorder {
  Extents extents;
  int from_count, to_count;
  Dimension from[kDimensions], to[kDimensions];
};

}  // namespace shader
