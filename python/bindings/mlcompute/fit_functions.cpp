// Functions of the program's that a fit calls: after epochs, and for rates.
#include "mlcompute/fit_functions.h"

#include <string>
#include <utility>

#include <traingraph/message_text.h>

#include "convert/gil.h"
#include "convert/names.h"

namespace traingraph::python {
namespace {

// A function of the program's, asked as a callback of the core.
class CalledBack final : public FitCallback {
 public:
  CalledBack(py::handle function, Where where)
      : function_(function), where_(std::move(where)), kind_(kind_of(function)) {}
  bool after_epoch(TrainingGraph&, const Epoch& epoch) override {
    const HeldGil held;
    const py::object answer = function_(epoch);
    check_is_done(answer, where_);
    return answer.is_none() || py::cast<bool>(py::bool_(answer));
  }
  std::string kind() const override { return kind_; }

 private:
  // Of a function its name, of another object that of its class.
  static std::string kind_of(py::handle function) {
    const py::object name = py::getattr(function, "__qualname__", py::none());
    return py::isinstance<py::str>(name) ? printable(name) : type_name(function);
  }

  py::handle function_;  // the call's arguments own it
  Where where_;
  std::string kind_;
};

// Refuses a function that cannot be called with one argument, which else an epoch would show. One
// that does not tell its arguments is called.
void check_takes_one(py::handle function, const Where& where, const char* argument) {
  std::string arguments;
  try {
    const py::object signature = py::module_::import("inspect").attr("signature")(function);
    arguments = shortened(printable(py::str(signature)), kMostShown);
    signature.attr("bind")(py::none());
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) throw;
    if (arguments.empty() || !error.matches(PyExc_TypeError)) return;
    throw py::type_error("[" + where.subject + "] expected " + where.name + ": a function of " +
                         argument + " but got one of " + arguments);
  }
}

}  // namespace

FitCallbackPtr to_callback(py::handle value, const Where& where) {
  if (py::isinstance<FitCallback>(value)) {
    if (PyCallable_Check(value.ptr()) == 0) return py::cast<FitCallbackPtr>(value);
    throw py::type_error("[" + where.subject + "] expected " + where.name + ": " + where.expected +
                         " but got a " + type_name(value) +
                         ", whose __call__ nobody would run; pass a function beside it");
  }
  if (PyType_Check(value.ptr())) refuse(where, value);  // which would be made anew of each epoch
  to_callable(value, where);
  check_takes_one(value, where, "the epoch");
  return std::make_shared<CalledBack>(value, where);
}

std::optional<RateSchedule> to_schedule(py::handle value, const Where& where) {
  if (value.is_none()) return std::nullopt;
  if (py::isinstance<RateSchedule>(value)) return py::cast<RateSchedule>(value);
  if (value.ptr() == py::type::of<RateSchedule>().ptr()) {
    throw py::type_error("[" + where.subject + "] expected " + where.name + ": " + where.expected +
                         " but got the class RateSchedule; did you mean RateSchedule.constant()?");
  }
  if (PyFloat_Check(value.ptr()) || PyLong_CheckExact(value.ptr())) {
    const std::string rate = printable(value);
    throw py::type_error("[" + where.subject + "] expected " + where.name + ": " + where.expected +
                         " but got " + rate + "; a rate that stays is the optimizer's, or " +
                         "RateSchedule.constant(" + rate + ")");
  }
  if (PyType_Check(value.ptr())) refuse(where, value);
  to_callable(value, where);
  check_takes_one(value, where, "the step");
  return RateSchedule(
      [value, where](std::int64_t step) {
        const HeldGil held;
        const py::object rate = value(step);
        check_is_done(rate, where);
        return convert<double>(rate, Where{where.subject, "the rate of schedule", "a number"});
      },
      type_name(value));
}

}  // namespace traingraph::python
