// SPDX-License-Identifier: BSD-3-Clause
// Sets without failures: creating, mapping, flushing and reading. The targets are real daemons.
#include "fixture.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

FIXTURE_TEST(set_of<two>, flushed_data_is_on_every_copy, "lanes 2\n")
{
    assert_int_equal(rpma_mirror_create(cfg.get()), RPMA_MIRROR_E_EXISTS);
    opened m(cfg.get());
    assert_int_equal(m.length(), length);
    m.put(4096, "mirrored");
    for (const std::string &copy : {h.bytes(4096, 8), a.bytes(4096, 8), b.bytes(4096, 8)})
        assert_string_equal(copy.c_str(), "mirrored");
    // More ranges than one request can contain, on the other lane.
    std::vector<rpma_mirror_range> ranges;
    for (std::uint64_t i = 0; i < 200; ++i) {
        m.store(megabyte + i * 8192, std::to_string(1000 + i));
        ranges.push_back({megabyte + i * 8192, 4});
    }
    assert_ok(rpma_mirror_optimized_flush(m.get(), 1, ranges.data(), ranges.size(), 0));
    for (std::uint64_t i = 0; i < 200; ++i)
        assert_string_equal(b.bytes(megabyte + i * 8192, 4).c_str(), std::to_string(1000 + i).c_str());
    // One long range.
    std::memset(m.address(), 'x', length);
    assert_ok(rpma_mirror_sync(m.get(), 0, 0, length, RPMA_MIRROR_F_DEEP));
    assert_true(a.bytes(0, length) == std::string(length, 'x'));
    assert_ok(rpma_mirror_optimized_flush(m.get(), 0, nullptr, 0, 0));
    const rpma_mirror_range empty{4096, 0};
    assert_ok(rpma_mirror_optimized_flush(m.get(), 0, &empty, 1, 0));
    // A store that is not flushed is not on the target.
    m.store(0, "secret");
    assert_true(a.bytes(0, 6) == "xxxxxx");
    m.close();
    // Unmapping makes all copies equal, including data that was not flushed.
    assert_true(a.bytes(0, 6) == "secret" && b.bytes(0, 6) == "secret");
}

TEST(arguments_are_checked)
{
    target a;
    const host h;
    const cfg_ptr cfg = h.cfg({&a});
    void *address = nullptr;
    rpma_mirror *m = nullptr;
    assert_int_equal(rpma_mirror_map(nullptr, nullptr, 0, &address, &m), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_map(cfg.get(), nullptr, 64, &address, &m), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_map(cfg.get(), nullptr, 0, &address, &m), RPMA_MIRROR_E_NOT_FOUND);
    assert_ok(rpma_mirror_create(cfg.get()));
    const opened o(cfg.get());
    assert_int_equal(o.flush(length, 1), RPMA_MIRROR_E_INVAL);
    assert_int_equal(o.flush(UINT64_MAX, 2), RPMA_MIRROR_E_INVAL);
    assert_int_equal(o.flush(0, 1, 0, 1), RPMA_MIRROR_E_INVAL);
    assert_int_equal(o.flush(0, 1, 1 << 9), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_atomic_write(o.get(), 0, 4, 1), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_flush_wait(o.get(), 0, 1, 0), RPMA_MIRROR_E_INVAL);
    // The process itself has the set open.
    assert_int_equal(rpma_mirror_map(cfg.get(), nullptr, 0, &address, &m), RPMA_MIRROR_E_BUSY);
    assert_ok(o.flush(0, 1));
}

FIXTURE_TEST(open_set<two>, tickets_and_order)
{
    std::uint64_t ticket = 0;
    for (std::uint64_t i = 0; i < 300; ++i) {
        m.store(i * 4096, std::to_string(5000 + i));
        const rpma_mirror_range r{i * 4096, 4};
        assert_ok(rpma_mirror_flush_start(m.get(), 0, &r, 1, 0, &ticket));
        assert_int_equal(ticket, i + 1);
    }
    assert_ok(rpma_mirror_flush_wait(m.get(), 0, ticket, -1));
    assert_ok(rpma_mirror_flush_wait(m.get(), 0, 1, 0));
    assert_int_equal(rpma_mirror_flush_wait(m.get(), 0, ticket + 1, 0), RPMA_MIRROR_E_INVAL);
    for (std::uint64_t i = 0; i < 300; ++i)
        assert_string_equal(a.bytes(i * 4096, 4).c_str(), std::to_string(5000 + i).c_str());
    const rpma_mirror_range log[] = {{8192, 4}, {64, 4}};
    m.store(8192, "body");
    m.store(64, "tail");
    assert_ok(rpma_mirror_optimized_flush(m.get(), 0, log, 2, RPMA_MIRROR_F_LAST_RANGE_ORDERED));
    assert_true(b.bytes(8192, 4) == "body" && b.bytes(64, 4) == "tail");
    assert_ok(rpma_mirror_atomic_write(m.get(), 0, 128, 0x0807060504030201));
    for (const std::string &copy : {std::string(m.address() + 128, 8), a.bytes(128, 8), b.bytes(128, 8)})
        assert_true(copy == "\1\2\3\4\5\6\7\10");
}

FIXTURE_TEST(open_set<two>, copies_are_read_and_verified)
{
    m.put(100'000, "to read");
    char back[8] = "";
    for (const unsigned copy : {0U, 1U, 2U}) {
        assert_ok(rpma_mirror_read(m.get(), 0, copy, back, 100'000, 7));
        assert_string_equal(back, "to read");
    }
    assert_int_equal(rpma_mirror_read(m.get(), 0, 3, back, 0, 7), RPMA_MIRROR_E_STALE);
    std::string large(3 * megabyte, '\0');
    assert_ok(rpma_mirror_read(m.get(), 0, 1, large.data(), 0, large.size()));
    assert_true(large.substr(100'000, 7) == "to read");
    const rpma_mirror_range ranges[] = {{100'000, 7}, {megabyte - 5, 10}};
    rpma_mirror_verify_level level{};
    rpma_mirror_error bad{};
    assert_ok(rpma_mirror_optimized_flush_and_verify(m.get(), 0, ranges, 2, 0, &level, &bad));
    assert_int_equal(level, RPMA_MIRROR_VERIFY_CACHE);
    auto report = sized<rpma_mirror_verify_report>();
    assert_ok(rpma_mirror_verify(m.get(), 1, nullptr, &report));
    assert_true(report.compared_bytes == length && report.differing_segments == 0);
    // Changes a copy while the writer is unaware of it.
    FILE *const part = std::fopen((b.where().path + "/part").c_str(), "r+");
    std::fseek(part, 3'000'000, SEEK_SET);
    std::fputs("rot", part);
    std::fclose(part);
    assert_int_equal(rpma_mirror_verify(m.get(), 2, nullptr, &report), RPMA_MIRROR_E_VERIFY);
    assert_true(report.differing_segments == 1 && report.first_difference == 3'000'000 / 65536 * 65536);
    assert_ok(rpma_mirror_verify(m.get(), 1, nullptr, &report));
}

// Set files and a part of their error message, which is NULL for valid ones. The key "local" was "home" in development
// versions.
TEST(set_files_are_checked)
{
    const host h;
    const std::string path = h.where.path + "/log.mirror";
    const std::string others = "key-file /k\ntarget 1 127.0.0.1:1 set\n";
    const std::string valid = "RPMAMIRROR\nlocal 0 anonymous 8M\n" + others;
    const std::string of_file = " 0 " + h.where.path + "/log 8M"; // its default state path is that of the set file
    const struct {
        std::string text;
        const char *part;
    } cases[] = {
            {"RPMAMIRROR\r\nlocal 0 anonymous 8M\r\n\r\nkey-file /k\r\ntarget 1 127.0.0.1:1 set\r\n", nullptr},
            {"\xef\xbb\xbfRPMAMIRROR\n", "log.mirror:1: starts with a byte order mark"},
            {std::string("\xff\xfeR\0P\0", 6), "log.mirror:1: is UTF-16"},
            {"RPMAMIRROR\rhome 0 anonymous 8M\r", "carriage return"},
            {"RPMAMIRROR\ntarget 1 user@127.0.0.1:1 set\n", "user names are not supported"},
            {"RPMAMIRROR\nkey-file /k\n", "log.mirror: local copy missing"},
            {valid + "target 2 127.0.0.1:2 set\n", nullptr},
            {valid + "# again\nkey-file /other\n", "log.mirror:6: second line 'key-file': line 3"},
            {valid + "# again\nlocal 0 anonymous 8M\n", "log.mirror:6: second line 'local': line 2"},
            {valid + "# again\nhome 0 anonymous 8M\n", "log.mirror:6: second line 'local': line 2"},
            {"RPMAMIRROR\n" + others + "local" + of_file + "\n", "log.mirror:4: state path of the local copy is"},
            {"RPMAMIRROR\n" + others + "home" + of_file + "\n", "log.mirror:4: state path of the local copy is"},
            {"RPMAMIRROR\n" + others + "local" + of_file + " " + h.where.path + "/log.state\n", nullptr},
    };
    for (const auto &[text, part] : cases) {
        h.where.write("log.mirror", text);
        rpma_mirror_cfg *cfg = nullptr;
        const int code = rpma_mirror_cfg_from_file(path.c_str(), &cfg);
        const std::string message = rpma_mirror_error_message();
        assert_ok(rpma_mirror_cfg_delete(&cfg));
        if (code != (part == nullptr ? 0 : RPMA_MIRROR_E_INVAL) ||
                (part != nullptr && message.find(part) == message.npos))
            fail_msg("%s: %d, %s", text.c_str(), code, message.c_str());
    }
}

// Reading a named pipe that no process writes to would never end.
TEST(files_are_not_named_pipes)
{
    const host h;
    const std::string pipe = h.where.path + "/pipe";
    assert_int_equal(mkfifo(pipe.c_str(), 0600), 0);
    rpma_mirror_cfg *cfg = nullptr;
    alarm(60);
    assert_int_equal(rpma_mirror_cfg_from_file(pipe.c_str(), &cfg), RPMA_MIRROR_E_SYSTEM);
    assert_string_equal(rpma_mirror_error_message(), ("cannot read " + pipe + ": not a regular file").c_str());
    const target a;
    const cfg_ptr created = h.create({&a});
    assert_ok(rpma_mirror_cfg_set_key_file(created.get(), pipe.c_str()));
    assert_int_equal(map_code(created.get()), RPMA_MIRROR_E_SYSTEM);
    assert_string_equal(rpma_mirror_error_message(), ("key file " + pipe + ": not a regular file").c_str());
    alarm(0);
}

// A child that ends the handle of its parent, as a function of atexit() does, has the connections of the parent.
FIXTURE_TEST(open_set<two>, a_child_cannot_use_the_set_of_its_parent)
{
    m.put(0, "parent");
    const pid_t child = fork_writer();
    if (child == 0) {
        rpma_mirror *inherited = m.get();
        const rpma_mirror_range range{0, 8};
        auto state = sized<rpma_mirror_state>();
        const bool rejected = rpma_mirror_optimized_flush(inherited, 0, &range, 1, 0) == RPMA_MIRROR_E_INVAL &&
                              rpma_mirror_get_state(inherited, &state) == RPMA_MIRROR_E_INVAL &&
                              rpma_mirror_resync(inherited, 1, nullptr) == RPMA_MIRROR_E_INVAL &&
                              rpma_mirror_set_consistency_point(inherited, 9) == RPMA_MIRROR_E_INVAL &&
                              rpma_mirror_add_target(inherited, 2, "t", "s", nullptr) == RPMA_MIRROR_E_INVAL &&
                              rpma_mirror_unmap(&inherited) == RPMA_MIRROR_E_INVAL && inherited == nullptr;
        _exit(rejected ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    m.put(8, "again");
    assert_ok(rpma_mirror_set_consistency_point(m.get(), 1));
    assert_true(m.state().in_sync == 7 && m.statistics().evictions == 0);
    m.close();
    assert_int_equal(inspected(cfg.get())->clean, 1);
}

FIXTURE_TEST(open_set<one>, a_truncated_local_file_is_reported)
{
    m.put(0, "before");
    assert_int_equal(truncate((h.where.path + "/home").c_str(), megabyte), 0);
    // The data of this flush is in the file, and the flush does not use the missing pages.
    assert_rejected(m.flush(0, 6), RPMA_MIRROR_E_CHANGED, "home: truncated to 1048576 bytes while the set is open");
    auto report = sized<rpma_mirror_verify_report>();
    assert_int_equal(rpma_mirror_verify(m.get(), 1, nullptr, &report), RPMA_MIRROR_E_CHANGED);
    m.close(RPMA_MIRROR_E_CHANGED);
    assert_int_equal(map_code(cfg.get()), RPMA_MIRROR_E_CHANGED);
    assert_int_equal(unlink((h.where.path + "/home").c_str()) + unlink((h.where.path + "/home.mirror").c_str()), 0);
    const opened again(cfg.get());
    assert_memory_equal(again.address(), "before", 6);
}

FIXTURE_TEST(set_of<two>, a_target_that_rejects_is_not_unreachable)
{
    b.kill();
    b.where().write("set", "not a set\n");
    b.start();
    assert_int_equal(map_code(cfg.get()), RPMA_MIRROR_E_INCOMPLETE);
    const std::string message = rpma_mirror_error_message();
    if (message.find("copy 2 (" + b.place() + ") in sync, but rejected the request (target " + b.place()) ==
            message.npos)
        fail_msg("%s", message.c_str());
}

// A set of the first target, and another set with a newer record on the second one.
struct foreign_target : two {
    foreign_target()
    {
        h.create({&a});
        const host other(5);
        const cfg_ptr foreign = other.cfg({nullptr, &b});
        assert_ok(rpma_mirror_create(foreign.get()));
        assert_int_equal(map_code(foreign.get()), 0);
        foreign_part = b.bytes(0, length);
    }
    const host h;
    std::string foreign_part;
};

FIXTURE_TEST(foreign_target, a_copy_of_another_set_does_not_count)
{
    const cfg_ptr cfg = h.cfg(all());
    const auto seen = inspected(cfg.get());
    assert_true(seen->epoch == 1 && seen->in_sync == 3);
    assert_int_equal(seen->copies[1].state, RPMA_MIRROR_COPY_IN_SYNC);
    assert_int_equal(seen->copies[2].state, RPMA_MIRROR_COPY_STALE);
    assert_int_equal(seen->copies[2].last_error, RPMA_MIRROR_E_NOT_FOUND);
    assert_ok(rpma_mirror_fence(cfg.get(), 0, nullptr));
    opened m(cfg.get());
    m.put(0, "written");
    assert_int_equal(m.state().in_sync, 3);
    assert_int_equal(m.state().copies[2].state, RPMA_MIRROR_COPY_OFFLINE);
    assert_int_equal(m.state().copies[2].last_error, RPMA_MIRROR_E_NOT_FOUND);
    assert_true(rpma_mirror_resync(m.get(), 2, nullptr) != 0);
    m.close();
    rpma_mirror_reader *reader = nullptr;
    assert_ok(rpma_mirror_map_read_only(cfg.get(), 0, -1, &reader));
    auto image = sized<rpma_mirror_image>();
    assert_ok(rpma_mirror_get_image(reader, &image));
    assert_memory_equal(image.address, "written", 7);
    assert_ok(rpma_mirror_unmap_read_only(&reader));
    assert_true(b.bytes(0, length) == foreign_part);
}

// The targets of a machine without a local copy identify the set.
FIXTURE_TEST(foreign_target, targets_of_different_sets_identify_none)
{
    const host there(7), third(8);
    const cfg_ptr cfg = there.cfg(all());
    assert_rejected(map_code(cfg.get()), RPMA_MIRROR_E_INVAL, "different sets");
    assert_rejected(rpma_mirror_fence(cfg.get(), 0, nullptr), RPMA_MIRROR_E_INVAL, "different sets");
    const target unused;
    assert_rejected(rpma_mirror_create(third.cfg({&unused, &b}).get()), RPMA_MIRROR_E_EXISTS, b.place());
}

// Targets that are in sync are required.
FIXTURE_TEST(set_of<two>, targets_with_other_numbers_are_missing)
{
    const cfg_ptr exchanged = h.cfg({&b, &a});
    assert_rejected(map_code(exchanged.get()), RPMA_MIRROR_E_INCOMPLETE, "has copy 2, not copy 1");
    const host there(5);
    assert_rejected(map_code(there.cfg({nullptr, &a}).get()), RPMA_MIRROR_E_NOT_FOUND, "has copy 1, not copy 2");
    assert_int_equal(map_code(cfg.get()), 0);
}

// The store without a flush shows whether the end compared the copies.
TEST(a_set_is_closed_as_flushed)
{
    for (const bool differs : {false, true}) {
        target a;
        const host h;
        const cfg_ptr cfg = h.create({&a});
        opened m(cfg.get());
        m.put(0, "flushed");
        m.store(megabyte, "stored");
        auto report = sized<rpma_mirror_verify_report>();
        if (differs)
            assert_int_equal(rpma_mirror_verify(m.get(), 1, nullptr, &report), RPMA_MIRROR_E_VERIFY);
        const rpma_mirror_range ticketed{2 * megabyte, 7};
        std::uint64_t ticket = 0;
        m.store(ticketed.offset, "started");
        assert_ok(rpma_mirror_flush_start(m.get(), 0, &ticketed, 1, 0, &ticket));
        rpma_mirror *ended = m.release();
        assert_ok(rpma_mirror_unmap_flushed(&ended));
        assert_null(ended);
        assert_true(a.bytes(0, 7) == "flushed" && a.bytes(ticketed.offset, 7) == "started");
        assert_int_equal(a.bytes(megabyte, 6) == "stored", differs);
        const opened again(cfg.get());
        assert_true(again.report().was_clean != 0 && again.report().compared_bytes == 0);
    }
}

TEST(only_files_and_dax_devices_are_local_copies)
{
    target a;
    const host h;
    const cfg_ptr cfg = h.cfg({&a});
    const std::string state_path = h.where.path + "/state", small = h.where.path + "/small";
    h.where.write("small", "too short");
    const struct {
        std::string path;
        const char *part;
    } bad[] = {{"/dev/null", "neither a regular file nor a DAX device"},
            {"/dev/zero", "neither a regular file nor a DAX device"},
            {h.where.path, "neither a regular file nor a DAX device"}, {small, "9 bytes"}};
    for (const auto &[path, part] : bad) {
        assert_ok(rpma_mirror_cfg_set_local_copy(cfg.get(), 0, path.c_str(), length, state_path.c_str()));
        assert_rejected(rpma_mirror_create(cfg.get()), RPMA_MIRROR_E_INVAL, path);
        assert_non_null(std::strstr(rpma_mirror_error_message(), part));
        assert_int_equal(access(state_path.c_str(), F_OK), -1);
        assert_int_equal(access((a.where().path + "/set.mirror").c_str(), F_OK), -1);
    }
}

FIXTURE_TEST(open_set<two>, one_call_works_on_a_copy)
{
    std::vector<int> codes;
    auto call_others = [&](const rpma_mirror_progress &) {
        auto report = sized<rpma_mirror_verify_report>();
        codes = {rpma_mirror_remove_target(m.get(), 1), rpma_mirror_resync(m.get(), 1, nullptr),
                rpma_mirror_verify(m.get(), 1, nullptr, &report)};
        return 0;
    };
    const rpma_mirror_resync_options options = with_progress(call_others);
    auto report = sized<rpma_mirror_verify_report>();
    assert_ok(rpma_mirror_verify(m.get(), 1, &options, &report));
    assert_true(codes == std::vector<int>(3, RPMA_MIRROR_E_BUSY));
    assert_ok(rpma_mirror_remove_target(m.get(), 1));
}

TEST(memory_of_the_program_is_attached)
{
    target a;
    host h;
    h.anonymous = true;
    const cfg_ptr cfg = h.create({&a});
    void *const memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    rpma_mirror *mirror = nullptr;
    assert_int_equal(rpma_mirror_map_memory(cfg.get(), static_cast<char *>(memory) + 8, length, 0, &mirror),
            RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_map_memory(cfg.get(), memory, 4096, 0, &mirror), RPMA_MIRROR_E_INVAL);
    assert_ok(rpma_mirror_map_memory(cfg.get(), memory, length, 0, &mirror));
    opened m(mirror, static_cast<char *>(memory));
    m.put(0, "attached");
    assert_true(a.bytes(0, 8) == "attached");
    assert_int_equal(m.state().level, RPMA_MIRROR_LEVEL_VOLATILE);
    m.close();
    munmap(memory, length);
    // A lost local copy in memory is rebuilt from the target.
    const opened again(cfg.get());
    assert_true(std::string(again.address(), 8) == "attached");
    assert_int_equal(again.report().reason, RPMA_MIRROR_SOURCE_TARGET_NEWEST);
}

FIXTURE_TEST(open_set<one>, pages_that_cannot_be_read_are_repaired)
{
    m.put(3 * 4096 + 10, "precious");
    rpma_mirror_error errors[4];
    std::size_t n = 4;
    const auto errors_found = [&](unsigned copy) {
        n = 4;
        assert_ok(rpma_mirror_check(m.get(), copy, 0, length, errors, &n));
        return n;
    };
    assert_int_equal(errors_found(0), 0);
    assert_int_equal(errors_found(1), 0);
    // Acts like a poisoned page: a read raises a signal.
    assert_int_equal(mprotect(m.address() + 3 * 4096, 4096, PROT_NONE), 0);
    assert_int_equal(errors_found(0), 1);
    assert_true(errors[0].kind == RPMA_MIRROR_ERROR_MEDIA && errors[0].precise && errors[0].offset == 3 * 4096 &&
                errors[0].length == 4096);
    const rpma_mirror_error reported = m.expect(RPMA_MIRROR_EVENT_MEDIA).error;
    assert_true(reported.kind == RPMA_MIRROR_ERROR_MEDIA && reported.precise && reported.contained && reported.live);
    assert_true(reported.offset == 3 * 4096 && reported.length == 4096);
    // The error is reported once.
    assert_int_equal(errors_found(0), 1);
    n = 4;
    assert_ok(rpma_mirror_get_error_info(m.get(), errors, &n));
    assert_true(n == 1 && errors[0].copy == 0 && errors[0].offset == 3 * 4096 && errors[0].length == 4096);
    assert_int_equal(mprotect(m.address() + 3 * 4096, 4096, PROT_READ | PROT_WRITE), 0);
    std::memset(m.address() + 3 * 4096, 0, 4096);
    assert_ok(rpma_mirror_repair_range(m.get(), 3 * 4096 + 10, 8, RPMA_MIRROR_ALL_COPIES));
    assert_true(std::string(m.address() + 3 * 4096 + 10, 8) == "precious");
    assert_true(h.bytes(3 * 4096 + 10, 8) == "precious");
    auto next = sized<rpma_mirror_event>();
    assert_ok(rpma_mirror_next_event(m.get(), &next));
    assert_int_equal(next.type, RPMA_MIRROR_EVENT_REPAIRED);
    n = 4;
    assert_ok(rpma_mirror_get_error_info(m.get(), errors, &n));
    assert_int_equal(n, 0);
    // After the repair, the target receives what the program stores.
    m.put(3 * 4096, "restored");
    assert_true(a.bytes(3 * 4096, 8) == "restored");
    assert_true(a.bytes(3 * 4096 + 10, 8) == "precious");
    assert_int_equal(rpma_mirror_repair_range(m.get(), 0, 8, 7), RPMA_MIRROR_E_STALE);
}

// The damaged pages were discarded and new ones cannot be written: the local copy is incomplete, and must not be the
// source of the others.
FIXTURE_TEST(set_of<one>, a_repair_that_fails_is_none)
{
    {
        const opened m(cfg.get());
        m.put(3 * 4096 + 10, "precious");
        assert_int_equal(mprotect(m.address() + 3 * 4096, 4096, PROT_READ), 0);
        assert_int_equal(
                rpma_mirror_repair_range(m.get(), 3 * 4096, 4096, RPMA_MIRROR_ALL_COPIES), RPMA_MIRROR_E_MEDIA);
        assert_int_equal(m.expect(RPMA_MIRROR_EVENT_MEDIA).copy, 0);
        assert_int_equal(m.flush(0, 1), RPMA_MIRROR_E_MEDIA);
    }
    assert_false(h.bytes(3 * 4096 + 10, 8) == "precious");
    const opened again(cfg.get());
    assert_int_equal(again.report().reason, RPMA_MIRROR_SOURCE_TARGET_NEWEST);
    assert_true(std::string(again.address() + 3 * 4096 + 10, 8) == "precious");
    assert_true(a.bytes(3 * 4096 + 10, 8) == "precious");
}

} // namespace
