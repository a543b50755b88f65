# SPDX-License-Identifier: BSD-3-Clause
# Components: runtime (the shared library), devel (header, link, pkg-config and CMake package), softrdma, rpmemd (with
# rpmem-doctor), tools (the programs rpma-*), and python (src/python).
include(CMakePackageConfigHelpers)

set(RPMA_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/librpma)

install(TARGETS rpma EXPORT librpma-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT devel)
if(TARGET rpma_static)
  install(TARGETS rpma_static EXPORT librpma-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT devel)
endif()
install(FILES include/librpma.h include/rpma.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT devel)

# Paths relative to the .pc file keep the installed tree relocatable.
file(RELATIVE_PATH RPMA_PC_PREFIX
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/librpma.pc.in librpma.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/librpma.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT devel)

install(EXPORT librpma-targets NAMESPACE rpma:: DESTINATION ${RPMA_CMAKE_DIR} COMPONENT devel)
configure_package_config_file(cmake/librpma-config.cmake.in librpma-config.cmake
  INSTALL_DESTINATION ${RPMA_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/librpma-config-version.cmake
  COMPATIBILITY AnyNewerVersion)
install(FILES ${PROJECT_BINARY_DIR}/librpma-config.cmake ${PROJECT_BINARY_DIR}/librpma-config-version.cmake
  DESTINATION ${RPMA_CMAKE_DIR} COMPONENT devel)

# librpmem, in the same way: components rpmem-runtime and rpmem-devel.
set(RPMEM_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/librpmem)
install(TARGETS rpmem EXPORT librpmem-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT rpmem-runtime NAMELINK_COMPONENT rpmem-devel)
install(FILES include/librpmem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT rpmem-devel)
configure_file(cmake/librpmem.pc.in librpmem.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/librpmem.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT rpmem-devel)
install(EXPORT librpmem-targets NAMESPACE rpma:: DESTINATION ${RPMEM_CMAKE_DIR} COMPONENT rpmem-devel)
configure_package_config_file(cmake/librpmem-config.cmake.in librpmem-config.cmake
  INSTALL_DESTINATION ${RPMEM_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/librpmem-config-version.cmake
  COMPATIBILITY AnyNewerVersion)
install(FILES ${PROJECT_BINARY_DIR}/librpmem-config.cmake ${PROJECT_BINARY_DIR}/librpmem-config-version.cmake
  DESTINATION ${RPMEM_CMAKE_DIR} COMPONENT rpmem-devel)

# librpma_mirror, in the same way: components mirror-runtime and mirror-devel.
if(TARGET rpma_mirror)
  set(MIRROR_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/librpma_mirror)
  install(TARGETS rpma_mirror EXPORT librpma_mirror-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mirror-runtime NAMELINK_COMPONENT mirror-devel)
  install(FILES include/librpma_mirror.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT mirror-devel)
  configure_file(cmake/librpma_mirror.pc.in librpma_mirror.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/librpma_mirror.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT mirror-devel)
  install(EXPORT librpma_mirror-targets NAMESPACE rpma:: DESTINATION ${MIRROR_CMAKE_DIR} COMPONENT mirror-devel)
  configure_package_config_file(cmake/librpma_mirror-config.cmake.in librpma_mirror-config.cmake
    INSTALL_DESTINATION ${MIRROR_CMAKE_DIR})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/librpma_mirror-config-version.cmake
    COMPATIBILITY AnyNewerVersion)
  install(FILES ${PROJECT_BINARY_DIR}/librpma_mirror-config.cmake
    ${PROJECT_BINARY_DIR}/librpma_mirror-config-version.cmake
    DESTINATION ${MIRROR_CMAKE_DIR} COMPONENT mirror-devel)
endif()

# A program finds a shared library in a directory of the system only once the loader's cache knows it. A staged tree has
# no cache, and who is not root cannot write it: both are left to whoever moves the tree, or sets LD_LIBRARY_PATH.
install(CODE [[
  execute_process(COMMAND id -u OUTPUT_VARIABLE uid OUTPUT_STRIP_TRAILING_WHITESPACE)
  find_program(LDCONFIG ldconfig PATHS /sbin /usr/sbin)
  if("$ENV{DESTDIR}" STREQUAL "" AND uid STREQUAL "0" AND LDCONFIG)
    execute_process(COMMAND ${LDCONFIG})
  endif()
]] COMPONENT runtime)
