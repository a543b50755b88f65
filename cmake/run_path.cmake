# SPDX-License-Identifier: BSD-3-Clause
# rpma_set_run_path(TARGET DIRECTORY): the target, installed in DIRECTORY, finds the libraries of its own prefix before
# those of the system. The prefix can be moved. LD_LIBRARY_PATH takes precedence, because new dtags set RUNPATH. The
# system prefix needs no run path.
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
