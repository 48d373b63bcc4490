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
float exp2(float);
float log2(float);
float sin(float);
float cos(float);
float tan(float);
float asin(float);
float acos(float);
float atan(float);
float sinh(float);
float cosh(float);
float asinh(float);
float acosh(float);
float atanh(float);
float pow(float, float);
}  // namespace precise
bool isnan(float);
bool isfinite(float);
float fabs(float);
float floor(float);
float ceil(float);
float rint(float);
uint mulhi(uint, uint);
template <class To, class From>
To as_type(From);
}  // namespace metal
