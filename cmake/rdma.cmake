# SPDX-License-Identifier: BSD-3-Clause
# Defines rdma::verbs and rdma::cm, and tests for optional members of rdma-core's headers.
include(CheckCXXSourceCompiles)
find_package(PkgConfig REQUIRED)
pkg_check_modules(RDMA_VERBS REQUIRED IMPORTED_TARGET libibverbs)
pkg_check_modules(RDMA_CM REQUIRED IMPORTED_TARGET librdmacm)

# struct ibv_qp_ex ends with wr_flush since rdma-core 45; older headers lack the member.
set(CMAKE_REQUIRED_LIBRARIES PkgConfig::RDMA_VERBS)
check_cxx_source_compiles("
  #include <infiniband/verbs.h>
  int main() { ibv_qp_ex *qpx = nullptr; return qpx->wr_flush != nullptr; }" RPMA_HAVE_WR_FLUSH)
unset(CMAKE_REQUIRED_LIBRARIES)
