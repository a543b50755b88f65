// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

#include <limits.h>

TEST(each_code_has_its_text)
{
    assert_string_equal(rpma_err_2str(0), "Success");
    assert_string_equal(rpma_err_2str(RPMA_E_UNKNOWN), "Unknown error");
    assert_string_equal(rpma_err_2str(RPMA_E_NOSUPP), "Not supported");
    assert_string_equal(rpma_err_2str(RPMA_E_PROVIDER), "Provider error occurred");
    assert_string_equal(rpma_err_2str(RPMA_E_NOMEM), "Out of memory");
    assert_string_equal(rpma_err_2str(RPMA_E_INVAL), "Invalid argument");
    assert_string_equal(rpma_err_2str(RPMA_E_NO_COMPLETION), "No next completion available");
    assert_string_equal(rpma_err_2str(RPMA_E_NO_EVENT), "No next event available");
    assert_string_equal(rpma_err_2str(RPMA_E_AGAIN), "Temporary error, try again");
    assert_string_equal(rpma_err_2str(RPMA_E_SHARED_CHANNEL), "Completion channel is shared");
    assert_string_equal(rpma_err_2str(RPMA_E_NOT_SHARED_CHNL), "Completion channel is not shared");
}

TEST(a_number_that_is_no_code_has_a_text_too)
{
    const int numbers[] = {1, -1, -99999, -100010, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i)
        assert_string_equal(rpma_err_2str(numbers[i]), "Unknown error");
}
