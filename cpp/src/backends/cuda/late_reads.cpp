#include "backends/cuda/late_reads.h"

#include <cstring>

#include "backends/cuda/check.h"
#include "backends/cuda/few_bytes.h"

namespace traingraph::cuda {
namespace {

static_assert(kFewBytes >= kMostLateBytes);

class LateRead final : public PendingRead {
 public:
  LateRead(LateReads::Place& place, std::size_t bytes) : place_(place), bytes_(bytes) {}
  // What is on its way has to arrive before the place serves another read.
  ~LateRead() override {
    static_cast<void>(cudaEventSynchronize(place_.there));
    place_.taken = false;
  }
  LateRead(const LateRead&) = delete;
  LateRead& operator=(const LateRead&) = delete;

  void take(void* to) override {
    check(cudaEventSynchronize(place_.there), "cudaEventSynchronize");
    std::memcpy(to, place_.bytes, bytes_);
  }

 private:
  LateReads::Place& place_;
  std::size_t bytes_;
};

}  // namespace

void LateReads::make_places() {
  void* pinned = nullptr;
  check(cudaHostAlloc(&pinned, kFewBytes * kPlaces, cudaHostAllocDefault), "cudaHostAlloc");
  auto* bytes = static_cast<std::byte*>(pinned);
  for (Place& place : places_) {
    check(cudaEventCreateWithFlags(&place.there, cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    place.bytes = bytes;
    bytes += kFewBytes;
  }
}

std::unique_ptr<PendingRead> LateReads::begin(const std::byte* from, std::size_t bytes,
                                              cudaStream_t stream) {
  Reserved reserved = reserve(bytes);
  if (reserved.read == nullptr) return nullptr;
  read_few_bytes(reserved.place->bytes, from, bytes, stream);
  check(cudaEventRecord(reserved.place->there, stream), "cudaEventRecord");
  return std::move(reserved.read);
}

LateReads::Reserved LateReads::reserve(std::size_t bytes) {
  if (bytes == 0 || bytes > kFewBytes) return {};
  std::call_once(made_, [this] { make_places(); });
  for (Place& place : places_) {
    if (!place.taken.exchange(true)) return {std::make_unique<LateRead>(place, bytes), &place};
  }
  return {};
}

}  // namespace traingraph::cuda
