// Shared layers: what the first run adds is kept, and taken by those that follow.
#include <algorithm>

#include <traingraph/errors.h>
#include <traingraph/mutex.h>
#include <traingraph/shared_layers.h>

#include "graph/state/graph_state.h"
#include "graph/state/shared_layers_run.h"

namespace traingraph {
namespace {

// Whether both compute the same of their parameters, whatever these are.
bool are_alike(const Layer& a, const Layer& b) {
  const auto of_a = a.named_parameters(), of_b = b.named_parameters();
  return a.description() == b.description() &&
         std::ranges::equal(of_a, of_b, [](const auto& one, const auto& other) {
           if (one.second == nullptr || other.second == nullptr) return one == other;
           return one.second->descriptor() == other.second->descriptor();
         });
}

[[noreturn]] void refuse(const std::string& expected, const std::string& got) {
  throw ShapeError("[shared] expected " + expected + ", as at the first use, but got " + got);
}

}  // namespace

LayerPtr SharedLayers::Run::taken(const LayerPtr& given) {
  LayerPtr layer = given;
  if (given != nullptr && !given->named_parameters().empty()) {
    const auto [found, is_new] = chosen_.try_emplace(given, given);
    if (is_new && is_first_) {
      kept_.push_back(given);
    } else if (is_new) {
      if (next_ == kept_.size()) refuse("no further layer", given->description());
      const LayerPtr& kept = kept_[next_++];
      if (!are_alike(*kept, *given)) refuse(kept->description(), given->description());
      found->second = kept;
    }
    layer = found->second;
  }
  return outer_ == nullptr ? layer : outer_->taken(layer);
}

void SharedLayers::Run::check_end() const {
  if (!is_first_ && next_ < kept_.size()) refuse(kept_[next_]->description(), "no layer for it");
}

struct SharedLayers::Kept {
  mutable RecursiveMutex mutex;  // one run at a time
  std::vector<LayerPtr> layers;
  int runs = 0;  // that count
};

struct SharedLayers::Trial::Runs {
  Runs* outer;
  std::vector<std::shared_ptr<Kept>> of;  // one for each

  static thread_local Runs* innermost;
};
thread_local SharedLayers::Trial::Runs* SharedLayers::Trial::Runs::innermost = nullptr;

SharedLayers::Trial::Trial() : runs_(new Runs{Runs::innermost, {}}) {
  Runs::innermost = runs_.get();
}

SharedLayers::Trial::~Trial() {
  Runs::innermost = runs_->outer;
  for (const std::shared_ptr<Kept>& kept : runs_->of) {
    if (!kept->mutex.lock_unless_lost()) continue;
    if (--kept->runs == 0) kept->layers.clear();
    kept->mutex.unlock();
  }
}

void SharedLayers::Trial::keep() {
  if (Runs* const outer = runs_->outer) {
    outer->of.insert(outer->of.end(), runs_->of.begin(), runs_->of.end());
  }
  runs_->of.clear();
}

SharedLayers::SharedLayers() : kept_(std::make_shared<Kept>()) {}
SharedLayers::~SharedLayers() = default;

TensorPtr SharedLayers::run(const GraphPtr& graph, const std::function<TensorPtr()>& add) {
  const std::lock_guard lock(kept_->mutex);
  Run*& current = graph->state().sharing;
  Run* const outer = current;
  Run run(kept_->layers, outer);
  current = &run;
  try {
    Trial inside;
    TensorPtr result = add();
    run.check_end();
    inside.keep();
    if (Trial::Runs* const trial = Trial::Runs::innermost->outer) trial->of.push_back(kept_);
    ++kept_->runs;
    current = outer;
    return result;
  } catch (...) {
    current = outer;
    if (run.is_first()) kept_->layers.clear();
    throw;
  }
}

std::vector<LayerPtr> SharedLayers::layers() const {
  const std::lock_guard lock(kept_->mutex);
  return kept_->layers;
}

}  // namespace traingraph
