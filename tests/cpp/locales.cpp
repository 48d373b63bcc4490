#include <clocale>
#include <locale>
#include <string>

#include "testing.h"

namespace traingraph::testing {
namespace {

// As applications have it that were started in Germany or France.
class Commas : public std::numpunct<char> {
 protected:
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

class CommasAround {
 public:
  ~CommasAround() {
    std::locale::global(before_);
    std::setlocale(LC_ALL, of_c_.c_str());  // which a global locale with a name has changed
  }

 private:
  const std::string of_c_ = std::setlocale(LC_ALL, nullptr);
  const std::locale before_ = std::locale::global({std::locale::classic(), new Commas});
};

// What the function returns while C++'s global locale writes commas.
py::object with_commas(const py::function& call) {
  const CommasAround around;
  return call();
}

}  // namespace

void bind_locales(py::module_& module) { module.def("with_commas", with_commas); }

}  // namespace traingraph::testing
