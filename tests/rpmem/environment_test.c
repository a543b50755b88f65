/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings in the environment: two commands, which write their names to the file `turns`; a number of lanes that is
 * invalid; a name of the log file that ends in '-'.
 */
#include "support.h"

TEST(commands_take_turns)
{
    char expected[64] = "", turns[64] = "";
    for (int i = 0; i < 5; ++i) {
        assert_int_equal(rpmem_remove("host", "pool.set", RPMEM_REMOVE_FORCE), 0);
        strcat(expected, i % 2 == 0 ? "first\n" : "second\n");
    }
    FILE *const file = open_file("turns");
    assert_int_equal(fread(turns, 1, sizeof(turns), file), strlen(expected));
    fclose(file);
    assert_string_equal(turns, expected);
}

TEST(a_number_of_lanes_that_is_none_is_ignored)
{
    unsigned lanes = 1000;
    RPMEMpool *const pool = must(rpmem_create("host", "pool.set", pool_memory, POOL_SIZE, &lanes, &some_attributes));
    assert_int_equal(lanes, 64);
    assert_int_equal(rpmem_persist(pool, HEADER_SIZE, 64, 63, 0), 0);
    assert_int_equal(rpmem_close(pool), 0);
}

TEST(each_process_has_a_log_of_its_own)
{
    char name[64], line[512] = "", expected[64];
    snprintf(name, sizeof(name), "log-of-%d", (int)getpid());
    snprintf(expected, sizeof(expected), "librpmem[%d]: ", (int)getpid());
    FILE *const file = open_file(name);
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    assert_memory_equal(line, expected, strlen(expected));
}

GROUP_FIXTURE(make_memory, NULL)
