// Parses the one-line forms of signatures into parameters, and writes type names with their
// modules.
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "classes/signature.h"

namespace traingraph::python {
namespace {

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) {
    return {};
  }
  return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

// Forms name these without their modules.
constexpr std::pair<const char*, const char*> kModules[] = {{"Any", "typing."},
                                                            {"ArrayLike", "numpy.typing."},
                                                            {"Buffer", "typing_extensions."},
                                                            {"Callable", "collections.abc."},
                                                            {"DTypeLike", "numpy.typing."},
                                                            {"Iterable", "collections.abc."},
                                                            {"Mapping", "collections.abc."},
                                                            {"Sequence", "collections.abc."}};

}  // namespace

std::string with_modules(std::string text) {
  const auto is_part = [](char c) {
    const bool is_letter = ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z');
    return is_letter || ('0' <= c && c <= '9') || c == '_' || c == '.';
  };
  for (const auto& [name, module] : kModules) {
    const std::size_t size = std::strlen(name);
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += size) {
      if (at > 0 && is_part(text[at - 1])) continue;
      if (at + size < text.size() && is_part(text[at + size])) continue;
      text.insert(at, module);
      at += std::strlen(module);
    }
  }
  return text;
}

namespace {

// Splits at commas outside of brackets.
CallForm parse_form(const std::string& text) {
  const std::size_t arrow = text.rfind(" -> ");
  const std::string form = with_modules(text.substr(0, arrow));
  std::vector<Parameter> parameters;
  std::size_t before_star = std::string::npos;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= form.size(); ++i) {
    const char c = i < form.size() ? form[i] : ',';
    depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
    if (c != ',' || (depth != 0 && i < form.size())) {
      continue;
    }
    const std::string part = form.substr(begin, i - begin);
    begin = i + 1;
    if (trimmed(part) == "*") before_star = parameters.size();
    if (trimmed(part).empty() || trimmed(part) == "*") continue;
    const auto colon = part.find(':');
    const auto equals = part.find(" = ");
    parameters.push_back({trimmed(part.substr(0, colon)),
                          trimmed(part.substr(colon + 1, equals - colon - 1)),
                          equals == std::string::npos ? "" : trimmed(part.substr(equals + 3))});
  }
  return {std::move(parameters), before_star,
          arrow == std::string::npos ? "" : text.substr(arrow + 4)};
}

}  // namespace

std::vector<CallForm> parsed(const std::vector<std::string>& forms) {
  std::vector<CallForm> result;
  for (const std::string& form : forms) result.push_back(parse_form(form));
  return result;
}

}  // namespace traingraph::python
