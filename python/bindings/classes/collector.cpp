// Hooks of Python's cycle collector: before a full collection the core's owners are counted, and
// tp_traverse and tp_clear of wrappers then see the references that they alone hold.
#include "classes/collector.h"

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "convert/release.h"

namespace py = pybind11;

namespace traingraph::python {

std::uint64_t objects_made = 0;

namespace {

std::unordered_map<PyTypeObject*, VisitInstance>& classes() {
  static auto* const by_type = new std::unordered_map<PyTypeObject*, VisitInstance>;
  return *by_type;
}

// References that wrappers show to the collector, while it runs.
struct Shown {
  std::unordered_map<PyObject*, std::vector<std::shared_ptr<Kept>>> by_wrapper;
  std::uint64_t objects_made = 0;

  // A new wrapper may own objects that were counted without it.
  bool valid() const { return objects_made == python::objects_made; }
};
Shown& shown() {
  static auto* const instance = new Shown;
  return *instance;
}

// Who owns what, by control blocks of shared pointers.
class Owners final : public OwnershipVisitor {
 public:
  Owners() {
    for (const auto& [value, instance] : py::detail::get_internals().registered_instances) {
      for (auto& place : py::detail::values_and_holders(instance)) {
        const auto found = classes().find(place.type->type);
        if (found == classes().end() || !place || !place.holder_constructed()) continue;
        found->second(place, *this);
        wrappers_.emplace_back(reinterpret_cast<PyObject*>(instance), std::exchange(owned_, {}));
      }
    }
    for (std::size_t k = 0; k < blocks_.size(); ++k) {
      const std::shared_ptr<const void> alive = blocks_[k].pointer.lock();
      if (alive == nullptr || blocks_[k].descend == nullptr) continue;
      blocks_[k].descend(blocks_[k].object, *this);
      blocks_[k].owned = std::exchange(owned_, {});
    }
    for (Block& block : blocks_) {
      if (block.pointer.use_count() != block.owners) pin(block);
    }
  }

  // Gives each wrapper a reference to each object that it owns with other wrappers alone.
  void show(Shown& to) {
    std::vector<std::size_t> seen(blocks_.size(), 0), rest;
    for (std::size_t w = 0; w < wrappers_.size(); ++w) {
      const auto& [wrapper, owned] = wrappers_[w];
      for (rest = owned; !rest.empty();) {
        const std::size_t k = rest.back();
        rest.pop_back();
        Block& block = blocks_[k];
        if (block.pinned || std::exchange(seen[k], w + 1) == w + 1) continue;
        rest.insert(rest.end(), block.owned.begin(), block.owned.end());
        if (block.kept == nullptr) continue;
        // The first one is given the reference that is there.
        if (std::exchange(block.is_shown, true)) {
          Py_INCREF(block.kept->object);
          ++block.kept->references;
        }
        to.by_wrapper[wrapper].emplace_back(block.pointer.lock(), block.kept);
      }
    }
  }

 private:
  struct Block {
    std::weak_ptr<const void> pointer;
    const void* object;
    Descend descend;
    Kept* kept;
    long owners = 0;
    std::vector<std::size_t> owned;
    bool pinned = false;  // it has an owner that was not counted
    bool is_shown = false;
  };

  void visit(const std::shared_ptr<const void>& owned, const void* object,
             Descend descend) override {
    Kept* const kept = descend == nullptr ? kept_by(owned) : nullptr;
    const bool leads_on = descend != nullptr || (kept != nullptr && PyObject_IS_GC(kept->object));
    if (!leads_on) return;
    const auto [place, is_new] = numbers_.try_emplace(owned, blocks_.size());
    if (is_new) blocks_.push_back({owned, object, descend, kept, 0, {}});
    ++blocks_[place->second].owners;
    owned_.push_back(place->second);
  }

  void pin(Block& first) {
    std::vector<Block*> rest = {&first};
    while (!rest.empty()) {
      Block& block = *rest.back();
      rest.pop_back();
      if (std::exchange(block.pinned, true)) continue;
      for (const std::size_t k : block.owned) rest.push_back(&blocks_[k]);
    }
  }

  std::map<std::weak_ptr<const void>, std::size_t, std::owner_less<>> numbers_;
  std::vector<Block> blocks_;
  std::vector<std::pair<PyObject*, std::vector<std::size_t>>> wrappers_;
  std::vector<std::size_t> owned_;  // by what is visited
};

void begin() {
  Shown next;
  Owners().show(next);
  next.objects_made = objects_made;
  shown() = std::move(next);
}

void end() {
  const Shown ended = std::exchange(shown(), {});
  for (const auto& [wrapper, objects] : ended.by_wrapper) {
    for (const std::shared_ptr<Kept>& kept : objects) {
      if (kept->references > 1) kept->let_go();
    }
  }
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  // What it keeps alive because it is a part of that.
  if (reinterpret_cast<py::detail::instance*>(self)->has_patients) {
    for (PyObject* kept : py::detail::get_internals().patients.at(self)) Py_VISIT(kept);
  }
  const Shown& now = shown();
  if (now.by_wrapper.empty() || !now.valid()) return 0;
  const auto found = now.by_wrapper.find(self);
  if (found == now.by_wrapper.end()) return 0;
  for (const std::shared_ptr<Kept>& kept : found->second) Py_VISIT(kept->object);
  return 0;
}

int clear(PyObject* self) {
  Shown& now = shown();
  if (now.by_wrapper.empty() || !now.valid()) return 0;
  const auto objects = now.by_wrapper.extract(self);
  if (objects.empty()) return 0;
  for (const std::shared_ptr<Kept>& kept : objects.mapped()) kept->let_go();
  return 0;
}

PyObject* allocate(PyTypeObject* type, Py_ssize_t items) {
  ++objects_made;
  return PyType_GenericAlloc(type, items);
}

}  // namespace

py::custom_type_setup collected(VisitInstance visit) {
  return py::custom_type_setup([visit](PyHeapTypeObject* heap_type) {
    PyTypeObject* const type = &heap_type->ht_type;
    type->tp_flags |= Py_TPFLAGS_HAVE_GC;
    type->tp_traverse = traverse;
    type->tp_clear = clear;
    type->tp_alloc = allocate;
    if (visit != nullptr) classes()[type] = visit;
  });
}

void bind_collector() {
  const py::cpp_function callback([](const std::string& when, const py::dict& info) {
    constexpr int kFull = 2;
    if (py::cast<int>(info["generation"]) != kFull) return;
    when == "start" ? begin() : end();
  });
  py::module_::import("gc").attr("callbacks").attr("append")(callback);
}

}  // namespace traingraph::python
