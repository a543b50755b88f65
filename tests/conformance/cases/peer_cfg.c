// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/check.h"

SUITE(peer_cfg);

static struct rpma_peer_cfg *new_peer_cfg(void)
{
    struct rpma_peer_cfg *cfg = NULL;
    assert_done(rpma_peer_cfg_new(&cfg));
    assert_non_null(cfg);
    return cfg;
}

static bool supports_direct_write(const struct rpma_peer_cfg *cfg)
{
    bool supported = false;
    assert_done(rpma_peer_cfg_get_direct_write_to_pmem(cfg, &supported));
    return supported;
}

CASE(direct_write_to_pmem_is_off_at_first)
{
    bool supported = true;
    assert_done(rpma_peer_cfg_get_direct_write_to_pmem(new_peer_cfg(), &supported));
    assert_false(supported);
}

CASE(direct_write_to_pmem_can_be_set_and_unset)
{
    struct rpma_peer_cfg *cfg = new_peer_cfg();
    assert_done(rpma_peer_cfg_set_direct_write_to_pmem(cfg, true));
    assert_true(supports_direct_write(cfg));
    assert_done(rpma_peer_cfg_set_direct_write_to_pmem(cfg, false));
    assert_false(supports_direct_write(cfg));
}

CASE(the_peer_cfg_descriptor_has_1_byte)
{
    size_t size = 77;
    assert_done(rpma_peer_cfg_get_descriptor_size(new_peer_cfg(), &size));
    assert_int_equal(size, 1);
}

static void descriptor_of(bool supported, unsigned char expected)
{
    struct rpma_peer_cfg *cfg = new_peer_cfg();
    unsigned char bytes[3] = {0xaa, 0xaa, 0xaa};
    assert_done(rpma_peer_cfg_set_direct_write_to_pmem(cfg, supported));
    assert_done(rpma_peer_cfg_get_descriptor(cfg, bytes + 1));
    assert_int_equal(bytes[0], 0xaa);
    assert_int_equal(bytes[1], expected);
    assert_int_equal(bytes[2], 0xaa);
}

CALL_CASE(the_peer_cfg_descriptor_without_direct_write_is_0, descriptor_of(false, 0));
CALL_CASE(the_peer_cfg_descriptor_with_direct_write_is_1, descriptor_of(true, 1));

static struct rpma_peer_cfg *parsed(const void *descriptor, size_t size)
{
    struct rpma_peer_cfg *cfg = NULL;
    assert_done(rpma_peer_cfg_from_descriptor(descriptor, size, &cfg));
    return cfg;
}

CALL_CASE(a_peer_cfg_descriptor_of_0_is_read, assert_false(supports_direct_write(parsed("\0", 1))));
CALL_CASE(a_peer_cfg_descriptor_of_1_is_read, assert_true(supports_direct_write(parsed("\1", 1))));

CASE(any_other_peer_cfg_descriptor_is_read_as_1)
{
    for (unsigned byte = 2; byte < 256; ++byte) {
        const unsigned char descriptor = (unsigned char)byte;
        struct rpma_peer_cfg *cfg = parsed(&descriptor, 1);
        unsigned char again = 77;
        assert_true(supports_direct_write(cfg));
        assert_done(rpma_peer_cfg_get_descriptor(cfg, &again));
        assert_int_equal(again, 1);
    }
}

CALL_CASE(
        surplus_bytes_of_a_peer_cfg_descriptor_are_ignored, assert_false(supports_direct_write(parsed("\0\1\1\1", 4))));

CASE(an_empty_peer_cfg_descriptor_is_refused_unread)
{
    struct rpma_peer_cfg *cfg = NULL;
    assert_rpma(rpma_peer_cfg_from_descriptor((const void *)(uintptr_t)64, 0, &cfg), RPMA_E_INVAL);
    assert_null(cfg);
}

CASE(deleting_a_peer_cfg_consumes_it)
{
    struct rpma_peer_cfg *cfg = new_peer_cfg();
    assert_done(rpma_peer_cfg_delete(&cfg));
    assert_null(cfg);
    assert_done(rpma_peer_cfg_delete(&cfg));
}
