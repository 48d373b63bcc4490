#include "bindings.h"
#include "classes/record.h"

namespace traingraph::python {

void bind_profile(py::module_& module) {
  auto profile = BoundClass<Profile, std::shared_ptr<Profile>>(
      module, "Profile", "Where the time of one execution went, op by op.");
  auto entry = BoundClass<Profile::Entry>(profile, "Entry", "One op that ran.");
  def_record(entry,
             Member{"layer", &Profile::Entry::layer, "The layer it was written by; may be empty."},
             Member{"phase", &Profile::Entry::phase, "forward, gradient or update."},
             Member{"op", &Profile::Entry::op, "The op's name."},
             Member{"start", &Profile::Entry::start, "Since the first op. Units: seconds."},
             Member{"seconds", &Profile::Entry::seconds, "Units: seconds."});
  entry.def("__repr__", [](const Profile::Entry& self) {
    return "<Entry " + self.op + " " + self.phase + " of '" + self.layer + "' " +
           number_word(self.seconds * 1e6) + " us>";
  });
  auto layer = BoundClass<Profile::Layer>(profile, "Layer", "One layer's ops, summed.");
  layer.def_property_readonly("seconds", &Profile::Layer::seconds,
                              "All three phases. Units: seconds.");
  def_record(layer, Member{"layer", &Profile::Layer::layer, "The layer; empty for ops of none."},
             Member{"forward", &Profile::Layer::forward, "Units: seconds."},
             Member{"gradient", &Profile::Layer::gradient, "Units: seconds."},
             Member{"update", &Profile::Layer::update, "Units: seconds."});
  layer.def("__repr__", [](const Profile::Layer& self) {
    return "<Layer '" + self.layer + "' " + number_word(self.seconds() * 1e6) + " us>";
  });
  profile.def_property_readonly("layers", &Profile::layers,
                                "Times summed by layer, in order of first appearance.");
  profile.def("table", &Profile::table, "The layers as text, times in microseconds.");
  profile.def("chrome_trace", &Profile::chrome_trace,
              "The entries as JSON for chrome://tracing and Perfetto.");
  def_record(profile, Member{"entries", &Profile::entries, "The ops, in the order of running."},
             Member{"seconds", &Profile::seconds, "Of the whole execution. Units: seconds."});
  profile.def("__str__", &Profile::table);
  profile.def("__repr__", [](const Profile& self) {
    return "<Profile of " + std::to_string(self.entries.size()) + " ops, " +
           number_word(self.seconds * 1e6) + " us>";
  });
}

}  // namespace traingraph::python
