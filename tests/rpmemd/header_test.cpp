// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.hpp"

using namespace rpmemd;

namespace
{

constexpr const char *names[] = {"plain.part0", "two.part0", "two.part1", "singlehdr.part0"};

DEFINE_TEST(headers_of_the_original_are_understood, nullptr, nullptr)
{
    for (const char *const name : names) {
        const header_page page = original_header(name);
        assert_true(checksum_matches(page));
        const pool_header header = decode(page);
        const pool_attributes attributes = original_attributes(name[0] == 's');
        assert_true(header.signature == attributes.signature);
        assert_int_equal(header.major, 3);
        assert_int_equal(header.compat_features, 1);
        assert_int_equal(header.incompat_features, attributes.incompat_features);
        assert_int_equal(header.ro_compat_features, 0);
        assert_true(header.poolset_uuid == attributes.poolset_uuid);
        assert_true(header.next_replica_uuid == attributes.next_uuid);
        assert_true(header.prev_replica_uuid == attributes.prev_uuid);
        assert_true(header.creation_time > 1'700'000'000 && header.creation_time < 4'000'000'000);
        assert_true(header.shutdown == shutdown_state{});
#ifdef __x86_64__
        assert_true(header.arch_flags == native_arch_flags());
#endif
    }
    const pool_header first = decode(original_header("two.part0")), second = decode(original_header("two.part1"));
    assert_true(first.part_uuid == original_attributes().first_uuid);
    assert_true(first.next_part_uuid == second.part_uuid && first.prev_part_uuid == second.part_uuid);
    assert_true(second.next_part_uuid == first.part_uuid && second.prev_part_uuid == first.part_uuid);
}

DEFINE_TEST(headers_are_written_as_the_original_does, nullptr, nullptr)
{
    for (const char *const name : names) {
        const header_page page = original_header(name);
        assert_true(encode(decode(page)) == page);
    }
}

DEFINE_TEST(every_changed_byte_of_the_checked_half_is_noticed, nullptr, nullptr)
{
    const header_page page = original_header("plain.part0");
    for (std::size_t at = 0; at < page.size(); ++at) {
        header_page changed = page;
        changed[at] ^= 0x40;
        const bool outside = at >= 2048 && at < 4088;
        assert_int_equal(checksum_matches(changed), outside);
    }
}

DEFINE_TEST(without_the_feature_the_checksum_covers_the_page, nullptr, nullptr)
{
    pool_header header = decode(original_header("plain.part0"));
    header.incompat_features = 0;
    const header_page page = encode(header);
    assert_true(checksum_matches(page));
    for (const std::size_t at : {0u, 100u, 2048u, 3000u, 4024u, 4087u, 4088u}) {
        header_page changed = page;
        changed[at] ^= 1;
        assert_false(checksum_matches(changed));
    }
}

DEFINE_TEST(a_new_header_keeps_the_rest_of_the_page, nullptr, nullptr)
{
    header_page page = original_header("plain.part0");
    page[4024] = 7; // number of unsafe shutdowns
    page[4040] = 1; // dirty flag
    const pool_header header = decode(page);
    assert_int_equal(header.shutdown.unsafe_count, 7);
    assert_true(header.shutdown.dirty);
    assert_false(header.shutdown.checksum_matches);
    assert_true(encode(header, page) == page);
}

DEFINE_TEST(attributes_survive, nullptr, nullptr)
{
    pool_attributes attributes = original_attributes();
    attributes.ro_compat_features = 0x12345678;
    attributes.user_flags = {1, 2, 3};
    pool_header header;
    set_attributes(header, attributes);
    header.part_uuid = attributes.first_uuid;
    assert_true(attributes_of(decode(encode(header))) == attributes);
}

} // namespace
