#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <string>

#include <traingraph/errors.h>

namespace traingraph::python {

template <typename Owner, typename Value>
struct Member {
  const char* name;
  Value Owner::* member;
  const char* doc;
};

// A record of these members: they are read, and it can be pickled and copied.
template <typename Class, typename... Members>
void def_record(Class& cls, Members... members) {
  using Self = typename Class::type;
  using State = pybind11::typing::Tuple<pybind11::object, pybind11::ellipsis>;
  (cls.def_readonly(members.name, members.member, members.doc), ...);
  const auto state = [members...](const Self& self) -> State {
    return pybind11::reinterpret_borrow<State>(pybind11::make_tuple(self.*members.member...));
  };
  const auto made = [members...](const State& state) {
    if (state.size() != sizeof...(members)) {
      throw InvalidArgument("[pickle] expected " + std::to_string(sizeof...(members)) +
                            " values of a record but got " + std::to_string(state.size()));
    }
    Self self;
    std::size_t k = 0;
    ((self.*members.member =
          state[k++].template cast<std::decay_t<decltype(self.*members.member)>>()),
     ...);
    return self;
  };
  // pybind11's own def: it makes the object.
  static_cast<typename Class::Bound&>(cls).def(pybind11::pickle(state, made));
}

}  // namespace traingraph::python
