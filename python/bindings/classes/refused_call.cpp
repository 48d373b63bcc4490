// What a call is told that no form takes: the nearest form, what it lacks, and what may be meant by
// the names that it does not have.
#include <algorithm>
#include <limits>

#include <traingraph/message_text.h>

#include "classes/signature.h"
#include "classes/suggestions.h"

namespace traingraph::python {
namespace {

// A keyword of the caller's.
std::string keyword_text(py::handle keyword) { return shortened(printable(keyword), kMostShown); }

// What a form lacks, what it has no place for, and what may be meant by that.
struct Distance {
  std::string missing;
  std::string surplus;
  std::string meant;
  int count = 0;
};

Distance distance(const std::vector<Parameter>& form, const py::dict& given) {
  Distance result;
  std::vector<const Parameter*> open;
  for (const Parameter& parameter : form) {
    if (!given.contains(parameter.name)) open.push_back(&parameter);
  }
  for (const auto& item : items_of(given)) {
    const std::string name = keyword_text(item.first);
    if (parameter_of(form, name) != nullptr) continue;
    append_item(result.surplus, name);
    const auto alike = std::ranges::find_if(
        open, [&](const Parameter* parameter) { return resembles(name, parameter->name); });
    if (alike == open.end()) {
      result.count += 2;
    } else {
      append_item(result.meant, (*alike)->name);
      open.erase(alike);
      ++result.count;
    }
  }
  for (const Parameter* parameter : open) {
    if (!parameter->required()) continue;
    append_item(result.missing, parameter->name);
    result.count += 2;
  }
  return result;
}

}  // namespace

// "; missing: x" of the forms that come nearest to a call, or how many there may be by position.
std::string Signature::missing(const py::args& positional, const py::kwargs& keywords) const {
  std::string lists;
  std::size_t most = 0;
  std::pair<std::size_t, std::size_t> least(std::numeric_limits<std::size_t>::max(), 0);
  for (const CallForm& form : forms_) {
    const std::vector<Parameter>& parameters = form.parameters;
    most = std::max(most, positional_count(form));
    if (positional.size() > positional_count(form)) continue;
    std::string list;
    std::pair<std::size_t, std::size_t> wrong(keywords.size(), 0);  // not in it, not given
    bool may_be = true;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const bool is_first = i < positional.size();
      const bool is_named = keywords.contains(py::handle(parameters[i].key));
      may_be = may_be && (!is_first || may_take(parameters[i].annotation, positional[i]));
      if (is_named) --wrong.first;
      if (is_first || is_named || !parameters[i].required()) continue;
      append_item(list, parameters[i].name);
      ++wrong.second;
    }
    if (!may_be || wrong > least) continue;
    if (wrong < least) lists.clear();
    least = wrong;
    if (!list.empty()) lists += (lists.empty() ? "; missing: " : " or ") + list;
  }
  const bool is_too_much = positional.size() > most;
  return is_too_much ? "; expected at most " + std::to_string(most) + " by position" : lists;
}

void Signature::refuse_function(const py::args& positional, const py::kwargs& keywords) const {
  std::string lines;
  for (const CallForm& form : forms_) lines += (lines.empty() ? "" : " or ") + line(form);
  std::string names = std::to_string(positional.size()) + " by position";
  std::string meant, later;
  const std::vector<Parameter> all = merged();
  for (const auto& item : items_of(keywords)) {
    const std::string word = keyword_text(item.first);
    append_item(names, word);
    std::string best;
    for (const Parameter& parameter : all) {
      if (word == parameter.name) {
        best.clear();
        break;
      }
      const bool is_longer = parameter.name.size() > best.size();
      if (is_longer && resembles(word, parameter.name)) best = parameter.name;
    }
    if (!best.empty()) append_item(meant, best);
    if (parameter_of(all, word) != nullptr) continue;
    const std::string elsewhere = taken_elsewhere(subject(), word);
    if (!elsewhere.empty()) later += "; " + elsewhere;
  }
  if (!later.empty()) {
    throw py::type_error("[" + subject() + "] no form takes (" + names + ")" + later);
  }
  if (!meant.empty()) meant = "; did you mean " + meant + "?";
  throw py::type_error("[" + subject() + "] no form takes (" + names + ")" +
                       missing(positional, keywords) + meant +
                       (meant.empty() ? "; write " : " Write ") + lines);
}

// The form whose first arguments may be these values, or that needs least.
const CallForm& Signature::meant_by(const py::args& positional) const {
  const auto misses = [&](const CallForm& called) {
    const std::vector<Parameter>& form = called.parameters;
    std::size_t taken = 0;
    while (taken < form.size() && taken < positional.size() &&
           may_take(form[taken].annotation, positional[taken])) {
      ++taken;
    }
    const auto needed = std::ranges::count_if(form, &Parameter::required);
    return std::pair(positional.size() - taken, needed);
  };
  return *std::ranges::min_element(forms_, {}, misses);
}

void Signature::refuse(const py::dict& given) const {
  constexpr std::size_t kMost = 4;
  std::vector<const CallForm*> nearest;
  Distance best;
  best.count = std::numeric_limits<int>::max();
  for (const CallForm& form : forms_) {
    // Who decodes says so.
    const bool decodes = forms_.size() > 1 && parameter_of(form.parameters, "coder") != nullptr;
    if (decodes && !given.contains("coder")) continue;
    Distance candidate = distance(form.parameters, given);
    if (candidate.count < best.count) {
      best = std::move(candidate);
      nearest.clear();
    } else if (candidate.count > best.count || nearest.size() == kMost) {
      continue;
    } else if (!candidate.missing.empty()) {
      best.missing += (best.missing.empty() ? "" : " or ") + candidate.missing;
    }
    nearest.push_back(&form);
  }
  std::string names, elsewhere;
  const DictItems items = items_of(given);
  const std::vector<Parameter> all = merged();
  for (const auto& item : items) {
    const std::string word = keyword_text(item.first);
    append_item(names, word);
    if (parameter_of(all, word) != nullptr) continue;
    const std::string where = taken_elsewhere(subject(), word);
    if (!where.empty()) elsewhere += "; " + where;
  }
  std::string text = "[" + subject() + "] no form takes (" + names + ")" + elsewhere;
  if (!elsewhere.empty()) throw py::type_error(text);
  if (!best.meant.empty()) text += "; did you mean " + best.meant + "?";
  text += best.meant.empty() ? "; the nearest is " : " The nearest is ";
  for (const CallForm* form : nearest) text += (form == nearest[0] ? "" : " or ") + shown(*form);
  if (!best.missing.empty()) {
    text += "; missing: " + best.missing;
  }
  if (!best.surplus.empty()) {
    text += "; not in it: " + best.surplus;
  }
  for (const auto& item : items) {
    // A form may take a list of what was given alone.
    const std::string name = keyword_text(item.first);
    for (const CallForm& form : forms_) {
      const Parameter* const plural = parameter_of(form.parameters, name + "s");
      if (parameter_of(form.parameters, name) != nullptr || plural == nullptr) continue;
      const bool is_list = plural->annotation.find("Sequence[") != std::string::npos;
      const std::string one = Where{"", "", plural->annotation}.of_item(0).expected;
      const auto listed = py::reinterpret_steal<py::dict>(PyDict_Copy(given.ptr()));
      listed.attr("pop")(item.first);
      listed[py::str(name + "s")] = item.second;
      if (!is_list || !may_take(one, item.second) || !fits(form, listed)) continue;
      text += "; write " + name + "s=[" + name + "]";
      if (&form != nearest[0]) text += ": " + shown(form);
    }
  }
  throw py::type_error(text);
}

}  // namespace traingraph::python
