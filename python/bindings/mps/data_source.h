// Data sources that are Python objects (UserSource).
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "convert/release.h"
#include "mps/coding.h"
#include "mps/encoding.h"
#include "mps/mps_bindings.h"

namespace traingraph::python {

// Any object with the members that `protocol` asks for. Graphs call after the run too, on its
// thread: each method takes the GIL.
template <class Base>
class UserSource : public Base {
 public:
  // Raises TypeError for an object without `member`, which every one has.
  UserSource(const py::object& object, std::string protocol, const char* member)
      : kept_(share(object)), protocol_(std::move(protocol)) {
    if (!py::hasattr(object, member)) {
      refuse({protocol_, "a data source", std::string("an object with ") + member}, object);
    }
  }

  bool load() override {
    const HeldGil held;
    return !has("load") || to_bool(answer("load"), where("load", "result", "bool"));
  }
  void purge() override {
    const HeldGil held;
    if (has("purge")) object().attr("purge")();
  }
  std::string label() const override {
    const HeldGil held;
    const py::object value = answer("label");
    return value.is_none() ? "" : printable(value);
  }
  py::object object() const { return shared_object(kept_); }
  void visit_owned(OwnershipVisitor& visitor) const override { visitor(kept_); }

 protected:
  // The object's own copy as `wrap` has it; null where it stands for its copy as well.
  template <class Wrap>
  auto copied(const mps::Device& device, Wrap wrap) const {
    const HeldGil held;
    const py::object other = python_coding("copied_source")(object(), device);
    return other.is(object()) ? nullptr : wrap(other);
  }
  // These expect the GIL.
  bool has(const char* name) const { return py::hasattr(object(), name); }
  // None where the object has no such method.
  template <class... Given>
  py::object answer(const char* name, const Given&... given) const {
    return has(name) ? py::object(object().attr(name)(given...)) : py::none();
  }
  // What an update on the device returns; null for None. It takes the GIL, as the next one does.
  template <class State, class... Given>
  State new_state(const char* name, const char* type, const Given&... given) const {
    const HeldGil held;
    const py::object result = answer(name, given...);
    if (result.is_none()) return nullptr;
    return convert<State>(result, where(name, "result", type));
  }
  // What an update on the CPU returns.
  template <class... Given>
  bool says_yes(const char* name, const Given&... given) const {
    const HeldGil held;
    const py::object result = answer(name, given...);
    return !result.is_none() && to_bool(result, where(name, "result", "bool | None"));
  }
  // It takes the GIL.
  mps::SourceNumbers numbers(const char* name, DataType type) const {
    const HeldGil held;
    const py::object value = answer(name);
    if (value.is_none()) return {};
    return elements_of(value, type, method(name).c_str(), name);
  }
  std::string method(const char* name) const { return protocol_ + "." + name; }
  Where where(const char* name, const char* argument, const char* type) const {
    return {method(name), argument, type};
  }

  std::shared_ptr<const void> kept_;
  std::string protocol_;
};

// Of numbers per channel.
template <class Base>
class UserNormalizationSource : public UserSource<Base> {
 public:
  UserNormalizationSource(const py::object& object, std::string protocol)
      : UserSource<Base>(object, std::move(protocol), "number_of_feature_channels") {}
  std::int64_t number_of_feature_channels() const override {
    return integer("number_of_feature_channels");
  }
  mps::SourceNumbers gamma() const override { return channels("gamma"); }
  mps::SourceNumbers beta() const override { return channels("beta"); }
  float epsilon() const override {
    const HeldGil held;
    const py::object value = this->answer("epsilon");
    if (value.is_none()) return Base::epsilon();
    return static_cast<float>(to_number(value, {this->protocol_, "epsilon", "float"}));
  }

 protected:
  // A property in some of Apple's protocols, a method in others; here either.
  std::int64_t integer(const char* name) const {
    const HeldGil held;
    py::object value = this->object().attr(name);
    if (PyCallable_Check(value.ptr()) != 0) value = value();
    return to_integer(value, {this->protocol_, name, "int"});
  }
  mps::SourceNumbers channels(const char* name) const {
    return this->numbers(name, DataType::kFloat32);
  }
};

// A data source over an object of the user's, or the one over arrays that it stands for; and back.
template <class Stored, class Wrap>
auto to_source(const py::object& object, Wrap wrap) -> decltype(wrap(object)) {
  if (py::isinstance<Stored>(object)) return py::cast<std::shared_ptr<Stored>>(object);
  return wrap(object);
}
template <class User, class Stored, class Source>
py::object from_source(const std::shared_ptr<Source>& source) {
  if (const auto* const user = dynamic_cast<const User*>(source.get())) return user->object();
  return py::cast(std::dynamic_pointer_cast<Stored>(source));
}

}  // namespace traingraph::python
