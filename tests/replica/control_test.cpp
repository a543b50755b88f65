// SPDX-License-Identifier: BSD-3-Clause
// The control messages: what is encoded decodes to the same, has the bytes that docs/replication.md gives, and nothing
// that is damaged passes.
#include "control.hpp"

#include <algorithm>
#include <csetjmp>
#include <cstdarg>
#include <cstring>
#include <vector>

extern "C" {
#include <cmocka.h>
}

using namespace replica;

namespace
{

using bytes = std::vector<std::byte>;

bytes bytes_of(const encoded_message &m)
{
    return {m.bytes().begin(), m.bytes().end()};
}

pool_attributes some_attributes()
{
    pool_attributes a;
    std::memcpy(a.signature, "SIGNATUR", 8);
    a.major = 1;
    a.compat_features = 0x02030405;
    a.incompat_features = 6;
    a.ro_compat_features = 7;
    std::memset(a.poolset_uuid, 0x11, 16);
    std::memset(a.uuid, 0x22, 16);
    std::memset(a.next_uuid, 0x33, 16);
    std::memset(a.prev_uuid, 0x44, 16);
    std::memset(a.user_flags, 0x55, 16);
    return a;
}

request session_of(request_type type)
{
    request r;
    r.type = type;
    r.number = 0x01020304;
    r.session.pool_size = 0x1122334455667788;
    r.session.lanes = 4;
    r.session.devices = device_software;
    r.session.keep_alive_ms = 1000;
    if (type == request_type::create)
        r.session.attributes = some_attributes();
    r.session.set_name.assign("dir/pool.set");
    return r;
}

answer answer_to_open()
{
    answer a;
    a.type = request_type::open;
    a.number = 7;
    session_answer &s = a.session;
    s.features = feature_keep_alive | feature_native_flush;
    s.pool_size = 1 << 24;
    s.has_header = true;
    s.method = method::persistent_flush;
    s.level = level::direct_write;
    s.lanes = 3;
    s.window = 8;
    s.port = 65535;
    s.token.fill(std::byte{0x77});
    s.address.assign("127.0.0.1");
    s.peer.assign(std::string_view("\0", 1));
    s.data_region.assign("data region");
    s.header_region.assign("header region");
    s.attributes = some_attributes();
    return a;
}

bool same(const pool_attributes &one, const pool_attributes &two)
{
    return std::memcmp(&one, &two, sizeof(one)) == 0;
}

void session_requests_come_back(void **)
{
    for (const request_type type : {request_type::create, request_type::open}) {
        const request sent = session_of(type);
        request got;
        assert_true(decode(bytes_of(encode(sent)), got) == decoded::good);
        assert_true(got.type == type);
        assert_int_equal(got.number, sent.number);
        assert_int_equal(got.session.features, sent.session.features);
        assert_int_equal(got.session.pool_size, sent.session.pool_size);
        assert_int_equal(got.session.lanes, 4);
        assert_int_equal(got.session.devices, device_software);
        assert_int_equal(got.session.keep_alive_ms, 1000);
        assert_true(same(got.session.attributes, sent.session.attributes));
        assert_string_equal(got.session.set_name.c_str(), "dir/pool.set");
    }
}

void other_requests_come_back(void **)
{
    request sent;
    sent.type = request_type::set_attributes;
    sent.attributes = some_attributes();
    request got;
    assert_true(decode(bytes_of(encode(sent)), got) == decoded::good);
    assert_true(same(got.attributes, sent.attributes));
    for (const bool remove : {false, true}) {
        sent = {};
        sent.type = request_type::close;
        sent.remove = remove;
        assert_true(decode(bytes_of(encode(sent)), got) == decoded::good);
        assert_true(got.type == request_type::close && got.remove == remove);
    }
    sent = {};
    sent.number = 9;
    assert_true(decode(bytes_of(encode(sent)), got) == decoded::good);
    assert_true(got.type == request_type::keep_alive && got.number == 9);
}

void answers_come_back(void **)
{
    const answer sent = answer_to_open();
    answer got;
    assert_true(decode(bytes_of(encode(sent)), got) == decoded::good);
    assert_true(got.type == request_type::open && got.status == status::success);
    assert_int_equal(got.number, 7);
    const session_answer &s = got.session;
    assert_int_equal(s.features, feature_keep_alive | feature_native_flush);
    assert_int_equal(s.pool_size, 1 << 24);
    assert_true(s.has_header && s.method == method::persistent_flush && s.level == level::direct_write);
    assert_int_equal(s.lanes, 3);
    assert_int_equal(s.window, 8);
    assert_int_equal(s.port, 65535);
    assert_true(s.token == sent.session.token);
    assert_string_equal(s.address.c_str(), "127.0.0.1");
    assert_int_equal(s.peer.view().size(), 1);
    assert_string_equal(s.data_region.c_str(), "data region");
    assert_string_equal(s.header_region.c_str(), "header region");
    assert_true(same(s.attributes, sent.session.attributes));
}

void failures_carry_their_text(void **)
{
    for (std::uint32_t number = 1; number <= highest_status; ++number) {
        answer sent;
        sent.type = request_type::create;
        sent.status = static_cast<status>(number);
        sent.text.assign("no such poolset: pool.set");
        answer got;
        assert_true(decode(bytes_of(encode(sent)), got) == decoded::good);
        assert_true(got.status == sent.status);
        assert_string_equal(got.text.c_str(), "no such poolset: pool.set");
        assert_int_not_equal(errno_of(got.status), 0);
    }
    assert_int_equal(errno_of(status::success), 0);
}

void greetings_come_back(void **)
{
    greeting sent;
    sent.error = ENOENT;
    sent.text.assign("poolset directory");
    const bytes wire = bytes_of(encode(sent));
    assert_int_equal(greeting_size(std::span<const std::byte, greeting_header_size>(wire.data(), greeting_header_size)),
            wire.size());
    greeting got;
    assert_true(decode(wire, got) == decoded::good);
    assert_int_equal(got.error, ENOENT);
    assert_int_equal(got.features, feature_keep_alive);
    assert_string_equal(got.text.c_str(), "poolset directory");
}

// Messages that an old version of the daemon or of the client receives and sends.
void other_versions_are_distinguished(void **)
{
    const bytes wire = bytes_of(encode(greeting{}));
    int first = 0;
    std::memcpy(&first, wire.data(), sizeof(first));
    assert_int_equal(first, EPROTONOSUPPORT);

    greeting g;
    assert_true(decode(bytes(4), g) == decoded::other_version);
    assert_true(decode(bytes(greeting_header_size), g) == decoded::other_version);

    // The open request of version 0: header, common part with major 0 and minor 1, name.
    bytes old(47);
    old[3] = std::byte{3};
    old[11] = std::byte{47};
    old[15] = std::byte{1};
    request r;
    assert_true(decode(old, r) == decoded::other_version);

    bytes newer = bytes_of(encode(request{}));
    newer[13] = std::byte{2};
    assert_true(decode(newer, r) == decoded::other_version);
}

void bytes_are_as_documented(void **)
{
    request r;
    r.type = request_type::close;
    r.number = 0x0a0b0c0d;
    r.remove = true;
    const unsigned char close_bytes[] = {
            0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 24, 0, 1, 0, 0, 0xa, 0xb, 0xc, 0xd, 0, 0, 0, 1};
    const bytes wire = bytes_of(encode(r));
    assert_int_equal(wire.size(), sizeof(close_bytes));
    assert_memory_equal(wire.data(), close_bytes, sizeof(close_bytes));

    answer a;
    a.type = request_type::close;
    a.number = 2;
    a.status = status::busy;
    a.text.assign("hm");
    const unsigned char answer_bytes[] = {
            0, 0, 0, 8, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 28, 0, 1, 0, 0, 0, 0, 0, 2, 0, 2, 'h', 'm'};
    const bytes answered = bytes_of(encode(a));
    assert_int_equal(answered.size(), sizeof(answer_bytes));
    assert_memory_equal(answered.data(), answer_bytes, sizeof(answer_bytes));

    assert_int_equal(encode(session_of(request_type::create)).bytes().size(), 20 + 28 + 104 + 2 + 12);
    assert_int_equal(encode(session_of(request_type::open)).bytes().size(), 20 + 28 + 2 + 12);
}

// Decodes every prefix of the message, with the prefix's size and with the original size in its header.
template<class Message>
void no_beginning_passes(const bytes &whole, std::size_t size_at)
{
    for (std::size_t size = 0; size < whole.size(); ++size) {
        bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        Message m;
        assert_true(decode(cut, m) == decoded::malformed);
        if (size < size_at + 8)
            continue;
        cut[size_at + 6] = static_cast<std::byte>(size >> 8);
        cut[size_at + 7] = static_cast<std::byte>(size);
        assert_true(decode(cut, m) == decoded::malformed);
    }
}

void what_is_cut_is_malformed(void **)
{
    no_beginning_passes<request>(bytes_of(encode(session_of(request_type::create))), 4);
    no_beginning_passes<request>(bytes_of(encode(session_of(request_type::open))), 4);
    no_beginning_passes<answer>(bytes_of(encode(answer_to_open())), 8);
}

void what_a_later_minor_appends_is_ignored(void **)
{
    bytes wire = bytes_of(encode(session_of(request_type::open)));
    wire.insert(wire.end(), 5, std::byte{0xff});
    wire[11] = static_cast<std::byte>(wire.size());
    wire[15] = std::byte{1};
    request r;
    assert_true(decode(wire, r) == decoded::good);
    assert_int_equal(r.minor, 1);
    assert_string_equal(r.session.set_name.c_str(), "dir/pool.set");
}

void damaged_requests_are_malformed(void **)
{
    request r;
    const bytes good = bytes_of(encode(session_of(request_type::open)));
    for (const unsigned type : {0U, 2U, 4U, 10U, 25U, 255U}) {
        bytes bad = good;
        bad[3] = static_cast<std::byte>(type);
        assert_true(decode(bad, r) == decoded::malformed);
    }
    bytes zero_in_name = good;
    zero_in_name.back() = std::byte{0};
    assert_true(decode(zero_in_name, r) == decoded::malformed);
    bytes other_size = good;
    other_size[11] = static_cast<std::byte>(good.size() - 1);
    assert_true(decode(other_size, r) == decoded::malformed);
    bytes long_name = good;
    long_name[20 + 28] = std::byte{0xff};
    assert_true(decode(long_name, r) == decoded::malformed);
}

void damaged_answers_are_malformed(void **)
{
    const auto fails = [](const auto &damage) {
        answer a = answer_to_open();
        damage(a.session);
        answer got;
        assert_true(decode(bytes_of(encode(a)), got) == decoded::malformed);
    };
    fails([](session_answer &s) { s.port = 0; });
    fails([](session_answer &s) { s.port = 65536; });
    fails([](session_answer &s) { s.devices = 0; });
    fails([](session_answer &s) { s.devices = device_hardware | device_software; });
    fails([](session_answer &s) { s.lanes = 0; });
    fails([](session_answer &s) { s.lanes = max_lanes + 1; });
    fails([](session_answer &s) { s.window = 0; });
    fails([](session_answer &s) { s.method = static_cast<method>(0); });
    fails([](session_answer &s) { s.method = static_cast<method>(4); });
    // A daemon never reports native flush: the client derives this level, which depends on its own device, too.
    fails([](session_answer &s) { s.level = level::native_flush; });
    fails([](session_answer &s) { s.level = static_cast<level>(5); });
    fails([](session_answer &s) { s.has_header = false; });
    fails([](session_answer &s) { s.header_region.assign(""); });
    fails([](session_answer &s) { s.address.assign(std::string_view("1\0002", 3)); });
    answer a;
    bytes wire = bytes_of(encode(a));
    wire[3] = std::byte{highest_status + 1};
    assert_true(decode(wire, a) == decoded::malformed);
}

void sizes_are_capped(void **)
{
    std::array<std::byte, answer_header_size> header{};
    const auto announced = [&](std::size_t at, std::uint64_t size) {
        for (std::size_t i = 0; i < 8; ++i)
            header[at + i] = static_cast<std::byte>(size >> (56 - 8 * i));
    };
    const std::span<const std::byte, request_header_size> request_header(header.data(), request_header_size);
    for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{19}, std::uint64_t{65537}, ~std::uint64_t{0}}) {
        announced(4, size);
        assert_int_equal(request_size(request_header), 0);
        announced(8, size);
        assert_int_equal(answer_size(header), 0);
    }
    announced(4, 65536);
    assert_int_equal(request_size(request_header), 65536);
    announced(8, 24);
    assert_int_equal(answer_size(header), 24);
}

void set_names_stay_beneath_the_directory(void **)
{
    for (const char *const good : {"pool.set", "a/b/pool.set", "..pool", "a..b/c..", "a b;c", "./pool.set"})
        assert_null(set_name_fault(good));
    for (const char *const bad : {"", "/pool.set", "..", "../pool.set", "a/..", "a/../b", "a\nb", "\x7f"})
        assert_non_null(set_name_fault(bad));
    char longest[257];
    std::memset(longest, 'a', sizeof(longest));
    assert_null(set_name_fault({longest, 255}));
    assert_non_null(set_name_fault({longest, 256}));
}

void errnos_become_statuses(void **)
{
    assert_true(status_of_errno(0) == status::success);
    for (const int error : {EEXIST, EACCES, ENOENT, EINVAL, EFBIG, ENOTSUP})
        assert_int_equal(errno_of(status_of_errno(error)), error);
    assert_int_equal(errno_of(status_of_errno(EWOULDBLOCK)), EBUSY);
    assert_int_equal(errno_of(status_of_errno(EIO)), EREMOTEIO);
}

} // namespace

int main()
{
    const CMUnitTest tests[] = {
            cmocka_unit_test(session_requests_come_back),
            cmocka_unit_test(other_requests_come_back),
            cmocka_unit_test(answers_come_back),
            cmocka_unit_test(failures_carry_their_text),
            cmocka_unit_test(greetings_come_back),
            cmocka_unit_test(other_versions_are_distinguished),
            cmocka_unit_test(bytes_are_as_documented),
            cmocka_unit_test(what_is_cut_is_malformed),
            cmocka_unit_test(what_a_later_minor_appends_is_ignored),
            cmocka_unit_test(damaged_requests_are_malformed),
            cmocka_unit_test(damaged_answers_are_malformed),
            cmocka_unit_test(sizes_are_capped),
            cmocka_unit_test(set_names_stay_beneath_the_directory),
            cmocka_unit_test(errnos_become_statuses),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
