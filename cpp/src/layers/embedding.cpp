// The embedding layer: rows of a table by index, with a padding row, a limit of norms, and
// gradients scaled by frequency.
#include <traingraph/embedding.h>

#include <algorithm>
#include <cstring>

#include <traingraph/describe.h>

#include "layers/checks.h"
#include "layers/description/sample.h"
#include "runtime/numbers/range.h"

namespace traingraph {
namespace {

using ir::ValueId;

constexpr const char* kDescriptor = "MLCEmbeddingDescriptor";

// The row of zeros in the tensor's data, where it has any.
void clear_row(Tensor& table, std::int64_t row, std::int64_t dimension) {
  table.synchronize_data();
  const TensorData data = table.data();
  if (data.bytes == nullptr) return;
  const std::size_t bytes =
      static_cast<std::size_t>(dimension) * element_bytes(table.descriptor().data_type);
  std::byte* const first =
      static_cast<std::byte*>(data.bytes) + static_cast<std::size_t>(row) * bytes;
  const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
  if (std::all_of(first, first + bytes, is_zero)) return;
  std::memset(first, 0, bytes);
  table.set_data(data);
}

// Whether a layer before reads the table otherwise than by looking rows up.
bool is_read_otherwise(const ir::Graph& graph, ValueId table) {
  return std::ranges::any_of(graph.nodes, [&](const ir::Node& node) {
    if (std::ranges::find(node.inputs, table) == node.inputs.end()) return false;
    if (node.op == ir::Op::reshape) return is_read_otherwise(graph, node.outputs[0]);
    return node.op != ir::Op::embedding && node.op != ir::Op::limit_rows;
  });
}

// The table, its rows of these indices within the norm; and so it stays.
ValueId limited(Emitter& e, const EmbeddingDescriptor& d, const TensorPtr& weights, ValueId table) {
  if (is_read_otherwise(e.graph, e.lowering.parameter_values.at(weights.get()))) {
    e.fail_argument(
        "expected a maximum norm for a tensor that no layer before reads, but one reads '" +
        weights->label() + "', whose rows change here");
  }
  const ir::RowLimitAttributes attributes{static_cast<double>(*d.maximum_norm),
                                          static_cast<double>(d.p_norm)};
  const ValueId result =
      ops::apply1(e.graph, ir::Op::limit_rows, attributes, {table, e.sources[0]});
  // A layer under disable_update keeps its bits.
  if (!e.lowering.frozen.contains(weights.get())) e.replace(weights, result);
  return result;
}

}  // namespace

void EmbeddingDescriptor::check() const {
  const auto expect = [](const Range& range, const char* what, auto value) {
    expect_in(range, kDescriptor, what, static_cast<double>(value));
  };
  expect(kOneOrMore, "embedding_count", embedding_count);
  expect(kOneOrMore, "embedding_dimension", embedding_dimension);
  if (padding_index) {
    expect(kLimit, "padding_index", *padding_index);
    if (*padding_index >= embedding_count) {
      throw InvalidArgument("[" + std::string(kDescriptor) +
                            "] expected padding_index to be below the embedding_count of " +
                            std::to_string(embedding_count) + " but got " +
                            std::to_string(*padding_index));
    }
  }
  if (maximum_norm) expect(kLimit, "maximum_norm", *maximum_norm);
  expect(kPositive, "p_norm", p_norm);
}

Embedding::Embedding(EmbeddingDescriptor descriptor, TensorPtr weights)
    : Layer("Embedding"), descriptor_(descriptor) {
  descriptor_.check();
  if (weights == nullptr) throw InvalidArgument("[Embedding] expected weights but got none");
  expect_elements(*this, "weights", weights,
                  {descriptor_.embedding_count, descriptor_.embedding_dimension});
  weights_.tensor = std::move(weights);
  if (descriptor_.padding_index) {
    clear_row(*weights_.tensor, *descriptor_.padding_index, descriptor_.embedding_dimension);
  }
}

std::string Embedding::description() const {
  return "Embedding " + std::to_string(descriptor_.embedding_count) + " × " +
         std::to_string(descriptor_.embedding_dimension);
}

// indices (…) → rows (…, dimension).
void Embedding::emit(Emitter& e) const {
  e.expect_sources(1);
  expect_indices(e, 0);
  if (e.type(0).rank() >= kMaxTensorDimensions) {
    e.fail_shape("expected indices of at most " + std::to_string(kMaxTensorDimensions - 1) +
                 " axes but got " + to_string(e.type(0).shape));
  }
  const EmbeddingDescriptor& d = descriptor_;
  const DataType type = weights_.tensor->descriptor().data_type;
  if (!is_floating_point(type)) {
    throw DataTypeError(layer_message(
        e, std::string("expected weights of floating-point numbers but got ") + name(type)));
  }
  ValueId table = e.parameter(weights_.tensor, {d.embedding_count, d.embedding_dimension});
  if (d.maximum_norm) table = limited(e, d, weights_.tensor, table);
  const ir::EmbeddingAttributes attributes{d.embedding_count, d.padding_index.value_or(-1),
                                           d.scales_gradient_by_frequency};
  e.result(ops::apply1(e.graph, ir::Op::embedding, attributes, {table, e.sources[0]}));
}

const ClassDescription& EmbeddingDescriptor::class_description() {
  using D = EmbeddingDescriptor;
  using Count = std::int64_t;
  static const ClassDescription description =
      Describing<D>(kDescriptor, "A table whose rows are looked up by index.")
          .property("embedding_count", &D::embedding_count, "Rows of the table.")
          .in(kOneOrMore)
          .property("embedding_dimension", &D::embedding_dimension, "Numbers of a row.")
          .in(kOneOrMore)
          .property("padding_index", &D::padding_index, "The row of zeros, or None.")
          .property("maximum_norm", &D::maximum_norm, "The largest norm of a row, or None.")
          .property("p_norm", &D::p_norm, "p of the norm (Σ |x|^p)^(1/p).")
          .in(kPositive)
          .property("scales_gradient_by_frequency", &D::scales_gradient_by_frequency,
                    "Whether a row's gradient is divided by how often the row is looked up.")
          .form(
              {argument<Count>("embedding_count", "Rows of the table.", &kOneOrMore),
               argument<Count>("embedding_dimension", "Numbers of a row.", &kOneOrMore),
               optional_argument<Count>("padding_index",
                                        "The row that is zero and has no gradient; None: none.",
                                        &kLimit),
               optional_argument<float>("maximum_norm",
                                        "The largest norm of rows that are looked up; None: any.",
                                        &kLimit),
               optional_argument<float>("p_norm",
                                        "p of that norm, infinity for the largest number; None: 2.",
                                        &kPositive),
               argument("scales_gradient_by_frequency", false,
                        "Whether a row's gradient is divided by how often the row is looked up.")},
              [](const Given& given) {
                D d;
                d.embedding_count = given.get<Count>("embedding_count");
                d.embedding_dimension = given.get<Count>("embedding_dimension");
                d.padding_index = given.get_optional<Count>("padding_index");
                d.maximum_norm = given.get_optional<float>("maximum_norm");
                d.p_norm = given.get_optional<float>("p_norm").value_or(2.0f);
                d.scales_gradient_by_frequency = given.get<bool>("scales_gradient_by_frequency");
                d.check();
                return d;
              })
          .text("Errors: ValueError for a number outside its range.");
  return description;
}

const ClassDescription& Embedding::class_description() {
  using Self = Embedding;
  static const ClassDescription description =
      Describing<Self, Layer>("MLCEmbeddingLayer", "Rows of a table by index.")
          .property("descriptor", &Self::descriptor, "The table's sizes, and what holds for it.")
          .parameter("weights", &Self::weights,
                     "The table, (embedding_count, embedding_dimension).")
          .form({argument<EmbeddingDescriptor>("descriptor",
                                               "The table's sizes, and what holds for it."),
                 argument<TensorPtr>("weights",
                                     "The table, embedding_count * embedding_dimension elements.")},
                [](const Given& given) {
                  return std::make_shared<Self>(given.get<EmbeddingDescriptor>("descriptor"),
                                                given.get<TensorPtr>("weights"));
                })
          .text(
              "Shapes: indices (…) to (…, embedding_dimension). Types: int32 or int64 indices, a "
              "table of float32 or float64. The padding row becomes zero when the layer is made, "
              "and the layer gives it no gradient, so updates leave zeros alone. With a maximum "
              "norm each row that is looked up is first multiplied by maximum / (norm + 1e-7) if "
              "its norm is larger, and stays so in the table, in inference too; not under "
              "disable_update. Gradient: a row gets the sum over its picks, or their mean "
              "(scales_gradient_by_frequency), as if rows had always had their norm. Errors: "
              "ValueError for an index outside 0 to embedding_count - 1, which names layer and "
              "value: before the step where the host has the indices, else with its result, and "
              "the step has then read zeros there. Source: Bengio et al., 2003; as "
              "torch.nn.Embedding.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Self>(EmbeddingDescriptor{2, 2, {}, 1.0f},
                                                      sample_parameter({2, 2}, t)),
                               {{{2}, DataType::kInt32}}};
          });
  return description;
}

}  // namespace traingraph
