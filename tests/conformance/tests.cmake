# SPDX-License-Identifier: BSD-3-Clause
# The suite as part of this project: tests this librpma and Debian's, and has tests of its own.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

if(TARGET softrdma AND NOT RPMA_SANITIZE)
  set(on_softrdma $<TARGET_FILE:softrdma> run --)
endif()
if(TARGET softrdma_device)
  set(environment RPMA_TEST_QUICK_UNREACHABLE=1 SOFTRDMA_CM_TIMEOUT_MS=2000)
endif()

function(add_conformance_test name)
  add_test(NAME conformance.${name} COMMAND ${ARGN})
  set_tests_properties(conformance.${name} PROPERTIES LABELS conformance SKIP_RETURN_CODE 77 TIMEOUT 600
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;${environment}")
endfunction()

add_conformance_test(librpma ${on_softrdma} $<TARGET_FILE:rpma_conformance>)
if(TARGET softrdma_device)
  add_conformance_test(librpma.tcp ${on_softrdma} $<TARGET_FILE:rpma_conformance>)
  set_property(TEST conformance.librpma.tcp APPEND PROPERTY ENVIRONMENT SOFTRDMA_TRANSPORT=tcp)
  add_conformance_test(librpma.roce sh ${CMAKE_CURRENT_SOURCE_DIR}/../softrdma/own_namespace.sh ${on_softrdma}
    $<TARGET_FILE:rpma_conformance>)
  set_property(TEST conformance.librpma.roce APPEND PROPERTY ENVIRONMENT SOFTRDMA_TRANSPORT=roce)
  add_conformance_test(librpma.emulated ${on_softrdma} $<TARGET_FILE:rpma_conformance>)
  set_property(TEST conformance.librpma.emulated APPEND PROPERTY ENVIRONMENT SOFTRDMA_NATIVE_VERBS=off)
endif()

if(TARGET softrdma AND NOT RPMA_SANITIZE) # the library loads the device itself
  add_conformance_test(librpma.loaded $<TARGET_FILE:rpma_conformance>)
  set_property(TEST conformance.librpma.loaded APPEND PROPERTY ENVIRONMENT RPMA_DEVICE=softrdma)
endif()

add_conformance_program(conformance_self_test self_test/cases.c)
add_conformance_test(driver
  ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/self_test/driver_test.py
  ${on_softrdma} $<TARGET_FILE:conformance_self_test>)
add_conformance_test(coverage
  ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/self_test/coverage_test.py ${CMAKE_SOURCE_DIR}/include/librpma.h)

# Debian's librpma and programs of users are not instrumented.
if(RPMA_SANITIZE OR RPMA_COVERAGE)
  add_skipped_test(conformance.debian_1.2.0 conformance "this build is instrumented")
  add_skipped_test(conformance.standalone conformance "this build is instrumented")
else()
  set(debian ${CMAKE_BINARY_DIR}/debian/unpacked/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
  add_conformance_test(debian_1.2.0 ${CMAKE_CURRENT_SOURCE_DIR}/self_test/judge-other ${debian}/librpma.so.0 1.2.0
    ${on_softrdma} $<TARGET_FILE:rpma_conformance>
    --deviations ${CMAKE_CURRENT_SOURCE_DIR}/deviations/librpma-1.2.0.txt)
  set_tests_properties(conformance.debian_1.2.0 PROPERTIES FIXTURES_REQUIRED debian)
  # The list contains the deviations on a device without native flush.
  set_property(TEST conformance.debian_1.2.0 APPEND PROPERTY ENVIRONMENT SOFTRDMA_NATIVE_VERBS=off)
  add_conformance_test(standalone
    ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/self_test/standalone_test.py ${CMAKE_BINARY_DIR} ${CMAKE_GENERATOR})
endif()
