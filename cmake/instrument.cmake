# SPDX-License-Identifier: BSD-3-Clause
# Sanitizers and coverage apply to all targets, because mixed objects do not link.
if(RPMA_SANITIZE)
  add_compile_options(-fsanitize=${RPMA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${RPMA_SANITIZE})
endif()
if(RPMA_COVERAGE)
  # Without atomic counters, threads can make a count negative, which gcovr rejects.
  add_compile_options(--coverage -fprofile-update=atomic -O0 -g)
  add_link_options(--coverage)
endif()
