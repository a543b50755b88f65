// SPDX-License-Identifier: BSD-3-Clause
// A daemon serves a pool, but its responses to the later requests are corrupted: each call reports the error, no call
// hangs, the handle is released whatever the result of closing it, and no resource leaks.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "control.hpp"

extern "C" {
#include "support.h"
}

using namespace replica;

namespace
{

using kind = request; // names the bodies of requests

constexpr std::uint32_t first_number = 3; // smaller numbers belong to the requests for the pool and for its record

std::string file_of(kind::BodyCase type)
{
    return std::string(getenv("RPMEM_TEST_DIR")) + "/answer-" + std::to_string(static_cast<unsigned>(type));
}

void replace_response(kind::BodyCase type, const std::string &bytes)
{
    // Writes a temporary file first, so that the relay never reads an incomplete file.
    std::ofstream(file_of(type) + "-new", std::ios::binary) << bytes;
    std::filesystem::rename(file_of(type) + "-new", file_of(type));
}

void remove_replacements()
{
    for (const auto type : {kind::kClose, kind::kSetAttributes})
        std::filesystem::remove(file_of(type));
}

response response_of(kind::BodyCase type, std::uint32_t number)
{
    response r;
    r.set_number(number);
    r.set_kind(static_cast<std::uint32_t>(type));
    return r;
}

struct corruption {
    const char *what;
    int error;
    std::function<std::string(response)> bytes;
};

const corruption corruptions[] = {
        {"an answer to something else", EPROTO,
                [](response r) {
                    r.set_kind(kind::kOpen);
                    return encode(r);
                }},
        {"another number", EPROTO,
                [](response r) {
                    r.set_number(r.number() + 7);
                    return encode(r);
                }},
        {"a status that does not exist", EPROTO,
                [](response r) {
                    r.set_status(77);
                    return encode(r);
                }},
        {"a message that is cut", EPROTO, [](const response &) { return std::string("\0\0\0\1\x08", 5); }},
        {"a size that nothing has", EPROTO, [](const response &r) { return "\x7f" + encode(r).substr(1); }},
        {"nonsense", EPROTO, [](const response &) { return std::string(100, '\xff'); }},
        {"the end", ECONNRESET, [](const response &) { return "end"; }},
        {"nothing", ETIMEDOUT, [](const response &) { return "nothing"; }},
};

std::string refusal(kind::BodyCase type, std::uint32_t number, status s)
{
    response r = response_of(type, number);
    set_failure(r, s, "because");
    return encode(r);
}

// Opens a pool with a short timeout, because its target will not respond.
RPMEMpool *open_pool(int error = 0)
{
    unsigned lanes = 1;
    setenv("RPMEM_OP_TIMEOUT_MS", error == ETIMEDOUT ? "4000" : "30000", 1);
    return must(rpmem_open("host", "pool.set", pool_memory, POOL_SIZE, &lanes, nullptr));
}

void expect_error(int result, int error, const char *what)
{
    const int got = errno;
    if (result != -1 || got != error)
        fail_msg("%s: %d, %s (%s), not %s", what, result, strerrorname_np(got), rpmem_errormsg(),
                strerrorname_np(error));
}

int count_resources(void **state)
{
    assert_int_equal(rpmem_close(create_pool("pool.set", &some_attributes)), 0);
    static resources before;
    before = resources_of(getpid());
    *state = &before;
    return 0;
}

int expect_the_same(void **state)
{
    remove_replacements();
    expect_no_leak(static_cast<resources *>(*state));
    return 0;
}

// A rejected request does not count as a loss of the target.
DEFINE_TEST(a_refusal_leaves_the_pool_usable, count_resources, expect_the_same)
{
    RPMEMpool *const pool = open_pool();
    std::uint32_t number = first_number;
    for (std::uint32_t s = 1; status{s} != status::fenced; ++s) {
        replace_response(kind::kSetAttributes, refusal(kind::kSetAttributes, number++, status{s}));
        expect_error(rpmem_set_attr(pool, &some_attributes), errno_of(status{s}), "set_attr");
        assert_non_null(strstr(rpmem_errormsg(), "because"));
        assert_int_equal(rpmem_persist(pool, HEADER_SIZE, 64, 0, 0), 0);
    }
    remove_replacements();
    assert_int_equal(rpmem_set_attr(pool, &some_attributes), 0);
    assert_int_equal(rpmem_close(pool), 0);
}

DEFINE_TEST(a_spoiled_answer_to_new_attributes_is_a_loss, count_resources, expect_the_same)
{
    for (const corruption &c : corruptions) {
        RPMEMpool *const pool = open_pool(c.error);
        replace_response(kind::kSetAttributes, c.bytes(response_of(kind::kSetAttributes, first_number)));
        expect_error(rpmem_set_attr(pool, &some_attributes), c.error, c.what);
        remove_replacements();
        expect_error(rpmem_persist(pool, HEADER_SIZE, 64, 0, 0), c.error, c.what);
        expect_error(rpmem_close(pool), ECONNRESET, c.what);
    }
}

DEFINE_TEST(closing_returns_the_response_of_the_target, count_resources, expect_the_same)
{
    for (const corruption &c : corruptions) {
        RPMEMpool *const pool = open_pool(c.error);
        replace_response(kind::kClose, c.bytes(response_of(kind::kClose, first_number)));
        expect_error(rpmem_close(pool), c.error, c.what);
        remove_replacements();
    }
    RPMEMpool *const pool = open_pool();
    replace_response(kind::kClose, refusal(kind::kClose, first_number, status::no_access));
    expect_error(rpmem_close(pool), EACCES, "close");
    remove_replacements();
}

GROUP_FIXTURE(make_memory, nullptr)

} // namespace
