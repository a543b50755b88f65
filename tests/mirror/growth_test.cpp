// SPDX-License-Identifier: BSD-3-Clause
// Growth of a set that is open: the program flushes in the meantime, and processes are stopped and killed at any
// moment. MIRROR_KILL_ROUNDS is the number of rounds, MIRROR_KILL_SEED the seed of the first one.
#include "environment.h"
#include "shared_object.hpp"
#include "workload.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <librpma.h>
#include <new>
#include <random>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace
{

constexpr std::uint64_t max_length = 3 * length;
constexpr unsigned writers = 4;
const std::string growing = "max-length 24M\nlanes 5\n";

std::size_t max_registered = SIZE_MAX;

namespace fs = std::filesystem;
using targets_of_set = std::vector<const target *>;

// Creates a set whose targets can extend their parts.
cfg_ptr new_set(const host &h, const targets_of_set &targets, const std::string &more = growing)
{
    cfg_ptr created = h.create(targets, more);
    for (const target *const t : targets)
        t->list_part("24M");
    return created;
}

template<class Targets>
struct growable : set_of<Targets> {
    explicit growable(const std::string &more = growing) : set_of<Targets>(more)
    {
        for (const target *const t : this->all())
            t->list_part("24M");
    }
};
template<class Targets>
using open_growable = open_set<Targets, growable>;

// Checks that each copy is equal to the memory of the program.
void check_equal(const opened &m, const host &h, const targets_of_set &targets)
{
    const std::uint64_t bytes = m.length();
    const std::string ours(m.address(), bytes);
    assert_true(h.bytes(0, bytes) == ours);
    for (const target *const t : targets)
        assert_true(t->bytes(0, bytes) == ours);
}

// Closes the set without comparing its copies, opens it again, and checks that they are equal and have the length.
void close_and_check(opened &m, const rpma_mirror_cfg *cfg, const host &h, const targets_of_set &targets)
{
    check_equal(m, h, targets);
    const std::string content(m.address(), m.length());
    rpma_mirror *ended = m.release();
    assert_ok(rpma_mirror_unmap_flushed(&ended));
    opened again(cfg);
    assert_int_equal(again.report().compared_bytes, 0);
    assert_int_equal(again.length(), content.size());
    assert_true(std::memcmp(again.address(), content.data(), content.size()) == 0);
    check_equal(again, h, targets);
    again.close();
}

// Threads that flush continuously, each on its own lane, at random offsets below `used`.
class flushing_threads
{
public:
    explicit flushing_threads(const opened &m) : used(m.length()), mirror_(m)
    {
        for (unsigned lane = 0; lane < writers; ++lane)
            threads_.emplace_back([this, lane] { flush_all_the_time(lane); });
    }
    ~flushing_threads() { stop(); }

    void stop()
    {
        done_ = true;
        threads_.clear();
    }
    // Waits until each thread has flushed several times.
    void wait_for_flushes() const
    {
        const std::uint64_t begin = flushes_;
        while (flushes_ < begin + std::uint64_t{10} * writers && code == 0)
            usleep(1000);
    }

    std::atomic<std::uint64_t> used;
    std::atomic<int> code = 0; // error code of the first failure

private:
    int flush_one(unsigned lane, std::mt19937_64 &random)
    {
        rpma_mirror_range ranges[4];
        for (rpma_mirror_range &r : ranges) {
            // Each thread has its own pages.
            const std::uint64_t page = random() % (used / 4096 / writers) * writers + lane;
            r = {page * 4096 + random() % 2048, 1 + random() % 2048};
            std::memset(mirror_.address() + r.offset, static_cast<int>(random() % 256), r.length);
        }
        if (lane != 0)
            return rpma_mirror_optimized_flush(
                    mirror_.get(), lane, ranges, 4, random() % 2 == 0 ? RPMA_MIRROR_F_DEEP : 0);
        // Some tickets are not waited for.
        std::uint64_t ticket = 0;
        const int started = rpma_mirror_flush_start(mirror_.get(), lane, ranges, 4, 0, &ticket);
        return started != 0 || random() % 4 == 0 ? started : rpma_mirror_flush_wait(mirror_.get(), lane, ticket, -1);
    }

    void flush_all_the_time(unsigned lane)
    {
        std::mt19937_64 random(lane);
        while (!done_ && code == 0) {
            if (const int failed = flush_one(lane, random); failed != 0)
                code = failed;
            ++flushes_;
        }
        // Tickets of the lane are complete before this flush.
        if (const int failed = rpma_mirror_sync(mirror_.get(), lane, 0, 1, 0); failed != 0 && code == 0)
            code = failed;
    }

    const opened &mirror_;
    std::atomic<bool> done_ = false;
    std::atomic<std::uint64_t> flushes_ = 0;
    std::vector<std::jthread> threads_;
};

bool is_zero(const std::string &bytes)
{
    return bytes.find_first_not_of('\0') == std::string::npos;
}

FIXTURE_TEST(open_growable<two>, flushes_continue_while_the_set_grows)
{
    const char *const address = m.address();
    {
        flushing_threads threads(m);
        for (std::uint64_t next = length + 4096; next <= max_length; next += 2 * megabyte) {
            threads.wait_for_flushes();
            const std::uint64_t before = m.length();
            assert_ok(rpma_mirror_grow(m.get(), next));
            assert_int_equal(m.length(), next);
            for (const std::string &bytes :
                    {std::string(address + before, next - before), h.bytes(before, next - before),
                            a.bytes(before, next - before), b.bytes(before, next - before)})
                assert_true(is_zero(bytes));
            threads.used = next;
        }
        threads.wait_for_flushes();
        threads.stop();
        assert_int_equal(threads.code, 0);
    }
    assert_int_equal(m.expect(RPMA_MIRROR_EVENT_GROWN).copy, 0);
    assert_int_equal(m.state().in_sync, 7);
    close_and_check(m, cfg.get(), h, {&a, &b});
}

FIXTURE_TEST(open_growable<one>, limits_are_checked)
{
    m.put(length - 4, "last");
    assert_rejected(rpma_mirror_grow(nullptr, length), RPMA_MIRROR_E_INVAL, "mirror");
    assert_rejected(rpma_mirror_grow(m.get(), length + 1), RPMA_MIRROR_E_INVAL, "4096");
    assert_rejected(rpma_mirror_grow(m.get(), 0), RPMA_MIRROR_E_INVAL, "4096");
    assert_rejected(rpma_mirror_grow(m.get(), length - 4096), RPMA_MIRROR_E_INVAL, "cannot shrink");
    assert_rejected(rpma_mirror_grow(m.get(), max_length + 4096), RPMA_MIRROR_E_INVAL, "increase max-length");
    assert_ok(rpma_mirror_grow(m.get(), length));
    a.list_part("12M");
    assert_rejected(
            rpma_mirror_grow(m.get(), 2 * length), RPMA_MIRROR_E_REJECTED, "the length of the set is unchanged");
    assert_int_equal(m.flush(length, 1), RPMA_MIRROR_E_INVAL);
    assert_int_equal(m.length(), length);
    m.put(length - 4, "then");
    close_and_check(m, cfg.get(), h, {&a});
    assert_int_equal(rpma_mirror_cfg_set_max_length(cfg.get(), 4095), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_cfg_set_max_length(cfg.get(), SIZE_MAX - 4095), RPMA_MIRROR_E_INVAL);
    assert_ok(rpma_mirror_cfg_set_max_length(cfg.get(), 0));
    const opened fixed(cfg.get());
    assert_rejected(rpma_mirror_grow(fixed.get(), 2 * length), RPMA_MIRROR_E_INVAL, "increase max-length");
}

// The limit of locked memory applies to devices of the kernel only, so a function of librpma fails in its place.
FIXTURE_TEST(open_growable<one>, the_limit_of_locked_memory_is_checked)
{
    max_registered = 2 * length;
    assert_rejected(
            rpma_mirror_grow(m.get(), 2 * length + 4096), RPMA_MIRROR_E_SYSTEM, "(raise the limit of locked memory");
    assert_int_equal(m.length(), length);
    m.put(length - 4, "text");
    assert_ok(rpma_mirror_grow(m.get(), 2 * length));
    max_registered = SIZE_MAX;
    m.put(2 * length - 4, "last");
    close_and_check(m, cfg.get(), h, {&a});
}

// A device that registers memory for its writes changes the times of the file.
FIXTURE_TEST(growable<one>, files_whose_times_a_failed_opening_changed_are_used)
{
    put_and_close(cfg.get(), "text");
    max_registered = 0;
    assert_rejected(map_code(cfg.get()), RPMA_MIRROR_E_SYSTEM, "(raise the limit of locked memory");
    max_registered = SIZE_MAX;
    for (const std::string &file : {h.where.path + "/home", a.where().path + "/part"})
        assert_int_equal(chmod(file.c_str(), 0640), 0);
    opened m(cfg.get());
    assert_int_equal(m.report().reason, RPMA_MIRROR_SOURCE_LOCAL_CHANGED);
    assert_int_equal(m.report().compared_bytes, length);
    assert_memory_equal(m.address(), "text", 4);
    close_and_check(m, cfg.get(), h, {&a});
}

FIXTURE_TEST(growable<one>, memory_of_the_program_does_not_grow)
{
    const int file = open((h.where.path + "/home").c_str(), O_RDWR | O_CLOEXEC);
    void *const memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(memory != MAP_FAILED);
    rpma_mirror *mirror = nullptr;
    assert_ok(rpma_mirror_map_memory(cfg.get(), memory, length, 0, &mirror));
    {
        opened m(mirror, static_cast<char *>(memory));
        assert_rejected(rpma_mirror_grow(m.get(), 2 * length), RPMA_MIRROR_E_INVAL, "memory of the program");
        m.put(0, "text");
        m.close();
    }
    munmap(memory, length);
    close(file);
}

TEST(a_copy_of_anonymous_memory_grows)
{
    const target a;
    host h;
    h.anonymous = true;
    const cfg_ptr cfg = new_set(h, {&a});
    opened m(cfg.get());
    assert_ok(rpma_mirror_grow(m.get(), 2 * length));
    m.put(length - 2, "text");
    assert_string_equal(a.bytes(length - 2, 4).c_str(), "text");
    m.close();
    const opened again(cfg.get());
    assert_int_equal(again.length(), 2 * length);
    assert_memory_equal(again.address() + length - 2, "text", 4);
}

// A copy that is not in sync grows when it is resynchronized: in the epoch in which it was in sync, and in a later one.
FIXTURE_TEST(open_growable<two>, a_copy_that_was_evicted_grows_later)
{
    b.kill();
    m.put(0, "before");
    assert_int_equal(m.expect(RPMA_MIRROR_EVENT_EVICTED).copy, 2);
    assert_ok(rpma_mirror_grow(m.get(), 2 * length));
    m.put(length - 2, "text");
    m.put(2 * length - 4, "last");
    b.start();
    assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
    check_equal(m, h, {&a, &b});
    b.kill();
    m.put(1, "again");
    assert_ok(rpma_mirror_grow(m.get(), max_length));
    m.put(max_length - 6, "newest");
    m.close();
    b.start();
    opened next(cfg.get());
    assert_int_equal(next.state().in_sync, 7);
    close_and_check(next, cfg.get(), h, {&a, &b});
}

// The opening resynchronizes the first file that replaces the local copy, which is then recognized like any other.
FIXTURE_TEST(growable<one>, a_file_that_is_replaced_before_and_after_the_growth_is_no_source)
{
    const std::string home = h.where.path + "/home", backup = home + ".backup";
    put_and_close(cfg.get(), "old");
    fs::copy_file(home, backup);
    fs::rename(backup, home);
    use_and_die(cfg.get(), [&](const opened &m) {
        assert_int_equal(m.report().reason, RPMA_MIRROR_SOURCE_LOCAL_CHANGED);
        assert_ok(rpma_mirror_grow(m.get(), 2 * length));
        fs::copy_file(home, backup);
        m.put(0, "new");
    });
    fs::rename(backup, home);
    const opened m(cfg.get());
    assert_int_equal(m.report().reason, RPMA_MIRROR_SOURCE_LOCAL_CHANGED);
    assert_memory_equal(m.address(), "new", 3);
}

// The growth on another machine was interrupted after it extended the target. The content of the local file is compared
// only after the file was mapped, with the length of the record.
TEST(a_file_that_changed_gets_the_length_of_its_source)
{
    const target a;
    const host first, second{5};
    const cfg_ptr here = new_set(first, {&a}), there = second.cfg({&a}, growing);
    put_and_close(here.get(), "new");
    auto cancel = [](const rpma_mirror_progress &) { return 1; };
    const rpma_mirror_resync_options options = with_progress(cancel);
    assert_ok(rpma_mirror_cfg_set_resync_options(there.get(), &options));
    assert_int_equal(rpma_mirror_grow_closed(there.get(), 2 * length), RPMA_MIRROR_E_CANCELED);
    std::fstream(first.where.path + "/home", std::ios::in | std::ios::out) << "changed";
    opened m(here.get());
    assert_int_equal(m.report().reason, RPMA_MIRROR_SOURCE_LOCAL_CHANGED);
    assert_int_equal(m.length(), 2 * length);
    assert_memory_equal(m.address(), "new", 4);
    close_and_check(m, here.get(), first, {&a});
}

// The set grew on another machine. The opening extends the file, and loses its source before it has compared the two.
TEST(a_file_on_a_new_disk_survives_an_opening_that_fails)
{
    target a;
    const host first, second{5};
    const cfg_ptr here = new_set(first, {&a}), there = second.cfg({&a}, growing);
    opened(here.get()).close();
    {
        opened m(there.get());
        assert_ok(rpma_mirror_grow(m.get(), 2 * length));
        m.put(0, "new");
        m.close();
    }
    const std::string home = first.where.path + "/home";
    fs::copy_file(home, home + ".copy");
    fs::rename(home + ".copy", home);
    auto kill_source = [&](const rpma_mirror_progress &) {
        a.kill();
        return 0;
    };
    const rpma_mirror_resync_options options = with_progress(kill_source);
    assert_ok(rpma_mirror_cfg_set_resync_options(here.get(), &options));
    assert_int_equal(map_code(here.get()), RPMA_MIRROR_E_INCOMPLETE);
    a.start();
    const cfg_ptr again = first.cfg({&a}, growing);
    assert_int_equal(inspected(again.get())->length, 2 * length);
    const opened m(again.get());
    assert_int_equal(m.length(), 2 * length);
    assert_memory_equal(m.address(), "new", 3);
}

// A target that was removed, or whose addition was interrupted, has a copy with the length of that time.
FIXTURE_TEST(open_growable<one>, a_copy_that_was_created_before_the_growth_is_added)
{
    const target b, c;
    assert_ok(rpma_mirror_add_target(m.get(), 2, b.place().c_str(), "set", nullptr));
    assert_ok(rpma_mirror_remove_target(m.get(), 2));
    b.list_part("24M");
    // This daemon died before it created the state of the copy.
    c.where().write("part", std::string(length, 'x'));
    c.list_part("24M");
    assert_ok(rpma_mirror_grow(m.get(), 2 * length));
    m.put(length - 2, "text");
    assert_ok(rpma_mirror_add_target(m.get(), 2, b.place().c_str(), "set", nullptr));
    assert_ok(rpma_mirror_add_target(m.get(), 3, c.place().c_str(), "set", nullptr));
    check_equal(m, h, {&a, &b, &c});
    m.close();
}

// The daemon reads the rights of clients again. Its session with the program continues.
TEST(the_right_to_write_was_withdrawn)
{
    scratch settings;
    settings.write("conf", "identity = writer write,administer *\n");
    const target a("--config " + settings.path + "/conf");
    const host h;
    const cfg_ptr cfg = new_set(h, {&a});
    opened m(cfg.get());
    settings.write("conf", "identity = writer read *\n");
    kill(a.pid(), SIGHUP);
    int code = 0;
    for (std::uint64_t next = length + 4096; code == 0; next += 4096)
        code = rpma_mirror_grow(m.get(), next);
    assert_rejected(code, RPMA_MIRROR_E_REJECTED, "does not have the role write");
    m.put(0, "text");
    check_equal(m, h, {&a});
}

// State that outlives a writer.
struct growth_facts : shared_facts {
    std::atomic<std::uint64_t> length; // length of the last growth that succeeded
};

void grow_until_killed(const rpma_mirror_cfg *cfg, growth_facts &facts)
{
    const opened m(cfg);
    std::jthread flushing([&] {
        for (std::uint64_t number = 1; facts.ended_with == 0; ++number)
            if (const int code = write_one(m, number, facts); code != 0)
                facts.ended_with = code;
    });
    for (std::uint64_t next = length + 65536; next <= max_length; next += 65536) {
        if (rpma_mirror_grow(m.get(), next) != 0)
            break;
        std::memcpy(m.address() + next - sizeof(next), &next, sizeof(next));
        if (m.flush(next - sizeof(next), sizeof(next), 0, 1) != 0)
            break;
        facts.length = next;
    }
    facts.ended_with = facts.ended_with == 0 ? 1 : facts.ended_with.load();
}

// Checks that each completed growth has survived, with the word that was flushed at its end.
void check_lengths(const opened &m, const growth_facts &facts)
{
    const std::uint64_t found = m.length();
    assert_true(found >= facts.length && found <= facts.length + 65536);
    for (std::uint64_t end = length + 65536; end <= facts.length; end += 65536) {
        std::uint64_t word = 0;
        std::memcpy(&word, m.address() + end - sizeof(word), sizeof(word));
        assert_int_equal(word, end);
    }
}

void kill_one(std::uint64_t seed, growth_facts &facts)
{
    std::mt19937_64 random(seed);
    const auto choose = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
    new (&facts) growth_facts{};
    facts.length = length;
    target a, b;
    const host h, other(5);
    const cfg_ptr here = new_set(h, {&a, &b}), there = other.cfg({&a, &b}, growing);
    const pid_t writer = fork_writer();
    if (writer == 0) {
        grow_until_killed(here.get(), facts);
        _exit(0);
    }
    while (facts.length == length && facts.ended_with == 0)
        usleep(1000);
    usleep(choose(100'000));
    target *const victim = choose(3) == 0 ? &b : nullptr;
    if (victim != nullptr) {
        victim->kill();
        usleep(choose(20'000));
    }
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    if (victim != nullptr)
        victim->start();
    const bool elsewhere = choose(2) == 0;
    const host &next = elsewhere ? other : h;
    opened m(elsewhere ? there.get() : here.get());
    check_all(m, facts);
    check_lengths(m, facts);
    const std::uint64_t found = m.length();
    assert_ok(rpma_mirror_grow(m.get(), found + 4096));
    m.put(found + 4090, "newest");
    close_and_check(m, elsewhere ? there.get() : here.get(), next, {&a, &b});
}

TEST(a_writer_is_killed_at_any_moment)
{
    const shared_object<growth_facts> facts;
    run_rounds([&](std::uint64_t seed) { kill_one(seed, *facts); });
}

// A target is killed, or stopped until it is evicted, at any moment. The growth fails without effect or succeeds.
FIXTURE_TEST(open_growable<two>, a_target_fails_at_any_moment, growing + "timeouts 3000 6000\n")
{
    std::mt19937_64 random(number_from("MIRROR_KILL_SEED", 1));
    flushing_threads threads(m);
    const std::uint64_t count = number_from("MIRROR_KILL_ROUNDS", 8);
    for (std::uint64_t round = 1; round <= count; ++round) {
        threads.wait_for_flushes();
        const bool stops = random() % 2 == 0;
        std::jthread fault([&, pause = random() % 60'000] {
            usleep(static_cast<useconds_t>(pause));
            kill(b.pid(), stops ? SIGSTOP : SIGKILL);
        });
        const std::uint64_t before = m.length(), next = before + 4096;
        const int code = rpma_mirror_grow(m.get(), next);
        fault.join();
        assert_true(code == 0 || code == RPMA_MIRROR_E_TIMEOUT || code == RPMA_MIRROR_E_CONNECTION);
        assert_int_equal(m.length(), code == 0 ? next : before);
        assert_int_equal(fs::file_size(h.where.path + "/home"), m.length());
        threads.used = m.length();
        threads.wait_for_flushes();
        assert_int_equal(threads.code, 0);
        if (stops)
            b.resume();
        else
            b.kill(), b.start();
        assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
    }
    threads.stop();
    assert_int_equal(threads.code, 0);
    close_and_check(m, cfg.get(), h, {&a, &b});
}

} // namespace

extern "C" int rpma_mr_reg(rpma_peer *peer, void *address, std::size_t size, int usage, rpma_mr_local **created)
{
    static const auto real = reinterpret_cast<decltype(&rpma_mr_reg)>(dlsym(RTLD_NEXT, "rpma_mr_reg"));
    if (size <= max_registered)
        return real(peer, address, size, usage, created);
    errno = ENOMEM;
    return RPMA_E_PROVIDER;
}
