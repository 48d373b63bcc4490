// The nearest of several names, and texts cut to a length.
#include <traingraph/message_text.h>

#include <algorithm>
#include <utility>

namespace traingraph {
namespace {

// Words of Keras, PyTorch and NumPy for values that have another name here.
constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"acc", "accuracy"},
    {"average", "mean"},
    {"avg", "mean"},
    {"bce", "sigmoid_cross_entropy"},
    {"bceloss", "sigmoid_cross_entropy"},
    {"bcewithlogits", "sigmoid_cross_entropy"},
    {"bcewithlogitsloss", "sigmoid_cross_entropy"},
    {"binarycrossentropy", "sigmoid_cross_entropy"},
    {"categoricalcrossentropy", "softmax_cross_entropy"},
    {"crossentropy", "softmax_cross_entropy"},
    {"crossentropyloss", "softmax_cross_entropy"},
    {"double", "float64"},
    {"float", "float32"},
    {"glorot", "glorot_uniform"},
    {"half", "float16"},
    {"he", "he_normal"},
    {"int", "int32"},
    {"kaiming", "he_normal"},
    {"kaiminguniform", "he_uniform"},
    {"kaimingnormal", "he_normal"},
    {"l1", "mean_absolute_error"},
    {"l1loss", "mean_absolute_error"},
    {"l2", "mean_squared_error"},
    {"labels", "loss_labels_data"},
    {"long", "int64"},
    {"mae", "mean_absolute_error"},
    {"mse", "mean_squared_error"},
    {"mseloss", "mean_squared_error"},
    {"nll", "softmax_cross_entropy"},
    {"nllloss", "softmax_cross_entropy"},
    {"profile", "profiling"},
    {"rocauc", "auc"},
    {"rocaucscore", "auc"},
    {"smoothl1", "huber"},
    {"smoothl1loss", "huber"},
    {"sparse", "classes"},
    {"sparsecategoricalcrossentropy", "softmax_cross_entropy"},
    {"swish", "silu"},
    {"valacc", "accuracy"},
    {"valaccuracy", "accuracy"},
    {"valloss", "loss"},
    {"xavier", "glorot_uniform"},
    {"xavieruniform", "glorot_uniform"},
    {"xaviernormal", "glorot_normal"},
};

std::string in_small_letters(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

// Without what separates words.
std::string plain(std::string_view text) {
  std::string result = in_small_letters(text);
  std::erase_if(result, [](char c) { return c == '_' || c == '-' || c == ' '; });
  return result;
}

// Whether one begins or ends with the other, by whole words where it has several.
bool is_part(std::string_view word, std::string_view name) {
  const bool has_words = word.find('_') != std::string_view::npos;
  const std::string own = has_words ? in_small_letters(word) : plain(word);
  const std::string other = has_words ? in_small_letters(name) : plain(name);
  constexpr std::size_t kLeast = 4;
  return own.size() >= kLeast && other.size() >= kLeast &&
         (other.starts_with(own) || other.ends_with(own) || own.starts_with(other));
}

// Letters to change, to add, to leave out, or to swap with the next one.
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({last[j] + (a[i] == b[j] ? 0 : 1), last[j + 1] + 1, row[j] + 1});
      const bool is_swap = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (is_swap) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row.back();
}

bool begins_a_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

}  // namespace

std::optional<std::string> nearest_name(std::string_view word,
                                        const std::vector<std::string>& names) {
  constexpr std::size_t kLongest = 64, kMostEdits = 2;
  const std::string own = plain(word);
  if (own.empty() || own.size() > kLongest) return std::nullopt;
  std::string other;
  for (const auto& [known, name] : kWords) {
    if (known == own) other = plain(name);
  }
  // The better ones first.
  const std::string *same = nullptr, *called = nullptr, *slip = nullptr, *part = nullptr;
  std::size_t least = std::min(own.size() / 4, kMostEdits) + 1;
  for (const std::string& name : names) {
    const std::string letters = plain(name);
    if (name == word) return std::nullopt;  // nothing else is meant
    if (letters == own) same = &name;
    if (letters == other) called = &name;
    if (letters.size() > kLongest) continue;
    if (const std::size_t edits = edits_between(own, letters); edits < least) {
      least = edits;
      slip = &name;
    }
    if (is_part(word, name) && (part == nullptr || name.size() < part->size())) part = &name;
  }
  for (const std::string* found : {same, called, slip, part}) {
    if (found != nullptr) return *found;
  }
  return std::nullopt;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names,
                         std::string_view quote) {
  const std::optional<std::string> name = nearest_name(word, names);
  if (!name) return {};
  return "; did you mean " + std::string(quote) + *name + std::string(quote) + "?";
}

std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_a_character));
}

std::string padded(std::string_view text, std::size_t width) {
  const std::size_t characters = character_count(text);
  return std::string(text) + std::string(width > characters ? width - characters : 0, ' ');
}

std::string shortened(std::string_view text, std::size_t most) {
  const std::size_t characters = character_count(text);
  if (characters <= most) return std::string(text);
  const std::size_t behind = most / 4, before = most - behind - 1;
  std::size_t begin = 0, end = text.size();
  for (std::size_t k = 0; k < before; ++k) {
    do ++begin;
    while (begin < text.size() && !begins_a_character(text[begin]));
  }
  for (std::size_t k = 0; k < behind; ++k) {
    do --end;
    while (end > begin && !begins_a_character(text[end]));
  }
  return std::string(text.substr(0, begin)) + "…" + std::string(text.substr(end));
}

}  // namespace traingraph
