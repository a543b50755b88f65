// SPDX-License-Identifier: BSD-3-Clause
// A local copy that was replaced, restored or changed behind the library does not overwrite the other copies.
#include "fixture.hpp"

#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace
{

namespace fs = std::filesystem;

// A set that was closed cleanly twice. The backup contains the local file after the first time.
struct closed_set {
    target a;
    const host h;
    const cfg_ptr cfg;
    const std::string home = h.where.path + "/home", backup = h.where.path + "/backup";

    explicit closed_set(const std::string &more = "") : cfg(h.cfg({&a}, more))
    {
        assert_ok(rpma_mirror_create(cfg.get()));
        write("old");
        fs::copy_file(home, backup);
        write("new");
    }
    void write(const std::string &text) const
    {
        opened m(cfg.get());
        m.put(0, text);
        m.put(5 * megabyte, text);
        m.close();
    }
    // Expects that the data acknowledged last is found, and remains on the target when the set is closed again.
    void expect_new(rpma_mirror_source_reason reason) const
    {
        opened m(cfg.get());
        assert_true(std::string(m.address(), 3) == "new" && std::string(m.address() + 5 * megabyte, 3) == "new");
        assert_int_equal(m.report().reason, reason);
        m.close();
        assert_true(a.bytes(0, 3) == "new" && a.bytes(5 * megabyte, 3) == "new");
        assert_true(h.bytes(0, 3) == "new");
        // Now the state describes the current file.
        opened again(cfg.get());
        assert_true(again.report().reason == RPMA_MIRROR_SOURCE_LOCAL_NEWEST && again.report().compared_bytes == 0);
        again.close();
    }
};

// Restores like `rsync --inplace` and cp: the inode is unchanged, and the modification time is that of the backup.
void restore_in_place(const closed_set &s)
{
    struct stat before {
    };
    assert_int_equal(stat(s.backup.c_str(), &before), 0);
    const std::string text = s.h.where.read("backup", 0, length);
    const int fd = open(s.home.c_str(), O_WRONLY);
    assert_int_equal(pwrite(fd, text.data(), text.size(), 0), length);
    const timespec times[] = {before.st_atim, before.st_mtim};
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

TEST(a_file_that_was_restored_in_place_is_no_source)
{
    const closed_set s;
    restore_in_place(s);
    s.expect_new(RPMA_MIRROR_SOURCE_LOCAL_CHANGED);
}

TEST(a_file_that_was_replaced_is_no_source)
{
    const closed_set s;
    fs::rename(s.backup, s.home);
    s.expect_new(RPMA_MIRROR_SOURCE_LOCAL_CHANGED);
}

// Changed times do not indicate changed content: the content is compared, and nothing has to be sent.
TEST(a_file_with_another_owner_or_mode_is_compared)
{
    const closed_set s;
    assert_int_equal(chmod(s.home.c_str(), 0640), 0);
    {
        opened m(s.cfg.get());
        const rpma_mirror_recovery_report r = m.report();
        assert_true(r.reason == RPMA_MIRROR_SOURCE_LOCAL_CHANGED && r.compared_bytes == length && r.sent_bytes == 0);
        assert_non_null(std::strstr(r.reason_text, "changed"));
        m.close();
    }
    s.expect_new(RPMA_MIRROR_SOURCE_LOCAL_NEWEST);
}

TEST(a_file_of_another_length_is_rejected)
{
    const closed_set s;
    for (const std::uint64_t size : {length / 2, 2 * length}) {
        assert_int_equal(truncate(s.home.c_str(), static_cast<off_t>(size)), 0);
        assert_rejected(map_code(s.cfg.get()), RPMA_MIRROR_E_CHANGED, std::to_string(size));
        assert_non_null(std::strstr(rpma_mirror_error_message(), s.home.c_str()));
        // The target was not written.
        assert_true(s.a.bytes(0, 3) == "new" && s.a.bytes(5 * megabyte, 3) == "new");
    }
    // The remedy that the message suggests.
    fs::remove(s.home);
    fs::remove(s.home + ".mirror");
    s.expect_new(RPMA_MIRROR_SOURCE_TARGET_NEWEST);
}

// A restarted daemon maps its parts again. The page faults of a writer change their times.
TEST(an_opening_on_another_machine_that_failed_is_repeated)
{
    closed_set s;
    s.a.kill();
    s.a.start();
    const host other{5};
    const cfg_ptr there = other.cfg({&s.a});
    auto cancel = [](const rpma_mirror_progress &) { return 1; };
    const rpma_mirror_resync_options options = with_progress(cancel);
    assert_ok(rpma_mirror_cfg_set_resync_options(there.get(), &options));
    assert_int_equal(map_code(there.get()), RPMA_MIRROR_E_CANCELED);
    const opened m(other.cfg({&s.a}).get());
    assert_memory_equal(m.address(), "new", 3);
}

TEST(a_larger_length_in_the_set_file_is_rejected)
{
    const closed_set s;
    const cfg_ptr other = s.h.cfg({&s.a});
    assert_ok(rpma_mirror_cfg_set_local_copy(other.get(), 0, s.home.c_str(), 2 * length, nullptr));
    assert_rejected(map_code(other.get()), RPMA_MIRROR_E_INVAL,
            "length of the set: 8388608 bytes, but 16777216 in the configuration (use rpma-mirror grow");
    // A set that has grown is longer than its set file.
    assert_ok(rpma_mirror_cfg_set_local_copy(other.get(), 0, s.home.c_str(), length / 2, nullptr));
    assert_ok(map_code(other.get()));
}

// No other copy has the data that it wrote alone, so neither copy is used without force.
TEST(the_only_copy_that_was_replaced_needs_force)
{
    closed_set s("policy availability\n");
    {
        opened m(s.cfg.get());
        s.a.kill();
        m.put(0, "one");
        m.close();
    }
    const std::string alone = s.h.where.path + "/alone";
    fs::rename(s.home, alone);
    fs::copy_file(s.backup, s.home);
    s.a.start();
    assert_rejected(map_code(s.cfg.get()), RPMA_MIRROR_E_CHANGED, "force");
    assert_true(s.a.bytes(0, 3) == "new");
    // The remedy that the message suggests.
    fs::remove(s.home);
    fs::rename(alone, s.home);
    const opened forced(s.cfg.get(), RPMA_MIRROR_F_FORCE);
    assert_int_equal(forced.report().reason, RPMA_MIRROR_SOURCE_FORCED);
    assert_true(std::string(forced.address(), 3) == "one" && s.a.bytes(0, 3) == "one");
}

// Restarts the daemon with an older part, in the same file or in another one.
void restore_part(target &of, bool same_file)
{
    of.kill();
    const std::string part = of.where().path + "/part", backup = part + ".backup";
    if (same_file)
        fs::copy_file(backup, part, fs::copy_options::overwrite_existing);
    else
        fs::rename(backup, part);
    of.start();
}

void back_up_part(const target &of)
{
    fs::copy_file(of.where().path + "/part", of.where().path + "/part.backup", fs::copy_options::overwrite_existing);
}

// A target that counts as equal would become the next source. It must be compared first.
TEST(parts_that_were_restored_are_compared)
{
    for (const bool same_file : {true, false}) {
        closed_set s;
        back_up_part(s.a);
        s.write("two");
        restore_part(s.a, same_file);
        assert_true(s.a.bytes(0, 3) == "new");
        opened m(s.cfg.get());
        assert_true(std::string(m.address(), 3) == "two" && s.a.bytes(0, 3) == "two" &&
                    m.report().compared_bytes == length);
        m.close();
        opened again(s.cfg.get());
        assert_int_equal(again.report().compared_bytes, 0);
    }
}

FIXTURE_TEST(two_hosts<two>, parts_that_were_restored_are_no_source)
{
    for (const char *const text : {"old", "new"}) {
        put_and_close(here.get(), text);
        if (*text == 'o')
            for (const target *const t : {&a, &b})
                back_up_part(*t);
    }
    restore_part(a, true);
    {
        const opened m(there.get());
        assert_true(std::string(m.address(), 3) == "new" && a.bytes(0, 3) == "new");
        assert_int_equal(m.report().source, 2);
    }
    // After the crash, the part is another file.
    back_up_part(a);
    for (target *const t : {&a, &b})
        restore_part(*t, false);
    assert_rejected(map_code(here.get()), RPMA_MIRROR_E_CHANGED, a.place());
    const opened back(there.get());
    assert_true(std::string(back.address(), 3) == "new" && a.bytes(0, 3) == "new" && b.bytes(0, 3) == "new");
}

// The resync that was canceled had already passed the beginning of the part.
TEST(a_part_that_was_restored_during_a_resync_is_compared_again)
{
    for (const bool same_file : {true, false}) {
        target a, b;
        const host h;
        const cfg_ptr cfg = h.create({&a, &b});
        opened m(cfg.get());
        m.put(0, "old");
        b.kill();
        back_up_part(b);
        m.put(0, "new");
        m.put(7 * megabyte, "new");
        b.start();
        auto cancel = [](const rpma_mirror_progress &) { return 1; };
        const rpma_mirror_resync_options options = with_progress(cancel);
        assert_int_equal(rpma_mirror_resync(m.get(), 2, &options), RPMA_MIRROR_E_CANCELED);
        assert_true(b.bytes(0, 3) == "new");
        restore_part(b, same_file);
        assert_true(b.bytes(0, 3) == "old");
        assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
        assert_true(b.bytes(0, length) == std::string(m.address(), length));
    }
}

TEST(two_copies_that_were_restored_need_force)
{
    closed_set s;
    back_up_part(s.a);
    s.write("two");
    restore_in_place(s);
    restore_part(s.a, true);
    assert_int_equal(map_code(s.cfg.get()), RPMA_MIRROR_E_CHANGED);
    // The failed opening has approved neither copy.
    assert_int_equal(map_code(s.cfg.get()), RPMA_MIRROR_E_CHANGED);
    const opened forced(s.cfg.get(), RPMA_MIRROR_F_FORCE);
    assert_int_equal(forced.report().reason, RPMA_MIRROR_SOURCE_FORCED);
}

} // namespace
