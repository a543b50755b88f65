// SPDX-License-Identifier: BSD-3-Clause
// A daemon whose messages are corrupted in every way: the library reports the error, does not hang, and leaks no
// resource.
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <librpma.h>

#include "control.hpp"

extern "C" {
#include "support.h"
}

using namespace replica;

namespace
{

using bytes = std::vector<std::byte>;
using corruption = std::function<void(answer &)>;

std::string place()
{
    return getenv("RPMEM_TEST_DIR");
}

// Sets the messages of the daemon. After them the daemon reads for 1 s, because it never responds to a request to
// close, or it exits immediately.
void script(const bytes &said, bool stays = true)
{
    std::ofstream(place() + "/said", std::ios::binary)
            .write(reinterpret_cast<const char *>(said.data()), static_cast<std::streamsize>(said.size()));
    std::ofstream(place() + "/stays") << (stays ? "timeout 1 cat >/dev/null" : "true");
}

bytes joined(const encoded_message &one, const encoded_message &two)
{
    bytes all(one.bytes().begin(), one.bytes().end());
    all.insert(all.end(), two.bytes().begin(), two.bytes().end());
    return all;
}

// Describes writable memory like the daemon.
void describe(std::size_t size, int usage, descriptor &to)
{
    ibv_context *device = nullptr;
    rpma_peer *peer = nullptr;
    rpma_mr_local *region = nullptr;
    assert_int_equal(
            rpma_utils_get_ibv_context_by_kind("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_DEVICE_SOFTRDMA, &device),
            0);
    assert_int_equal(rpma_peer_new(device, &peer), 0);
    assert_int_equal(rpma_mr_reg(peer, pool_memory, size, usage, &region), 0);
    std::array<char, descriptor::capacity> text{};
    std::size_t length = 0;
    assert_int_equal(rpma_mr_get_descriptor_size(region, &length), 0);
    assert_in_range(length, 1, text.size());
    assert_int_equal(rpma_mr_get_descriptor(region, text.data()), 0);
    to.assign({text.data(), length});
    rpma_mr_dereg(&region);
    rpma_peer_delete(&peer);
}

descriptor data_region, header_region, short_region;

// A valid response. No process listens at its port, so the client fails when it connects.
answer good_answer(request_type type)
{
    answer a;
    a.type = type;
    a.number = 1;
    session_answer &s = a.session;
    s.features = feature_keep_alive;
    s.pool_size = POOL_SIZE;
    s.has_header = true;
    s.method = method::persistent_flush;
    s.lanes = 1;
    s.window = 8;
    s.port = 1;
    s.data_region = data_region;
    s.header_region = header_region;
    s.address.assign("127.0.0.1");
    return a;
}

RPMEMpool *attempt(request_type type)
{
    unsigned lanes = 1;
    errno = 0;
    return type == request_type::create
                   ? rpmem_create("host", "pool.set", pool_memory, POOL_SIZE, &lanes, &some_attributes)
                   : rpmem_open("host", "pool.set", pool_memory, POOL_SIZE, &lanes, nullptr);
}

void expect(request_type type, int error, const char *what)
{
    assert_null(attempt(type));
    if (errno != error)
        fail_msg("%s: %s (%s), not %s", what, strerror(errno), rpmem_errormsg(), strerror(error));
    assert_true(rpmem_errormsg()[0] != '\0');
}

void expect_answer(request_type type, int error, const char *what, const corruption &corrupt)
{
    answer a = good_answer(type);
    corrupt(a);
    script(joined(encode(greeting{}), encode(a)));
    expect(type, error, what);
}

void greetings_are_checked(void **)
{
    const encoded_message good = encode(greeting{});
    for (std::size_t size = 0; size < good.bytes().size(); ++size) {
        script(bytes(good.bytes().begin(), good.bytes().begin() + static_cast<std::ptrdiff_t>(size)), false);
        expect(request_type::create, ECONNRESET, "a greeting that is cut");
    }
    // A daemon of version 0 reports with four zero bytes that it is ready.
    script(bytes(100));
    expect(request_type::open, EPROTONOSUPPORT, "the daemon of PMDK");
    script(bytes(100, std::byte{'x'}));
    expect(request_type::open, EPROTO, "something else");
    greeting other;
    other.major = 2;
    script(joined(encode(other), encode(other)));
    expect(request_type::open, EPROTONOSUPPORT, "a later major version");
    greeting refuses;
    refuses.error = EUSERS;
    refuses.text.assign("too many sessions");
    script(joined(encode(refuses), encode(refuses)));
    expect(request_type::open, EUSERS, "a daemon that refuses");
    assert_non_null(strstr(rpmem_errormsg(), "too many sessions"));
}

void each_status_has_its_errno(void **)
{
    const std::pair<status, int> all[] = {{status::bad_version, EPROTONOSUPPORT}, {status::bad_name, EINVAL},
            {status::bad_size, EFBIG}, {status::bad_lanes, EINVAL}, {status::bad_device, EINVAL},
            {status::fatal, EREMOTEIO}, {status::fatal_connection, ECONNABORTED}, {status::busy, EBUSY},
            {status::exists, EEXIST}, {status::device_unsupported, EMEDIUMTYPE}, {status::missing, ENOENT},
            {status::no_access, EACCES}, {status::bad_config, EINVAL}, {status::unsupported, ENOTSUP}};
    for (const auto type : {request_type::create, request_type::open})
        for (const auto &[status, error] : all) {
            expect_answer(type, error, ("status " + std::to_string(static_cast<unsigned>(status))).c_str(),
                    [s = status](answer &a) {
                        a.status = s;
                        a.text.assign("because");
                    });
            assert_non_null(strstr(rpmem_errormsg(), "because"));
        }
}

void answers_are_checked(void **)
{
    const std::pair<const char *, corruption> all[] = {
            {"the answer to something else", [](answer &a) { a.type = request_type::set_attributes; }},
            {"another number", [](answer &a) { a.number = 99; }},
            {"a status that does not exist", [](answer &a) { a.status = static_cast<status>(77); }},
            {"port 0", [](answer &a) { a.session.port = 0; }},
            {"a port above 65535", [](answer &a) { a.session.port = 65536; }},
            {"a method that does not exist", [](answer &a) { a.session.method = static_cast<method>(9); }},
            {"a level that takes both sides", [](answer &a) { a.session.level = level::native_flush; }},
            {"a level that does not exist", [](answer &a) { a.session.level = static_cast<level>(5); }},
            {"no lanes", [](answer &a) { a.session.lanes = 0; }},
            {"more lanes than asked for", [](answer &a) { a.session.lanes = 2; }},
            {"no requests", [](answer &a) { a.session.window = 0; }},
            {"two kinds of device", [](answer &a) { a.session.devices = 3; }},
            {"a smaller pool", [](answer &a) { a.session.pool_size = POOL_SIZE - 1; }},
            {"no region", [](answer &a) { a.session.data_region.assign(""); }},
            {"no region of the header", [](answer &a) { a.session.header_region.assign(""); }},
            {"a region that is smaller than the pool", [](answer &a) { a.session.data_region = short_region; }},
            {"an invalid region", [](answer &a) { a.session.data_region.assign("no region"); }},
    };
    for (const auto &[what, corrupt] : all)
        expect_answer(request_type::open, EPROTO, what, corrupt);
    expect_answer(request_type::open, ECONNREFUSED, "a good answer", [](answer &) {});
    expect_answer(request_type::create, ECONNREFUSED, "a good answer", [](answer &) {});
}

void an_answer_that_is_cut_is_a_lost_connection(void **)
{
    const bytes whole = joined(encode(greeting{}), encode(good_answer(request_type::open)));
    for (std::size_t size = encode(greeting{}).bytes().size(); size < whole.size(); size += 16) {
        script(bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), false);
        expect(request_type::open, ECONNRESET, "an answer that is cut");
    }
}

// With any single byte changed, the call must end with an error, because no process listens at the port.
void no_wrong_byte_does_harm(void **)
{
    const bytes whole = joined(encode(greeting{}), encode(good_answer(request_type::open)));
    for (std::size_t at = 0; at < whole.size(); at += at < 100 ? 3 : 11) {
        bytes wrong = whole;
        wrong[at] ^= std::byte{0xff};
        script(wrong, false);
        assert_null(attempt(request_type::open));
        assert_true(errno > 0);
    }
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

int count_resources(void **state)
{
    // Opens once before, so that resources that are created only once exist.
    script({}, false);
    assert_null(attempt(request_type::open));
    static resources before;
    before = resources_of(getpid());
    *state = &before;
    return 0;
}

int expect_the_same(void **state)
{
    expect_no_leak(static_cast<resources *>(*state));
    return 0;
}

} // namespace

int main()
{
    setenv("RPMEM_OP_TIMEOUT_MS", "5000", 1);
    const CMUnitTest tests[] = {
            cmocka_unit_test_setup_teardown(greetings_are_checked, count_resources, expect_the_same),
            cmocka_unit_test_setup_teardown(each_status_has_its_errno, count_resources, expect_the_same),
            cmocka_unit_test_setup_teardown(answers_are_checked, count_resources, expect_the_same),
            cmocka_unit_test_setup_teardown(
                    an_answer_that_is_cut_is_a_lost_connection, count_resources, expect_the_same),
            cmocka_unit_test_setup_teardown(no_wrong_byte_does_harm, count_resources, expect_the_same),
    };
    return cmocka_run_group_tests(tests, make_regions, nullptr);
}
