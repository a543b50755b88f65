// SPDX-License-Identifier: BSD-3-Clause
#include <string.h>

#include "gpspm.h"
#include "registered_tests.h"
#include "status.h"

enum {
    MEMORY_SIZE = 4096,
    REQUEST_SIZE = 27,
    RESPONSE_SIZE = 9
};

static const unsigned char request[REQUEST_SIZE] = {
        0x09, 0x11, 0, 0, 0, 0, 0, 0, 0, 0x11, 0, 4, 0, 0, 0, 0, 0, 0, 0x19, 0x1d, 0xf0, 0, 0, 0, 0, 0, 0};
static const unsigned char response[RESPONSE_SIZE] = {0x09, 0x1d, 0xf0, 0, 0, 0, 0, 0, 0};

static struct {
    size_t offset;
    size_t size;
    int calls;
} persisted;

static char bytes[MEMORY_SIZE];
static char slots[2 * GPSPM_SLOT_SIZE];
static struct mailbox mailbox;

static void note_persisted(const void *address, size_t size)
{
    persisted.offset = (size_t)((const char *)address - bytes);
    persisted.size = size;
    ++persisted.calls;
}

/* Describes memory of a file without a file. */
static const struct memory memory = {
        .base = bytes, .size = MEMORY_SIZE, .map = (struct pmem2_map *)slots, .persist = note_persisted};

static int set_up(void **state)
{
    memset(&persisted, 0, sizeof(persisted));
    memset(slots, 0, sizeof(slots));
    mailbox = (struct mailbox){.memory = {.base = slots, .size = sizeof(slots)}, .slot_size = GPSPM_SLOT_SIZE};
    return 0;
}

static void receive(const void *message, size_t size)
{
    memcpy(slots + GPSPM_SLOT_SIZE, message, size);
    mailbox.received_size = size;
}

static void receive_request(uint64_t offset, uint64_t length)
{
    receive(mailbox_outgoing(&mailbox), gpspm_request(&mailbox, offset, length));
}

DEFINE_TEST(messages_have_the_documented_bytes, set_up, NULL)
{
    size_t size = 0;
    assert_int_equal(gpspm_request(&mailbox, 0x11, 0x400), REQUEST_SIZE);
    assert_memory_equal(mailbox_outgoing(&mailbox), request, REQUEST_SIZE);

    receive(request, REQUEST_SIZE);
    assert_int_equal(gpspm_persist(&memory, &mailbox, &size), STATUS_OK);
    assert_int_equal(size, RESPONSE_SIZE);
    assert_memory_equal(mailbox_outgoing(&mailbox), response, RESPONSE_SIZE);
}

DEFINE_TEST(requested_ranges_are_persisted, set_up, NULL)
{
    static const size_t ranges[][2] = {{0x11, 0x400}, {0, MEMORY_SIZE}, {MEMORY_SIZE - 1, 1}, {MEMORY_SIZE, 0}};
    size_t size = 0;

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); ++i) {
        receive_request(ranges[i][0], ranges[i][1]);
        assert_int_equal(gpspm_persist(&memory, &mailbox, &size), STATUS_OK);
        assert_int_equal(persisted.calls, i + 1);
        assert_int_equal(persisted.offset, ranges[i][0]);
        assert_int_equal(persisted.size, ranges[i][1]);
    }
}

DEFINE_TEST(nothing_beyond_the_memory_is_persisted, set_up, NULL)
{
    static const uint64_t ranges[][2] = {{0, MEMORY_SIZE + 1}, {MEMORY_SIZE, 1}, {MEMORY_SIZE + 1, 0}, {1, UINT64_MAX},
            {UINT64_MAX, 2}, {UINT64_MAX, UINT64_MAX}};
    size_t size = 0;

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); ++i) {
        receive_request(ranges[i][0], ranges[i][1]);
        assert_int_equal(gpspm_persist(&memory, &mailbox, &size), STATUS_FAILED);
    }
    assert_int_equal(persisted.calls, 0);
    assert_int_equal(size, 0);
}

DEFINE_TEST(message_that_is_no_request_is_a_failure, set_up, NULL)
{
    size_t size = 0;
    for (size_t length = 0; length < REQUEST_SIZE; ++length) {
        receive(request, length);
        assert_int_equal(gpspm_persist(&memory, &mailbox, &size), STATUS_FAILED);
    }
    static const char zeros[REQUEST_SIZE];
    receive(zeros, sizeof(zeros));
    assert_int_equal(gpspm_persist(&memory, &mailbox, &size), STATUS_FAILED);
    assert_int_equal(persisted.calls, 0);
}

DEFINE_TEST(fields_come_in_any_order_and_unknown_ones_are_skipped, set_up, NULL)
{
    unsigned char shuffled[REQUEST_SIZE + 2] = {0x20, 7};
    size_t size = 0;
    memcpy(shuffled + 2, request + 9, REQUEST_SIZE - 9);
    memcpy(shuffled + 2 + REQUEST_SIZE - 9, request, 9);

    receive(shuffled, sizeof(shuffled));
    assert_int_equal(gpspm_persist(&memory, &mailbox, &size), STATUS_OK);
    assert_int_equal(persisted.offset, 0x11);
    assert_int_equal(persisted.size, 0x400);
}

DEFINE_TEST(only_the_response_to_the_request_counts, set_up, NULL)
{
    unsigned char other[RESPONSE_SIZE];
    memcpy(other, response, RESPONSE_SIZE);
    other[1] ^= 1;

    receive(response, RESPONSE_SIZE);
    assert_int_equal(gpspm_check_response(&mailbox), STATUS_OK);
    receive(other, RESPONSE_SIZE);
    assert_int_equal(gpspm_check_response(&mailbox), STATUS_FAILED);
    receive(response, RESPONSE_SIZE - 1);
    assert_int_equal(gpspm_check_response(&mailbox), STATUS_FAILED);
    receive(response, 0);
    assert_int_equal(gpspm_check_response(&mailbox), STATUS_FAILED);
}
