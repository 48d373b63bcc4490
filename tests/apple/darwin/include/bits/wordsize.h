// Debian's headers for x86-64 take another processor for one of 32 bits.
#define __WORDSIZE 64
#define __WORDSIZE_TIME64_COMPAT32 0
