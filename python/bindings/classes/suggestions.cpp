// Guesses for the texts of errors: which argument a word was meant for, which types take a value.
#include "classes/suggestions.h"

#include <algorithm>
#include <utility>

#include <traingraph/message_text.h>

#include "convert/enums.h"

namespace traingraph::python {

namespace py = pybind11;

namespace {

// Whether Keras or PyTorch have this word for what is called so here.
bool is_called(const std::string& word, const std::string& name) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"units", "outputs"},
      {"units", "hidden"},
      {"filters", "outputs"},
      {"out_features", "outputs"},
      {"out_channels", "outputs"},
      {"out_channels", "output_feature_channel_count"},
      {"in_features", "inputs"},
      {"in_channels", "inputs"},
      {"in_channels", "input_feature_channel_count"},
      {"input_size", "inputs"},
      {"embed_dim", "inputs"},
      {"num_features", "channels"},
      {"use_bias", "bias"},
      {"kernel_initializer", "weights_init"},
      {"bias_initializer", "bias_init"},
      {"p", "rate"},
      {"prob", "rate"},
      {"num_layers", "layers"},
      {"num_heads", "heads"},
      {"num_groups", "groups"},
      {"num_embeddings", "count"},
      {"input_dim", "count"},
      {"embedding_dim", "dimension"},
      {"output_dim", "dimension"},
      {"padding_idx", "padding_index"},
      {"normalized_shape", "shape"},
      {"eps", "epsilon"},
      {"rho", "alpha"},
      {"beta_1", "beta1"},
      {"beta_2", "beta2"},
      {"amsgrad", "uses_amsgrad"},
      {"nesterov", "uses_nesterov_momentum"},
      {"uses_nesterov", "nesterov"},
      {"uses_nesterov_momentum", "nesterov"},
      {"momentum", "momentum_scale"},
      {"momentum_scale", "momentum"},
      {"is_centered", "centered"},
      {"weight_decay", "regularization_scale"},
      {"pool_size", "kernel"},
      {"criterion", "loss"},
      {"dtype", "data_type"},
      {"dtype", "input_type"},
      {"dim", "axis"},
      {"dim", "dimension"},
      {"dim", "dimensions"},
      {"dims", "dimensions"},
      {"axes", "axis"},
      {"axes", "dimensions"},
      {"axis", "dimension"},
      {"axis", "dimensions"},
      {"min", "least"},
      {"max", "most"},
      {"index", "indices"},
      {"tensors", "values"},
      {"input", "x"},
      {"x", "inputs"},
      {"X", "inputs"},
      {"y", "labels"},
      {"targets", "labels"},
      {"sample_weight", "label_weights"},
      {"verbose", "progress"},
      {"train_dataloaders", "batches"},
      {"val_dataloaders", "validation"},
      {"nb_epoch", "epochs"},
      {"num_epochs", "epochs"},
      {"max_epochs", "epochs"},
      {"ckpt_path", "resume"},
      {"initial_epoch", "first_epoch"},
      {"lr_scheduler", "schedule"},
      {"scheduler", "schedule"},
      {"restore_best_weights", "restores_best"},
      {"filepath", "path"},
      {"filename", "path"},
      {"graphs", "graph_objects"},
      {"activation_type", "type"},
      {"loss_type", "type"},
      {"padding_mode", "padding"},
      {"lr", "optimizer"},
      {"learning_rate", "optimizer"},
  };
  return std::ranges::find(kNames, std::pair(word, name), [](const auto& row) {
           return std::pair<std::string, std::string>(row.first, row.second);
         }) != std::end(kNames);
}

}  // namespace

bool resembles(const std::string& word, const std::string& name) {
  if (is_called(word, name)) return true;
  std::string initials(1, name.front());
  for (std::size_t k = 1; k < name.size(); ++k) {
    if (name[k - 1] == '_') initials += name[k];
  }
  if (initials.size() > 1 && word == initials) return true;
  return nearest_name(word, {name}).has_value();
}

std::string taken_elsewhere(const std::string& function, const std::string& word) {
  constexpr const char *kCompile = "is for compile() of the result",
                       *kFit = "is for fit() of the result",
                       *kModel = "is for nn.model(), or MLCTrainingGraph()",
                       *kClipping =
                           "is none of a function: set applies_gradient_clipping of the "
                           "optimizer, whose MLCOptimizerDescriptor has the limits",
                       *kDecay =
                           "is for nn.adamw(), or the L2 regularization of an "
                           "MLCOptimizerDescriptor",
                       *kAdam = "is for MLCAdamOptimizer(), which takes it",
                       *kAdamW = "is for MLCAdamWOptimizer(), which takes it",
                       *kOfWeights = "is for EarlyStopping(restores_best=True)",
                       *kRate =
                           "is the optimizer's: nn.adam(0.01), or optimizer.learning_rate; "
                           "schedule= changes it",
                       *kPlace = "is none here: a file's numbers go to the graph's device",
                       *kStrict =
                           "is none here: all tensors of the graph have to be there, or its "
                           "weights alone",
                       *kNumbers = "is none here: a file has numbers alone, and runs nothing",
                       *kMicro = "is the graph's: set micro_batches of the model before fit()",
                       *kSilent = "is none here: the call draws nothing", *kOfFit = "is for fit()",
                       *kOfAll = "is none here: the call goes through all samples",
                       *kBatch = "is for nn.model(), fit(), evaluate(), predict() and execute()";
  struct Row {
    const char* function;  // "": any that does not take it
    const char* word;
    const char* advice;
  };
  constexpr Row kRows[] = {
      {"model", "precision", kCompile},
      {"model", "memory_limit", kCompile},
      {"model", "options", kCompile},
      {"model", "metrics", kFit},
      {"model", "epochs", kFit},
      {"model", "callbacks", kFit},
      {"model", "validation", kFit},
      {"model", "shuffle", kFit},
      {"model", "schedule", kFit},
      {"model", "label_weights", kFit},
      {"model", "sample_weight", kFit},
      {"", "batch_size", kBatch},
      {"MLCTrainingGraph.load", "map_location", kPlace},
      {"MLCInferenceGraph.load", "map_location", kPlace},
      {"MLCTrainingGraph.load", "strict", kStrict},
      {"MLCInferenceGraph.load", "strict", kStrict},
      {"MLCTrainingGraph.load_state", "strict", kStrict},
      {"MLCInferenceGraph.load_state", "strict", kStrict},
      {"MLCTrainingGraph.load", "weights_only", kNumbers},
      {"MLCInferenceGraph.load", "weights_only", kNumbers},
      {"MLCTrainingGraph.evaluate", "verbose", kSilent},
      {"MLCTrainingGraph.evaluate", "progress", kSilent},
      {"MLCTrainingGraph.predict", "verbose", kSilent},
      {"MLCTrainingGraph.predict", "progress", kSilent},
      {"MLCInferenceGraph.predict", "verbose", kSilent},
      {"MLCInferenceGraph.predict", "progress", kSilent},
      {"MLCTrainingGraph.evaluate", "steps", kOfAll},
      {"MLCTrainingGraph.predict", "steps", kOfAll},
      {"MLCInferenceGraph.predict", "steps", kOfAll},
      {"MLCTrainingGraph.evaluate", "callbacks", kOfFit},
      {"MLCTrainingGraph.evaluate", "batches", kOfFit},
      {"MLCTrainingGraph.evaluate", "epochs", kOfFit},
      {"MLCTrainingGraph.predict", "batches", kOfFit},
      {"MLCTrainingGraph.fit", "learning_rate", kRate},
      {"MLCTrainingGraph.fit", "lr", kRate},
      {"MLCTrainingGraph.fit", "optimizer", kModel},
      {"MLCTrainingGraph.fit", "loss", kModel},
      {"MLCTrainingGraph.compile", "optimizer", kModel},
      {"MLCTrainingGraph.compile", "loss", kModel},
      {"MLCTrainingGraph.compile", "metrics", "is for fit()"},
      {"MLCTrainingGraph.fit", "patience", "is for callbacks=[EarlyStopping(patience=…)]"},
      {"MLCTrainingGraph.fit", "accumulate_grad_batches", kMicro},
      {"MLCTrainingGraph.fit", "gradient_accumulation_steps", kMicro},
      {"MLCTrainingGraph.fit", "gradient_clip_val", kClipping},
      {"MLCTrainingGraph.fit", "class_weight",
       "is label_weights={'w': weights[labels]} of an nn.model(weights=True)"},
      {"MLCTrainingGraph.fit", "validation_split",
       "is none here: split the samples, and pass validation=(inputs, labels)"},
      {"MLCTrainingGraph.fit", "steps_per_epoch",
       "is none here: an epoch is all samples, or as many batches as batches= gives"},
      {"adam", "weight_decay", kDecay},
      {"sgd", "weight_decay", kDecay},
      {"rmsprop", "weight_decay", kDecay},
      {"adam", "amsgrad", "is uses_amsgrad of MLCAdamOptimizer()"},
      {"adam", "uses_amsgrad", kAdam},
      {"adam", "time_step", kAdam},
      {"adamw", "amsgrad", "is uses_amsgrad of MLCAdamWOptimizer()"},
      {"adamw", "uses_amsgrad", kAdamW},
      {"adamw", "time_step", kAdamW},
      {"adam", "clipnorm", kClipping},
      {"adam", "clipvalue", kClipping},
      {"adam", "global_clipnorm", kClipping},
      {"adamw", "clipnorm", kClipping},
      {"adamw", "clipvalue", kClipping},
      {"adamw", "global_clipnorm", kClipping},
      {"sgd", "clipnorm", kClipping},
      {"sgd", "clipvalue", kClipping},
      {"sgd", "global_clipnorm", kClipping},
      {"rmsprop", "clipnorm", kClipping},
      {"rmsprop", "clipvalue", kClipping},
      {"rmsprop", "global_clipnorm", kClipping},
      {"EarlyStopping", "mode",
       "follows from the monitor: a loss or an error is better lower, other metrics higher"},
      {"Checkpoint", "save_best_only", kOfWeights},
      {"Checkpoint", "monitor", kOfWeights},
      {"Checkpoint", "mode", kOfWeights},
  };
  const auto* const found = std::ranges::find_if(kRows, [&](const Row& row) {
    return row.word == word && (row.function == function || *row.function == '\0');
  });
  return found == std::end(kRows) ? "" : word + " " + found->advice;
}

bool may_take(const std::string& annotation, py::handle value) {
  const auto says = [&](const char* word) { return annotation.find(word) != std::string::npos; };
  if (PyBool_Check(value.ptr())) return says("bool");
  if (PyLong_Check(value.ptr())) return says("int") || says("float");
  if (PyFloat_Check(value.ptr())) return says("float");
  if (PyUnicode_Check(value.ptr())) return says("str");
  if (PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) {
    return says("Sequence") || says("tuple") || says("ArrayLike");
  }
  const bool is_array = py::hasattr(value, "__dlpack__") || PyObject_CheckBuffer(value.ptr()) != 0;
  if (is_array && says("ArrayLike")) return true;
  return says(class_name(py::type::of(value).ptr()).c_str());
}

}  // namespace traingraph::python
