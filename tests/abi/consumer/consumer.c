// SPDX-License-Identifier: BSD-3-Clause
// A user's program that needs no device. Prints its findings and returns 0 if all are correct.
#include <librpma.h>
#include <string.h>

static int failures;

static void check(int condition, const char *what)
{
    printf("%s %s\n", condition ? "ok  " : "FAIL", what);
    failures += !condition;
}

int main(void)
{
    struct rpma_conn_cfg *cfg = NULL;
    struct rpma_peer_cfg *peer_cfg = NULL;
    enum rpma_log_level level = RPMA_LOG_LEVEL_DEBUG;
    uint32_t size = 0;
    int timeout_ms = 0;
    check(strcmp(rpma_err_2str(RPMA_E_INVAL), "Invalid argument") == 0, "rpma_err_2str");
    check(strcmp(rpma_utils_conn_event_2str(RPMA_CONN_LOST), "Connection lost") == 0, "rpma_utils_conn_event_2str");
    check(rpma_conn_cfg_new(&cfg) == 0, "rpma_conn_cfg_new");
    check(rpma_conn_cfg_get_timeout(cfg, &timeout_ms) == 0 && timeout_ms == RPMA_DEFAULT_TIMEOUT_MS, "default timeout");
    check(rpma_conn_cfg_set_sq_size(cfg, 0xffffffff) == 0, "rpma_conn_cfg_set_sq_size");
    check(rpma_conn_cfg_get_sq_size(cfg, &size) == 0 && size == 0xffffffff, "rpma_conn_cfg_get_sq_size");
    check(rpma_conn_cfg_delete(&cfg) == 0 && cfg == NULL, "rpma_conn_cfg_delete");
    check(rpma_peer_cfg_from_descriptor("", 0, &peer_cfg) == RPMA_E_INVAL, "rpma_peer_cfg_from_descriptor");
    check(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_FATAL) == 0, "rpma_log_set_threshold");
    check(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &level) == 0 && level == RPMA_LOG_LEVEL_FATAL, "threshold");
    return failures != 0;
}
