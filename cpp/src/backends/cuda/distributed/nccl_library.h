// NCCL, loaded when ranks on GPUs first meet. Declared here, so that a build needs no header of it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

struct ncclComm;

namespace traingraph::cuda {

struct NcclId {
  char bytes[128];
};
enum class NcclType : int { int64 = 4, float32 = 7, float64 = 8, bfloat16 = 9 };
enum class NcclSum : int { sum = 0 };

// Functions by the names that they have behind `nccl`. A code of 0 is success.
struct NcclLibrary {
  int (*GetUniqueId)(NcclId* id);
  int (*CommInitRank)(ncclComm** communicator, int size, NcclId id, int rank);
  int (*CommAbort)(ncclComm* communicator);
  int (*AllReduce)(const void* from, void* to, std::size_t count, NcclType type, NcclSum operation,
                   ncclComm* communicator, cudaStream_t stream);
  int (*GroupStart)();
  int (*GroupEnd)();
  const char* (*GetErrorString)(int code);
  const char* (*GetLastError)(ncclComm* communicator);
};

// Raises DistributedError where there is none.
const NcclLibrary& nccl();
// Raises DistributedError with NCCL's text unless `code` is success.
void check_nccl(int code, const char* call);

}  // namespace traingraph::cuda
