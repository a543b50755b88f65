// SPDX-License-Identifier: BSD-3-Clause
#define _GNU_SOURCE
#include "support.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

// Every pointer parameter of every exported function has a line here. The test reads the functions from the export map
// and their parameters from the public header, both named on the command line, and fails for a parameter without a
// line.

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

// Checks that NULL for the parameter is rejected before any other argument is checked.
#define REFUSED(function, parameter, ...)                                                                              \
    do {                                                                                                               \
        cover(#function, #parameter);                                                                                  \
        assert_int_equal(function(__VA_ARGS__), RPMA_E_INVAL);                                                         \
    } while (0)

// NULL is a valid value of the parameter. The named test checks its effect.
#define MEANINGFUL(function, parameter, test) cover(#function, #parameter)

// NULL as the context of an operation means the context 0, which operation_test, srq_test and flush_test post.
#define CONTEXT_OF(function) MEANINGFUL(function, op_context, without_regions_each_operation_moves_no_bytes)

// Functions of librpma 1.3 and later. rpma-conformance has the same list.
TEST(null_is_refused)
{
    static const char word[8];
#define NULL_ARGUMENT(function, parameter, ...) REFUSED(function, parameter, __VA_ARGS__);
#include "../conformance/cases/null_arguments.def"
#undef NULL_ARGUMENT
    struct rpma_conn_req *none = NULL;
    REFUSED(rpma_conn_req_connect, req_ptr, &none, BOGUS, BOGUS);
}

TEST(null_is_refused_by_what_came_with_1_4)
{
    REFUSED(rpma_utils_get_ibv_context_by_kind, addr, NULL, RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_DEVICE_ANY, BOGUS);
    REFUSED(rpma_utils_get_ibv_context_by_kind, ibv_ctx_ptr, BOGUS, RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_DEVICE_ANY, NULL);
    REFUSED(rpma_utils_ibv_context_get_kind, ibv_ctx, NULL, BOGUS);
    REFUSED(rpma_utils_ibv_context_get_kind, kind, BOGUS, NULL);
    REFUSED(rpma_conn_get_counters, conn, NULL, BOGUS, 8);
    REFUSED(rpma_conn_get_counters, counters, BOGUS, NULL, 8);
    REFUSED(rpma_conn_get_native_flush, conn, NULL, BOGUS);
    REFUSED(rpma_conn_get_native_flush, native, BOGUS, NULL);
    REFUSED(rpma_mr_get_native_flush_type, mr, NULL, BOGUS);
    REFUSED(rpma_mr_get_native_flush_type, flush_type, BOGUS, NULL);
    REFUSED(rpma_conn_submit, conn, NULL);
}

TEST(null_has_a_meaning)
{
    MEANINGFUL(rpma_srq_new, cfg, without_a_configuration_the_defaults_apply);
    CONTEXT_OF(rpma_srq_recv);
    MEANINGFUL(rpma_conn_req_new, cfg, the_queue_pair_has_the_documented_attributes);
    CONTEXT_OF(rpma_conn_req_recv);
    MEANINGFUL(rpma_conn_req_connect, pdata, the_passive_side_accepts_last);
    MEANINGFUL(rpma_conn_req_connect, conn_ptr, bad_arguments_consume_and_reject_the_request);
    MEANINGFUL(rpma_ep_next_conn_req, cfg, a_request_is_built_and_moved_to_its_own_channel);
    MEANINGFUL(rpma_conn_wait, is_rcq, the_queue_with_the_event_is_returned_and_armed);
    CONTEXT_OF(rpma_read);
    CONTEXT_OF(rpma_write);
    CONTEXT_OF(rpma_write_with_imm);
    CONTEXT_OF(rpma_atomic_write);
    CONTEXT_OF(rpma_flush);
    CONTEXT_OF(rpma_send);
    CONTEXT_OF(rpma_send_with_imm);
    CONTEXT_OF(rpma_recv);
    MEANINGFUL(rpma_log_set_function, log_function, null_restores_the_default_function);
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

// Fails unless each pointer parameter between the parentheses is covered. Returns the number of pointer parameters.
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

// Returns the parameter list in the declaration of a function.
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

TEST(every_pointer_of_every_exported_function_has_a_line)
{
    char *const map = read_file(map_file);
    const char *const header = read_file(header_file);
    unsigned functions = 0, pointers = 0;
    for (char *word = strtok(map, " ;\n"); word != NULL; word = strtok(NULL, " ;\n"))
        if (strncmp(word, "rpma_", 5) == 0) {
            ++functions;
            pointers += check_parameters(word, declaration(header, word));
        }
    assert_int_equal(functions, 91);
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
    return run_registered_tests();
}
