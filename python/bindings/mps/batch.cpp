// Binds MPSImageBatch and MPSStateBatch, read-only sequences, and the functions over batches.
#include <algorithm>
#include <string>

#include "mps/mps_bindings.h"

namespace traingraph::python {
namespace {

// As a list of its items would behave, but that it cannot change.
template <typename Item>
void bind_batch(py::module_& module, const char* name, const char* item, const char* doc) {
  using Self = Batch<Item>;
  const auto listed = [](const Self& self) {
    py::list items(self.items.size());
    for (std::size_t k = 0; k < self.items.size(); ++k) items[k] = py::cast(self.items[k]);
    return items;
  };
  auto cls = BoundClass<Self>(module, name, doc);
  cls.def("__len__", [](const Self& self) { return self.items.size(); });
  const std::string one = std::string("__getitem__(self, arg0: typing.SupportsIndex) -> ") + item;
  const std::string some = std::string("__getitem__(self, arg0: slice) -> list[") + item + "]";
  py::options options;
  options.disable_function_signatures();
  const std::string both =
      "__getitem__(*args, **kwargs)\nOverloaded function.\n\n1. " + one + "\n\n2. " + some + "\n";
  cls.def(
      "__getitem__",
      [listed](const Self& self, const py::object& at) -> py::object {
        if (py::isinstance<py::slice>(at)) return listed(self)[at];
        const auto size = static_cast<py::ssize_t>(self.items.size());
        const py::ssize_t given = PyNumber_AsSsize_t(at.ptr(), PyExc_IndexError);
        if (given == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
        const py::ssize_t index = given < 0 ? given + size : given;
        if (index < 0 || index >= size) {
          throw py::index_error("expected an index below " + std::to_string(size) + " but got " +
                                std::to_string(given));
        }
        return py::cast(self.items[static_cast<std::size_t>(index)]);
      },
      both.c_str());
  const auto list_method = [&cls, listed](const char* method, const char* signature) {
    cls.def(
        method,
        [listed, method](const Self& self, const py::object& other) -> py::object {
          const py::object right = py::isinstance<Self>(other)
                                       ? listed(py::cast<const Self&>(other))
                                       : py::object(other);
          return listed(self).attr(method)(right);
        },
        signature);
  };
  list_method("__eq__", "__eq__(self, arg0: object) -> bool");
  list_method("__contains__", "__contains__(self, arg0: object) -> bool");
  cls.def(
      "__hash__", [listed](const Self& self) { return py::hash(py::tuple(listed(self))); },
      "__hash__(self) -> int");
  const std::string list = std::string("list[") + item + "]";
  list_method("__add__", ("__add__(self, arg0: " + list + ") -> " + list).c_str());
  cls.def(
      "__radd__", [listed](const Self& self, const py::list& left) { return left + listed(self); },
      ("__radd__(self, arg0: " + list + ") -> " + list).c_str());
  cls.def(
      "__iter__", [listed](const Self& self) { return py::iter(listed(self)); },
      (std::string("__iter__(self) -> collections.abc.Iterator[") + item + "]").c_str());
  cls.def(
      "__repr__", [listed](const Self& self) { return py::repr(listed(self)); },
      "__repr__(self) -> str");
  py::module_::import("collections.abc").attr("Sequence").attr("register")(cls);
}

template <typename Items>
void bind_functions(py::module_& module, const std::string& item, const char* type) {
  const std::string list = std::string("collections.abc.Sequence[") + type + "]";
  py::options options;
  options.disable_function_signatures();
  const std::string increment = item + "_batch_increment_read_count";
  module.def(
      increment.c_str(),
      [increment, list](const py::object& batch, const py::object& amount) {
        mps::increment_read_count(convert<Items>(batch, {increment, "batch", list}),
                                  to_integer(amount, {increment, "amount", "int"}));
      },
      py::arg("batch"), py::arg("amount"),
      (increment + "(batch: " + list +
       ", amount: int) -> None\n\nAdds to the read count of every " + "different temporary " +
       item + ". Errors: raising one from 0.")
          .c_str());
  const std::string synchronize = item + "_batch_synchronize";
  module.def(
      synchronize.c_str(),
      [synchronize, list](const py::object& batch, const mps::CommandBufferPtr& command_buffer) {
        mps::synchronize(convert<Items>(batch, {synchronize, "batch", list}), *command_buffer);
      },
      py::arg("batch"), py::arg("command_buffer").none(false),
      (synchronize + "(batch: " + list + ", command_buffer: MTLCommandBuffer) -> None\n\n" +
       "synchronize() of every " + item + ".")
          .c_str());
}

}  // namespace

void bind_mps_batches(py::module_& module) {
  bind_batch<mps::ImagePtr>(module, "MPSImageBatch", "MPSImage",
                            "Images that belong together: a sequence.");
  bind_batch<mps::StatePtr>(module, "MPSStateBatch", "MPSState",
                            "States, one per image or one object for all: a sequence.");
  bind_functions<mps::ImageBatch>(module, "image", "MPSImage");
  bind_functions<mps::StateBatch>(module, "state", "MPSState");
}

}  // namespace traingraph::python
