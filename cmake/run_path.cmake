# SPDX-License-Identifier: BSD-3-Clause
# rpma_set_run_path(TARGET DIRECTORY): the target, which is installed in DIRECTORY, finds the libraries of this project in
# its own prefix, before those of the system. Installed files can be moved together. LD_LIBRARY_PATH comes first, because
# new dtags make a RUNPATH. The dynamic linker searches the prefix of the system without a run path.
function(rpma_set_run_path target directory)
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    return()
  endif()
  if(IS_ABSOLUTE ${directory})
    set(path ${CMAKE_INSTALL_FULL_LIBDIR})
  else()
    file(RELATIVE_PATH path ${CMAKE_INSTALL_PREFIX}/${directory} ${CMAKE_INSTALL_FULL_LIBDIR})
    set(path $ORIGIN/${path})
  endif()
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${path}")
  target_link_options(${target} PRIVATE -Wl,--enable-new-dtags)
endfunction()
