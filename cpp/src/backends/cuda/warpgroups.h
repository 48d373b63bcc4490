#pragma once

#include <cstdint>

#include "backends/cuda/device.h"
#include "backends/cuda/tensor_map.h"

// Products of warpgroups, and the copies by tensor maps that feed them: compute capability 9.0, its
// own instructions. For .cu files only.
namespace traingraph::cuda {

// Machine code of sm_90a has them (CMake says whether it is built), and runs on 9.0 alone.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define TRAINGRAPH_WARPGROUPS 1
#endif

// Rows and bytes of a tile in shared memory: 32 floats of each row, as copies by tensor maps leave
// them and products want them, the 16 bytes of a row swapped by its number. At multiples of 1024.
constexpr int kTileRows = 128;
constexpr int kTileBytes = kTileRows * kTileFloats * 4;
// The same of 32 rows.
constexpr int kBlockBytes = kTileFloats * kTileFloats * 4;
// Where an element is in one.
__device__ inline int swapped(int row, int column) {
  return row * kTileFloats * 4 + (column / 4 ^ row % 8) * 16 + column % 4 * 4;
}

__device__ inline std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

// A barrier that counts arrivals, and bytes of copies.
class Barrier {
 public:
  __device__ void start(unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at()), "r"(arrivals));
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at()) : "memory");
  }
  // Arrives, and announces copies of so many bytes.
  __device__ void expect(unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at()), "r"(bytes)
                 : "memory");
  }
  // Until the round of this parity is over; before the first one, that of parity 1 is.
  __device__ void wait(unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred over;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
        "@!over bra again;\n"
        "}" ::"r"(at()),
        "r"(parity)
        : "memory");
  }
  __device__ std::uint32_t at() const { return shared_address(this); }

 private:
  std::uint64_t state_;
};

// Of a warp, when all of its threads have come here.
__device__ inline void arrive(Barrier& barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier.arrive();
}

// Other threads may use barriers that have been started after this and a __syncthreads().
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Before a thread says that it has read what a copy may take the place of: barriers order reads and
// writes of threads, but not those of threads with the copies' ("proxies" in the PTX ISA).
__device__ inline void end_reads() {
#ifdef TRAINGRAPH_WARPGROUPS
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Begins to copy the tile at this row and column; its bytes count for the barrier.
__device__ inline void copy_tile(void* to, const CUtensorMap& from, int row, int column,
                                 Barrier& barrier) {
#ifdef TRAINGRAPH_WARPGROUPS
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(to)),
      "l"(&from), "r"(barrier.at()), "r"(column), "r"(row)
      : "memory");
#endif
}

// Of a matrix that lies turned: blocks of 32 columns from this one on, of the 32 rows from this
// one.
template <int kBlocks>
__device__ void copy_blocks(std::byte (&to)[kBlocks][kBlockBytes], const CUtensorMap& from, int row,
                            int column, Barrier& barrier) {
#pragma unroll
  for (int k = 0; k < kBlocks; ++k) {
    copy_tile(to[k], from, row, column + k * kTileFloats, barrier);
  }
}

// The four warps of a group have so many registers from here on.
template <int kRegisters>
__device__ void take_registers() {
#ifdef TRAINGRAPH_WARPGROUPS
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ void give_registers() {
#ifdef TRAINGRAPH_WARPGROUPS
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

// All threads of a pair of blocks, launched as a cluster of two, wait for each other.
__device__ inline void meet_pair() {
#ifdef TRAINGRAPH_WARPGROUPS
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
#endif
}
// From the shared memory of one of the two, the address that it has in one's own.
__device__ inline float4 load_of(unsigned block, const float* at) {
  float4 v{};
#ifdef TRAINGRAPH_WARPGROUPS
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n"
      "}"
      : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
      : "r"(shared_address(at)), "r"(block)
      : "memory");
#endif
  return v;
}

// A tile, or rows 64 and on of one, as an operand.
__device__ inline std::uint64_t operand(const void* tile) {
  constexpr std::uint64_t kRowsApart = 8 * kTileFloats * 4 / 16;  // eight rows, in 16 bytes
  constexpr std::uint64_t kSwapped = 1;                           // within 128 bytes
  return static_cast<std::uint64_t>((shared_address(tile) & 0x3ffff) >> 4) | kRowsApart << 32 |
         kSwapped << 62;
}

// The same of a matrix that lies turned, in blocks of 32 columns: what this thread has of the 64
// columns of a part, from eight rows of the chunk's 32 on, as multiply_eight takes it.
template <int kEights>
struct Fragments {
  std::uint32_t value[kEights][4];
};
template <int kEights>
__device__ Fragments<kEights> turned_operand(const std::byte* tile, int part, int first_eight) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4;
  // Threads of odd t read the later one of their two rows first: no two threads meet in a bank.
  const int row = t % 2 == 0 ? t : t + 4, other = row ^ 4;
  const int chunk = warp % 2 * 4 + g / 4;  // of 16 bytes, of those of a row
  const std::byte* const block = tile + (part * 2 + warp % 4 / 2) * kBlockBytes + g % 4 * 4;
  const auto at = [&](int of_row, int of_chunk) {
    return block + of_row * 128 + (of_chunk ^ of_row) * 16;
  };
  const std::byte* const from[] = {at(row, chunk), at(row, chunk + 2), at(other, chunk),
                                   at(other, chunk + 2)};
  Fragments<kEights> result;
#pragma unroll
  for (int k = 0; k < kEights; ++k) {
    std::uint32_t x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      x[i] = *reinterpret_cast<const std::uint32_t*>(from[i] + (first_eight + k) * 1024);
#pragma unroll
    for (int i = 0; i < 4; ++i) result.value[k][i] = t % 2 == 0 ? x[i] : x[i ^ 2];
  }
  return result;
}

#ifdef TRAINGRAPH_WARPGROUPS
// The instruction over sums %0 to %31, with these places of a and b and what stands there.
#define TRAINGRAPH_MULTIPLY_EIGHT(places, ...)                                                    \
  asm volatile(                                                                                   \
      "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {"                                     \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                    \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " places  \
      ", 1, 1, 1;"                                                                                \
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),       \
        "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),     \
        "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]), \
        "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]), \
        "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]), \
        "+f"(sum[30]), "+f"(sum[31])                                                              \
      : __VA_ARGS__)
#else
#define TRAINGRAPH_MULTIPLY_EIGHT(places, ...)
#endif

// sum (64 x 64) += a (64 rows) b (64 rows)ᵀ over 8 floats, of the four warps that call it. With
// warp w of the four, g = lane / 4 and t = lane % 4: sums 4 j and 4 j + 1 are columns 8 j + 2 t and
// the next of row 16 w + g, 4 j + 2 and 4 j + 3 those of row 16 w + g + 8.
__device__ inline void multiply_eight(float (&sum)[32], std::uint64_t a, std::uint64_t b) {
  TRAINGRAPH_MULTIPLY_EIGHT("%32, %33", "l"(a), "l"(b));
}
__device__ inline void multiply_eight(float (&sum)[32], const std::uint32_t (&a)[4],
                                      std::uint64_t b) {
  TRAINGRAPH_MULTIPLY_EIGHT("{%32, %33, %34, %35}, %36", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
                            "l"(b));
}
#undef TRAINGRAPH_MULTIPLY_EIGHT

// The same over a tile's 32 floats; sums are there behind wait_for_products().
template <int kEights, class Multiply>
__device__ void begin_products(Multiply multiply) {
#ifdef TRAINGRAPH_WARPGROUPS
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int k = 0; k < kEights; ++k) multiply(k);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// Until those begun before the last are done.
__device__ inline void wait_for_products_before() {
#ifdef TRAINGRAPH_WARPGROUPS
  asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
#endif
}

// Until all are done that make up the sum; nothing reads it earlier.
template <int kSums>
__device__ void wait_for_products(float (&sum)[kSums]) {
#ifdef TRAINGRAPH_WARPGROUPS
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (float& one : sum) asm volatile("" : "+f"(one)::"memory");
#endif
}

}  // namespace traingraph::cuda
