// SPDX-License-Identifier: BSD-3-Clause
/* Common parts of the examples: parsing of messages from peers, and the offset of data in a file. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "completion.h"
#include "connection.h"
#include "fake_connection.h"
#include "handshake.h"
#include "hello.h"
#include "mailbox.h"
#include "memory.h"
#include "ping_pong.h"
#include "registered_tests.h"
#include "status.h"
#include "text.h"

enum {
    FILE_SIZE = 100 * 1024
};

static const struct arguments patient = {.timeout_s = 5, .ready_fd = -1};
static const struct arguments impatient = {.timeout_s = 1, .ready_fd = -1};

static int parse(const void *bytes, uint8_t len, size_t data_size)
{
    const struct rpma_conn_private_data pdata = {.ptr = (void *)(uintptr_t)bytes, .len = len};
    struct rpma_mr_remote *mr = NULL;
    struct rpma_peer_cfg *pcfg = NULL;
    size_t offset = 0;

    const int status = handshake_parse(&pdata, data_size, &mr, &offset, &pcfg);
    assert_int_equal(rpma_mr_remote_delete(&mr), 0);
    assert_int_equal(rpma_peer_cfg_delete(&pcfg), 0);
    return status;
}

TEST(handshake_has_the_documented_bytes)
{
    static const unsigned char expected[HANDSHAKE_SIZE] = {
            0x11, 0x04, 21, 1, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1, 0x38, 1, 0, 0};
    struct rpma_peer_cfg *pcfg = NULL;
    struct handshake handshake;

    assert_int_equal(rpma_peer_cfg_new(&pcfg), 0);
    assert_int_equal(rpma_peer_cfg_set_direct_write_to_pmem(pcfg, true), 0);
    const int status = handshake_make(&handshake, NULL, 0x0411, pcfg);
    assert_int_equal(rpma_peer_cfg_delete(&pcfg), 0);

    assert_int_equal(status, STATUS_OK);
    assert_memory_equal(handshake.bytes, expected, HANDSHAKE_SIZE);
}

TEST(handshake_refuses_an_offset_that_its_16_bits_would_truncate)
{
    struct handshake handshake;
    assert_int_equal(handshake_make(&handshake, NULL, UINT16_MAX, NULL), STATUS_OK);
    assert_int_equal(handshake_make(&handshake, NULL, UINT16_MAX + 1, NULL), STATUS_FAILED);
}

TEST(handshake_is_found_in_padded_private_data)
{
    struct handshake handshake;
    unsigned char padded[196] = {0};

    assert_int_equal(handshake_make(&handshake, NULL, 17, NULL), STATUS_OK);
    memcpy(padded, handshake.bytes, HANDSHAKE_SIZE);
    assert_int_equal(parse(padded, HANDSHAKE_SIZE, 1024), STATUS_OK);
    assert_int_equal(parse(padded, 56, 1024), STATUS_OK);
    assert_int_equal(parse(padded, sizeof(padded), 1024), STATUS_OK);
}

TEST(handshake_that_is_short_or_absent_is_a_failure)
{
    struct handshake handshake;
    const unsigned char zeros[196] = {0};

    assert_int_equal(handshake_make(&handshake, NULL, 0, NULL), STATUS_OK);
    assert_int_equal(parse(NULL, 0, 1), STATUS_FAILED);
    assert_int_equal(parse(handshake.bytes, HANDSHAKE_SIZE - 1, 1), STATUS_FAILED);
    assert_int_equal(parse("Hello server!", 14, 1), STATUS_FAILED);
    assert_int_equal(parse(zeros, sizeof(zeros), 1), STATUS_FAILED);
}

TEST(handshake_with_sizes_beyond_its_end_is_a_failure)
{
    struct handshake handshake;
    assert_int_equal(handshake_make(&handshake, NULL, 0, NULL), STATUS_OK);

    handshake.bytes[2] = 25;
    assert_int_equal(parse(handshake.bytes, HANDSHAKE_SIZE, 1), STATUS_FAILED);
    handshake.bytes[2] = 20;
    assert_int_equal(parse(handshake.bytes, HANDSHAKE_SIZE, 1), STATUS_FAILED);
    handshake.bytes[2] = 21;
    handshake.bytes[3] = 4;
    assert_int_equal(parse(handshake.bytes, HANDSHAKE_SIZE, 1), STATUS_FAILED);
}

TEST(handshake_offering_too_little_memory_is_a_failure)
{
    struct handshake handshake;
    assert_int_equal(handshake_make(&handshake, NULL, 8192 - 1024, NULL), STATUS_OK);
    assert_int_equal(parse(handshake.bytes, HANDSHAKE_SIZE, 1024), STATUS_OK);
    assert_int_equal(parse(handshake.bytes, HANDSHAKE_SIZE, 1025), STATUS_FAILED);

    assert_int_equal(handshake_make(&handshake, NULL, 8193, NULL), STATUS_OK);
    assert_int_equal(parse(handshake.bytes, HANDSHAKE_SIZE, 1024), STATUS_FAILED);
}

TEST(text_of_a_peer_is_printed_only_if_terminated)
{
    char endless[16];
    memset(endless, 'x', sizeof(endless));

    assert_int_equal(print_text("label", "text", 5), STATUS_OK);
    assert_int_equal(print_text("label", "text", 4), STATUS_FAILED);
    assert_int_equal(print_text("label", endless, sizeof(endless)), STATUS_FAILED);
    assert_int_equal(print_text("label", "", 1), STATUS_FAILED);
    assert_int_equal(print_text("label", NULL, 0), STATUS_FAILED);
}

static int wait_with_event(enum rpma_conn_event event)
{
    fake_connection.events = &event;
    fake_connection.events_left = 1;
    fake_connection.disconnects = 0;
    return wait_for_disconnect(&patient, NULL);
}

#define CONNECTION_TEST(name) DEFINE_TEST(name, fake_connection_open, fake_connection_close)

CONNECTION_TEST(only_a_closed_connection_counts_as_a_good_end)
{
    assert_int_equal(wait_with_event(RPMA_CONN_CLOSED), STATUS_OK);
    assert_int_equal(fake_connection.disconnects, 1);

    assert_int_equal(wait_with_event(RPMA_CONN_LOST), STATUS_FAILED);
    assert_int_equal(wait_with_event(RPMA_CONN_ESTABLISHED), STATUS_FAILED);
    assert_int_equal(wait_with_event((enum rpma_conn_event)77), STATUS_FAILED);
}

CONNECTION_TEST(waiting_for_a_silent_peer_ends_in_failure)
{
    assert_int_equal(wait_for_disconnect(&impatient, NULL), STATUS_FAILED);
    assert_int_equal(wait_for_completion(&impatient, NULL, "rpma_read"), STATUS_FAILED);
}

static const char awaited[] = "rpma_read";
static const char other[] = "rpma_write";

static int wait_with_completions(const struct ibv_wc *completions, int count)
{
    fake_connection.completions = completions;
    fake_connection.completions_left = count;
    return wait_for_completion(&patient, NULL, awaited);
}

CONNECTION_TEST(completion_is_awaited_through_events_without_one)
{
    const struct ibv_wc completions[] = {{.status = FAKE_NO_COMPLETION}, {.status = FAKE_NO_COMPLETION},
            {.wr_id = (uintptr_t)awaited, .status = IBV_WC_SUCCESS}};
    assert_int_equal(wait_with_completions(completions, 3), STATUS_OK);
}

CONNECTION_TEST(completion_with_an_error_or_of_another_operation_is_a_failure)
{
    const struct ibv_wc failed = {.wr_id = (uintptr_t)awaited, .status = IBV_WC_REM_ACCESS_ERR};
    const struct ibv_wc earlier = {.wr_id = (uintptr_t)other, .status = IBV_WC_RETRY_EXC_ERR};
    const struct ibv_wc stray = {.wr_id = (uintptr_t)other, .status = IBV_WC_SUCCESS};
    assert_int_equal(wait_with_completions(&failed, 1), STATUS_FAILED);
    assert_int_equal(wait_with_completions(&earlier, 1), STATUS_FAILED);
    assert_int_equal(wait_with_completions(&stray, 1), STATUS_FAILED);
}

CONNECTION_TEST(completion_is_not_awaited_from_a_peer_that_has_gone)
{
    const enum rpma_conn_event closed = RPMA_CONN_CLOSED;
    const struct ibv_wc late = {.wr_id = (uintptr_t)awaited, .status = IBV_WC_SUCCESS};

    fake_connection.events = &closed;
    fake_connection.events_left = 1;
    assert_int_equal(wait_with_completions(NULL, 0), STATUS_FAILED);
    assert_int_equal(wait_with_completions(&late, 1), STATUS_OK);
    assert_int_equal(fake_connection.events_left, 1);
}

TEST(message_of_another_size_is_a_failure)
{
    const char message[16] = {42};
    uint64_t number = 0;
    assert_int_equal(ping_pong_number(message, sizeof(number), &number), STATUS_OK);
    assert_int_equal(number, 42);
    assert_int_equal(ping_pong_number(message, 4, &number), STATUS_FAILED);
    assert_int_equal(ping_pong_number(message, sizeof(message), &number), STATUS_FAILED);
}

static int wait_for_messages(const struct ibv_wc *completions, int count, unsigned progress)
{
    struct mailbox mailbox = {0};
    fake_connection.completions = completions;
    fake_connection.completions_left = count;
    return mailbox_wait(&impatient, &mailbox, NULL, progress);
}

CONNECTION_TEST(messages_complete_in_any_order)
{
    struct mailbox mailbox = {0};
    assert_int_equal(mailbox_send(&mailbox, NULL, 8), STATUS_OK);
    const struct ibv_wc sent = {.wr_id = fake_connection.send_context, .status = IBV_WC_SUCCESS};
    const struct ibv_wc received = {.wr_id = (uintptr_t)other, .status = IBV_WC_SUCCESS, .byte_len = 8};
    const struct ibv_wc orders[][2] = {{sent, received}, {received, sent}};

    assert_int_equal(wait_for_messages(orders[0], 2, MESSAGE_SENT | MESSAGE_RECEIVED), STATUS_OK);
    assert_int_equal(wait_for_messages(orders[1], 2, MESSAGE_SENT | MESSAGE_RECEIVED), STATUS_OK);
    assert_int_equal(wait_for_messages(orders[0], 1, MESSAGE_SENT | MESSAGE_RECEIVED), STATUS_FAILED);
    assert_int_equal(wait_for_messages(orders[0], 1, MESSAGE_RECEIVED), STATUS_FAILED);
}

static char path[] = "/tmp/rpma-examples-common-XXXXXX";

static int create_file(void **state)
{
    strcpy(strrchr(path, '-'), "-XXXXXX");
    const int fd = mkstemp(path);
    return fd < 0 || ftruncate(fd, FILE_SIZE) != 0 || close(fd) != 0;
}

static int remove_file(void **state)
{
    return unlink(path);
}

static void read_file(char *content, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, content, size), (ssize_t)size);
    assert_int_equal(close(fd), 0);
}

static int open_record(struct memory *memory, const char *offset)
{
    char *operands[] = {path, (char *)(uintptr_t)offset};
    const struct arguments args = {.operands = operands, .operand_count = 2};
    return hello_open_record(&args, memory);
}

#define FILE_TEST(name) DEFINE_TEST(name, create_file, remove_file)

FILE_TEST(offset_beyond_the_file_is_refused_and_changes_nothing)
{
    static const char *const offsets[] = {"101356", "102400", "200000", "18446744073709551615"};
    static char content[FILE_SIZE];
    static const char zeros[FILE_SIZE];

    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); ++i) {
        struct memory memory = {0};
        assert_int_equal(open_record(&memory, offsets[i]), STATUS_FAILED);
        assert_null(memory.base);
    }
    read_file(content, sizeof(content));
    assert_memory_equal(content, zeros, sizeof(content));
}

FILE_TEST(area_without_an_end_is_refused)
{
    char *operands[] = {path};
    const struct arguments args = {.operands = operands, .operand_count = 1};
    struct memory memory = {0};

    assert_int_equal(hello_open_area(&args, &memory), STATUS_OK);
    memset(memory.base + memory.data_offset, 'x', HELLO_TEXT_SIZE);
    assert_int_equal(hello_print_area(&memory), STATUS_FAILED);
    memory_close(&memory);
    assert_int_equal(hello_open_area(&args, &memory), STATUS_FAILED);
    memory_close(&memory);
}
