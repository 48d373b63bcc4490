// Attributes of every op from Python dictionaries, for the private test module.
#include <pybind11/stl.h>

#include <utility>

#include <traingraph/errors.h>

#include "testing.h"

namespace traingraph::testing {
namespace {

using std::pair;

// Takes fields out of a dictionary; what nobody took is a misspelling.
class Fields {
 public:
  explicit Fields(const py::dict& given)
      : left_(py::reinterpret_steal<py::dict>(PyDict_Copy(given.ptr()))) {}

  template <class T>
  void take(const char* field, T& target) {
    if (left_.contains(field)) target = left_.attr("pop")(field).template cast<T>();
  }
  // A pair (y, x).
  void take(const char* field, std::int64_t (&target)[2]) {
    pair<std::int64_t, std::int64_t> both{target[0], target[1]};
    take(field, both);
    target[0] = both.first;
    target[1] = both.second;
  }
  template <class E>
  void take_enum(const char* field, E& target) {
    int number = static_cast<int>(target);
    take(field, number);
    target = static_cast<E>(number);
  }
  // {"inputs": n, "code": [(function, x, y, p, q), …], "results": [registers]}
  void take(const char* field, ir::ScalarList& target);
  void take(ir::Window& window) {
    take("kernel", window.kernel);
    take("stride", window.stride);
    take("dilation", window.dilation);
    take("padding_before", window.padding_before);
    take("padding_after", window.padding_after);
  }
  void expect_none_left() const {
    if (!left_.empty()) {
      throw InvalidArgument("[attributes] unknown fields " + py::str(left_).cast<std::string>());
    }
  }

 private:
  py::dict left_;
};

ir::Scalar scalar_named(const std::string& text) {
#define TRAINGRAPH_SCALAR(name, arity, value, gradient_x, gradient_y) \
  if (text == #name) return ir::Scalar::name;
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
  throw InvalidArgument("[scalar] no function '" + text + "'");
}

void Fields::take(const char* field, ir::ScalarList& target) {
  py::object list = py::none();
  take(field, list);
  if (list.is_none()) return;
  target.inputs = list["inputs"].cast<int>();
  target.results = list["results"].cast<std::vector<int>>();
  for (const py::handle entry : list["code"]) {
    const auto [function, x, y, p, q] =
        entry.cast<std::tuple<std::string, int, int, double, double>>();
    target.add(scalar_named(function), x, y, p, q);
  }
}

void read(Fields&, ir::NoAttributes&) {}
void read(Fields& f, ir::ElementwiseAttributes& a) {
  f.take("list", a.list);
  f.take("shape", a.shape);
  f.take("shape_batched", a.shape_batched);
  std::vector<std::string> types;
  f.take("result_types", types);
  for (const std::string& type : types) a.result_types.push_back(data_type_named(type));
}
void read(Fields& f, ir::ReduceAttributes& a) {
  f.take_enum("kind", a.kind);
  f.take("axes", a.axes);
}
void read(Fields& f, ir::ConvolutionAttributes& a) {
  f.take(a.window);
  f.take("groups", a.groups);
  f.take("result_shape", a.result_shape);
  f.take("epilogue", a.epilogue);
  f.take("tf32", a.tf32);
}
void read(Fields& f, ir::MatmulAttributes& a) {
  f.take("alpha", a.alpha);
  f.take("transpose_a", a.transpose_a);
  f.take("transpose_b", a.transpose_b);
  f.take("epilogue", a.epilogue);
  f.take("tf32", a.tf32);
  std::string type;
  f.take("result_type", type);
  if (!type.empty()) a.result_type = data_type_named(type);
}
void read(Fields& f, ir::BatchNormAttributes& a) {
  f.take("epsilon", a.epsilon);
  f.take("epilogue", a.epilogue);
  f.take("gives_prologue", a.gives_prologue);
  f.take_enum("coefficients", a.coefficients);
}
void read(Fields& f, ir::PoolingAttributes& a) {
  f.take_enum("kind", a.kind);
  f.take(a.window);
  f.take("count_includes_padding", a.count_includes_padding);
  f.take("with_index", a.with_index);
  f.take("source_shape", a.source_shape);
}
void read(Fields& f, ir::RowNormAttributes& a) {
  f.take("axis", a.axis);
  f.take("epsilon", a.epsilon);
}
void read(Fields& f, ir::SoftmaxAttributes& a) {
  f.take("logarithm", a.logarithm);
  f.take("axis", a.axis);
}
void read(Fields& f, ir::CrossEntropyAttributes& a) {
  f.take("smoothing", a.smoothing);
  f.take("classes", a.classes);
}
void read(Fields& f, ir::AxisAttributes& a) { f.take("axis", a.axis); }
void read(Fields& f, ir::SliceAttributes& a) {
  f.take("axis", a.axis);
  f.take("start", a.start);
  f.take("extent", a.extent);
}
void read(Fields& f, ir::PadAttributes& a) {
  f.take("axis", a.axis);
  f.take("starts", a.starts);
  f.take("extent", a.extent);
}
void read(Fields& f, ir::SelectAttributes& a) { f.take("where_not", a.where_not); }
void read(Fields& f, ir::ReshapeAttributes& a) {
  f.take("shape", a.shape);
  f.take("batched", a.batched);
}
void read(Fields& f, ir::TransposeAttributes& a) { f.take("axes", a.axes); }
void read(Fields& f, ir::ScatterAttributes& a) {
  f.take("axis", a.axis);
  f.take("adds", a.adds);
  f.take("onto", a.onto);
}
void read(Fields& f, ir::EmbeddingAttributes& a) {
  f.take("count", a.count);
  f.take("padding", a.padding);
  f.take("by_frequency", a.by_frequency);
}
void read(Fields& f, ir::RowLimitAttributes& a) {
  f.take("maximum", a.maximum);
  f.take("order", a.order);
}
void read(Fields& f, ir::IndexCheckAttributes& a) {
  f.take("number", a.number);
  f.take("lowest", a.lowest);
  f.take("end", a.end);
}
void read(Fields& f, ir::CompareAttributes& a) { f.take_enum("comparison", a.comparison); }
void read(Fields& f, ir::ExtremumAttributes& a) {
  f.take("axis", a.axis);
  f.take("largest", a.largest);
  f.take("numbers", a.numbers);
}
void read(Fields& f, ir::OneHotAttributes& a) {
  f.take("classes", a.classes);
  std::string type = name(a.type);
  f.take("type", type);
  a.type = data_type_named(type);
}
void read(Fields& f, ir::ConstantAttributes& a) {
  std::string type = "float32";
  f.take("type", type);
  f.take("shape", a.type.shape);
  f.take("numbers", a.numbers);
  a.type.data_type = data_type_named(type);
}
void read(Fields& f, ir::DropoutAttributes& a) {
  f.take("rate", a.rate);
  f.take("seed", a.seed);
}
void read(Fields& f, ir::LstmAttributes& a) {
  f.take("time_first", a.time_first);
  f.take("reverse", a.reverse);
  f.take("has_states", a.has_states);
  f.take("has_peepholes", a.has_peepholes);
  f.take("has_lengths", a.has_lengths);
  f.take("keeps", a.keeps);
  for (ir::ScalarList& list : a.activations = std::vector<ir::ScalarList>(5)) {
    const std::string field = "activation " + std::to_string(&list - a.activations.data());
    f.take(field.c_str(), list);
  }
  if (a.activations[0].inputs == 0) a.activations.clear();
}
void read(Fields& f, ir::AttentionAttributes& a) {
  f.take("heads", a.heads);
  f.take("scale", a.scale);
  f.take("has_key_mask", a.has_key_mask);
  f.take("has_mask", a.has_mask);
  f.take("gives_mask_gradient", a.gives_mask_gradient);
  f.take("rate", a.rate);
  f.take("seed", a.seed);
}

void read(Fields& f, ir::NamedKernelAttributes& a) { f.take("name", a.name); }

template <class A>
ir::Attributes attributes_as(const py::dict& given) {
  Fields fields(given);
  A attributes;
  read(fields, attributes);
  fields.expect_none_left();
  return attributes;
}

}  // namespace

ir::Attributes attributes_from(ir::Op op, const py::dict& fields) {
  switch (op) {
#define TRAINGRAPH_OP(name, attributes, cpu) \
  case ir::Op::name:                         \
    return attributes_as<ir::attributes>(fields);
#include "ops.def"
#undef TRAINGRAPH_OP
  }
  throw InternalError("[attributes] an op outside the table");
}

}  // namespace traingraph::testing
