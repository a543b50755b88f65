# SPDX-License-Identifier: BSD-3-Clause
# RPMA_HAVE_SDT: static probes are enabled and their header exists.
include(CheckIncludeFileCXX)
check_include_file_cxx(sys/sdt.h RPMA_HAVE_SDT_HEADER)
set(RPMA_HAVE_SDT ${RPMA_PROBES})
if(RPMA_PROBES AND NOT RPMA_HAVE_SDT_HEADER)
  message(WARNING "sys/sdt.h is not installed (Debian: systemtap-sdt-dev): built without static probes")
  set(RPMA_HAVE_SDT OFF)
endif()
