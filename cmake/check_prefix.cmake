# SPDX-License-Identifier: BSD-3-Clause
# Rejects an installation prefix with a character that a list of CMake, pkg-config, the linker or a run path does not
# preserve. Programs there would not link, or would load another library. Makes a relative prefix absolute, because units
# of systemd and scripts contain it.
if(CMAKE_INSTALL_PREFIX MATCHES "[$;:,'\"\\\n]")
  message(FATAL_ERROR "prefix '${CMAKE_INSTALL_PREFIX}': unsupported path: it contains '${CMAKE_MATCH_0}' "
    "(use a prefix without this character)")
endif()
get_filename_component(CMAKE_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}" ABSOLUTE)
