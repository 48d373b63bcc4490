// Guesses for the texts of errors: which argument a word was meant for, which types take a value.
#include "classes/suggestions.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/enums.h"

namespace traingraph::python {

namespace py = pybind11;

namespace {

std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// Whether Keras or PyTorch have this word for what is called so here.
bool is_called(const std::string& word, const std::string& name) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"units", "outputs"},
      {"filters", "outputs"},
      {"out_features", "outputs"},
      {"out_channels", "outputs"},
      {"in_features", "inputs"},
      {"in_channels", "inputs"},
      {"use_bias", "bias"},
      {"kernel_initializer", "weights_init"},
      {"p", "rate"},
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
      {"pool_size", "kernel"},
      {"criterion", "loss"},
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
  constexpr std::size_t kLeast = 4;
  if (word.size() >= kLeast && (name.starts_with(word) || word.starts_with(name))) return true;
  return word.size() > kLeast && edits_between(word, name) <= 2;
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
