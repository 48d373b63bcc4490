// Hooks of Python's cycle collector: before a full collection the core's owners are counted, and an
// object of Python stands for each object of the core while the collector runs.
#include "classes/collector.h"

#include <cstddef>
#include <map>
#include <memory>
#include <new>
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

// What stands for a block, for the time of a collection.
struct Twin {
  PyObject_HEAD std::size_t block;
};
PyTypeObject* twin_type = nullptr;

// Who owns what, by control blocks of shared pointers.
class Owners : public OwnershipVisitor {
 public:
  Owners() {
    for (const auto& [value, instance] : py::detail::get_internals().registered_instances) {
      for (auto& place : py::detail::values_and_holders(instance)) {
        const auto found = classes().find(place.type->type);
        if (found == classes().end() || !place || !place.holder_constructed()) continue;
        const std::size_t first = edges_.size();
        found->second(place, *this);
        wrappers_.push_back({reinterpret_cast<PyObject*>(instance), {first, edges_.size()}});
      }
    }
    for (std::size_t k = 0; k < blocks_.size(); ++k) {
      const std::shared_ptr<const void> alive = blocks_[k].pointer.lock();
      if (alive == nullptr) continue;
      const std::size_t first = edges_.size();
      if (const Descend descend = blocks_[k].descend) descend(blocks_[k].object, *this);
      blocks_[k].owned = {first, edges_.size()};
    }
    for (std::size_t k = 0; k < blocks_.size(); ++k) {
      if (blocks_[k].pointer.use_count() != blocks_[k].owners) pin(k);
    }
  }

 protected:
  struct Range {
    std::size_t first = 0;
    std::size_t end = 0;
  };
  struct Block {
    std::weak_ptr<const void> pointer;
    const void* object;
    Descend descend;
    Kept* kept;
    long owners = 0;
    Range owned;                             // of edges
    bool pinned = false;                     // it has an owner that was not counted
    Twin* twin = nullptr;                    // unless it is pinned
    std::shared_ptr<const void> kept_alive;  // what the twin of a Python object shows
  };

  std::vector<Block> blocks_;
  std::vector<std::size_t> edges_;  // numbers of blocks
  std::vector<std::pair<PyObject*, Range>> wrappers_;

 private:
  void visit(const std::shared_ptr<const void>& owned, const void* object,
             Descend descend) override {
    Kept* const kept = descend == nullptr ? kept_by(owned) : nullptr;
    const bool leads_on = descend != nullptr || (kept != nullptr && PyObject_IS_GC(kept->object));
    if (!leads_on) return;
    const auto [place, is_new] = numbers_.try_emplace(owned, blocks_.size());
    if (is_new) blocks_.push_back({owned, object, descend, kept, 0, {}, false, nullptr, nullptr});
    ++blocks_[place->second].owners;
    edges_.push_back(place->second);
  }

  void pin(std::size_t first) {
    std::vector<std::size_t> rest = {first};
    while (!rest.empty()) {
      Block& block = blocks_[rest.back()];
      rest.pop_back();
      if (std::exchange(block.pinned, true)) continue;
      for (std::size_t k = block.owned.first; k < block.owned.end; ++k) rest.push_back(edges_[k]);
    }
  }

  std::map<std::weak_ptr<const void>, std::size_t, std::owner_less<>> numbers_;
};

// The owners with their twins, which have one reference for each owner. A wrapper shows the twins
// of what it owns, a twin those of what its block owns, and that of a Python object that object:
// all of their references are seen. They go when the collection ends, not with what it clears,
// because the last of a chain would take all others down with it, one inside the other.
class Shown final : public Owners {
 public:
  Shown() {
    try {
      make();
    } catch (...) {
      for (const Block& block : blocks_) Py_XDECREF(block.twin);
      throw;
    }
    for_each_reference([](Twin* twin) { Py_INCREF(twin); });
    for (const Block& block : blocks_) Py_XDECREF(block.twin);
  }
  ~Shown() override {
    for (const Block& block : blocks_) Py_XINCREF(block.twin);
    for_each_reference([](Twin* twin) { Py_DECREF(twin); });
    for (const Block& block : blocks_) Py_XDECREF(block.twin);
  }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;

  // What a collection calls: nothing is allocated here. A new wrapper may own objects that were
  // counted without it, so that what follows from the count is no longer known.
  int traverse_wrapper(PyObject* wrapper, visitproc visit, void* arg) const {
    if (!is_valid()) return 0;
    const auto [first, end] = by_wrapper_.equal_range(wrapper);
    for (auto at = first; at != end; ++at) {
      if (const int stop = traverse_owned(at->second, visit, arg)) return stop;
    }
    return 0;
  }
  int traverse_twin(const Twin& twin, visitproc visit, void* arg) const {
    if (!is_valid()) return 0;
    const Block& block = blocks_[twin.block];
    if (block.kept != nullptr) Py_VISIT(block.kept->object);
    return traverse_owned(block.owned, visit, arg);
  }
  void clear_twin(const Twin& twin) const {
    const Block& block = blocks_[twin.block];
    if (is_valid() && block.kept != nullptr) block.kept->let_go();
  }
  // Whether the twin is one of these; who asked the collector for objects may keep older ones.
  bool has(const Twin* twin) const {
    return twin->block < blocks_.size() && blocks_[twin->block].twin == twin;
  }

 private:
  void make() {
    made_before_ = objects_made;
    bool any = false;
    for (const Block& block : blocks_) any |= block.kept != nullptr && !block.pinned;
    if (!any) return;
    by_wrapper_.reserve(wrappers_.size());
    for (const auto& [wrapper, owned] : wrappers_) by_wrapper_.emplace(wrapper, owned);
    for (std::size_t k = 0; k < blocks_.size(); ++k) {
      Block& block = blocks_[k];
      if (block.pinned) continue;
      if (block.kept != nullptr) block.kept_alive = block.pointer.lock();
      block.twin = PyObject_GC_New(Twin, twin_type);
      if (block.twin == nullptr) {
        PyErr_Clear();
        throw std::bad_alloc();
      }
      block.twin->block = k;
      PyObject_GC_Track(block.twin);
    }
  }

  bool is_valid() const { return made_before_ == objects_made; }

  template <class Do>
  void for_each_reference(Do act) const {
    for (const auto& [wrapper, owned] : by_wrapper_) for_each_owned(owned, act);
    for (const Block& block : blocks_) {
      if (block.twin != nullptr) for_each_owned(block.owned, act);
    }
  }
  template <class Do>
  void for_each_owned(const Range& owned, Do act) const {
    for (std::size_t k = owned.first; k < owned.end; ++k) {
      if (Twin* const twin = blocks_[edges_[k]].twin) act(twin);
    }
  }
  int traverse_owned(const Range& owned, visitproc visit, void* arg) const {
    for (std::size_t k = owned.first; k < owned.end; ++k) Py_VISIT(blocks_[edges_[k]].twin);
    return 0;
  }

  std::unordered_multimap<PyObject*, Range> by_wrapper_;
  std::uint64_t made_before_ = 0;
};

const Shown* shown = nullptr;  // while a full collection runs

void end() noexcept { delete std::exchange(shown, nullptr); }

// Where memory runs out nothing is shown, and what the core owns stays.
void begin() noexcept {
  end();
  try {
    shown = new Shown;
  } catch (...) {
  }
}

// --- called by Python ----------------------------------------------------------------------------

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  // What it keeps alive because it is a part of that.
  if (reinterpret_cast<py::detail::instance*>(self)->has_patients) {
    const auto& patients = py::detail::get_internals().patients;
    if (const auto found = patients.find(self); found != patients.end()) {
      for (PyObject* kept : found->second) Py_VISIT(kept);
    }
  }
  return shown == nullptr ? 0 : shown->traverse_wrapper(self, visit, arg);
}

int traverse_twin(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const auto* const twin = reinterpret_cast<const Twin*>(self);
  return shown == nullptr || !shown->has(twin) ? 0 : shown->traverse_twin(*twin, visit, arg);
}

int clear_twin(PyObject* self) {
  const auto* const twin = reinterpret_cast<const Twin*>(self);
  if (shown != nullptr && shown->has(twin)) shown->clear_twin(*twin);
  return 0;
}

void destroy_twin(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

PyObject* allocate(PyTypeObject* type, Py_ssize_t items) {
  ++objects_made;
  return PyType_GenericAlloc(type, items);
}

// Written in Python's own terms: a failing allocation leaves the collection as it is.
PyObject* on_collection(PyObject*, PyObject* arguments) {
  constexpr long kFull = 2;
  PyObject* when = nullptr;
  PyObject* info = nullptr;
  if (PyArg_ParseTuple(arguments, "UO!", &when, &PyDict_Type, &info) == 0) return nullptr;
  PyObject* const generation = PyDict_GetItemString(info, "generation");
  const bool is_full =
      generation != nullptr && PyLong_Check(generation) && PyLong_AsLong(generation) == kFull;
  const bool starts = PyUnicode_CompareWithASCIIString(when, "start") == 0;
  // An end that was not told is made up for.
  starts&& is_full ? begin() : end();
  Py_RETURN_NONE;
}

}  // namespace

py::custom_type_setup collected(VisitInstance visit) {
  return py::custom_type_setup([visit](PyHeapTypeObject* heap_type) {
    PyTypeObject* const type = &heap_type->ht_type;
    type->tp_flags |= Py_TPFLAGS_HAVE_GC;
    type->tp_traverse = traverse;
    type->tp_alloc = allocate;
    if (visit != nullptr) classes()[type] = visit;
  });
}

void bind_collector() {
  static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_twin)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear_twin)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(destroy_twin)},
                                {0, nullptr}};
  static PyType_Spec spec = {"traingraph._core._Shared", sizeof(Twin), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  twin_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (twin_type == nullptr) throw py::error_already_set();
  static PyMethodDef method = {"on_collection", on_collection, METH_VARARGS, nullptr};
  const auto callback = py::reinterpret_steal<py::object>(PyCFunction_New(&method, nullptr));
  if (!callback) throw py::error_already_set();
  py::module_::import("gc").attr("callbacks").attr("append")(callback);
}

}  // namespace traingraph::python
