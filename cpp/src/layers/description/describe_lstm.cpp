// Descriptions of the LSTM layer and its descriptor: properties, lists of weights per gate, and a
// sample.
#include <traingraph/describe.h>
#include <traingraph/lstm.h>

#include "layers/description/sample.h"

namespace traingraph {
namespace {

using List = std::vector<TensorParameter>& (LSTM::*)();

std::vector<TensorPtr> tensors_of(LSTM& layer, List list) {
  std::vector<TensorPtr> tensors;
  for (const TensorParameter& parameter : (layer.*list)()) tensors.push_back(parameter.tensor);
  return tensors;
}

std::vector<TensorParameter*> parts_of(LSTM& layer, List list) {
  std::vector<TensorParameter*> parts;
  for (TensorParameter& parameter : (layer.*list)()) parts.push_back(&parameter);
  return parts;
}

template <class T>
std::optional<std::vector<T>> unless_empty(std::vector<T> list) {
  if (list.empty()) return std::nullopt;
  return list;
}

void describe_list(Describing<LSTM, Layer>& described, const std::string& name, List list,
                   const char* text) {
  described.property(
               name, [list](LSTM& self) { return tensors_of(self, list); }, text)
      .property(
          name + "_parameters", [list](LSTM& self) { return parts_of(self, list); },
          "The parameters.");
}

// None where the layer has none.
void describe_optional_list(Describing<LSTM, Layer>& described, const std::string& name, List list,
                            const char* text) {
  described
      .property(
          name, [list](LSTM& self) { return unless_empty(tensors_of(self, list)); }, text)
      .property(
          name + "_parameters", [list](LSTM& self) { return unless_empty(parts_of(self, list)); },
          "The parameters, or None.");
}

std::shared_ptr<LSTM> made(const Given& given) {
  return std::make_shared<LSTM>(given.get<LSTMDescriptor>("descriptor"),
                                given.get<std::vector<TensorPtr>>("input_weights"),
                                given.get<std::vector<TensorPtr>>("hidden_weights"),
                                given.get<std::vector<TensorPtr>>("peephole_weights"),
                                given.get<std::vector<TensorPtr>>("biases"),
                                given.get<std::vector<ActivationDescriptor>>("gate_activations"),
                                given.get_optional<ActivationDescriptor>("output_result_activation")
                                    .value_or(ActivationDescriptor(ActivationType::kTanh)));
}

LayerSample sample(DataType type) {
  const auto four = [&](const Shape& shape) {
    std::vector<TensorPtr> list;
    for (int k = 0; k < 4; ++k) list.push_back(sample_parameter(shape, type));
    return list;
  };
  LSTMDescriptor d;
  d.result_mode = LSTMResultMode::kOutputAndStates;
  return {std::make_shared<LSTM>(d, four({1, 1}), four({1, 1}),
                                 std::vector<TensorPtr>(3, sample_parameter({1}, type)), four({1})),
          {{{2, 2, 1}, type}, {{1, 1, 2, 1}, type}, {{1, 1, 2, 1}, type}, {{2}, DataType::kInt32}}};
}

}  // namespace

const ClassDescription& LSTMDescriptor::class_description() {
  using D = LSTMDescriptor;
  static const ClassDescription description =
      Describing<D>("MLCLSTMDescriptor", "The sizes and options of an LSTM.")
          .required_field("input_size", &D::input_size, "Features of the source.", &kOfWindow)
          .required_field("hidden_size", &D::hidden_size, "Hidden units, H.", &kOfWindow)
          .field("layer_count", &D::layer_count, "Layers above each other.", &kOfWindow)
          .field("uses_biases", &D::uses_biases, "Whether biases may be given.")
          .field("batch_first", &D::batch_first, "(N, T, features), else (T, N, features).")
          .field("is_bidirectional", &D::is_bidirectional,
                 "Whether a second LSTM reads the sequences backward.")
          .field("returns_sequences", &D::returns_sequences,
                 "Every step, else each sequence's last one.")
          .field("dropout", &D::dropout, "The share dropped between layers while training.",
                 &kShareBelowOne)
          .field("result_mode", &D::result_mode, "Whether the last states are results too.")
          .made_of_fields("Errors: ValueError for a number outside its range.");
  return description;
}

const ClassDescription& LSTM::class_description() {
  static const ClassDescription description = [] {
    using Tensors = std::vector<TensorPtr>;
    Describing<LSTM, Layer> described("MLCLSTMLayer", "Long short-term memory over sequences.");
    described
        .property("descriptor", &LSTM::descriptor,
                  "Sizes, directions, and form of source and result.")
        .property("gate_activations", &LSTM::gate_activations,
                  "The activations of the gates input, forget, cell and output.")
        .property("output_result_activation", &LSTM::output_result_activation,
                  "The activation of the cell before the output gate.");
    describe_list(described, "input_weights", &LSTM::input_weights, "The weights of the source.");
    describe_list(described, "hidden_weights", &LSTM::hidden_weights,
                  "The weights of the hidden state.");
    describe_optional_list(described, "peephole_weights", &LSTM::peephole_weights,
                           "The weights of the cell in gates, or None.");
    describe_optional_list(described, "biases", &LSTM::biases, "The biases, or None.");
    described
        .form(
            {argument<LSTMDescriptor>("descriptor",
                                      "Sizes, directions, and form of source and result."),
             argument<Tensors>("input_weights", "Four per layer and direction, (H, features)."),
             argument<Tensors>("hidden_weights", "Four per layer and direction, (H, H)."),
             optional_argument<Tensors>(
                 "peephole_weights",
                 "Three per layer and direction, (H), of the gates input, forget and output; or "
                 "four, the third zero."),
             optional_argument<Tensors>("biases", "Four per layer and direction, (H); None: none."),
             optional_argument<std::vector<ActivationDescriptor>>(
                 "gate_activations",
                 "The activations of the gates input, forget, cell and output; None: sigmoid, "
                 "sigmoid, tanh, "
                 "sigmoid."),
             optional_argument<ActivationDescriptor>("output_result_activation",
                                                     "The activation of the cell; None: tanh.")},
            made)
        .text(
            "i = act(W x + U h + b), f and o alike, g = act(W x + U h + b); c' = f c + i g, h' = o "
            "act(c'). Peepholes add P c to i and f, and P c' to o. Lists have the gates in the "
            "order input, forget, cell, output, layer by layer, all layers forward before all "
            "backward. Sources: x; h and c; int32 lengths that descend, last. Shapes: x (N, T, "
            "input_size), h and c (layers, directions, N, H), lengths (N), to (N, T, directions * "
            "H), or (N, 1, directions * H); OUTPUT_AND_STATES: the last h and c as well. Behind "
            "its end a sequence gives zeros and keeps its states. A tensor with sequence lengths "
            "needs no lengths. Types: floating-point numbers. Gradient: back through all steps; "
            "reads the gates and states of each. Errors: ValueError for lists of other lengths, "
            "tensors of other sizes, lengths outside 0 to T or that ascend; TypeError for lengths "
            "of another type. Source: Hochreiter, Schmidhuber, 1997; Gers, Schmidhuber, 2000.")
        .sample(sample);
    return ClassDescription(described);
  }();
  return description;
}

}  // namespace traingraph
