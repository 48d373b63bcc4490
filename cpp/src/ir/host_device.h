#pragma once

// Functions that host code and device kernels share.
#if defined(__CUDACC__)
#define TRAINGRAPH_HOST_DEVICE __host__ __device__
#else
#define TRAINGRAPH_HOST_DEVICE
#endif
