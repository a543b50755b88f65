# SPDX-License-Identifier: BSD-3-Clause
# Removes the files of the last installation, which `cmake --install` listed in install_manifest.txt. Directories
# remain.
if(NOT EXISTS "${MANIFEST}")
  message(FATAL_ERROR "uninstall: ${MANIFEST} not found (install first)")
endif()
# Not a list, because brackets in a path would join its elements.
file(READ "${MANIFEST}" left)
while(left MATCHES "^([^\n]+)\n*")
  set(file "$ENV{DESTDIR}${CMAKE_MATCH_1}")
  string(LENGTH "${CMAKE_MATCH_0}" length)
  string(SUBSTRING "${left}" ${length} -1 left)
  if(EXISTS "${file}" OR IS_SYMLINK "${file}")
    file(REMOVE "${file}")
    if(EXISTS "${file}" OR IS_SYMLINK "${file}")
      message(FATAL_ERROR "uninstall: cannot remove ${file} (run it as the user that installed it)")
    endif()
    message(STATUS "Removed ${file}")
  endif()
endwhile()
