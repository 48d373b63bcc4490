// What libc++ calls of Darwin's C library where Debian's has other names. Syntax alone.
#pragma once
#include <locale.h>
#include <stddef.h>

extern "C" {
int sscanf_l(const char*, locale_t, const char*, ...);
int snprintf_l(char*, size_t, locale_t, const char*, ...);
int asprintf_l(char**, locale_t, const char*, ...);
struct lconv* localeconv_l(locale_t);
}
