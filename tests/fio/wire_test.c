// SPDX-License-Identifier: BSD-3-Clause
/* Messages on the wire, byte for byte as in the engines of fio 3.27 to 3.37. */
#include <string.h>

#include "append_request.h"
#include "flush_request.h"
#include "message.h"
#include "registered_tests.h"
#include "workspace_block.h"

enum {
    REQUEST_SIZE = 27,
    RESPONSE_SIZE = 9,
    APPEND_SIZE = 36,
    BLOCK_SIZE = 28
};

static const uint8_t request_bytes[REQUEST_SIZE] = {
        0x09, 0x11, 0, 0, 0, 0, 0, 0, 0, 0x11, 0, 0x04, 0, 0, 0, 0, 0, 0, 0x19, 0x1d, 0xf0};
static const uint8_t response_bytes[RESPONSE_SIZE] = {0x09, 0x1d, 0xf0};
static const uint8_t goodbye_bytes[REQUEST_SIZE] = {[0] = 0x09, [9] = 0x11, [18] = 0x19};

TEST(messages_have_the_bytes_of_the_schema)
{
    uint8_t message[MESSAGE_SIZE];
    const struct flush_request request = {.offset = 0x11, .length = 0x400, .context = 0xF01D};
    assert_int_equal(flush_request_write(&request, message), REQUEST_SIZE);
    assert_memory_equal(message, request_bytes, REQUEST_SIZE);
    assert_int_equal(response_write(0xF01D, message), RESPONSE_SIZE);
    assert_memory_equal(message, response_bytes, RESPONSE_SIZE);
    const struct flush_request final_message = {0};
    assert_int_equal(flush_request_write(&final_message, message), REQUEST_SIZE);
    assert_memory_equal(message, goodbye_bytes, REQUEST_SIZE);
}

TEST(messages_are_read_back)
{
    struct flush_request request = {0};
    uint64_t context = 0;
    assert_true(flush_request_read(request_bytes, REQUEST_SIZE, &request));
    assert_int_equal(request.offset, 0x11);
    assert_int_equal(request.length, 0x400);
    assert_int_equal(request.context, 0xF01D);
    assert_true(response_read(response_bytes, RESPONSE_SIZE, &context));
    assert_int_equal(context, 0xF01D);
}

TEST(malformed_messages_are_rejected)
{
    struct flush_request request = {.offset = 1};
    uint64_t context = 2;
    uint8_t noise[MESSAGE_SIZE];
    memset(noise, 0xff, sizeof(noise));
    assert_false(flush_request_read(noise, sizeof(noise), &request));
    assert_false(flush_request_read(request_bytes, REQUEST_SIZE - 1, &request));
    assert_false(flush_request_read(request_bytes, 0, &request));
    assert_false(flush_request_read(response_bytes, RESPONSE_SIZE, &request));
    assert_false(response_read(noise, sizeof(noise), &context));
    assert_false(response_read(response_bytes, RESPONSE_SIZE - 1, &context));
    assert_int_equal(request.offset, 1);
    assert_int_equal(context, 2);
}

TEST(the_block_is_read_with_the_padding_of_the_transport)
{
    uint8_t data[196] = {0x34, 0x12, 1, 21, 0xAB};
    struct workspace_block block;
    assert_int_equal(sizeof(block), BLOCK_SIZE);
    assert_true(workspace_block_read(data, BLOCK_SIZE, &block));
    assert_true(workspace_block_read(data, sizeof(data), &block));
    assert_int_equal(block.max_messages, 0x1234);
    assert_int_equal(block.direct_write_to_pmem, 1);
    assert_int_equal(block.descriptor_size, 21);
    assert_int_equal(block.descriptor[0], 0xAB);
}

TEST(malformed_blocks_are_rejected)
{
    uint8_t data[BLOCK_SIZE] = {0, 0, 0, 21};
    struct workspace_block block = {.max_messages = 7};
    assert_false(workspace_block_read(NULL, 0, &block));
    assert_false(workspace_block_read(data, BLOCK_SIZE - 1, &block));
    data[3] = 0; /* result of a peer that sent no data */
    assert_false(workspace_block_read(data, BLOCK_SIZE, &block));
    data[3] = MAX_DESCRIPTOR_SIZE + 1;
    assert_false(workspace_block_read(data, BLOCK_SIZE, &block));
    data[3] = 21;
    data[2] = 2;
    assert_false(workspace_block_read(data, BLOCK_SIZE, &block));
    assert_int_equal(block.max_messages, 7);
}

TEST(appends_have_the_bytes_of_the_schema)
{
    static const uint8_t bytes[APPEND_SIZE] = {0x09, 0, 0x10, 0, 0, 0, 0, 0, 0, 0x11, 0, 0x10, 0, 0, 0, 0, 0, 0, 0x19,
            0xf8, 0xff, 0x3f, 0x06, 0, 0, 0, 0, 0x21, 7};
    static const uint8_t all_zero[APPEND_SIZE] = {[0] = 0x09, [9] = 0x11, [18] = 0x19, [27] = 0x21};
    uint8_t message[MESSAGE_SIZE];
    const struct append_request request = {
            .offset = 0x1000, .length = 0x1000, .pointer_offset = 0x63FFFF8, .context = 7};
    const struct append_request final_message = {0};
    assert_int_equal(append_request_write(&request, message), APPEND_SIZE);
    assert_memory_equal(message, bytes, APPEND_SIZE);
    assert_int_equal(append_request_write(&final_message, message), APPEND_SIZE);
    assert_memory_equal(message, all_zero, APPEND_SIZE);

    struct append_request found = {0};
    assert_true(append_request_read(bytes, APPEND_SIZE, &found));
    assert_memory_equal(&found, &request, sizeof(found));
    assert_false(append_request_read(bytes, APPEND_SIZE - 1, &found));
    assert_false(append_request_read(request_bytes, REQUEST_SIZE, &found)); /* a request of GPSPM */
    struct flush_request other = {0};
    assert_true(flush_request_read(bytes, APPEND_SIZE, &other)); /* unknown fields are ignored */
}
