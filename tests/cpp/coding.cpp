#include <pybind11/stl.h>

#include <string>
#include <utility>

#include <traingraph/mps/mps.h>

#include "mps/coding/archive_text.h"
#include "testing.h"

namespace traingraph::testing {
namespace {

using mps::KeyedArchiver;
using mps::KeyedUnarchiver;

// Of the archive of a kernel, or of a convolution's descriptor.
std::string read_and_written(const std::string& data, const std::string& device) {
  const mps::Device on = mps::Device::named(device);
  if (KeyedUnarchiver(data, on).kind().ends_with("Descriptor")) {
    return KeyedArchiver::archived_data(KeyedUnarchiver::unarchived_convolution_descriptor(data));
  }
  return KeyedArchiver::archived_data(*KeyedUnarchiver::unarchived_kernel(data, on));
}

std::string copied(const std::string& data, const std::string& from, const std::string& to) {
  const mps::KernelPtr kernel = KeyedUnarchiver::unarchived_kernel(data, mps::Device::named(from));
  const mps::KernelPtr copy = kernel->copy(mps::Device::named(to));
  return copy->device() == mps::Device::named(to) ? KeyedArchiver::archived_data(*copy) : "";
}

}  // namespace

void bind_coding(py::module_& module) {
  module.def("coded_kinds", mps::coded_kinds);
  module.def("read_and_written", [](const std::string& data, const std::string& device) {
    return py::bytes(read_and_written(data, device));
  });
  module.def("copied", [](const std::string& data, const std::string& from, const std::string& to) {
    return py::bytes(copied(data, from, to));
  });
  module.def("json_again",
             [](const std::string& text) { return py::bytes(mps::to_json(mps::from_json(text))); });
}

}  // namespace traingraph::testing
