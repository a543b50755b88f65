# SPDX-License-Identifier: BSD-3-Clause
# True for targets of tests: test functions, fakes and callbacks have unused parameters.
define_property(TARGET PROPERTY RPMA_IS_TEST INHERITED)

# Compiler warnings of all targets.
add_library(rpma_warnings INTERFACE)
target_compile_options(rpma_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wformat=2 -Wconversion -Wsign-conversion -Wundef
  -Wcast-align -Wpointer-arith -Wvla
  $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wcast-align=strict> # clang, the compiler of another lane, warns in the same cases
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety>
  $<$<BOOL:$<TARGET_PROPERTY:RPMA_IS_TEST>>:-Wno-unused-parameter>
  # GCC 12 reports false positives in std::string (GCC bug 105651).
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<BOOL:${RPMA_WERROR}>:-Werror>
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)

# Compiles sources that only parse command lines or print results in three quarters of the time.
set(rpma_less_optimization $<$<CONFIG:RelWithDebInfo>:-O1>)
