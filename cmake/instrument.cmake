# SPDX-License-Identifier: BSD-3-Clause
# Sanitizers and coverage apply to every target or to none: mixing them does not link.
if(RPMA_SANITIZE)
  add_compile_options(-fsanitize=${RPMA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${RPMA_SANITIZE})
endif()
if(RPMA_COVERAGE)
  # Counted by several threads at once, a branch came out as taken -2 times, which gcovr does not accept.
  add_compile_options(--coverage -fprofile-update=atomic -O0 -g)
  add_link_options(--coverage)
endif()
