// Metal's words in those of OpenCL, whose C++ has the same address spaces: a compiler of that
// checks what a pointer or reference of the shaders may point to. For syntax alone.
#define device __global
#define thread __private
#define constant __constant

#pragma OPENCL EXTENSION cl_khr_fp16 : enable

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

namespace metal {
namespace precise {
float exp(float);
float log(float);
float sqrt(float);
float tanh(float);
}  // namespace precise
bool isnan(float);
bool isfinite(float);
float fabs(float);
uint mulhi(uint, uint);
template <class To, class From>
To as_type(From);
}  // namespace metal
