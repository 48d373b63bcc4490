// Binds MPSImageBatch and MPSStateBatch, read-only sequences, and the functions over batches.
#include <algorithm>
#include <string>

#include <pybind11/typing.h>

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
  def_method(cls, "__getitem__", item,
             {"index: typing.SupportsIndex", std::string("index: slice -> list[") + item + "]"}, "",
             [listed](const Self& self, const Arguments& arguments) -> py::object {
               const py::object at = arguments["index"];
               if (py::isinstance<py::slice>(at)) return listed(self)[at];
               const auto size = static_cast<py::ssize_t>(self.items.size());
               const py::ssize_t given = PyNumber_AsSsize_t(at.ptr(), PyExc_IndexError);
               if (given == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
               const py::ssize_t index = given < 0 ? given + size : given;
               if (index < 0 || index >= size) {
                 throw py::index_error("expected an index below " + std::to_string(size) +
                                       " but got " + std::to_string(given));
               }
               return py::cast(self.items[static_cast<std::size_t>(index)]);
             });
  const std::string list = std::string("list[") + item + "]";
  const auto list_method = [&](const char* method, const std::string& returns,
                               const std::string& taken) {
    def_method(cls, method, returns.c_str(), {"other: " + taken}, "",
               [listed, method](const Self& self, const Arguments& arguments) -> py::object {
                 const py::object other = arguments["other"];
                 const py::object right =
                     py::isinstance<Self>(other) ? listed(py::cast<const Self&>(other)) : other;
                 // A list has no __radd__.
                 return std::string_view(method) == "__radd__" ? right + listed(self)
                                                               : listed(self).attr(method)(right);
               });
  };
  list_method("__eq__", "bool", "object");
  list_method("__contains__", "bool", "object");
  list_method("__add__", list, list);
  list_method("__radd__", list, list);
  cls.def("__hash__", [listed](const Self& self) { return py::hash(py::tuple(listed(self))); });
  cls.def("__iter__", [listed](const Self& self) -> py::typing::Iterator<Item> {
    return py::iter(listed(self));
  });
  cls.def("__repr__", [listed](const Self& self) { return py::repr(listed(self)); });
  py::module_::import("collections.abc").attr("Sequence").attr("register")(cls);
}

template <typename Items>
void bind_functions(py::module_& module, const std::string& item, const char* type) {
  const std::string batch = std::string("batch: Sequence[") + type + "], ";
  def_function(module, (item + "_batch_increment_read_count").c_str(), "None",
               {batch + "amount: int"},
               ("Adds to the read count of every different temporary " + item +
                ". Errors: raising one from 0.")
                   .c_str(),
               [](const Arguments& arguments) {
                 mps::increment_read_count(arguments.get<Items>("batch"),
                                           arguments.get<std::int64_t>("amount"));
               });
  def_function(module, (item + "_batch_synchronize").c_str(), "None",
               {batch + "command_buffer: MTLCommandBuffer"},
               ("synchronize() of every " + item + ".").c_str(), [](const Arguments& arguments) {
                 mps::synchronize(arguments.get<Items>("batch"),
                                  *arguments.get<mps::CommandBufferPtr>("command_buffer"));
               });
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
