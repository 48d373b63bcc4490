// WGMMA, the tensor-core instructions of sm_90a, and the TMA copies that feed them. For .cu files
// only.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "backends/cuda/device/device.h"
#include "backends/cuda/device/tensor_map.h"

namespace traingraph::cuda {

// Only machine code of sm_90a has these instructions. It runs on compute capability 9.0 alone, and
// CMake decides whether it is built.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define TRAINGRAPH_WGMMA 1
#endif

// Rows and bytes of a tile in shared memory: 32 floats of each row, in the swizzled layout that TMA
// writes and WGMMA reads. The 16-byte pieces of a row are permuted by its number. Tiles begin at
// multiples of 1024.
constexpr int kTileRows = 128;
constexpr int kTileBytes = kTileRows * kTileFloats * 4;
// A tile of 32 rows.
constexpr int kBlockBytes = kTileFloats * kTileFloats * 4;
// The offset of an element in a tile, in bytes.
__device__ inline int swizzled(int row, int column) {
  return row * kTileFloats * 4 + (column / 4 ^ row % 8) * 16 + column % 4 * 4;
}

__device__ inline std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

// An mbarrier. It counts arrivals and bytes of copies.
class Barrier {
 public:
  __device__ void init(unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at()), "r"(arrivals));
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at()) : "memory");
  }
  // Arrives, and adds so many bytes of copies to the current phase.
  __device__ void arrive_and_expect(unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at()), "r"(bytes)
                 : "memory");
  }
  // Waits until the phase of this parity is complete. Before the first phase, that of parity 1 is.
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

// One arrival for a warp, after all of its threads.
__device__ inline void arrive(Barrier& barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier.arrive();
}

// Makes initialized barriers visible to TMA. Other threads may use them after a __syncthreads().
__device__ inline void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Orders a thread's reads before a TMA copy that overwrites the same bytes. It precedes the
// thread's arrival: barriers order threads with each other, but not with copies (the asynchronous
// proxy of the PTX ISA).
__device__ inline void fence_async_proxy() {
#ifdef TRAINGRAPH_WGMMA
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Starts the copy of the tile at this row and column. Its bytes count for the barrier.
__device__ inline void copy_tile(void* to, const CUtensorMap& from, int row, int column,
                                 Barrier& barrier) {
#ifdef TRAINGRAPH_WGMMA
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(to)),
      "l"(&from), "r"(barrier.at()), "r"(column), "r"(row)
      : "memory");
#endif
}

// The same for a transposed operand: 32 rows from `row` on, in blocks of 32 columns from `column`
// on.
template <int kBlocks>
__device__ void copy_transposed_tile(std::byte (&to)[kBlocks][kBlockBytes], const CUtensorMap& from,
                                     int row, int column, Barrier& barrier) {
#pragma unroll
  for (int k = 0; k < kBlocks; ++k) {
    copy_tile(to[k], from, row, column + k * kTileFloats, barrier);
  }
}

// Raises, and below lowers, the number of registers per thread of the warpgroup.
template <int kRegisters>
__device__ void increase_registers() {
#ifdef TRAINGRAPH_WGMMA
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ void decrease_registers() {
#ifdef TRAINGRAPH_WGMMA
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

// A barrier of all threads of a block pair, a cluster of two.
__device__ inline void sync_block_pair() {
#ifdef TRAINGRAPH_WGMMA
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
#endif
}
// Loads from the shared memory of one block of the pair; `at` is the address in the own block.
__device__ inline float4 load_cluster_shared(unsigned block, const float* at) {
  float4 v{};
#ifdef TRAINGRAPH_WGMMA
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

// The matrix descriptor of a tile, or of its rows from 64 on.
__device__ inline std::uint64_t matrix_descriptor(const void* tile) {
  constexpr std::uint64_t kRowsApart = 8 * kTileFloats * 4 / 16;  // eight rows, in 16 bytes
  constexpr std::uint64_t kSwizzle128Bytes = 1;                   // within 128 bytes
  return static_cast<std::uint64_t>((shared_address(tile) & 0x3ffff) >> 4) | kRowsApart << 32 |
         kSwizzle128Bytes << 62;
}

// A transposed operand, in blocks of 32 columns, as register fragments for multiply_k8: this
// thread's share of the 64 columns of a part, from eight rows of the chunk's 32 on.
template <int kSteps>
struct Fragments {
  std::uint32_t value[kSteps][4];
};
template <int kSteps>
__device__ Fragments<kSteps> transposed_fragments(const std::byte* tile, int part,
                                                  int first_eight) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4;
  // Threads of odd t read the later one of their two rows first, which avoids bank conflicts.
  const int row = t % 2 == 0 ? t : t + 4, other = row ^ 4;
  const int chunk = warp % 2 * 4 + g / 4;  // 16-byte piece of a row
  const std::byte* const block = tile + (part * 2 + warp % 4 / 2) * kBlockBytes + g % 4 * 4;
  const auto at = [&](int of_row, int of_chunk) {
    return block + of_row * 128 + (of_chunk ^ of_row) * 16;
  };
  const std::byte* const from[] = {at(row, chunk), at(row, chunk + 2), at(other, chunk),
                                   at(other, chunk + 2)};
  Fragments<kSteps> result;
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    std::uint32_t x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      x[i] = *reinterpret_cast<const std::uint32_t*>(from[i] + (first_eight + k) * 1024);
#pragma unroll
    for (int i = 0; i < 4; ++i) result.value[k][i] = t % 2 == 0 ? x[i] : x[i ^ 2];
  }
  return result;
}

#ifdef TRAINGRAPH_WGMMA
// 64 x 64 sums as operands 0 to 31.
#define TRAINGRAPH_SUM_NAMES                                                          \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
  "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define TRAINGRAPH_FOUR_SUMS(i) "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3])
#define TRAINGRAPH_SUMS                                                             \
  TRAINGRAPH_FOUR_SUMS(0), TRAINGRAPH_FOUR_SUMS(4), TRAINGRAPH_FOUR_SUMS(8),        \
      TRAINGRAPH_FOUR_SUMS(12), TRAINGRAPH_FOUR_SUMS(16), TRAINGRAPH_FOUR_SUMS(20), \
      TRAINGRAPH_FOUR_SUMS(24), TRAINGRAPH_FOUR_SUMS(28)
// `places` are the operand numbers of a and b.
#define TRAINGRAPH_WGMMA_K8(places, ...)                                                   \
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 " TRAINGRAPH_SUM_NAMES \
               ", " places ", 1, 1, 1;"                                                    \
               : TRAINGRAPH_SUMS                                                           \
               : __VA_ARGS__)
// `places` are the operand numbers of a; b, adds and whether b is transposed follow them.
#define TRAINGRAPH_WGMMA_K16(type, places, b_place, adds_place, transposed, ...)             \
  asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, " adds_place                          \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type             \
               " " TRAINGRAPH_SUM_NAMES ", " places ", " b_place ", adds, 1, 1, " transposed \
               ";\n}"                                                                        \
               : TRAINGRAPH_SUMS                                                             \
               : __VA_ARGS__, "l"(b), "r"(adds ? 1 : 0), "n"(kTransposed ? 1 : 0))
#define TRAINGRAPH_WGMMA_K16_OF_REGISTERS(type)                                                 \
  TRAINGRAPH_WGMMA_K16(type, "{%32, %33, %34, %35}", "%36", "%37", "%38", "r"(a[0]), "r"(a[1]), \
                       "r"(a[2]), "r"(a[3]))
#define TRAINGRAPH_WGMMA_K16_OF_TILES(type) \
  TRAINGRAPH_WGMMA_K16(type, "%32", "%33", "%34", "0, %35", "l"(a))
#else
#define TRAINGRAPH_WGMMA_K8(places, ...)
#define TRAINGRAPH_WGMMA_K16_OF_REGISTERS(type)
#define TRAINGRAPH_WGMMA_K16_OF_TILES(type)
#endif

// sum (64 x 64) += a (64 rows) b (64 rows)ᵀ over 8 floats, for the four warps of a warpgroup. With
// warp w of the four, g = lane / 4 and t = lane % 4: sums 4 j and 4 j + 1 are columns 8 j + 2 t and
// the next of row 16 w + g, 4 j + 2 and 4 j + 3 those of row 16 w + g + 8.
__device__ inline void multiply_k8(float (&sum)[32], std::uint64_t a, std::uint64_t b) {
  TRAINGRAPH_WGMMA_K8("%32, %33", "l"(a), "l"(b));
}
__device__ inline void multiply_k8(float (&sum)[32], const std::uint32_t (&a)[4], std::uint64_t b) {
  TRAINGRAPH_WGMMA_K8("{%32, %33, %34, %35}, %36", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
                      "l"(b));
}

// sum (64 x 64) = or += a (64 rows) b over 16 elements of 16 bits, a in registers as of mma or in
// shared memory, 64 rows of 64 elements. b has 64 rows of 64 elements: columns of the product, or
// with kTransposed its depth. Registers of `a` may not be read again in a loop: ptxas 13.0 gives
// them away after the first time.
template <class S, bool kTransposed>
__device__ void multiply_k16(float (&sum)[32], const std::uint32_t (&a)[4], std::uint64_t b,
                             bool adds) {
  if constexpr (std::is_same_v<S, __half>) {
    TRAINGRAPH_WGMMA_K16_OF_REGISTERS("f16");
  } else {
    TRAINGRAPH_WGMMA_K16_OF_REGISTERS("bf16");
  }
}
template <class S, bool kTransposed>
__device__ void multiply_k16(float (&sum)[32], std::uint64_t a, std::uint64_t b, bool adds) {
  if constexpr (std::is_same_v<S, __half>) {
    TRAINGRAPH_WGMMA_K16_OF_TILES("f16");
  } else {
    TRAINGRAPH_WGMMA_K16_OF_TILES("bf16");
  }
}
#undef TRAINGRAPH_WGMMA_K16_OF_TILES
#undef TRAINGRAPH_WGMMA_K16_OF_REGISTERS
#undef TRAINGRAPH_WGMMA_K16
#undef TRAINGRAPH_WGMMA_K8
#undef TRAINGRAPH_SUMS
#undef TRAINGRAPH_FOUR_SUMS
#undef TRAINGRAPH_SUM_NAMES

// Issues so many products as one group. Sums are valid after wait_for_wgmma().
template <int kSteps, class Multiply>
__device__ void issue_wgmma(Multiply multiply) {
#ifdef TRAINGRAPH_WGMMA
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int k = 0; k < kSteps; ++k) multiply(k);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// Waits for all groups but the last.
__device__ inline void wait_for_earlier_wgmma() {
#ifdef TRAINGRAPH_WGMMA
  asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
#endif
}

// Waits for all groups but the last kOthers. Nothing may read the sums earlier.
template <int kOthers = 0, int kSums>
__device__ void wait_for_wgmma(float (&sum)[kSums]) {
#ifdef TRAINGRAPH_WGMMA
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kOthers) : "memory");
#pragma unroll
  for (float& one : sum) asm volatile("" : "+f"(one)::"memory");
#endif
}

}  // namespace traingraph::cuda
