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

static void check_strings(void)
{
    check(strcmp(rpma_err_2str(0), "Success") == 0, "rpma_err_2str(0)");
    check(strcmp(rpma_err_2str(RPMA_E_INVAL), "Invalid argument") == 0, "rpma_err_2str(RPMA_E_INVAL)");
    check(strcmp(rpma_err_2str(1), "Unknown error") == 0, "rpma_err_2str(1)");
    check(strcmp(rpma_utils_conn_event_2str(RPMA_CONN_LOST), "Connection lost") == 0, "rpma_utils_conn_event_2str");
}

static void check_conn_cfg(void)
{
    struct rpma_conn_cfg *cfg = NULL;
    uint32_t size = 0;
    int timeout_ms = 0;
    bool shared = true;
    check(rpma_conn_cfg_new(&cfg) == 0, "rpma_conn_cfg_new");
    check(rpma_conn_cfg_get_timeout(cfg, &timeout_ms) == 0 && timeout_ms == RPMA_DEFAULT_TIMEOUT_MS, "default timeout");
    check(rpma_conn_cfg_get_cq_size(cfg, &size) == 0 && size == 10, "default cq_size");
    check(rpma_conn_cfg_get_compl_channel(cfg, &shared) == 0 && !shared, "default compl_channel");
    check(rpma_conn_cfg_set_sq_size(cfg, 0xffffffff) == 0, "rpma_conn_cfg_set_sq_size");
    check(rpma_conn_cfg_get_sq_size(cfg, &size) == 0 && size == 0xffffffff, "rpma_conn_cfg_get_sq_size");
    check(rpma_conn_cfg_set_timeout(cfg, -1) == RPMA_E_INVAL, "rpma_conn_cfg_set_timeout(-1)");
    check(rpma_conn_cfg_delete(&cfg) == 0 && cfg == NULL, "rpma_conn_cfg_delete");
}

static void check_descriptors(void)
{
    const unsigned char descriptor[] = {
            0, 1, 2, 3, 4, 5, 6, 7, 0x34, 0x12, 0, 0, 0, 0, 0, 0, 8, 9, 10, 11, RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY};
    struct rpma_mr_remote *mr = NULL;
    struct rpma_peer_cfg *peer_cfg = NULL;
    size_t size = 0;
    int flush_type = 0;
    bool supported = false;
    check(rpma_mr_remote_from_descriptor(descriptor, sizeof(descriptor) - 1, &mr) == RPMA_E_INVAL, "short descriptor");
    check(rpma_mr_remote_from_descriptor(descriptor, sizeof(descriptor), &mr) == 0, "rpma_mr_remote_from_descriptor");
    check(rpma_mr_remote_get_size(mr, &size) == 0 && size == 0x1234, "rpma_mr_remote_get_size");
    check(rpma_mr_remote_get_flush_type(mr, &flush_type) == 0 && flush_type == RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
            "rpma_mr_remote_get_flush_type");
    check(rpma_mr_remote_delete(&mr) == 0 && mr == NULL, "rpma_mr_remote_delete");
    check(rpma_peer_cfg_from_descriptor("\1", 1, &peer_cfg) == 0, "rpma_peer_cfg_from_descriptor");
    check(rpma_peer_cfg_get_direct_write_to_pmem(peer_cfg, &supported) == 0 && supported, "direct write to PMem");
    check(rpma_peer_cfg_delete(&peer_cfg) == 0, "rpma_peer_cfg_delete");
}

static void check_logging(void)
{
    enum rpma_log_level level = RPMA_LOG_LEVEL_DEBUG;
    check(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_FATAL) == 0, "rpma_log_set_threshold");
    check(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &level) == 0 && level == RPMA_LOG_LEVEL_FATAL,
            "rpma_log_get_threshold");
    check(rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION) == 0, "rpma_log_set_function");
}

static void check_arguments(void)
{
    struct rpma_peer *peer = NULL;
    struct ibv_wc wc;
    check(rpma_peer_new(NULL, &peer) == RPMA_E_INVAL && peer == NULL, "rpma_peer_new(NULL)");
    check(rpma_cq_get_wc(NULL, 1, &wc, NULL) == RPMA_E_INVAL, "rpma_cq_get_wc(NULL)");
    check(rpma_read(NULL, NULL, 0, NULL, 0, 0, RPMA_F_COMPLETION_ALWAYS, NULL) == RPMA_E_INVAL, "rpma_read(NULL)");
}

int main(void)
{
    check_strings();
    check_conn_cfg();
    check_descriptors();
    check_logging();
    check_arguments();
    return failures != 0;
}
