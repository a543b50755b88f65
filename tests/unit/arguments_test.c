// SPDX-License-Identifier: BSD-3-Clause
#define _GNU_SOURCE
#include "support.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

// Every pointer parameter of every exported function has a line here. The list of functions comes from the export map
// and their parameters from the public header, both named on the command line, so that nothing can be forgotten.

enum {
    MAX_LINES = 400,
    MAX_TEXT = 1 << 16
};

static const char *map_file;
static const char *header_file;

static struct {
    const char *function;
    const char *parameter;
} covered[MAX_LINES];
static unsigned covered_count;

static void cover(const char *function, const char *parameter)
{
    assert_true(covered_count < MAX_LINES);
    covered[covered_count].function = function;
    covered[covered_count].parameter = parameter;
    ++covered_count;
}

// NULL for the parameter is refused before any other argument is looked at.
#define REFUSED(function, parameter, ...)                                                                              \
    do {                                                                                                               \
        cover(#function, #parameter);                                                                                  \
        assert_int_equal(function(__VA_ARGS__), RPMA_E_INVAL);                                                         \
    } while (0)

// NULL for the parameter has a meaning, which the test named has to show.
#define MEANINGFUL(function, parameter, test) cover(#function, #parameter)

// NULL for the context of an operation is the context 0, which operation_test, srq_test and flush_test post.
#define CONTEXT_OF(function) MEANINGFUL(function, op_context, without_regions_each_operation_moves_no_bytes)

static void configurations(void **state)
{
    (void)state;
    REFUSED(rpma_peer_cfg_new, pcfg_ptr, NULL);
    REFUSED(rpma_peer_cfg_delete, pcfg_ptr, NULL);
    REFUSED(rpma_peer_cfg_set_direct_write_to_pmem, pcfg, NULL, true);
    REFUSED(rpma_peer_cfg_get_direct_write_to_pmem, pcfg, NULL, BOGUS);
    REFUSED(rpma_peer_cfg_get_direct_write_to_pmem, supported, BOGUS, NULL);
    REFUSED(rpma_peer_cfg_get_descriptor, pcfg, NULL, BOGUS);
    REFUSED(rpma_peer_cfg_get_descriptor, desc, BOGUS, NULL);
    REFUSED(rpma_peer_cfg_get_descriptor_size, pcfg, NULL, BOGUS);
    REFUSED(rpma_peer_cfg_get_descriptor_size, desc_size, BOGUS, NULL);
    REFUSED(rpma_peer_cfg_from_descriptor, desc, NULL, 1, BOGUS);
    REFUSED(rpma_peer_cfg_from_descriptor, pcfg_ptr, BOGUS, 1, NULL);

    REFUSED(rpma_srq_cfg_new, cfg_ptr, NULL);
    REFUSED(rpma_srq_cfg_delete, cfg_ptr, NULL);
    REFUSED(rpma_srq_cfg_set_rq_size, cfg, NULL, 1);
    REFUSED(rpma_srq_cfg_get_rq_size, cfg, NULL, BOGUS);
    REFUSED(rpma_srq_cfg_get_rq_size, rq_size, BOGUS, NULL);
    REFUSED(rpma_srq_cfg_set_rcq_size, cfg, NULL, 1);
    REFUSED(rpma_srq_cfg_get_rcq_size, cfg, NULL, BOGUS);
    REFUSED(rpma_srq_cfg_get_rcq_size, rcq_size, BOGUS, NULL);

    REFUSED(rpma_conn_cfg_new, cfg_ptr, NULL);
    REFUSED(rpma_conn_cfg_delete, cfg_ptr, NULL);
    REFUSED(rpma_conn_cfg_set_timeout, cfg, NULL, 1);
    REFUSED(rpma_conn_cfg_get_timeout, cfg, NULL, BOGUS);
    REFUSED(rpma_conn_cfg_get_timeout, timeout_ms, BOGUS, NULL);
    REFUSED(rpma_conn_cfg_set_cq_size, cfg, NULL, 1);
    REFUSED(rpma_conn_cfg_get_cq_size, cfg, NULL, BOGUS);
    REFUSED(rpma_conn_cfg_get_cq_size, cq_size, BOGUS, NULL);
    REFUSED(rpma_conn_cfg_set_rcq_size, cfg, NULL, 1);
    REFUSED(rpma_conn_cfg_get_rcq_size, cfg, NULL, BOGUS);
    REFUSED(rpma_conn_cfg_get_rcq_size, rcq_size, BOGUS, NULL);
    REFUSED(rpma_conn_cfg_set_sq_size, cfg, NULL, 1);
    REFUSED(rpma_conn_cfg_get_sq_size, cfg, NULL, BOGUS);
    REFUSED(rpma_conn_cfg_get_sq_size, sq_size, BOGUS, NULL);
    REFUSED(rpma_conn_cfg_set_rq_size, cfg, NULL, 1);
    REFUSED(rpma_conn_cfg_get_rq_size, cfg, NULL, BOGUS);
    REFUSED(rpma_conn_cfg_get_rq_size, rq_size, BOGUS, NULL);
    REFUSED(rpma_conn_cfg_set_compl_channel, cfg, NULL, true);
    REFUSED(rpma_conn_cfg_get_compl_channel, cfg, NULL, BOGUS);
    REFUSED(rpma_conn_cfg_get_compl_channel, shared, BOGUS, NULL);
    REFUSED(rpma_conn_cfg_set_srq, cfg, NULL, BOGUS);
    REFUSED(rpma_conn_cfg_set_srq, srq, BOGUS, NULL);
    REFUSED(rpma_conn_cfg_get_srq, cfg, NULL, BOGUS);
    REFUSED(rpma_conn_cfg_get_srq, srq_ptr, BOGUS, NULL);
}

static void devices_and_memory(void **state)
{
    (void)state;
    REFUSED(rpma_utils_get_ibv_context, addr, NULL, RPMA_UTIL_IBV_CONTEXT_LOCAL, BOGUS);
    REFUSED(rpma_utils_get_ibv_context, ibv_ctx_ptr, BOGUS, RPMA_UTIL_IBV_CONTEXT_LOCAL, NULL);
    REFUSED(rpma_utils_get_ibv_context_of_kind, addr, NULL, RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_DEVICE_ANY, BOGUS);
    REFUSED(rpma_utils_get_ibv_context_of_kind, ibv_ctx_ptr, BOGUS, RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_DEVICE_ANY, NULL);
    REFUSED(rpma_utils_ibv_context_get_kind, ibv_ctx, NULL, BOGUS);
    REFUSED(rpma_utils_ibv_context_get_kind, kind, BOGUS, NULL);
    REFUSED(rpma_utils_ibv_context_is_odp_capable, ibv_ctx, NULL, BOGUS);
    REFUSED(rpma_utils_ibv_context_is_odp_capable, is_odp_capable, BOGUS, NULL);
    REFUSED(rpma_peer_new, ibv_ctx, NULL, BOGUS);
    REFUSED(rpma_peer_new, peer_ptr, BOGUS, NULL);
    REFUSED(rpma_peer_delete, peer_ptr, NULL);

    REFUSED(rpma_mr_reg, peer, NULL, BOGUS, 1, 1, BOGUS);
    REFUSED(rpma_mr_reg, ptr, BOGUS, NULL, 1, 1, BOGUS);
    REFUSED(rpma_mr_reg, mr_ptr, BOGUS, BOGUS, 1, 1, NULL);
    REFUSED(rpma_mr_dereg, mr_ptr, NULL);
    REFUSED(rpma_mr_get_ptr, mr, NULL, BOGUS);
    REFUSED(rpma_mr_get_ptr, ptr, BOGUS, NULL);
    REFUSED(rpma_mr_get_size, mr, NULL, BOGUS);
    REFUSED(rpma_mr_get_size, size, BOGUS, NULL);
    REFUSED(rpma_mr_get_descriptor, mr, NULL, BOGUS);
    REFUSED(rpma_mr_get_descriptor, desc, BOGUS, NULL);
    REFUSED(rpma_mr_get_descriptor_size, mr, NULL, BOGUS);
    REFUSED(rpma_mr_get_descriptor_size, desc_size, BOGUS, NULL);
    REFUSED(rpma_mr_remote_from_descriptor, desc, NULL, 21, BOGUS);
    REFUSED(rpma_mr_remote_from_descriptor, mr_ptr, BOGUS, 21, NULL);
    REFUSED(rpma_mr_remote_delete, mr_ptr, NULL);
    REFUSED(rpma_mr_remote_get_size, mr, NULL, BOGUS);
    REFUSED(rpma_mr_remote_get_size, size, BOGUS, NULL);
    REFUSED(rpma_mr_remote_get_flush_type, mr, NULL, BOGUS);
    REFUSED(rpma_mr_remote_get_flush_type, flush_type, BOGUS, NULL);
    REFUSED(rpma_mr_advise, mr, NULL, 0, 1, 0, 0);

    REFUSED(rpma_srq_new, peer, NULL, BOGUS, BOGUS);
    MEANINGFUL(rpma_srq_new, cfg, without_a_configuration_the_defaults_apply);
    REFUSED(rpma_srq_new, srq_ptr, BOGUS, BOGUS, NULL);
    REFUSED(rpma_srq_delete, srq_ptr, NULL);
    REFUSED(rpma_srq_recv, srq, NULL, BOGUS, 0, 8, BOGUS);
    REFUSED(rpma_srq_recv, dst, BOGUS, NULL, 0, 8, BOGUS);
    CONTEXT_OF(rpma_srq_recv);
    REFUSED(rpma_srq_get_rcq, srq, NULL, BOGUS);
    REFUSED(rpma_srq_get_rcq, rcq_ptr, BOGUS, NULL);
}

static void connecting(void **state)
{
    (void)state;
    struct rpma_conn_req *none = NULL;
    REFUSED(rpma_conn_req_new, peer, NULL, BOGUS, BOGUS, BOGUS, BOGUS);
    REFUSED(rpma_conn_req_new, addr, BOGUS, NULL, BOGUS, BOGUS, BOGUS);
    REFUSED(rpma_conn_req_new, port, BOGUS, BOGUS, NULL, BOGUS, BOGUS);
    MEANINGFUL(rpma_conn_req_new, cfg, the_queue_pair_has_the_documented_attributes);
    REFUSED(rpma_conn_req_new, req_ptr, BOGUS, BOGUS, BOGUS, BOGUS, NULL);
    REFUSED(rpma_conn_req_delete, req_ptr, NULL);
    REFUSED(rpma_conn_req_recv, req, NULL, BOGUS, 0, 8, BOGUS);
    REFUSED(rpma_conn_req_recv, dst, BOGUS, NULL, 0, 0, BOGUS);
    CONTEXT_OF(rpma_conn_req_recv);
    REFUSED(rpma_conn_req_get_private_data, req, NULL, BOGUS);
    REFUSED(rpma_conn_req_get_private_data, pdata, BOGUS, NULL);
    REFUSED(rpma_conn_req_connect, req_ptr, NULL, BOGUS, BOGUS);
    REFUSED(rpma_conn_req_connect, req_ptr, &none, BOGUS, BOGUS);
    MEANINGFUL(rpma_conn_req_connect, pdata, the_passive_side_accepts_last);
    MEANINGFUL(rpma_conn_req_connect, conn_ptr, bad_arguments_consume_and_reject_the_request);

    REFUSED(rpma_ep_listen, peer, NULL, BOGUS, BOGUS, BOGUS);
    REFUSED(rpma_ep_listen, addr, BOGUS, NULL, BOGUS, BOGUS);
    REFUSED(rpma_ep_listen, port, BOGUS, BOGUS, NULL, BOGUS);
    REFUSED(rpma_ep_listen, ep_ptr, BOGUS, BOGUS, BOGUS, NULL);
    REFUSED(rpma_ep_shutdown, ep_ptr, NULL);
    REFUSED(rpma_ep_get_fd, ep, NULL, BOGUS);
    REFUSED(rpma_ep_get_fd, fd, BOGUS, NULL);
    REFUSED(rpma_ep_next_conn_req, ep, NULL, BOGUS, BOGUS);
    MEANINGFUL(rpma_ep_next_conn_req, cfg, a_request_is_built_and_moved_to_its_own_channel);
    REFUSED(rpma_ep_next_conn_req, req_ptr, BOGUS, BOGUS, NULL);
}

static void connections(void **state)
{
    (void)state;
    REFUSED(rpma_conn_get_event_fd, conn, NULL, BOGUS);
    REFUSED(rpma_conn_get_event_fd, fd, BOGUS, NULL);
    REFUSED(rpma_conn_next_event, conn, NULL, BOGUS);
    REFUSED(rpma_conn_next_event, event, BOGUS, NULL);
    REFUSED(rpma_conn_get_private_data, conn, NULL, BOGUS);
    REFUSED(rpma_conn_get_private_data, pdata, BOGUS, NULL);
    REFUSED(rpma_conn_apply_remote_peer_cfg, conn, NULL, BOGUS);
    REFUSED(rpma_conn_apply_remote_peer_cfg, pcfg, BOGUS, NULL);
    REFUSED(rpma_conn_get_qp_num, conn, NULL, BOGUS);
    REFUSED(rpma_conn_get_qp_num, qp_num, BOGUS, NULL);
    REFUSED(rpma_conn_get_counters, conn, NULL, BOGUS, 8);
    REFUSED(rpma_conn_get_counters, counters, BOGUS, NULL, 8);
    REFUSED(rpma_conn_get_cq, conn, NULL, BOGUS);
    REFUSED(rpma_conn_get_cq, cq_ptr, BOGUS, NULL);
    REFUSED(rpma_conn_get_rcq, conn, NULL, BOGUS);
    REFUSED(rpma_conn_get_rcq, rcq_ptr, BOGUS, NULL);
    REFUSED(rpma_conn_get_compl_fd, conn, NULL, BOGUS);
    REFUSED(rpma_conn_get_compl_fd, fd, BOGUS, NULL);
    REFUSED(rpma_conn_wait, conn, NULL, 0, BOGUS, BOGUS);
    REFUSED(rpma_conn_wait, cq, BOGUS, 0, NULL, BOGUS);
    MEANINGFUL(rpma_conn_wait, is_rcq, the_queue_that_fired_is_told_and_armed_again);
    REFUSED(rpma_conn_disconnect, conn, NULL);
    REFUSED(rpma_conn_ring, conn, NULL);
    REFUSED(rpma_conn_delete, conn_ptr, NULL);

    REFUSED(rpma_cq_get_fd, cq, NULL, BOGUS);
    REFUSED(rpma_cq_get_fd, fd, BOGUS, NULL);
    REFUSED(rpma_cq_wait, cq, NULL);
    REFUSED(rpma_cq_get_wc, cq, NULL, 1, BOGUS, BOGUS);
    REFUSED(rpma_cq_get_wc, wc, BOGUS, 1, NULL, BOGUS);
    REFUSED(rpma_cq_get_wc, num_entries_got, BOGUS, 2, BOGUS, NULL);
}

static void operations(void **state)
{
    (void)state;
    static const char word[8];
    REFUSED(rpma_read, conn, NULL, BOGUS, 0, BOGUS, 0, 8, 3, BOGUS);
    REFUSED(rpma_read, dst, BOGUS, NULL, 0, BOGUS, 0, 8, 3, BOGUS);
    REFUSED(rpma_read, src, BOGUS, BOGUS, 0, NULL, 0, 8, 3, BOGUS);
    CONTEXT_OF(rpma_read);
    REFUSED(rpma_write, conn, NULL, BOGUS, 0, BOGUS, 0, 8, 3, BOGUS);
    REFUSED(rpma_write, dst, BOGUS, NULL, 0, BOGUS, 0, 8, 3, BOGUS);
    REFUSED(rpma_write, src, BOGUS, BOGUS, 0, NULL, 0, 8, 3, BOGUS);
    CONTEXT_OF(rpma_write);
    REFUSED(rpma_write_with_imm, conn, NULL, BOGUS, 0, BOGUS, 0, 8, 3, 1, BOGUS);
    REFUSED(rpma_write_with_imm, dst, BOGUS, NULL, 0, BOGUS, 0, 8, 3, 1, BOGUS);
    REFUSED(rpma_write_with_imm, src, BOGUS, BOGUS, 0, NULL, 0, 8, 3, 1, BOGUS);
    CONTEXT_OF(rpma_write_with_imm);
    REFUSED(rpma_atomic_write, conn, NULL, BOGUS, 0, word, 3, BOGUS);
    REFUSED(rpma_atomic_write, dst, BOGUS, NULL, 0, word, 3, BOGUS);
    REFUSED(rpma_atomic_write, src, BOGUS, BOGUS, 0, NULL, 3, BOGUS);
    CONTEXT_OF(rpma_atomic_write);
    REFUSED(rpma_flush, conn, NULL, BOGUS, 0, 8, RPMA_FLUSH_TYPE_PERSISTENT, 3, BOGUS);
    REFUSED(rpma_flush, dst, BOGUS, NULL, 0, 8, RPMA_FLUSH_TYPE_PERSISTENT, 3, BOGUS);
    CONTEXT_OF(rpma_flush);
    REFUSED(rpma_send, conn, NULL, BOGUS, 0, 8, 3, BOGUS);
    REFUSED(rpma_send, src, BOGUS, NULL, 0, 8, 3, BOGUS);
    CONTEXT_OF(rpma_send);
    REFUSED(rpma_send_with_imm, conn, NULL, BOGUS, 0, 8, 3, 1, BOGUS);
    REFUSED(rpma_send_with_imm, src, BOGUS, NULL, 0, 8, 3, 1, BOGUS);
    CONTEXT_OF(rpma_send_with_imm);
    REFUSED(rpma_recv, conn, NULL, BOGUS, 0, 8, BOGUS);
    REFUSED(rpma_recv, dst, BOGUS, NULL, 0, 8, BOGUS);
    CONTEXT_OF(rpma_recv);
}

static void logging(void **state)
{
    (void)state;
    REFUSED(rpma_log_get_threshold, level, RPMA_LOG_THRESHOLD, NULL);
    MEANINGFUL(rpma_log_set_function, log_function, the_default_function_comes_back_with_null);
}

static char *read_file(const char *name)
{
    static char text[2][MAX_TEXT];
    static unsigned used;
    char *const to = text[used++ % 2];
    FILE *const file = fopen(name, "r");
    if (file == NULL)
        fail_msg("%s cannot be opened", name);
    const size_t length = fread(to, 1, MAX_TEXT - 1, file);
    fclose(file);
    assert_true(length > 0 && length < MAX_TEXT - 1);
    to[length] = '\0';
    return to;
}

static bool is_covered(const char *function, const char *parameter, size_t length)
{
    for (unsigned i = 0; i < covered_count; ++i)
        if (strcmp(covered[i].function, function) == 0 && strlen(covered[i].parameter) == length &&
                strncmp(covered[i].parameter, parameter, length) == 0)
            return true;
    return false;
}

// Fails unless each pointer parameter between the parentheses is covered; returns how many there are.
static unsigned check_parameters(const char *function, const char *from)
{
    unsigned pointers = 0;
    for (const char *at = from; *at != ')';) {
        const char *const end = at + strcspn(at, ",)");
        const char *name_end = end;
        const char *const bracket = memchr(at, '[', (size_t)(end - at));
        const bool is_function = memmem(at, (size_t)(end - at), "rpma_log_function", 17) != NULL;
        if (bracket != NULL)
            name_end = bracket;
        const char *name = name_end;
        while (isalnum((unsigned char)name[-1]) || name[-1] == '_')
            --name;
        if (bracket != NULL || is_function || memchr(at, '*', (size_t)(end - at)) != NULL) {
            ++pointers;
            if (!is_covered(function, name, (size_t)(name_end - name)))
                fail_msg("no line for %s of %s", name, function);
        }
        at = *end == ',' ? end + 1 : end;
    }
    return pointers;
}

// The parameter list of a function's declaration.
static const char *declaration(const char *header, const char *function)
{
    const size_t length = strlen(function);
    for (const char *at = header; (at = strstr(at, function)) != NULL; at += length) {
        const bool whole = at[length] == '(' && (at[-1] == ' ' || at[-1] == '*');
        const char *line = at;
        while (line != header && line[-1] != '\n')
            --line;
        if (whole && (strncmp(line, "int ", 4) == 0 || strncmp(line, "const char *", 12) == 0 ||
                             strncmp(line, "unsigned ", 9) == 0))
            return at + length + 1;
    }
    fail_msg("%s is not declared", function);
    return NULL;
}

static void every_pointer_of_every_exported_function_has_a_line(void **state)
{
    (void)state;
    char *const map = read_file(map_file);
    const char *const header = read_file(header_file);
    unsigned functions = 0, pointers = 0;
    for (char *word = strtok(map, " ;\n"); word != NULL; word = strtok(NULL, " ;\n"))
        if (strncmp(word, "rpma_", 5) == 0) {
            ++functions;
            pointers += check_parameters(word, declaration(header, word));
        }
    assert_int_equal(functions, 89);
    // One parameter of rpma_conn_req_connect has two lines.
    assert_int_equal(pointers, covered_count - 1);
}

int main(int argc, char *argv[])
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s <export map> <public header>\n", argv[0]);
        return 2;
    }
    map_file = argv[1];
    header_file = argv[2];
    const struct CMUnitTest tests[] = {
            TEST(configurations),
            TEST(devices_and_memory),
            TEST(connecting),
            TEST(connections),
            TEST(operations),
            TEST(logging),
            TEST(every_pointer_of_every_exported_function_has_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
