// Over 400 lines: the op and its gradient share their passes, sums and operands.
// Batch normalisation and its gradient over plain, channels-last and blocked layouts. Both read a
// group of channels, sum over it, and read it again while it is still in a cache.
//
// Sums of a chunk are taken about a number near its mean, so that a mean far from 0 costs no digits
// of the variance; chunks are then joined in float64, always in the same order.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "backends/cpu/channel_groups.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/half.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/parallel.h"
#include "ir/epilogue.h"

namespace traingraph::cpu {
namespace {

using Forward = ir::BatchNormOperands;
using Backward = ir::BatchNormGradientOperands;

const ir::BatchNormAttributes& attributes_of(const ir::Node& node) {
  return std::get<ir::BatchNormAttributes>(node.attributes);
}

// What says how many rows count; kNone: all.
ir::ValueId rows_of(const ir::Node& node) {
  if (!attributes_of(node).counts_rows) return ir::kNone;
  return node.inputs[node.op == ir::Op::batch_norm ? Forward::rows : Backward::rows];
}

// The gradient's operands that its prologue reads.
struct Prologue {
  ir::ValueId dy;
  ir::ValueId added = ir::kNone;
  ir::ValueId result = ir::kNone;
};

Prologue prologue_of(const ir::Node& node) {
  const ir::GradientPrologue found = *ir::gradient_prologue_of(attributes_of(node).epilogue);
  const auto operand = [&](int k) {
    return k < 0 ? ir::kNone : node.inputs[Backward::prologue(k)];
  };
  return {operand(found.dy), operand(found.added), operand(found.result)};
}

bool takes(const ir::Node& node, const ir::ScalarList& list) {
  if (node.op == ir::Op::batch_norm) return ir::add_relu_epilogue_of(list).has_value();
  const auto prologue = ir::gradient_prologue_of(list);
  // A sum is written; what is not a sum has one reader.
  return prologue && (prologue->added >= 0) == attributes_of(node).gives_prologue;
}

// Of two values per channel the gradient cancels but for a share of epsilon / variance, less than
// the rounding of mean and deviation to float32: it is left to float64.
bool cancels(const ir::Graph& graph, const ir::Node& node) {
  const Shape& shape = graph.type(node.inputs[Backward::x]).shape;
  return element_count(shape) == 2 * shape[1];
}

ir::ValueId source_of(const ir::Node& node) {
  return node.inputs[node.op == ir::Op::batch_norm ? Forward::x : Backward::x];
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const ir::Type& x = graph.type(source_of(node));
  if (loop_of(x.data_type) < 0) {
    return Support::no("hand-written batch norm loops take float32 and 16 bits");
  }
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      const ir::Type& type = graph.type(id);
      const DataType taken = type.shape == x.shape ? x.data_type : DataType::kFloat32;
      if (type.data_type != taken && id != rows_of(node)) {
        return Support::no("hand-written batch norm loops take x's type, and float32 per channel");
      }
    }
  }
  const bool forward = node.op == ir::Op::batch_norm;
  if (!forward && cancels(graph, node)) {
    return Support::no("hand-written batch norm loops are not exact where two values cancel");
  }
  const ir::ScalarList& list = attributes_of(node).epilogue;
  if (list.empty()) return {};
  if (!takes(node, list)) {
    return Support::no("hand-written batch norm loops do not take this list");
  }
  // All operands of the list have the tensor's shape.
  const Shape& shape = graph.type(node.outputs[0]).shape;
  for (int k = 1; k < list.inputs; ++k) {
    const std::size_t i = forward ? Forward::epilogue(k) : Backward::prologue(k);
    if (graph.type(node.inputs[i]).shape != shape) {
      return Support::no("hand-written batch norm loops do not broadcast operands of a list");
    }
  }
  return {};
}

bool fuses(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
           const std::vector<ir::ValueId>& extra) {
  if (list.empty() || !attributes_of(node).epilogue.empty() || !takes(node, list)) return false;
  if (node.op == ir::Op::batch_norm_gradient && cancels(graph, node)) return false;
  // Operands of a list would stand where the number of rows does.
  if (attributes_of(node).counts_rows && list.inputs > 1) return false;
  const ir::Type& type = graph.type(node.outputs[0]);
  for (ir::ValueId id : extra) {
    if (graph.type(id).shape != type.shape || graph.type(id).data_type != type.data_type) {
      return false;
    }
  }
  return true;
}

// All tensors of x's shape take x's layout.
LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) {
  const ir::Value& x = graph.value(source_of(node));
  const Shape& shape = x.type.shape;
  const ir::Layout layout = ChannelGroups::takes(shape, x.layout) ? x.layout : ir::Layout{};
  LayoutChoice choice = plain_layouts(node);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (graph.type(node.inputs[i]).shape == shape) choice.inputs[i] = layout;
  }
  choice.outputs[0] = layout;
  if (node.op == ir::Op::batch_norm_gradient && node.outputs.size() > 3) choice.outputs[3] = layout;
  return choice;
}

const float* floats(Pointers pointers, ir::ValueId id) {
  return id == ir::kNone ? nullptr : reinterpret_cast<const float*>(pointers[id]);
}
float* results(Pointers pointers, ir::ValueId id) { return reinterpret_cast<float*>(pointers[id]); }

// Two float64 sums per channel and chunk, then what a channel's second pass needs.
class ChannelKernel : public Kernel {
 public:
  ChannelKernel(const ir::Graph& graph, const ir::Node& node, ir::ValueId x, int passes)
      : groups_(graph.type(x).shape, graph.value(x).layout),
        type_(graph.type(x).data_type),
        size_(static_cast<std::int64_t>(element_bytes(type_))),
        loops_((groups_.in_runs() ? loops().batch_norm->run
                                  : loops().batch_norm->lanes)[loop_of(type_)]),
        node_(node),
        workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())),
        counted_(rows_of(node)),
        rows_of_sample_(groups_.rows() / graph.type(x).shape[0]),
        fetches_(groups_.in_runs() && size_ * graph.type(x).elements() >= kFetchedBytes),
        streams_(size_ * graph.type(x).elements() >= kStreamedBytes) {
    threads_ = threads_for(
        nanoseconds_to_move(static_cast<double>(size_ * passes * graph.type(x).elements())));
  }

  std::size_t workspace_bytes() const final {
    const auto per_chunk = static_cast<std::size_t>(groups_.channels() * groups_.chunks());
    return 2 * per_chunk * sizeof(double) +
           kCoefficients * static_cast<std::size_t>(groups_.channels()) * sizeof(float);
  }

 protected:
  static constexpr std::size_t kCoefficients = 3;
  // 16 MiB: more than the caches will still hold when somebody reads the result.
  static constexpr std::int64_t kStreamedBytes = std::int64_t{1} << 24;
  // Less lies near already. Blocks of channels are long enough for the machine to read ahead.
  static constexpr std::int64_t kFetchedBytes = std::int64_t{1} << 22;

  // The group's rows that count: the first ones.
  std::int64_t counted(Pointers pointers) const {
    if (counted_ == ir::kNone) return groups_.rows();
    return rows_of_sample_ * *reinterpret_cast<const std::int64_t*>(pointers[counted_]);
  }

  // sum(group, chunk); finish(group); apply(group, chunk). A thread takes whole groups where there
  // are enough of them, for a group's second reading then finds it in the thread's cache.
  template <class Sum, class Finish, class Apply>
  void run_passes(const Sum& sum, const Finish& finish, const Apply& apply) const {
    const std::int64_t groups = groups_.groups(), chunks = groups_.chunks();
    if (threads_ == 1 || groups >= std::int64_t{4} * threads_ || chunks == 1) {
      parallel_for(groups, threads_, [&](std::int64_t group) {
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum(group, chunk);
        finish(group);
        for (std::int64_t chunk = chunks; chunk-- > 0;) apply(group, chunk);
      });
      return;
    }
    // In the order of memory.
    parallel_for(groups * chunks, threads_,
                 [&](std::int64_t part) { sum(part % groups, part / groups); });
    for (std::int64_t group = 0; group < groups; ++group) finish(group);
    parallel_for(groups * chunks, threads_,
                 [&](std::int64_t part) { apply(part % groups, part / groups); });
  }

  // Where the float lanes of a loop could not hold a chunk's sums: terms(element, channel of the
  // group) gives both terms in float64.
  template <class Terms>
  void mend_sums(std::int64_t group, std::int64_t chunk, std::int64_t end, double* first,
                 const Terms& terms) const {
    const std::int64_t lanes = groups_.lanes(group);
    const auto fits = [](double sum) { return std::isfinite(sum); };
    if (std::all_of(first, first + 2 * lanes, fits)) return;
    std::fill_n(first, 2 * lanes, 0.0);
    const std::int64_t begin = groups_.chunk_begin(chunk);
    groups_.each_element_of(group, begin, end, [&](std::int64_t at, std::int64_t j) {
      const auto [one, two] = terms(at, j);
      first[j] += one;
      first[lanes + j] += two;
    });
  }

  // Of one chunk: `lanes` first sums, then `lanes` second sums.
  double* sums(Pointers pointers, std::int64_t group, std::int64_t chunk) const {
    double* all = reinterpret_cast<double*>(pointers[workspace_]);
    return all +
           2 * (groups_.chunks() * groups_.first_channel(group) + chunk * groups_.lanes(group));
  }
  // Coefficient k of each channel.
  float* coefficients(Pointers pointers, std::size_t k, std::int64_t group) const {
    double* all = reinterpret_cast<double*>(pointers[workspace_]);
    float* behind = reinterpret_cast<float*>(all + 2 * groups_.channels() * groups_.chunks());
    return behind + static_cast<std::int64_t>(k) * groups_.channels() +
           groups_.first_channel(group);
  }

  ChannelRows fetching(ChannelRows where) const {
    if (!fetches_) where.next = 0;
    return where;
  }
  // From an element of a tensor on; null stays null.
  const std::byte* from(const std::byte* base, std::int64_t at) const {
    return base == nullptr ? nullptr : base + size_ * at;
  }
  // One element.
  double element(const std::byte* base, std::int64_t at) const {
    float wide = 0;
    to_floats(type_, from(base, at), &wide, 1);
    return static_cast<double>(wide);
  }

  ChannelGroups groups_;
  DataType type_;  // of the tensors of x's shape
  std::int64_t size_;
  const BatchNormForm& loops_;
  ir::Node node_;
  std::size_t workspace_;
  ir::ValueId counted_;
  std::int64_t rows_of_sample_;
  int threads_ = 1;
  bool fetches_;
  bool streams_;  // unless the result lies over a source
};

class BatchNorm final : public ChannelKernel {
 public:
  BatchNorm(const ir::Graph& graph, const ir::Node& node)
      : ChannelKernel(graph, node, node.inputs[Forward::x], 3),
        epsilon_(attributes_of(node).epsilon),
        epilogue_(*ir::add_relu_epilogue_of(attributes_of(node).epilogue)) {
    if (attributes_of(node).coefficients == ir::Coefficients::given) given_ = node.inputs.back();
    if (attributes_of(node).coefficients == ir::Coefficients::result) kept_ = node.outputs.back();
  }

  void run(Pointers pointers) override {
    const std::byte* x = pointers[node_.inputs[Forward::x]];
    const std::byte* z = epilogue_.adds ? pointers[node_.inputs[Forward::epilogue(1)]] : nullptr;
    std::byte* y = pointers[node_.outputs[0]];
    const auto apply = [&](std::int64_t group, std::int64_t chunk) {
      const float* scale = coefficients(pointers, 0, group);
      const float* shift = coefficients(pointers, 1, group);
      const float* mean = coefficients(pointers, 2, group);
      groups_.each_stretch(group, chunk, [&](std::int64_t at, ChannelRows where) {
        where.streams = streams_ && x != y && z != y;
        where.next = fetches_ ? groups_.to_next(group) : 0;
        loops_.normalize(where, from(x, at), from(z, at), y + size_ * at, mean, scale, shift,
                         epilogue_.relu);
      });
    };
    if (given_ != ir::kNone) {
      run_passes([](std::int64_t, std::int64_t) {},
                 [&](std::int64_t group) { take(pointers, group); }, apply);
    } else {
      run_passes([&](std::int64_t group, std::int64_t chunk) { sum(pointers, x, group, chunk); },
                 [&](std::int64_t group) { finish(pointers, group); }, apply);
    }
  }

 private:
  // The chunk's mean and Σ (x - mean)² per channel.
  void sum(Pointers pointers, const std::byte* x, std::int64_t group, std::int64_t chunk) const {
    const std::int64_t lanes = groups_.lanes(group);
    const std::int64_t begin = groups_.chunk_begin(chunk);
    const std::int64_t end = groups_.chunk_end(chunk, counted(pointers));
    if (begin == end) return;
    double* means = sums(pointers, group, chunk);
    double* squares = means + lanes;
    float shift[64];
    bool first = true;
    groups_.each_stretch_of(group, begin, end, [&](std::int64_t at, ChannelRows where) {
      if (first) {
        // Near enough to the mean: the middle one of three elements, of which one may be far off.
        for (std::int64_t j = 0; j < lanes; ++j) {
          const auto row = [&](std::int64_t r) {
            return static_cast<float>(element(x, at + r * where.stride + j));
          };
          const auto [low, high] = std::minmax({row(0), row(where.rows - 1)});
          shift[j] = std::clamp(row(where.rows / 2), low, high);
          means[j] = squares[j] = 0;
        }
        first = false;
      }
      loops_.moments(fetching(where), from(x, at), shift, means, squares);
    });
    mend_sums(group, chunk, end, means, [&](std::int64_t at, std::int64_t j) {
      const double d = element(x, at) - static_cast<double>(shift[j]);
      return std::pair(d, d * d);
    });
    const auto count = static_cast<double>(end - begin);
    for (std::int64_t j = 0; j < lanes; ++j) {
      const double offset = means[j] / count;
      squares[j] -= offset * means[j];
      means[j] = static_cast<double>(shift[j]) + offset;
    }
  }

  // The second pass's numbers from the given (C, 4), where `finish` of another run has kept them.
  void take(Pointers pointers, std::int64_t group) const {
    const float* given = floats(pointers, given_) + 4 * groups_.first_channel(group);
    for (std::int64_t j = 0; j < groups_.lanes(group); ++j) {
      for (std::size_t k = 0; k < kCoefficients; ++k) {
        coefficients(pointers, k, group)[j] = given[4 * j + static_cast<std::int64_t>(k)];
      }
    }
  }

  // Joins the chunks; writes mean, inverse deviation, variance, and the second pass's scale, shift
  // (beta, less what rounding the mean to float32 would add) and mean.
  void finish(Pointers pointers, std::int64_t group) const {
    const std::int64_t lanes = groups_.lanes(group), first = groups_.first_channel(group);
    float* scale = coefficients(pointers, 0, group);
    float* shift = coefficients(pointers, 1, group);
    float* means = coefficients(pointers, 2, group);
    const float* gamma = floats(pointers, node_.inputs[Forward::gamma]) + first;
    const float* beta = floats(pointers, node_.inputs[Forward::beta]) + first;
    const std::int64_t rows = counted(pointers);
    for (std::int64_t j = 0; j < lanes; ++j) {
      double mean = 0, squares = 0, count = 0;
      for (std::int64_t chunk = 0; chunk < groups_.chunks(); ++chunk) {
        const double* part = sums(pointers, group, chunk);
        const auto more =
            static_cast<double>(groups_.chunk_end(chunk, rows) - groups_.chunk_begin(chunk));
        if (more == 0) break;
        const double difference = part[j] - mean;
        const double total = count + more;
        mean += difference * (more / total);
        squares += part[lanes + j] + difference * difference * (count * more / total);
        count = total;
      }
      const double variance = std::max(0.0, squares / count);
      // NaN stays: max() above would hide it.
      const double kept = squares != squares ? squares : variance;
      const double inverse = 1 / std::sqrt(kept + epsilon_);
      const auto rounded = static_cast<float>(mean);
      results(pointers, node_.outputs[1])[first + j] = means[j] = rounded;
      results(pointers, node_.outputs[2])[first + j] = static_cast<float>(inverse);
      results(pointers, node_.outputs[3])[first + j] = static_cast<float>(kept);
      const double factor = inverse * static_cast<double>(gamma[j]);
      scale[j] = static_cast<float>(factor);
      shift[j] = static_cast<float>(static_cast<double>(beta[j]) -
                                    (mean - static_cast<double>(rounded)) * factor);
      if (kept_ == ir::kNone) continue;
      float* to = results(pointers, kept_) + 4 * (first + j);
      to[0] = scale[j];
      to[1] = shift[j];
      to[2] = rounded;
      to[3] = 0;
    }
  }

  double epsilon_;
  ir::AddReluEpilogue epilogue_;
  ir::ValueId given_ = ir::kNone, kept_ = ir::kNone;  // coefficients (C, 4)
};

class BatchNormGradient final : public ChannelKernel {
 public:
  BatchNormGradient(const ir::Graph& graph, const ir::Node& node)
      : ChannelKernel(graph, node, node.inputs[Backward::x], 5), prologue_(prologue_of(node)) {}

  void run(Pointers pointers) override {
    const auto given = [&](ir::ValueId id) -> const std::byte* {
      return id == ir::kNone ? nullptr : pointers[id];
    };
    const std::byte* dy = given(prologue_.dy);
    const std::byte* added = given(prologue_.added);
    const std::byte* result = given(prologue_.result);
    std::byte* joined = added == nullptr ? nullptr : pointers[node_.outputs[3]];
    // What counts of dy.
    const std::byte* g = added == nullptr ? dy : joined;
    const std::byte* mask = added == nullptr ? result : nullptr;
    const std::byte* x = pointers[node_.inputs[Backward::x]];
    const float* means = floats(pointers, node_.inputs[Backward::mean]);
    std::byte* dx = pointers[node_.outputs[0]];
    const std::int64_t rows = counted(pointers);
    run_passes(
        [&](std::int64_t group, std::int64_t chunk) {
          const std::int64_t lanes = groups_.lanes(group);
          const std::int64_t begin = groups_.chunk_begin(chunk);
          const std::int64_t end = groups_.chunk_end(chunk, rows);
          double* first = sums(pointers, group, chunk);
          std::fill_n(first, 2 * lanes, 0.0);
          groups_.each_stretch_of(group, begin, end, [&](std::int64_t at, ChannelRows where) {
            if (added != nullptr) {
              loops_.gradient_join(where, from(dy, at), from(added, at), from(result, at),
                                   joined + size_ * at);
            }
            loops_.gradient_sums(fetching(where), from(g, at), from(x, at), from(mask, at),
                                 means + groups_.first_channel(group), first, first + lanes);
          });
          mend_sums(group, chunk, end, first, [&](std::int64_t at, std::int64_t j) {
            const bool passes = mask == nullptr || !(element(mask, at) <= 0);
            const double counts = passes ? element(g, at) : 0.0;
            const double mean = static_cast<double>(means[groups_.first_channel(group) + j]);
            return std::pair(counts, counts * (element(x, at) - mean));
          });
        },
        [&](std::int64_t group) { finish(pointers, group); },
        [&](std::int64_t group, std::int64_t chunk) {
          const std::int64_t begin = groups_.chunk_begin(chunk);
          const std::int64_t end = groups_.chunk_end(chunk, rows);
          groups_.each_stretch_of(group, begin, end, [&](std::int64_t at, ChannelRows where) {
            where.streams = streams_ && dx != g && dx != x && dx != mask;
            loops_.gradient_apply(
                where, from(g, at), from(x, at), from(mask, at), dx + size_ * at,
                means + groups_.first_channel(group), coefficients(pointers, 0, group),
                coefficients(pointers, 1, group), coefficients(pointers, 2, group));
          });
          groups_.each_element_of(
              group, end, groups_.chunk_end(chunk), [&](std::int64_t at, std::int64_t) {
                std::memset(dx + size_ * at, 0, static_cast<std::size_t>(size_));
              });
        });
  }

 private:
  // dgamma, dbeta, and dx = a ((dy + c) + b (x - mean)).
  void finish(Pointers pointers, std::int64_t group) const {
    const std::int64_t lanes = groups_.lanes(group), channel = groups_.first_channel(group);
    const auto count = static_cast<double>(counted(pointers));
    for (std::int64_t j = 0; j < lanes; ++j) {
      double dbeta = 0, products = 0;
      for (std::int64_t chunk = 0; chunk < groups_.chunks(); ++chunk) {
        const double* part = sums(pointers, group, chunk);
        dbeta += part[j];
        products += part[lanes + j];
      }
      const auto inverse = static_cast<double>(
          floats(pointers, node_.inputs[Backward::inverse_deviation])[channel + j]);
      const auto gamma =
          static_cast<double>(floats(pointers, node_.inputs[Backward::gamma])[channel + j]);
      const double dgamma = products * inverse;
      results(pointers, node_.outputs[1])[channel + j] = static_cast<float>(dgamma);
      results(pointers, node_.outputs[2])[channel + j] = static_cast<float>(dbeta);
      coefficients(pointers, 0, group)[j] = static_cast<float>(gamma * inverse);
      coefficients(pointers, 1, group)[j] = static_cast<float>(-inverse * dgamma / count);
      coefficients(pointers, 2, group)[j] = static_cast<float>(-dbeta / count);
    }
  }

  Prologue prologue_;
};

template <class K>
std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<K>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& batch_norm_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::batch_norm, supports, make<BatchNorm>, layouts, fuses},
      KernelEntry{ir::Op::batch_norm_gradient, supports, make<BatchNormGradient>, layouts, fuses}};
  return entries;
}

}  // namespace traingraph::cpu
