// SPDX-License-Identifier: BSD-3-Clause
// Tables: each attribute of a copy, each level, each event with the action that causes it, each setting and its limits.
// docs/snia.md lists the requirements of the SNIA that they cover.
#include "fixture.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <mutex>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

std::atomic<std::size_t> registrations = 0;
std::atomic<const char *> fails_from = nullptr; // start of memory that cannot be written back, as long as a set

} // namespace

// Overrides the function of librpma, and calls it.
extern "C" [[gnu::visibility("default")]] int rpma_mr_reg(
        struct rpma_peer *peer, void *address, std::size_t size, int usage, struct rpma_mr_local **created)
{
    using function = int(struct rpma_peer *, void *, std::size_t, int, struct rpma_mr_local **);
    static const auto real = reinterpret_cast<function *>(dlsym(RTLD_NEXT, "rpma_mr_reg"));
    ++registrations;
    return real(peer, address, size, usage, created);
}

extern "C" [[gnu::visibility("default")]] int msync(void *start, std::size_t bytes, int flags)
{
    const char *const from = fails_from;
    if (from != nullptr && start >= from && start < from + length) {
        errno = EIO;
        return -1;
    }
    return static_cast<int>(syscall(SYS_msync, start, bytes, flags));
}

namespace
{

rpma_mirror_attributes attributes_of(const opened &m, unsigned copy)
{
    auto a = sized<rpma_mirror_attributes>();
    assert_ok(rpma_mirror_get_attributes(m.get(), copy, &a));
    return a;
}

// An address below the usual load addresses of programs. AddressSanitizer and ThreadSanitizer do not use it.
constexpr std::uintptr_t requested_address = 0x551000000000;

// MAP: each process that opens the set maps it at the requested address.
FIXTURE_TEST(set_of<one>, a_set_is_mapped_at_the_requested_address)
{
    for (int i = 0; i < 2; ++i)
        in_process_that_dies([&] {
            void *const hint = reinterpret_cast<void *>(requested_address);
            void *address = nullptr;
            rpma_mirror *m = nullptr;
            assert_ok(rpma_mirror_map(cfg.get(), hint, 0, &address, &m));
            assert_ptr_equal(address, hint);
        });
    // Another machine requests another address.
    const host other(5);
    const opened m(other.cfg({&a}).get());
    assert_int_not_equal(reinterpret_cast<std::uintptr_t>(m.address()), requested_address);
}

FIXTURE_TEST(set_of<two>, flushes_register_nothing)
{
    const std::size_t before = registrations.load();
    const opened m(cfg.get());
    const std::size_t opened_with = registrations.load();
    assert_true(opened_with > before);
    for (std::uint64_t i = 0; i < 200; ++i)
        m.put(i * 4096, "flushed");
    assert_ok(rpma_mirror_atomic_write(m.get(), 0, 8, 1));
    assert_ok(rpma_mirror_sync(m.get(), 0, 0, length, RPMA_MIRROR_F_DEEP));
    assert_int_equal(registrations.load(), opened_with);
}

struct expected_attributes {
    unsigned copy;
    std::uint32_t level, error_range, allowed, deep, precise;
    rpma_mirror_verify_level verify;
};

void check_attributes(const opened &m, const expected_attributes &e)
{
    const rpma_mirror_attributes a = attributes_of(m, e.copy);
    assert_int_equal(a.level, e.level);
    assert_int_equal(a.fundamental_error_range, e.error_range);
    assert_int_equal(a.optimized_flush_allowed, e.allowed);
    assert_int_equal(a.deep_flush_capable, e.deep);
    assert_int_equal(a.error_event_precise, e.precise);
    assert_int_equal(a.verify_level, e.verify);
    // These are the same for every copy.
    assert_int_equal(a.size, sizeof(a));
    assert_int_equal(a.interrupted_store_atomicity, 8);
    assert_int_equal(a.atomicity_guaranteed, 0);
    assert_int_equal(a.map_copy_on_write, 0);
    assert_int_equal(a.fundamental_error_offset, 0);
    assert_int_equal(a.optimized_flush_capable, 1);
    assert_int_equal(a.optimized_flush_and_verify_capable, 1);
    assert_int_equal(a.error_event_capable, 1);
    assert_int_equal(a.error_event_live, 1);
}

// Returns true where all memory counts as persistent memory.
bool is_persistent()
{
    return getenv("PMEM2_FORCE_GRANULARITY") != nullptr;
}

// Level of the local copy. The suite runs with the test directory in memory, on a disk, and in simulated persistent
// memory.
std::uint32_t level_here(const host &h)
{
    if (is_persistent())
        return RPMA_MIRROR_LEVEL_CPU_FLUSHED;
    struct statfs facts {
    };
    assert_int_equal(statfs(h.where.path.c_str(), &facts), 0);
    return facts.f_type == 0x01021994 ? RPMA_MIRROR_LEVEL_VOLATILE : RPMA_MIRROR_LEVEL_WRITTEN_BACK;
}

// Level of a target whose device flushes natively.
std::uint32_t level_of_target(const host &h)
{
    if (is_persistent() && getenv("RPMA_FLUSH_METHOD") == nullptr)
        return RPMA_MIRROR_LEVEL_NATIVE_FLUSH;
    return level_here(h);
}

FIXTURE_TEST(set_of<one>, each_attribute_of_each_copy)
{
    const std::uint32_t level = level_here(h), of_target = level_of_target(h);
    const std::uint32_t range = is_persistent() ? 256 : 4096, pmem = is_persistent() ? 1 : 0;
    {
        const opened m(cfg.get());
        const expected_attributes table[] = {
                {0, level, range, pmem, pmem, 1, RPMA_MIRROR_VERIFY_NONE},
                {1, of_target, range, pmem, pmem, 0, RPMA_MIRROR_VERIFY_CACHE},
                {RPMA_MIRROR_ALL_COPIES, level, range, pmem, pmem, 0, RPMA_MIRROR_VERIFY_CACHE},
        };
        for (const expected_attributes &e : table)
            check_attributes(m, e);
        auto none = sized<rpma_mirror_attributes>();
        for (const unsigned copy : {2U, 15U, 16U})
            assert_int_equal(rpma_mirror_get_attributes(m.get(), copy, &none), RPMA_MIRROR_E_NOT_FOUND);
        assert_int_equal(m.state().level, level);
        assert_int_equal(m.state().copies[0].level, level);
        assert_int_equal(m.state().copies[1].level, of_target);
    }
    // The level of the set is the lowest level of its copies.
    host memory(4);
    memory.anonymous = true;
    const opened m(memory.cfg({&a}).get());
    check_attributes(m, {4, RPMA_MIRROR_LEVEL_VOLATILE, 4096, 0, 0, 1, RPMA_MIRROR_VERIFY_NONE});
    check_attributes(m, {1, of_target, range, pmem, pmem, 0, RPMA_MIRROR_VERIFY_CACHE});
    check_attributes(m, {RPMA_MIRROR_ALL_COPIES, RPMA_MIRROR_LEVEL_VOLATILE, 4096, 0, 0, 0, RPMA_MIRROR_VERIFY_CACHE});
}

TEST(a_level_is_demanded)
{
    target a;
    host h;
    h.create({&a});
    // Levels above processor flush are required of targets only.
    const std::uint32_t here = level_of_target(h);
    constexpr const char *names[] = {"volatile", "written-back", "cpu-flushed", "direct-write", "native-flush"};
    for (std::uint32_t level = 0; level < 5; ++level) {
        const cfg_ptr cfg = h.cfg({&a}, std::string("min-level ") + names[level] + "\n");
        assert_int_equal(map_code(cfg.get()), level <= here ? 0 : RPMA_MIRROR_E_LEVEL_TOO_LOW);
    }
    assert_non_null(h.cfg({&a}, "min-level page-cache\ndevice software\n").get()); // keywords of development versions
}

// Native flush requires the devices of both ends. A target whose device lacks it flushes on request by messages, and
// its copy has a lower level. The minimum level applies to each target, also when a target is added or returns.
TEST(native_flush_takes_both_sides)
{
    target a, b("", {}, {"SOFTRDMA_NATIVE_VERBS=off"});
    const host h;
    const cfg_ptr cfg = h.create({&a, &b});
    const std::uint32_t level = level_here(h), native = level_of_target(h);
    {
        const opened m(cfg.get());
        assert_int_equal(m.state().copies[1].level, native);
        assert_int_equal(m.state().copies[2].level, level);
        assert_int_equal(attributes_of(m, RPMA_MIRROR_ALL_COPIES).level, level);
        m.put(4096, "both");
        assert_ok(rpma_mirror_atomic_write(m.get(), 0, 8, 0x1122334455667788));
        assert_ok(rpma_mirror_sync(m.get(), 0, 0, length, RPMA_MIRROR_F_DEEP));
        assert_int_equal(m.state().in_sync, 7);
        for (const target *t : {&a, &b}) {
            assert_true(t->bytes(4096, 4) == "both");
            assert_true(t->bytes(8, 8) == "\x88\x77\x66\x55\x44\x33\x22\x11");
        }
        b.kill();
        b.start({});
        m.put(0, "one");
        assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
        assert_int_equal(m.state().copies[2].level, native);
    }
    if (native != RPMA_MIRROR_LEVEL_NATIVE_FLUSH)
        return;
    const opened m(h.cfg({&a, &b}, "min-level native-flush\n").get());
    b.kill();
    b.start({"SOFTRDMA_NATIVE_VERBS=off"});
    m.put(0, "two");
    assert_int_equal(rpma_mirror_resync(m.get(), 2, nullptr), RPMA_MIRROR_E_LEVEL_TOO_LOW);
    assert_int_equal(m.state().in_sync, 3);
}

// The local copy cannot be written back, and the library cannot determine the failing range.
TEST(an_error_may_not_be_precise)
{
    const bool on_disk = [] {
        const host h;
        return level_here(h) == RPMA_MIRROR_LEVEL_WRITTEN_BACK;
    }();
    if (!on_disk)
        skip();
    target a;
    const host h;
    const cfg_ptr cfg = h.create({&a});
    const opened m(cfg.get());
    const rpma_mirror_range r{4096, 8};
    std::uint64_t ticket = 0;
    fails_from = m.address();
    const int codes[] = {m.flush(0, 8), rpma_mirror_flush_start(m.get(), 0, &r, 1, 0, &ticket),
            rpma_mirror_atomic_write(m.get(), 0, 0, 1)};
    fails_from = nullptr;
    for (const int code : codes) {
        assert_int_equal(code, RPMA_MIRROR_E_MEDIA);
        const rpma_mirror_event e = m.expect(RPMA_MIRROR_EVENT_MEDIA);
        assert_true(e.copy == 0 && e.error.kind == RPMA_MIRROR_ERROR_MEDIA && e.error.code == RPMA_MIRROR_E_MEDIA);
        assert_true(e.error.offset == 0 && e.error.length == length);
        assert_true(e.error.os_errno == EIO && e.error.precise == 0 && e.error.contained == 1 && e.error.live == 1);
    }
    rpma_mirror_error errors[4];
    std::size_t n = 4;
    assert_ok(rpma_mirror_get_error_info(m.get(), errors, &n));
    assert_int_equal(n, 3);
    assert_ok(rpma_mirror_repair_range(m.get(), 0, length - 4096, RPMA_MIRROR_ALL_COPIES));
    assert_ok(rpma_mirror_get_error_info(m.get(), errors, &n));
    assert_int_equal(n, 3);
    assert_ok(rpma_mirror_repair_range(m.get(), 0, length, RPMA_MIRROR_ALL_COPIES));
    assert_ok(rpma_mirror_get_error_info(m.get(), errors, &n));
    assert_int_equal(n, 0);
    assert_ok(m.flush(0, length));
    assert_int_equal(m.state().in_sync, 3);
}

// DEEP_FLUSH: for a processor flush the target calls no system function. A deep flush calls one, and fails if it fails.
TEST(a_deep_flush_is_done_by_the_target)
{
    const char *const failing = getenv("FAILING_MSYNC");
    if (!is_persistent() || failing == nullptr)
        skip();
    const host h;
    const std::string preload = h.where.path + "/preload.so"; // LD_PRELOAD cannot contain a path with a blank
    std::filesystem::create_symlink(failing, preload);
    const target a, b("", {}, {"LD_PRELOAD=" + preload, "FAILING_MSYNC_FILE=" + h.where.path + "/fail"});
    const cfg_ptr cfg = h.create({&a, &b});
    const opened m(cfg.get());
    assert_ok(m.flush(0, 64, RPMA_MIRROR_F_DEEP));
    h.where.write("fail", "");
    // The software device itself calls the system for native flushes.
    if (level_of_target(h) != RPMA_MIRROR_LEVEL_NATIVE_FLUSH) {
        assert_ok(m.flush(0, 64));
        assert_int_equal(m.state().in_sync, 7);
    }
    assert_ok(m.flush(0, 64, RPMA_MIRROR_F_DEEP));
    assert_int_equal(m.state().in_sync, 3);
    assert_int_equal(m.state().copies[2].last_error, RPMA_MIRROR_E_MEDIA);
}

struct recorded_events {
    std::mutex lock;
    std::vector<rpma_mirror_event> events;

    void operator()(const rpma_mirror_event &event)
    {
        const std::lock_guard hold(lock);
        events.push_back(event);
    }
    bool has(rpma_mirror_event_type type)
    {
        const std::lock_guard hold(lock);
        for (const rpma_mirror_event &e : events)
            if (e.type == type)
                return true;
        return false;
    }
};

FIXTURE_TEST(two_hosts<two>, each_action_reports_its_event)
{
    const target c;
    recorded_events recorded;
    on_event(here.get(), recorded);
    const opened m(here.get());
    const auto expect_event = [&](rpma_mirror_event_type type, unsigned copy, rpma_mirror_error_kind kind) {
        const rpma_mirror_event e = m.expect(type);
        assert_int_equal(e.copy, copy);
        assert_int_equal(e.error.kind, kind);
        assert_int_equal(e.epoch, 2);
        assert_int_equal(e.error.live, kind != RPMA_MIRROR_ERROR_NONE && kind != RPMA_MIRROR_ERROR_FENCED);
        assert_int_equal(e.error.contained, kind != RPMA_MIRROR_ERROR_NONE);
        assert_int_equal(e.error.precise, 0);
        assert_true(recorded.has(type));
    };
    m.put(0, "all");
    b.kill();
    m.put(0, "one");
    expect_event(RPMA_MIRROR_EVENT_EVICTED, 2, RPMA_MIRROR_ERROR_CONNECTION);
    b.start();
    assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
    expect_event(RPMA_MIRROR_EVENT_RESYNC_STARTED, 2, RPMA_MIRROR_ERROR_NONE);
    expect_event(RPMA_MIRROR_EVENT_IN_SYNC, 2, RPMA_MIRROR_ERROR_NONE);
    assert_ok(rpma_mirror_add_target(m.get(), 3, c.place().c_str(), "set", nullptr));
    expect_event(RPMA_MIRROR_EVENT_ADDED, 3, RPMA_MIRROR_ERROR_NONE);
    assert_ok(rpma_mirror_remove_target(m.get(), 3));
    expect_event(RPMA_MIRROR_EVENT_REMOVED, 3, RPMA_MIRROR_ERROR_NONE);
    assert_ok(rpma_mirror_repair_range(m.get(), 0, 1, 1));
    expect_event(RPMA_MIRROR_EVENT_REPAIRED, 0, RPMA_MIRROR_ERROR_NONE);
    const rpma_mirror_statistics counted = m.statistics();
    assert_int_equal(counted.flushes, 2);
    assert_int_equal(counted.ranges, 2);
    assert_int_equal(counted.bytes, 6);
    assert_int_equal(counted.evictions, 1);
    assert_int_equal(counted.resyncs, 2);
    assert_int_equal(counted.compared_bytes, 4 * length);
    assert_int_equal(counted.sent_bytes, 2 * 65536);
    assert_int_equal(counted.repaired_bytes, 4096);
    assert_ok(rpma_mirror_fence(there.get(), 0, nullptr));
    assert_int_equal(m.flush(0, 1), RPMA_MIRROR_E_FENCED);
    expect_event(RPMA_MIRROR_EVENT_FENCED, m.state().copies[1].state == RPMA_MIRROR_COPY_ABSENT ? 0 : 1,
            RPMA_MIRROR_ERROR_FENCED);
    auto none = sized<rpma_mirror_event>();
    assert_int_equal(rpma_mirror_next_event(m.get(), &none), RPMA_MIRROR_E_NOT_FOUND);
}

// OPTIMIZED_FLUSH_AND_VERIFY: another process changes a copy between the write and the read.
FIXTURE_TEST(open_set<one>, data_read_back_is_compared)
{
    m.store(5000, "good");
    const pid_t spoiler = fork_writer();
    if (spoiler == 0)
        for (FILE *const part = std::fopen((a.where().path + "/part").c_str(), "r+");;) {
            std::fseek(part, 5001, SEEK_SET);
            std::fputs("rot", part);
            std::fflush(part);
        }
    const rpma_mirror_range ranges[] = {{0, 100}, {4096, 4096}};
    rpma_mirror_error bad{};
    rpma_mirror_verify_level level{};
    int code = 0;
    for (int i = 0; i < 100'000 && code == 0; ++i)
        code = rpma_mirror_optimized_flush_and_verify(m.get(), 0, ranges, 2, 0, &level, &bad);
    ::kill(spoiler, SIGKILL);
    assert_int_equal(code, RPMA_MIRROR_E_VERIFY);
    assert_true(bad.copy == 1 && bad.kind == RPMA_MIRROR_ERROR_VERIFY && bad.code == RPMA_MIRROR_E_VERIFY);
    assert_true(bad.precise == 1 && bad.contained == 1 && bad.live == 1);
    assert_true(bad.offset >= 5001 && bad.offset + bad.length <= 5004 && bad.length > 0);
    m.expect(RPMA_MIRROR_EVENT_MEDIA);
    // The copy stays in the set, and the next flush repairs it.
    waitpid(spoiler, nullptr, 0);
    assert_ok(rpma_mirror_optimized_flush_and_verify(m.get(), 0, ranges, 2, 0, &level, nullptr));
    assert_int_equal(level, RPMA_MIRROR_VERIFY_CACHE);
    assert_true(a.bytes(5000, 4) == "good");
}

TEST(each_setting_and_its_limits)
{
    target a;
    const host h;
    h.cfg({&a}); // makes the key
    const std::string home = h.where.path + "/home", key = h.where.path + "/key", state_file = h.where.path + "/else";
    rpma_mirror_cfg *cfg = nullptr;
    assert_ok(rpma_mirror_cfg_new(&cfg));
    void *address = nullptr;
    rpma_mirror *m = nullptr;
    const struct {
        int code, expected;
    } table[] = {
            {rpma_mirror_create(cfg), RPMA_MIRROR_E_INVAL}, // no setting is set
            {rpma_mirror_cfg_set_local_copy(nullptr, 0, home.c_str(), length, nullptr), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_set_local_copy(cfg, 16, home.c_str(), length, nullptr), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_set_local_copy(cfg, 0, home.c_str(), 4097, nullptr), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_set_local_copy(cfg, 0, "", length, nullptr), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_set_local_copy(cfg, 0, nullptr, 0, nullptr), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_set_local_copy(cfg, 0, home.c_str(), length, state_file.c_str()), 0},
            {rpma_mirror_cfg_add_target(cfg, 0, a.place().c_str(), "set"), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_add_target(cfg, 1, "nowhere", "set"), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_add_target(cfg, 1, "127.0.0.1:72040", "set"), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_add_target(cfg, 1, "127.0.0.1:0", "set"), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_add_target(cfg, 1, a.place().c_str(), "../set"), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_add_target(cfg, 1, a.place().c_str(), "set"), 0},
            {rpma_mirror_cfg_set_key_file(cfg, nullptr), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_set_key_file(cfg, key.c_str()), 0},
            {rpma_mirror_cfg_set_policy(cfg, RPMA_MIRROR_POLICY_AVAILABILITY), 0},
            {rpma_mirror_cfg_set_arbiter(cfg, "nobody"), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_set_arbiter(cfg, "operator"), 0},
            {rpma_mirror_cfg_set_min_level(cfg, RPMA_MIRROR_LEVEL_VOLATILE), 0},
            {rpma_mirror_cfg_set_timeouts(cfg, 0, 1), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_set_timeouts(cfg, 1, 3'600'001), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_set_timeouts(cfg, 20'000, 60'000), 0},
            {rpma_mirror_cfg_set_lanes(cfg, 0, 128), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_set_lanes(cfg, 1024, 128), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_set_lanes(cfg, 1, 1), RPMA_MIRROR_E_INVAL},
            {rpma_mirror_cfg_set_lanes(cfg, 3, 2), 0},
            {rpma_mirror_cfg_set_device(cfg, RPMA_MIRROR_DEVICE_SOFTRDMA), 0},
            {rpma_mirror_create(cfg), 0},
            {rpma_mirror_map(cfg, nullptr, 0, &address, &m), 0},
    };
    for (std::size_t i = 0; i < sizeof(table) / sizeof(table[0]); ++i)
        if (table[i].code != table[i].expected)
            fail_msg("row %zu: %s", i, rpma_mirror_err_2str(table[i].code));
    assert_int_equal(access(state_file.c_str(), F_OK), 0);
    std::vector<rpma_mirror_range> too_many(RPMA_MIRROR_MAX_RANGES + 1, {0, 8});
    assert_ok(rpma_mirror_optimized_flush(m, 2, too_many.data(), RPMA_MIRROR_MAX_RANGES, 0));
    assert_int_equal(rpma_mirror_optimized_flush(m, 2, too_many.data(), too_many.size(), 0), RPMA_MIRROR_E_INVAL);
    auto s = sized<rpma_mirror_state>();
    assert_ok(rpma_mirror_get_state(m, &s));
    assert_int_equal(s.policy, RPMA_MIRROR_POLICY_AVAILABILITY);
    assert_true(s.writer != 0 && s.version == 1 && s.copies[1].promised_epoch == 2 && s.copies[1].record_epoch == 2);
    assert_ok(rpma_mirror_unmap(&m));
    // Errors of the system or of the target.
    chmod(key.c_str(), 0644);
    assert_int_equal(rpma_mirror_map(cfg, nullptr, 0, &address, &m), RPMA_MIRROR_E_SYSTEM);
    assert_int_equal(errno, EACCES);
    h.where.write("key", "writer:" + std::string(64, 'a'));
    assert_int_equal(rpma_mirror_map(cfg, nullptr, 0, &address, &m), RPMA_MIRROR_E_INCOMPLETE);
    assert_int_equal(rpma_mirror_add_target(nullptr, 2, "x:1", "set", nullptr), RPMA_MIRROR_E_INVAL);
    assert_ok(rpma_mirror_inspect(cfg, &s));
    assert_int_equal(s.copies[1].last_error, RPMA_MIRROR_E_REJECTED);
    assert_ok(rpma_mirror_cfg_delete(&cfg));
    assert_null(cfg);
}

TEST(each_code_has_a_text)
{
    for (int code = RPMA_MIRROR_E_INVAL; code >= RPMA_MIRROR_E_AGAIN; --code)
        assert_string_not_equal(rpma_mirror_err_2str(code), "unknown error");
    assert_string_equal(rpma_mirror_err_2str(RPMA_MIRROR_E_AGAIN - 1), "unknown error");
    assert_string_equal(rpma_mirror_err_2str(0), "success");
    assert_rejected(rpma_mirror_create(nullptr), RPMA_MIRROR_E_INVAL, "cfg cannot be NULL");
}

} // namespace
