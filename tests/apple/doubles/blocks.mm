// Blocks keep the objects that they capture. Debian's runtime of blocks knows no objects, so its
// two routines for captured variables are wrapped here.
#include <Foundation/Foundation.h>
#include <dlfcn.h>

namespace {

// What the compiler says of a captured variable that is an object:
// https://clang.llvm.org/docs/Block-ABI-Apple.html
constexpr int kFieldIsObject = 3;

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) void _Block_object_assign(void* target, const void* object,
                                                                 int flags) {
  if (flags != kFieldIsObject) {
    static auto* plain = next<void(void*, const void*, int)>("_Block_object_assign");
    return plain(target, object, flags);
  }
  *static_cast<const void**>(target) = [(id)object retain];
}

__attribute__((visibility("default"))) void _Block_object_dispose(const void* object, int flags) {
  if (flags != kFieldIsObject) {
    static auto* plain = next<void(const void*, int)>("_Block_object_dispose");
    return plain(object, flags);
  }
  [(id)object release];
}
}
