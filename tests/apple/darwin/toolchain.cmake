# Reads all sources as a Mac's compiler reads them, on Debian: LLVM's libc++ as it is on macOS 12,
# declarations of our own in place of Apple's headers, and Debian's C library for Darwin's. Nothing
# is made; -fsyntax-only, and linking is left out.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(CMAKE_OSX_ARCHITECTURES arm64)
set(CMAKE_OSX_DEPLOYMENT_TARGET 12.0)
set(CMAKE_OSX_SYSROOT "")
find_program(CMAKE_CXX_COMPILER clang++-19 REQUIRED)
set(CMAKE_OBJCXX_COMPILER "${CMAKE_CXX_COMPILER}")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
foreach(tool IN ITEMS CMAKE_AR CMAKE_RANLIB CMAKE_INSTALL_NAME_TOOL CMAKE_CXX_LINKER_LAUNCHER
        CMAKE_OBJCXX_LINKER_LAUNCHER)
  set(${tool} /bin/true)
endforeach()

set(apple "${CMAKE_CURRENT_LIST_DIR}/..")
set(generated "${CMAKE_CURRENT_LIST_DIR}/../../../build/darwin/declarations")
file(GLOB doubles "${apple}/doubles/*.mm" "${apple}/doubles/*.h")
find_package(Python3 REQUIRED COMPONENTS Interpreter)
execute_process(COMMAND "${Python3_EXECUTABLE}" "${apple}/declarations.py" "${generated}" ${doubles}
  COMMAND_ERROR_IS_FATAL ANY)

# Clang's own __nonnull for Darwin is in the way of Debian's; macros of <ctype.h> look into locales.
set(flags -fsyntax-only -target arm64-apple-macos12.0 -nostdinc -nostdinc++
  -U__nonnull -D_GNU_SOURCE -D__NO_CTYPE)
foreach(folder IN ITEMS "${CMAKE_CURRENT_LIST_DIR}/include" "${apple}/include"
        "${apple}/accelerate/include" "${generated}/include" /usr/lib/llvm-19/include/c++/v1
        /usr/lib/llvm-19/lib/clang/19/include /usr/include /usr/include/x86_64-linux-gnu
        /usr/lib/gcc/x86_64-linux-gnu/12/include)
  list(APPEND flags -isystem "${folder}")
endforeach()
list(JOIN flags " " flags)
set(CMAKE_CXX_FLAGS_INIT "${flags}")
set(CMAKE_OBJCXX_FLAGS_INIT "${flags} -fblocks")
