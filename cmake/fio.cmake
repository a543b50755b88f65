# SPDX-License-Identifier: BSD-3-Clause
# RPMA_FIO_SOURCE: source tree of fio for the engines of src/fio. The tests download one if it is not set.
option(RPMA_FIO_TESTS "Test the engines with fio, also with Debian's fio built against this library" OFF)
set(RPMA_FIO_SOURCE "" CACHE PATH "Configured source tree of fio to build the engines for; empty: no engines are built")
set(RPMA_FIO_CACHE "" CACHE PATH "Cache directory of utils/fio; empty: the user's cache directory")

if(RPMA_FIO_CACHE)
  set(RPMA_FIO_CACHE_OPTION --cache ${RPMA_FIO_CACHE})
endif()
if(RPMA_FIO_TESTS AND NOT RPMA_FIO_SOURCE)
  message(STATUS "Preparing the source of fio")
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/utils/fio/source ${RPMA_FIO_CACHE_OPTION}
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(status EQUAL 0)
    set(RPMA_FIO_SOURCE ${output})
  elseif(status EQUAL 77)
    string(REPLACE "skipped: " "" RPMA_FIO_MISSING "${output}")
  else()
    message(FATAL_ERROR "${output}")
  endif()
endif()
