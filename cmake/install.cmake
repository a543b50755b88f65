# SPDX-License-Identifier: BSD-3-Clause
# Components. librpma: runtime (shared library) and devel (header, link, pkg-config and CMake package). librpmem and
# librpma_mirror: the same with the prefixes rpmem- and mirror-. Others: softrdma, rpmemd, rpmem-tools (rpmem-doctor,
# rpmem-ssh), nbdkit, tools (programs rpma-*), python (src/python).
include(CMakePackageConfigHelpers)

# Paths relative to the .pc file keep the installed tree relocatable.
file(RELATIVE_PATH RPMA_PC_PREFIX
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
# Programs find the libraries at run time in any prefix except the system's, which needs no run path.
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(RPMA_PC_RUN_PATH " -Wl,-rpath,\${libdir}")
endif()

# Lists the programs and libraries of a directory and its subdirectories, all of which are installed.
function(rpma_list_built directory result)
  get_property(subdirectories DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  set(built "")
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    get_target_property(excluded ${target} EXCLUDE_FROM_ALL)
    if(type MATCHES "^(EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY)$" AND NOT excluded)
      list(APPEND built "$<TARGET_FILE:${target}>")
    endif()
  endforeach()
  set(sources ${PROJECT_SOURCE_DIR}/src)
  foreach(subdirectory ${subdirectories})
    cmake_path(IS_PREFIX sources ${subdirectory} is_source)
    if(is_source)
      rpma_list_built(${subdirectory} below)
      list(APPEND built ${below})
    endif()
  endforeach()
  set(${result} ${built} PARENT_SCOPE)
endfunction()

# rpma_install_library(NAME TARGET [PREFIX COMPONENT-PREFIX] HEADERS FILE...)
function(rpma_install_library name target)
  cmake_parse_arguments(PARSE_ARGV 2 given "" PREFIX HEADERS)
  set(devel ${given_PREFIX}devel)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/${name})
  install(TARGETS ${target} EXPORT ${name}-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${given_PREFIX}runtime NAMELINK_COMPONENT ${devel})
  if(NOT target STREQUAL rpma) # librpma itself uses none of the other libraries
    rpma_set_run_path(${target} ${CMAKE_INSTALL_LIBDIR})
  endif()
  if(TARGET ${target}_static)
    install(TARGETS ${target}_static EXPORT ${name}-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${devel})
  endif()
  list(TRANSFORM given_HEADERS PREPEND include/)
  install(FILES ${given_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT ${devel})
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${devel})

  install(EXPORT ${name}-targets NAMESPACE rpma:: DESTINATION ${package} COMPONENT ${devel})
  configure_package_config_file(cmake/${name}-config.cmake.in ${name}-config.cmake INSTALL_DESTINATION ${package})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/${name}-config-version.cmake COMPATIBILITY AnyNewerVersion)
  install(FILES ${PROJECT_BINARY_DIR}/${name}-config.cmake ${PROJECT_BINARY_DIR}/${name}-config-version.cmake
    DESTINATION ${package} COMPONENT ${devel})
endfunction()

rpma_install_library(librpma rpma HEADERS librpma.h rpma.hpp)
if(TARGET rpmem)
  rpma_install_library(librpmem rpmem PREFIX rpmem- HEADERS librpmem.h)
endif()
if(TARGET rpma_mirror)
  rpma_install_library(librpma_mirror rpma_mirror PREFIX mirror- HEADERS librpma_mirror.h)
endif()

# Updates the cache of the loader, which programs need to find a shared library in a system directory. Not for a staged
# tree, which has no cache, and not without root: the user then runs ldconfig or sets LD_LIBRARY_PATH.
install(CODE [[
  execute_process(COMMAND id -u OUTPUT_VARIABLE uid OUTPUT_STRIP_TRAILING_WHITESPACE)
  find_program(LDCONFIG ldconfig PATHS /sbin /usr/sbin)
  if("$ENV{DESTDIR}" STREQUAL "" AND uid STREQUAL "0" AND LDCONFIG)
    execute_process(COMMAND ${LDCONFIG})
  endif()
]] COMPONENT runtime)

add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake
  VERBATIM)

rpma_list_built(${PROJECT_SOURCE_DIR} built)
string(REPLACE "'" "'\\\\''" quoted "${PROJECT_BINARY_DIR}")
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/check_built.cmake CONTENT "set(missing \"\")
foreach(file [==[$<JOIN:${built},]==] [==[>]==])
  if(NOT EXISTS \"\${file}\")
    list(APPEND missing \"\${file}\")
  endif()
endforeach()
list(LENGTH missing count)
if(NOT count EQUAL 0)
  list(GET missing 0 first)
  message(FATAL_ERROR \"\${count} programs and libraries are not built. Build them first:
  cmake --build '${quoted}'
The first of them:
  \${first}\")
endif()
")
