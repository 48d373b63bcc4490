// clang names this routine in the frames of Objective-C++; the one of GCC's runtime knows nothing
// of C++ catch clauses. The doubles throw no Objective-C exceptions, so C++'s own does for all
// frames.
#include <unwind.h>

extern "C" {
_Unwind_Reason_Code __gxx_personality_v0(int, _Unwind_Action, _Unwind_Exception_Class,
                                         _Unwind_Exception*, _Unwind_Context*);

__attribute__((visibility("default"))) _Unwind_Reason_Code __gnu_objc_personality_v0(
    int version, _Unwind_Action actions, _Unwind_Exception_Class exception_class,
    _Unwind_Exception* exception, _Unwind_Context* context) {
  return __gxx_personality_v0(version, actions, exception_class, exception, context);
}
}
