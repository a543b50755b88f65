// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

static bool direct_write(const struct rpma_peer_cfg *pcfg)
{
    bool supported = false;
    assert_int_equal(rpma_peer_cfg_get_direct_write_to_pmem(pcfg, &supported), 0);
    return supported;
}

TEST(direct_write_to_pmem_is_off_at_first_and_can_be_switched)
{
    struct rpma_peer_cfg *pcfg = NULL;
    assert_int_equal(rpma_peer_cfg_new(&pcfg), 0);
    assert_false(direct_write(pcfg));
    assert_int_equal(rpma_peer_cfg_set_direct_write_to_pmem(pcfg, true), 0);
    assert_true(direct_write(pcfg));
    assert_int_equal(rpma_peer_cfg_set_direct_write_to_pmem(pcfg, false), 0);
    assert_false(direct_write(pcfg));
    assert_int_equal(rpma_peer_cfg_delete(&pcfg), 0);
    assert_null(pcfg);
}

TEST(the_descriptor_is_one_byte_of_0_or_1)
{
    struct rpma_peer_cfg *pcfg = NULL;
    assert_int_equal(rpma_peer_cfg_new(&pcfg), 0);
    unsigned char desc[3] = {0xaa, 0xaa, 0xaa};
    assert_int_equal(rpma_peer_cfg_get_descriptor(pcfg, desc + 1), 0);
    assert_memory_equal(desc, "\xaa\x00\xaa", 3);
    assert_int_equal(rpma_peer_cfg_set_direct_write_to_pmem(pcfg, true), 0);
    assert_int_equal(rpma_peer_cfg_get_descriptor(pcfg, desc + 1), 0);
    assert_memory_equal(desc, "\xaa\x01\xaa", 3);
    assert_int_equal(rpma_peer_cfg_delete(&pcfg), 0);
}

TEST(the_descriptor_size_is_known_without_an_object)
{
    size_t size = 0;
    assert_int_equal(rpma_peer_cfg_get_descriptor_size(BOGUS, &size), 0);
    assert_int_equal(size, 1);
}

TEST(any_byte_but_0_means_supported)
{
    for (int byte = 0; byte < 256; ++byte) {
        const unsigned char desc[2] = {(unsigned char)byte, 0xff};
        struct rpma_peer_cfg *pcfg = NULL;
        assert_int_equal(rpma_peer_cfg_from_descriptor(desc, 1 + (size_t)byte % 2, &pcfg), 0);
        assert_int_equal(direct_write(pcfg), byte != 0);
        unsigned char again = 7;
        assert_int_equal(rpma_peer_cfg_get_descriptor(pcfg, &again), 0);
        assert_int_equal(again, byte != 0);
        assert_int_equal(rpma_peer_cfg_delete(&pcfg), 0);
    }
    assert_int_equal(log_count(RPMA_LOG_LEVEL_INFO), 256);
}

TEST(an_empty_descriptor_is_refused_unread)
{
    struct rpma_peer_cfg *pcfg = NULL;
    assert_int_equal(rpma_peer_cfg_from_descriptor(BOGUS, 0, &pcfg), RPMA_E_INVAL);
    assert_null(pcfg);
    assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), 1);
}

TEST(constructors_leave_their_output_alone_without_memory)
{
    struct rpma_peer_cfg *pcfg = BOGUS;
    fake_libc_fail(FAKE_MALLOC, 1, true);
    assert_int_equal(rpma_peer_cfg_new(&pcfg), RPMA_E_NOMEM);
    assert_int_equal(rpma_peer_cfg_from_descriptor("\1", 1, &pcfg), RPMA_E_NOMEM);
    assert_ptr_equal(pcfg, BOGUS);
}

TEST(deleting_nothing_succeeds)
{
    struct rpma_peer_cfg *pcfg = NULL;
    assert_int_equal(rpma_peer_cfg_delete(&pcfg), 0);
}
