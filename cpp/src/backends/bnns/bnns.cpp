#include "backends/bnns/bnns.h"

#include "backends/reference/reference.h"

namespace traingraph::bnns {
namespace {

class BnnsBackend final : public HostBackend {
 public:
  std::string name() const override { return "bnns"; }
  std::vector<std::string> devices() const override { return {"CPU by Accelerate"}; }

 protected:
  const std::vector<KernelEntry>& table() const override {
    static const std::vector<KernelEntry> entries = [] {
      std::vector<KernelEntry> all;
      for (const auto* own :
           {&convolution_entries(), &pooling_entries(), &matmul_entries(), &batch_norm_entries(),
            &softmax_entries(), &cross_entropy_entries(), &reduce_entries(), &adam_entries(),
            &elementwise_entries(), &reference::table()}) {
        all.insert(all.end(), own->begin(), own->end());
      }
      return all;
    }();
    return entries;
  }
};

}  // namespace

const Backend& backend() {
  static const BnnsBackend instance;
  return instance;
}

}  // namespace traingraph::bnns
