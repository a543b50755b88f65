# SPDX-License-Identifier: BSD-3-Clause
# rpma_example(): builds client.c and server.c of the calling directory, in the project's tree or alone against an
# installed librpma.
set(RPMA_EXAMPLE_COMMON_DIR ${CMAKE_CURRENT_LIST_DIR})

function(rpma_example_find_dependencies)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(RPMA_EXAMPLE_VERBS REQUIRED IMPORTED_TARGET GLOBAL libibverbs)
  pkg_check_modules(RPMA_EXAMPLE_PMEM2 IMPORTED_TARGET GLOBAL libpmem2)
  if(NOT TARGET rpma::rpma)
    find_package(librpma CONFIG QUIET GLOBAL)
  endif()
  if(NOT TARGET rpma::rpma)
    pkg_check_modules(RPMA_EXAMPLE_LIBRPMA REQUIRED IMPORTED_TARGET GLOBAL librpma)
    add_library(rpma::rpma ALIAS PkgConfig::RPMA_EXAMPLE_LIBRPMA)
  endif()
endfunction()

# What the examples share, once per build.
function(rpma_example_common)
  rpma_example_find_dependencies()
  if(TARGET PkgConfig::RPMA_EXAMPLE_PMEM2)
    set(memory_backend memory_file.c)
  else()
    message(WARNING "libpmem2 not found: the examples will refuse <pmem-path>. Debian's package is libpmem2-dev.")
    set(memory_backend memory_no_file.c)
  endif()

  list(TRANSFORM memory_backend PREPEND ${RPMA_EXAMPLE_COMMON_DIR}/)
  set(sources arguments.c completion.c connection.c event_loop.c handshake.c hello.c immediate.c mailbox.c memory.c
    names.c ping_pong.c region.c service.c status.c text.c wait.c)
  list(TRANSFORM sources PREPEND ${RPMA_EXAMPLE_COMMON_DIR}/)
  add_library(rpma_examples_common STATIC ${sources} ${memory_backend})
  target_include_directories(rpma_examples_common PUBLIC ${RPMA_EXAMPLE_COMMON_DIR})
  target_compile_features(rpma_examples_common PUBLIC c_std_11)
  target_link_libraries(rpma_examples_common PUBLIC rpma::rpma PkgConfig::RPMA_EXAMPLE_VERBS)
  if(TARGET PkgConfig::RPMA_EXAMPLE_PMEM2)
    target_link_libraries(rpma_examples_common PRIVATE PkgConfig::RPMA_EXAMPLE_PMEM2)
  endif()
  if(TARGET rpma_warnings)
    target_link_libraries(rpma_examples_common PUBLIC rpma_warnings)
  endif()
endfunction()

function(rpma_example)
  if(NOT TARGET rpma_examples_common)
    rpma_example_common()
  endif()
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME topic)
  foreach(side client server)
    add_executable(example-${topic}-${side} ${side}.c)
    target_link_libraries(example-${topic}-${side} PRIVATE rpma_examples_common)
    set_target_properties(example-${topic}-${side} PROPERTIES
      OUTPUT_NAME ${side}
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  endforeach()
endfunction()
