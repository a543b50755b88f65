// SPDX-License-Identifier: BSD-3-Clause
// Corrupted messages of a daemon, or corrupted responses of a working one to later requests: each call reports the
// error, no call hangs, the handle is released whatever the result of closing it, and no resource leaks.
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <librpma.h>

#include "message/control.hpp"

extern "C" {
#include "support.h"
}

using namespace replica;

namespace
{

using kind = request; // names the bodies of requests
using corruption = std::function<void(response &)>;

std::string place()
{
    return getenv("RPMEM_TEST_DIR");
}

// Sets the command that starts the daemon.
void set_daemon(const std::string &command)
{
    std::ofstream(place() + "/daemon") << command;
}

// Sets the messages of the daemon. After them the daemon reads for 1 s, because it never responds to a request to
// close, or it exits immediately.
void script(const std::string &said, bool stays = true)
{
    std::ofstream(place() + "/said", std::ios::binary) << said;
    set_daemon("cat $RPMEM_TEST_DIR/said && " + std::string(stays ? "timeout 1 cat >/dev/null" : "true"));
}

// Stores a descriptor of writable memory, as the daemon sends it.
void describe(std::size_t size, int usage, std::string &to)
{
    ibv_context *device = nullptr;
    rpma_peer *peer = nullptr;
    rpma_mr_local *region = nullptr;
    assert_int_equal(
            rpma_utils_get_ibv_context_by_kind("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_DEVICE_SOFTRDMA, &device),
            0);
    assert_int_equal(rpma_peer_new(device, &peer), 0);
    assert_int_equal(rpma_mr_reg(peer, pool_memory, size, usage, &region), 0);
    std::array<char, max_descriptor_size> text{};
    std::size_t length = 0;
    assert_int_equal(rpma_mr_get_descriptor_size(region, &length), 0);
    assert_in_range(length, 1, text.size());
    assert_int_equal(rpma_mr_get_descriptor(region, text.data()), 0);
    to.assign(text.data(), length);
    rpma_mr_dereg(&region);
    rpma_peer_delete(&peer);
}

std::string data_region, header_region, short_region;

response response_of(kind::BodyCase type, std::uint32_t number)
{
    response r;
    r.set_number(number);
    r.set_kind(static_cast<std::uint32_t>(type));
    return r;
}

// A valid response. No process listens at its port, so the client fails when it connects.
response good_response(kind::BodyCase type)
{
    response r = response_of(type, 1);
    wire::region &to = *r.mutable_region();
    to.set_features(feature_keep_alive);
    to.set_size(POOL_SIZE);
    to.set_has_header(true);
    to.set_method(static_cast<std::uint32_t>(method::persistent_flush));
    to.set_lanes(1);
    to.set_window(8);
    to.set_port(1);
    to.set_device(device_software);
    to.set_token(bytes_of(token{}));
    to.set_data_descriptor(data_region);
    to.set_header_descriptor(header_region);
    to.set_address("127.0.0.1");
    return r;
}

RPMEMpool *attempt(kind::BodyCase type)
{
    unsigned lanes = 1;
    errno = 0;
    return type == kind::kCreate ? rpmem_create("host", "pool.set", pool_memory, POOL_SIZE, &lanes, &some_attributes)
                                 : rpmem_open("host", "pool.set", pool_memory, POOL_SIZE, &lanes, nullptr);
}

void expect_error(int result, int error, const char *what)
{
    const int got = errno;
    if (result != -1 || got != error)
        fail_msg("%s: %d, %s (%s), not %s", what, result, strerrorname_np(got), rpmem_errormsg(),
                strerrorname_np(error));
    assert_true(rpmem_errormsg()[0] != '\0');
}

void expect(kind::BodyCase type, int error, const char *what)
{
    expect_error(attempt(type) == nullptr ? -1 : 0, error, what);
}

void expect_answer(kind::BodyCase type, int error, const char *what, const corruption &corrupt)
{
    response r = good_response(type);
    corrupt(r);
    script(encode(greeting{}) + encode(r));
    expect(type, error, what);
}

// Responses of the working daemon.
std::string file_of(kind::BodyCase type)
{
    return place() + "/answer-" + std::to_string(static_cast<unsigned>(type));
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

int count_resources(void **state)
{
    // Connects once before, so that resources that are created only once exist, such as softrdma's socket for RoCE.
    setenv("RPMEM_OP_TIMEOUT_MS", "5000", 1);
    script(encode(greeting{}) + encode(good_response(kind::kOpen)), false);
    assert_null(attempt(kind::kOpen));
    set_daemon(getenv("RELAYED_DAEMON") + std::string(R"( "$@")"));
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

const std::pair<const char *, corruption> wrong_responses[] = {
        {"the answer to something else", [](response &r) { r.set_kind(kind::kHash); }},
        {"another number", [](response &r) { r.set_number(99); }},
        {"a status that does not exist", [](response &r) { r.set_status(77); }},
};

DEFINE_TEST(greetings_are_checked, count_resources, expect_the_same)
{
    const std::string good = encode(greeting{});
    for (std::size_t size = 0; size < good.size(); ++size) {
        script(good.substr(0, size), false);
        expect(kind::kCreate, ECONNRESET, "a greeting that is cut");
    }
    // A daemon of version 0 reports with four zero bytes that it is ready.
    script(std::string(100, '\0'));
    expect(kind::kOpen, EPROTONOSUPPORT, "the daemon of PMDK");
    script(std::string(100, 'x'));
    expect(kind::kOpen, EPROTO, "something else");
    for (const char major : {'\1', '\3'}) {
        std::string other = good.substr(0, preamble_size);
        other[9] = major;
        script(other);
        expect(kind::kOpen, EPROTONOSUPPORT, "another major version");
        assert_non_null(strstr(rpmem_errormsg(), "install the same version on both sides"));
    }
    // A lack of resources at the target differs from one of this process.
    for (const auto &[sent, error] : {std::pair<unsigned, int>(EUSERS, EUSERS), {ENOMEM, EREMOTEIO}}) {
        greeting refuses;
        refuses.set_error(sent);
        refuses.set_text("too many sessions");
        script(encode(refuses));
        expect(kind::kOpen, error, "a daemon that refuses");
        assert_non_null(strstr(rpmem_errormsg(), "too many sessions"));
    }
}

DEFINE_TEST(each_status_has_its_errno, count_resources, expect_the_same)
{
    const std::pair<status, int> all[] = {{status::bad_version, EPROTONOSUPPORT}, {status::bad_name, EINVAL},
            {status::bad_size, EFBIG}, {status::bad_lanes, EINVAL}, {status::bad_device, EINVAL},
            {status::fatal, EREMOTEIO}, {status::fatal_connection, ECONNABORTED}, {status::busy, EBUSY},
            {status::exists, EEXIST}, {status::device_unsupported, EMEDIUMTYPE}, {status::missing, ENOENT},
            {status::no_access, EACCES}, {status::bad_config, EINVAL}, {status::unsupported, ENOTSUP}};
    for (const auto type : {kind::kCreate, kind::kOpen})
        for (const auto &[status, error] : all) {
            expect_answer(type, error, ("status " + std::to_string(static_cast<unsigned>(status))).c_str(),
                    [s = status](response &r) { set_failure(r, s, "because"); });
            assert_non_null(strstr(rpmem_errormsg(), "because"));
        }
}

DEFINE_TEST(answers_are_checked, count_resources, expect_the_same)
{
    const std::pair<const char *, corruption> all[] = {
            {"no body", [](response &r) { r.clear_body(); }},
            {"more lanes than asked for", [](response &r) { r.mutable_region()->set_lanes(2); }},
            {"a smaller pool", [](response &r) { r.mutable_region()->set_size(POOL_SIZE - 1); }},
            {"no region", [](response &r) { r.mutable_region()->clear_data_descriptor(); }},
            {"a region that is smaller than the pool",
                    [](response &r) { r.mutable_region()->set_data_descriptor(short_region); }},
            {"an invalid region", [](response &r) { r.mutable_region()->set_data_descriptor("no region"); }},
    };
    for (const auto &[what, corrupt] : all)
        expect_answer(kind::kOpen, EPROTO, what, corrupt);
    for (const auto &[what, corrupt] : wrong_responses)
        expect_answer(kind::kOpen, EPROTO, what, corrupt);
    expect_answer(kind::kOpen, ECONNREFUSED, "a good answer", [](response &) {});
    expect_answer(kind::kCreate, ECONNREFUSED, "a good answer", [](response &) {});
}

// No RDMA device of the kernel reaches 127.0.0.1. The client continues with softrdma if the setting allows it: it then
// fails later, when it connects.
DEFINE_TEST(a_target_with_another_kind_of_device_is_connected, count_resources, expect_the_same)
{
    const corruption on_hardware = [](response &r) { r.mutable_region()->set_device(device_hardware); };
    expect_answer(kind::kOpen, ECONNREFUSED, "a target on hardware", on_hardware);
    setenv("RPMEM_ENABLE_SOCKETS", "0", 1);
    expect_answer(kind::kOpen, ENOMEDIUM, "a target on hardware, only hardware allowed", on_hardware);
    expect_answer(kind::kOpen, ENOMEDIUM, "a target on softrdma, only hardware allowed", [](response &) {});
    unsetenv("RPMEM_ENABLE_SOCKETS");
    setenv("RPMEM_ENABLE_VERBS", "0", 1);
    expect_answer(kind::kOpen, ECONNREFUSED, "a target on hardware, only softrdma allowed", on_hardware);
    unsetenv("RPMEM_ENABLE_VERBS");
}

DEFINE_TEST(an_answer_that_is_cut_is_a_lost_connection, count_resources, expect_the_same)
{
    const std::string start = encode(greeting{}), whole = start + encode(good_response(kind::kOpen));
    for (std::size_t size = start.size(); size < whole.size(); size += 16) {
        script(whole.substr(0, size), false);
        expect(kind::kOpen, ECONNRESET, "an answer that is cut");
    }
}

// With any single byte changed, the call must end with an error, because no process listens at the port.
DEFINE_TEST(no_wrong_byte_does_harm, count_resources, expect_the_same)
{
    const std::string whole = encode(greeting{}) + encode(good_response(kind::kOpen));
    for (std::size_t at = 0; at < whole.size(); at += at < 100 ? 3 : 11) {
        std::string wrong = whole;
        wrong[at] = static_cast<char>(~wrong[at]);
        script(wrong, false);
        assert_null(attempt(kind::kOpen));
        assert_true(errno > 0);
    }
}

constexpr std::uint32_t first_number = 3; // smaller numbers belong to the requests for the pool and for its record

struct spoiled_response {
    const char *what;
    int error;
    std::string bytes;
};

std::vector<spoiled_response> spoiled_responses(kind::BodyCase type)
{
    const response valid = response_of(type, first_number);
    std::vector<spoiled_response> all = {
            {"a message that is cut", EPROTO, std::string("\0\0\0\1\x08", 5)},
            {"a size that nothing has", EPROTO, "\x7f" + encode(valid).substr(1)},
            {"nonsense", EPROTO, std::string(100, '\xff')},
            {"the end", ECONNRESET, "end"},
            {"nothing", ETIMEDOUT, "nothing"},
    };
    for (const auto &[what, corrupt] : wrong_responses) {
        response wrong = valid;
        corrupt(wrong);
        all.push_back({what, EPROTO, encode(wrong)});
    }
    return all;
}

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
    for (const spoiled_response &c : spoiled_responses(kind::kSetAttributes)) {
        RPMEMpool *const pool = open_pool(c.error);
        replace_response(kind::kSetAttributes, c.bytes);
        expect_error(rpmem_set_attr(pool, &some_attributes), c.error, c.what);
        remove_replacements();
        expect_error(rpmem_persist(pool, HEADER_SIZE, 64, 0, 0), c.error, c.what);
        expect_error(rpmem_close(pool), ECONNRESET, c.what);
    }
}

DEFINE_TEST(closing_returns_the_response_of_the_target, count_resources, expect_the_same)
{
    for (const spoiled_response &c : spoiled_responses(kind::kClose)) {
        RPMEMpool *const pool = open_pool(c.error);
        replace_response(kind::kClose, c.bytes);
        expect_error(rpmem_close(pool), c.error, c.what);
        remove_replacements();
    }
    RPMEMpool *const pool = open_pool();
    replace_response(kind::kClose, refusal(kind::kClose, first_number, status::no_access));
    expect_error(rpmem_close(pool), EACCES, "close");
    remove_replacements();
}

int make_regions(void **state)
{
    if (make_memory(state) != 0)
        return -1;
    const int usage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
    describe(POOL_SIZE - HEADER_SIZE, usage, data_region);
    describe(POOL_SIZE / 2, usage, short_region);
    describe(HEADER_SIZE, RPMA_MR_USAGE_READ_SRC, header_region);
    return 0;
}

} // namespace

GROUP_FIXTURE(make_regions, nullptr)
