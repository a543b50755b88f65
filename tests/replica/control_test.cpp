// SPDX-License-Identifier: BSD-3-Clause
// Control messages: their frames and checks, the greetings of other versions, and the conversion of their parts.
#include "message/control.hpp"

#include <cstring>

#include "cmocka_headers.hpp"

using namespace replica;

namespace
{

std::string message_in(const std::string &frame)
{
    const auto header = std::as_bytes(std::span(frame)).first<frame_header_size>();
    assert_true(message_size(header) == frame.size() - frame_header_size);
    return frame.substr(frame_header_size);
}

template<class Message>
decoded decode_again(const Message &sent, Message &got)
{
    return decode(message_in(encode(sent)), got);
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

request create_request()
{
    request r;
    r.set_number(0x01020304);
    r.set_set_name("dir/pool.set");
    r.mutable_create()->set_pool_size(0x1122334455667788);
    to_wire(some_attributes(), *r.mutable_create()->mutable_attributes());
    return r;
}

response response_to_open()
{
    response r;
    r.set_number(7);
    r.set_kind(request::kOpen);
    wire::region &to = *r.mutable_region();
    to.set_features(feature_keep_alive | feature_native_flush);
    to.set_size(1 << 24);
    to.set_has_header(true);
    to.set_method(static_cast<std::uint32_t>(method::persistent_flush));
    to.set_level(static_cast<std::uint32_t>(level::direct_write));
    to.set_lanes(3);
    to.set_window(8);
    to.set_port(65535);
    to.set_device(device_software);
    to.set_token(std::string(sizeof(token), 'w'));
    to.set_address("127.0.0.1");
    to.set_peer_descriptor(std::string(1, '\0'));
    to.set_data_descriptor("data region");
    to.set_header_descriptor("header region");
    to_wire(some_attributes(), *to.mutable_attributes());
    return r;
}

bool same(const pool_attributes &one, const pool_attributes &two)
{
    return std::memcmp(&one, &two, sizeof(one)) == 0;
}

TEST(attributes_survive_encoding)
{
    request got;
    assert_true(decode_again(create_request(), got) == decoded::good);
    assert_true(same(from_wire(got.create().attributes()), some_attributes()));
    assert_true(same(from_wire(wire::attributes()), pool_attributes()));
    assert_int_equal(got.number(), 0x01020304);
    assert_int_equal(got.create().pool_size(), 0x1122334455667788);
}

TEST(failures_carry_their_text)
{
    for (std::uint32_t number = 1; number <= max_status; ++number) {
        response sent = response_to(create_request()), got;
        sent.mutable_region();
        set_failure(sent, static_cast<status>(number), "no such poolset: pool.set");
        assert_true(decode_again(sent, got) == decoded::good);
        assert_int_equal(got.status(), number);
        assert_string_equal(got.text().c_str(), "no such poolset: pool.set");
        assert_false(got.has_region());
        assert_int_not_equal(errno_of(static_cast<status>(got.status())), 0);
    }
    assert_int_equal(errno_of(status::success), 0);
    response longest;
    set_failure(longest, status::fatal, std::string(300, 'x'));
    assert_int_equal(longest.text().size(), error_text::capacity);
}

TEST(a_response_belongs_to_its_request)
{
    response r = response_to_open();
    assert_true(answers(r, 7, request::kOpen));
    assert_false(answers(r, 8, request::kOpen));
    assert_false(answers(r, 7, request::kAttach));
    r.mutable_state();
    assert_false(answers(r, 7, request::kOpen));
    set_failure(r, status::busy, "");
    assert_true(answers(r, 7, request::kOpen));
    // A daemon that does not know the request.
    request unknown;
    unknown.set_number(7);
    response rejected = response_to(unknown);
    set_failure(rejected, status::fatal, "");
    assert_false(answers(rejected, 7, request::kHash));
    set_failure(rejected, status::unsupported, "");
    assert_true(answers(rejected, 7, request::kHash));
}

// Greetings that this version, and older versions of the daemon and of the client, receive and send.
TEST(other_versions_are_distinguished)
{
    const std::string wire = encode(greeting{});
    int first = 0;
    std::memcpy(&first, wire.data(), sizeof(first));
    assert_int_equal(first, EPROTONOSUPPORT);
    const auto check = [](std::string_view bytes) { return check_preamble(std::as_bytes(std::span(bytes))); };
    for (std::size_t size = 0; size <= preamble_size; ++size)
        assert_true(check(wire.substr(0, size)) == decoded::good);
    assert_true(check(std::string(4, '\0')) == decoded::other_version);
    assert_true(check(std::string(preamble_size, '\0')) == decoded::other_version);
    assert_true(check("SSH-2.0-OpenSSH_9.2") == decoded::malformed);
    // A client of version 1 reads 26 bytes: start, version, features, errno, and the size of a text, which follows.
    assert_int_equal(wire[9], 2);
    for (const char major : {'\1', '\3'}) {
        std::string other = wire.substr(0, preamble_size);
        other[9] = major;
        assert_true(check(other) == decoded::other_version);
    }
    assert_true(wire.substr(10, 16) == std::string(16, '\0'));

    // The open request of version 0, and a request of version 1, after the bytes that are the header of a frame here.
    request r;
    for (const char major : {'\0', '\1'}) {
        std::string old(43, '\0');
        old[7] = 47;
        old[9] = major;
        assert_true(decode(old, r) == decoded::other_version);
    }
}

// A cut message must not be accepted with other values: each field is whole or absent.
TEST(truncated_messages_are_malformed_or_lack_fields)
{
    const std::string whole = message_in(encode(response_to_open()));
    for (std::size_t size = 0; size < whole.size(); ++size) {
        response r;
        if (decode(whole.substr(0, size), r) == decoded::good)
            assert_false(r.has_region());
    }
}

TEST(unknown_fields_are_ignored)
{
    // Field 100 with 5 bytes, and field 101 with a number.
    const std::string unknown("\xa2\x06\x05later\xa8\x06\x07");
    request r;
    assert_true(decode(message_in(encode(create_request())) + unknown, r) == decoded::good);
    assert_string_equal(r.set_name().c_str(), "dir/pool.set");
    // A request that this version does not know has no body.
    assert_true(decode(unknown, r) == decoded::good);
    assert_int_equal(r.body_case(), request::BODY_NOT_SET);
}

TEST(damaged_requests_are_malformed)
{
    const auto fails = [](const auto &damage) {
        request r = create_request(), got;
        damage(r);
        assert_true(decode_again(r, got) == decoded::malformed);
    };
    fails([](request &r) { r.set_set_name(std::string("a\0b", 3)); });
    fails([](request &r) { r.set_set_name(std::string(max_set_name_len + 1, 'a')); });
    fails([](request &r) { r.set_set(std::string(15, 'u')); });
    fails([](request &r) { r.mutable_create()->mutable_attributes()->set_uuid("short"); });
    fails([](request &r) { r.mutable_set_attributes()->set_signature("much too long"); });
    fails([](request &r) { r.mutable_create_copy()->set_copy(max_copies); });
    fails([](request &r) { r.mutable_commit()->set_copy(max_copies); });
    fails([](request &r) { r.mutable_commit()->mutable_record()->set_in_sync(1); });
    fails([](request &r) { r.mutable_commit()->mutable_record()->set_members(1U << 16); });
    fails([](request &r) { r.mutable_commit()->mutable_record()->set_writer_copy(max_copies); });
}

TEST(damaged_responses_are_malformed)
{
    const auto fails = [](const auto &damage) {
        response r = response_to_open(), got;
        damage(r, *r.mutable_region());
        assert_true(decode_again(r, got) == decoded::malformed);
    };
    fails([](response &, wire::region &to) { to.set_port(0); });
    fails([](response &, wire::region &to) { to.set_port(65536); });
    fails([](response &, wire::region &to) { to.set_device(0); });
    fails([](response &, wire::region &to) { to.set_device(device_hardware | device_software); });
    fails([](response &, wire::region &to) { to.set_lanes(0); });
    fails([](response &, wire::region &to) { to.set_lanes(max_lanes + 1); });
    fails([](response &, wire::region &to) { to.set_window(0); });
    fails([](response &, wire::region &to) { to.set_window(max_window + 1); });
    fails([](response &, wire::region &to) { to.set_method(0); });
    fails([](response &, wire::region &to) { to.set_method(4); });
    // A daemon never reports native flush: the client derives this level, which depends on its own device, too.
    fails([](response &, wire::region &to) { to.set_level(static_cast<std::uint32_t>(level::native_flush)); });
    fails([](response &, wire::region &to) { to.set_has_header(false); });
    fails([](response &, wire::region &to) { to.clear_header_descriptor(); });
    fails([](response &, wire::region &to) { to.set_data_descriptor(std::string(max_descriptor_size + 1, 'd')); });
    fails([](response &, wire::region &to) { to.set_token("short"); });
    fails([](response &, wire::region &to) { to.set_address(std::string("1\0002", 3)); });
    fails([](response &r, wire::region &) { r.set_status(max_status + 1); });
    fails([](response &r, wire::region &) { r.set_text(std::string(error_text::capacity + 1, 't')); });
    fails([](response &r, wire::region &) { r.set_hashes("no hash"); });
    fails([](response &r, wire::region &) { r.set_hashes(std::string((max_hashes + 1) * sizeof(segment_hash), 'h')); });
    fails([](response &r, wire::region &) { r.mutable_state()->set_copy(max_copies); });
    fails([](response &r, wire::region &) { r.mutable_state()->set_set("short"); });
}

TEST(sizes_are_capped)
{
    const auto announced = [](std::uint32_t size) {
        std::array<std::byte, frame_header_size> header{};
        byte_writer(header.data()).put(size);
        return message_size(header);
    };
    for (const std::uint32_t size : {65537U, 0x7fffffffU, UINT32_MAX})
        assert_false(announced(size).has_value());
    for (const std::uint32_t size : {0U, 1U, 65536U})
        assert_true(announced(size) == size);
}

TEST(set_names_stay_beneath_the_directory)
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

// With one allowed kind a client uses no other, whatever the target has.
TEST(the_kind_of_the_target_is_tried_first)
{
    constexpr std::uint32_t hardware = device_hardware, software = device_software, any = hardware | software;
    const struct {
        std::uint32_t allowed, target_kind, first, second;
    } all[] = {
            {any, hardware, hardware, software},
            {any, software, software, hardware},
            {hardware, hardware, hardware, 0},
            {hardware, software, 0, hardware},
            {software, software, software, 0},
            {software, hardware, 0, software},
            {0, hardware, 0, 0},
    };
    for (const auto &c : all) {
        const auto [first, second] = kinds_to_try(c.allowed, c.target_kind);
        assert_int_equal(first, c.first);
        assert_int_equal(second, c.second);
    }
}

TEST(errnos_become_statuses)
{
    assert_true(status_of_errno(0) == status::success);
    for (const int error : {EEXIST, EACCES, ENOENT, EINVAL, EFBIG, ENOTSUP, EBUSY, EMEDIUMTYPE})
        assert_int_equal(errno_of(status_of_errno(error)), error);
    assert_int_equal(errno_of(status_of_errno(EWOULDBLOCK)), EBUSY);
    assert_int_equal(errno_of(status_of_errno(EIO)), EREMOTEIO);
}

} // namespace
