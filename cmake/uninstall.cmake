# SPDX-License-Identifier: BSD-3-Clause
# Removes the files of the last installation, which `cmake --install` listed in install_manifest.txt. Directories
# remain.
if(NOT EXISTS ${MANIFEST})
  message(FATAL_ERROR "uninstall: ${MANIFEST} not found (install first)")
endif()
file(STRINGS ${MANIFEST} files)
foreach(file ${files})
  set(file $ENV{DESTDIR}${file})
  if(EXISTS ${file} OR IS_SYMLINK ${file})
    file(REMOVE ${file})
    if(EXISTS ${file} OR IS_SYMLINK ${file})
      message(FATAL_ERROR "uninstall: cannot remove ${file} (run it as the user that installed it)")
    endif()
    message(STATUS "Removed ${file}")
  endif()
endforeach()
