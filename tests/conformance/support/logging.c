// SPDX-License-Identifier: BSD-3-Clause
#include "logging.h"

void set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level)
{
    assert_done(rpma_log_set_threshold(threshold, level));
}

void provoke_error(void)
{
    struct rpma_peer_cfg *cfg = NULL;
    assert_rpma(rpma_peer_cfg_from_descriptor("", 0, &cfg), RPMA_E_INVAL);
}

void provoke_info(void)
{
    struct rpma_peer_cfg *cfg = NULL;
    assert_done(rpma_peer_cfg_from_descriptor("\1", 1, &cfg));
}
