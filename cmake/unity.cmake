# SPDX-License-Identifier: BSD-3-Clause
# rpma_group_sources(TARGET): a unity build of the target compiles the sources of each directory together.
function(rpma_group_sources target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${RPMA_UNITY} UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH group)
    string(REPLACE / _ group ${group})
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()
