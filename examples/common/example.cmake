# SPDX-License-Identifier: BSD-3-Clause
# rpma_example(), rpma_single_file_example() and rpma_gpspm_example() build client.c and server.c of the calling
# directory; rpma_example_program(name) builds name.c. All work in the project's tree and alone with an installed
# librpma.
set(RPMA_EXAMPLE_COMMON_DIR ${CMAKE_CURRENT_LIST_DIR})

function(rpma_example_find_dependencies)
  find_package(PkgConfig REQUIRED)
  find_package(Threads REQUIRED GLOBAL)
  pkg_check_modules(RPMA_EXAMPLE_VERBS REQUIRED IMPORTED_TARGET GLOBAL libibverbs)
  pkg_check_modules(RPMA_EXAMPLE_PMEM2 IMPORTED_TARGET GLOBAL libpmem2)
  if(NOT TARGET PkgConfig::RPMA_EXAMPLE_PMEM2)
    message(WARNING "libpmem2 not found: the examples will refuse <pmem-path>. Debian's package is libpmem2-dev.")
  endif()
  if(NOT TARGET rpma::rpma)
    find_package(librpma CONFIG QUIET GLOBAL)
  endif()
  if(NOT TARGET rpma::rpma)
    pkg_check_modules(RPMA_EXAMPLE_LIBRPMA REQUIRED IMPORTED_TARGET GLOBAL librpma)
    add_library(rpma::rpma ALIAS PkgConfig::RPMA_EXAMPLE_LIBRPMA)
  endif()
endfunction()

# Code shared by examples 06 and later, compiled once per build.
function(rpma_example_common)
  if(NOT TARGET PkgConfig::RPMA_EXAMPLE_VERBS)
    rpma_example_find_dependencies()
  endif()
  set(memory_backend memory_file.c)
  if(NOT TARGET PkgConfig::RPMA_EXAMPLE_PMEM2)
    set(memory_backend memory_no_file.c)
  endif()

  list(TRANSFORM memory_backend PREPEND ${RPMA_EXAMPLE_COMMON_DIR}/)
  set(sources arguments.c completion.c connection.c direct_write.c event_loop.c events.c explain.c handshake.c hello.c immediate.c mailbox.c memory.c
    names.c ping_pong.c players.c region.c service.c status.c text.c variant.c wait.c)
  list(TRANSFORM sources PREPEND ${RPMA_EXAMPLE_COMMON_DIR}/)
  add_library(rpma_examples_common STATIC ${sources} ${memory_backend})
  target_include_directories(rpma_examples_common PUBLIC ${RPMA_EXAMPLE_COMMON_DIR})
  target_compile_features(rpma_examples_common PUBLIC c_std_11)
  target_link_libraries(rpma_examples_common PUBLIC rpma::rpma PkgConfig::RPMA_EXAMPLE_VERBS Threads::Threads)
  if(TARGET PkgConfig::RPMA_EXAMPLE_PMEM2)
    target_link_libraries(rpma_examples_common PRIVATE PkgConfig::RPMA_EXAMPLE_PMEM2)
  endif()
  if(TARGET rpma_warnings)
    target_link_libraries(rpma_examples_common PUBLIC rpma_warnings)
  endif()
endfunction()

# Further arguments are libraries.
function(rpma_example_program name)
  if(NOT TARGET rpma_examples_common)
    rpma_example_common()
  endif()
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME topic)
  file(GLOB source CONFIGURE_DEPENDS ${name}.c ${name}.cpp)
  add_executable(example-${topic}-${name} ${source})
  target_link_libraries(example-${topic}-${name} PRIVATE ${ARGN} rpma_examples_common)
  set_target_properties(example-${topic}-${name} PROPERTIES
    OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
endfunction()

# Builds client.c and server.c of the calling directory, each a complete program: see common.h.
function(rpma_single_file_example)
  if(NOT TARGET PkgConfig::RPMA_EXAMPLE_VERBS)
    rpma_example_find_dependencies()
  endif()
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME topic)
  foreach(name client server)
    set(target example-${topic}-${name})
    add_executable(${target} ${name}.c)
    target_compile_features(${target} PRIVATE c_std_11)
    target_link_libraries(${target} PRIVATE rpma::rpma PkgConfig::RPMA_EXAMPLE_VERBS)
    if(TARGET PkgConfig::RPMA_EXAMPLE_PMEM2)
      target_link_libraries(${target} PRIVATE PkgConfig::RPMA_EXAMPLE_PMEM2)
    else()
      target_compile_definitions(${target} PRIVATE EXAMPLES_WITHOUT_PMEM2)
    endif()
    if(TARGET rpma_warnings)
      target_link_libraries(${target} PRIVATE rpma_warnings)
    endif()
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  endforeach()
endfunction()

function(rpma_example)
  foreach(side client server)
    rpma_example_program(${side} ${ARGN})
  endforeach()
endfunction()

# rpma_examples_gpspm_messages: code that protoc-c generates from GPSPM_flush.proto, if protoc-c is installed.
function(rpma_example_gpspm_messages)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(RPMA_EXAMPLE_PROTOBUF_C IMPORTED_TARGET GLOBAL libprotobuf-c>=1.0.0)
  find_program(RPMA_PROTOC_C protoc-c)
  if(NOT TARGET PkgConfig::RPMA_EXAMPLE_PROTOBUF_C OR NOT RPMA_PROTOC_C)
    return()
  endif()

  set(generated ${PROJECT_BINARY_DIR}/gpspm)
  file(MAKE_DIRECTORY ${generated})
  add_custom_command(
    OUTPUT ${generated}/GPSPM_flush.pb-c.c ${generated}/GPSPM_flush.pb-c.h
    COMMAND ${RPMA_PROTOC_C} --proto_path=${RPMA_EXAMPLE_COMMON_DIR} --c_out=${generated} GPSPM_flush.proto
    DEPENDS ${RPMA_EXAMPLE_COMMON_DIR}/GPSPM_flush.proto
    VERBATIM)
  add_library(rpma_examples_gpspm_messages STATIC ${generated}/GPSPM_flush.pb-c.c)
  target_include_directories(rpma_examples_gpspm_messages SYSTEM PUBLIC ${generated})
  target_link_libraries(rpma_examples_gpspm_messages PUBLIC PkgConfig::RPMA_EXAMPLE_PROTOBUF_C)
endfunction()

# Additional code of 09 and its variant, compiled once per build.
function(rpma_example_gpspm)
  rpma_example_gpspm_messages()
  if(NOT TARGET rpma_examples_gpspm_messages)
    message(WARNING "libprotobuf-c or protoc-c not found: the examples 09 and 09scch are left out. Debian's packages "
      "are libprotobuf-c-dev and protobuf-c-compiler.")
    return()
  endif()
  add_library(rpma_examples_gpspm STATIC ${RPMA_EXAMPLE_COMMON_DIR}/gpspm.c)
  target_link_libraries(rpma_examples_gpspm PUBLIC rpma_examples_common PRIVATE rpma_examples_gpspm_messages)
endfunction()

function(rpma_gpspm_example)
  if(NOT TARGET rpma_examples_common)
    rpma_example_common()
  endif()
  get_property(is_known GLOBAL PROPERTY RPMA_EXAMPLES_GPSPM_SOUGHT)
  if(NOT is_known)
    set_property(GLOBAL PROPERTY RPMA_EXAMPLES_GPSPM_SOUGHT TRUE)
    rpma_example_gpspm()
  endif()
  if(TARGET rpma_examples_gpspm)
    rpma_example(rpma_examples_gpspm)
  endif()
endfunction()
