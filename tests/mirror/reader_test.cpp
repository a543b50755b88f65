// SPDX-License-Identifier: BSD-3-Clause
// Readers of a set while its writer is active: the images that they read, and that they affect neither writer nor set.
#include "clocks.hpp"
#include "fixture.hpp"
#include "shared_object.hpp"

#include <csignal>
#include <new>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>

namespace
{

constexpr std::uint64_t record_bytes = megabyte, record_words = record_bytes / sizeof(std::uint64_t);
constexpr int enough_ms = 60'000;

// Facts that writer and test share.
struct facts {
    std::atomic<std::uint64_t> points = 0; // consistency points that the writer has set
    std::atomic<std::uint64_t> evictions = 0;
    std::atomic<bool> must_end = false;
    std::atomic<int> ended_with = 0;
};

using shared = shared_object<facts>;

// Stores the number in each word of the record, and flushes it in parts: only after the last part all words are equal.
int write_record(const opened &m, std::uint64_t number)
{
    auto *const words = reinterpret_cast<std::uint64_t *>(m.address());
    std::fill(words, words + record_words, number);
    int code = 0;
    for (std::uint64_t at = 0; at < record_bytes && code == 0; at += record_bytes / 8)
        code = m.flush(at, record_bytes / 8);
    return code;
}

// A writer in a process of its own, which sets a consistency point after each record.
class writer
{
public:
    writer(const rpma_mirror_cfg *cfg, const shared &known) : known_(known), pid_(fork_writer())
    {
        if (pid_ == 0)
            run(cfg);
        wait_for_points(1);
    }
    ~writer() { kill(); }
    writer(const writer &) = delete;
    writer &operator=(const writer &) = delete;

    // Waits until the writer has set `count` more points, and checks that it evicted no target.
    void wait_for_points(std::uint64_t count) const
    {
        const std::uint64_t wanted = known_->points + count;
        for (int waited_ms = 0; known_->points < wanted; ++waited_ms) {
            if (known_->ended_with != 0 || waited_ms > enough_ms)
                fail_msg("the writer ended with %s", rpma_mirror_err_2str(known_->ended_with));
            usleep(1000);
        }
        assert_int_equal(known_->evictions, 0);
    }
    // Ends the writer, which closes the set.
    void end()
    {
        known_->must_end = true;
        join();
    }
    void kill()
    {
        if (pid_ > 0)
            ::kill(pid_, SIGKILL);
        join();
    }

private:
    [[noreturn]] void run(const rpma_mirror_cfg *cfg) const
    {
        opened m(cfg);
        int code = 0;
        for (std::uint64_t number = m.state().consistency_point + 1; code == 0 && !known_->must_end; ++number) {
            code = write_record(m, number);
            if (code == 0)
                code = rpma_mirror_set_consistency_point(m.get(), number);
            auto s = sized<rpma_mirror_statistics>();
            if (code == 0 && rpma_mirror_get_statistics(m.get(), &s) == 0) {
                known_->evictions = s.evictions;
                ++known_->points;
            }
        }
        known_->ended_with = code;
        if (code == 0)
            m.close();
        _exit(0);
    }
    void join()
    {
        if (pid_ > 0)
            waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }

    const shared &known_;
    pid_t pid_;
};

class reader
{
public:
    explicit reader(const rpma_mirror_cfg *cfg, unsigned flags = 0)
    {
        assert_ok(rpma_mirror_map_read_only(cfg, flags, enough_ms, &reader_));
    }
    ~reader() { assert_ok(rpma_mirror_unmap_read_only(&reader_)); }
    reader(const reader &) = delete;
    reader &operator=(const reader &) = delete;

    rpma_mirror_image image(std::uint64_t bytes = length) const
    {
        auto i = sized<rpma_mirror_image>();
        assert_ok(rpma_mirror_get_image(reader_, &i));
        assert_int_equal(i.length, bytes);
        return i;
    }
    rpma_mirror_image refresh(unsigned flags = 0) const
    {
        assert_ok(rpma_mirror_refresh(reader_, flags, enough_ms));
        return image();
    }
    int refresh_code(int timeout_ms, unsigned flags = 0) const
    {
        return rpma_mirror_refresh(reader_, flags, timeout_ms);
    }

private:
    rpma_mirror_reader *reader_ = nullptr;
};

std::uint64_t word(const rpma_mirror_image &i, std::uint64_t index)
{
    return static_cast<const std::uint64_t *>(i.address)[index];
}

// Checks that the record is complete, and is that of the consistency point.
void check_point(const rpma_mirror_image &i)
{
    for (std::uint64_t at = 0; at < record_words; ++at)
        if (word(i, at) != i.consistency_point)
            fail_msg("word %lu is %lu in the image of point %lu", at, word(i, at), i.consistency_point);
}

FIXTURE_TEST(two_hosts<two>, points_are_read_while_the_writer_writes)
{
    const shared known;
    writer w(here.get(), known);
    const auto before = inspected(there.get());
    {
        const reader reader_1(there.get()), reader_2(there.get());
        std::uint64_t last = 0;
        for (int i = 0; i < 10; ++i) {
            const rpma_mirror_image old = reader_1.image();
            for (const reader *const r : {&reader_1, &reader_2}) {
                const rpma_mirror_image now = r->refresh();
                check_point(now);
                assert_int_equal(now.consistency, RPMA_MIRROR_IMAGE_POINT);
                assert_true(now.consistency_point > last && now.newest_point >= now.consistency_point);
                assert_true(now.age_is_proven == 1);
                assert_int_equal(now.epoch, before->epoch);
            }
            last = reader_1.image().consistency_point;
            // The image before stays valid until the next call.
            check_point(old);
            w.wait_for_points(1);
        }
        // Only the segments of the record were transferred.
        assert_true(reader_1.image().fetched_bytes <= (reader_1.image().refreshes + 1) * (record_bytes + 65536));
        assert_true(reader_1.image().compared_bytes == reader_1.image().refreshes * length);
    }
    w.wait_for_points(3);
    w.end();
    const auto after = inspected(there.get());
    assert_true(after->epoch == before->epoch && after->clean == 1 && after->in_sync == 7);
    assert_int_equal(after->copies[1].promised_epoch, before->copies[1].promised_epoch);
}

// A writer that sets no point: the call fails, and the image is the last one. Data of any time is available.
FIXTURE_TEST(two_hosts<one>, without_a_point_the_old_image_stays)
{
    opened m(here.get());
    m.put(0, "first");
    const reader r(there.get(), RPMA_MIRROR_F_ANY_TIME);
    m.put(0, "newer");
    assert_int_equal(r.refresh_code(3000), RPMA_MIRROR_E_AGAIN);
    const rpma_mirror_image old = r.image();
    assert_memory_equal(old.address, "first", 5);
    assert_true(old.consistency == RPMA_MIRROR_IMAGE_ANY_TIME && old.refreshes == 1);
    const rpma_mirror_image now = r.refresh(RPMA_MIRROR_F_ANY_TIME);
    assert_memory_equal(now.address, "newer", 5);
    assert_memory_equal(old.address, "first", 5);
    assert_int_equal(now.age_is_proven, 1);
    suspended_s = 1000;
    assert_true(r.image().age_ms >= 1'000'000);
    // Unflushed stores are on no target.
    m.store(0, "store");
    assert_memory_equal(r.refresh(RPMA_MIRROR_F_ANY_TIME).address, "newer", 5);
    m.close();
    const rpma_mirror_image last = r.refresh();
    assert_int_equal(last.consistency, RPMA_MIRROR_IMAGE_CLOSED);
    assert_memory_equal(last.address, "store", 5);
}

FIXTURE_TEST(two_hosts<one>, the_writer_is_killed)
{
    const shared known;
    writer w(here.get(), known);
    const reader r(there.get());
    w.kill();
    assert_int_equal(r.refresh_code(3000), RPMA_MIRROR_E_AGAIN);
    check_point(r.image());
    // The content after the crash is arbitrary, except that the first word is at least that of the last point.
    const rpma_mirror_image any = r.refresh(RPMA_MIRROR_F_ANY_TIME);
    assert_int_equal(any.consistency, RPMA_MIRROR_IMAGE_ANY_TIME);
    assert_true(any.consistency_point >= known->points && word(any, 0) >= any.consistency_point);
    // Another machine opens the set, which is recovered, and sets points.
    writer next(there.get(), known);
    const rpma_mirror_image now = r.refresh();
    check_point(now);
    assert_true(now.epoch > any.epoch && now.consistency_point > any.consistency_point);
}

FIXTURE_TEST(two_hosts<two>, another_machine_is_promoted_while_a_reader_waits)
{
    const host other(6);
    const cfg_ptr reading = other.cfg(all());
    opened old(here.get());
    const shared known;
    const reader r(reading.get(), RPMA_MIRROR_F_ANY_TIME);
    const std::uint64_t epoch = r.image().epoch;
    const pid_t promoting = fork_writer();
    if (promoting == 0) {
        usleep(200'000);
        const writer next(there.get(), known);
        next.wait_for_points(1'000'000);
        _exit(0);
    }
    // The call starts while the old writer has the set.
    const rpma_mirror_image now = r.refresh();
    check_point(now);
    assert_true(now.epoch > epoch);
    kill(promoting, SIGKILL);
    waitpid(promoting, nullptr, 0);
}

FIXTURE_TEST(two_hosts<two>, targets_end_under_a_reader, "", "timeouts 1000 4000\n")
{
    const shared known;
    {
        writer w(here.get(), known);
        w.end();
    }
    const reader r(there.get());
    const std::uint64_t point = r.image().consistency_point;
    for (target *const t : {&a, &b}) {
        t->kill();
        // One target in sync is sufficient, but cannot prove that the other one has nothing newer.
        const rpma_mirror_image one = r.refresh();
        assert_true(one.consistency == RPMA_MIRROR_IMAGE_CLOSED && one.age_is_proven == 0);
        assert_int_equal(one.copy, t == &a ? 2 : 1);
        check_point(one);
        t->start();
        assert_int_equal(r.refresh().age_is_proven, 1);
    }
    b.stop();
    assert_int_equal(r.refresh().age_is_proven, 0);
    b.resume();
    a.kill();
    b.kill();
    assert_int_equal(r.refresh_code(4000), RPMA_MIRROR_E_DOWN);
    check_point(r.image());
    a.start();
    b.start();
    assert_int_equal(r.refresh().consistency_point, point);
    // Readers must not change the state from which an opening selects its source.
    opened m(here.get());
    assert_true(m.report().was_clean == 1 && m.report().sent_bytes == 0);
    m.close();
}

// Runs f in a process. Returns it when f has called its argument.
pid_t start_reader(const std::function<void(const std::function<void()> &)> &f)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    // A thread that allocates during the fork leaves the allocator of AddressSanitizer locked in the child.
    usleep(100'000);
    const pid_t pid = fork_writer();
    if (pid == 0) {
        f([&] {
            if (write(ready[1], "x", 1) != 1)
                _exit(1);
        });
        _exit(0);
    }
    close(ready[1]);
    char byte = 0;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

// Maps the set as soon as the target permits a further reader.
int map_when_permitted(const rpma_mirror_cfg *cfg, int timeout_ms, rpma_mirror_reader **r)
{
    for (;;) {
        if (const int code = rpma_mirror_map_read_only(cfg, 0, timeout_ms, r); code != RPMA_MIRROR_E_BUSY)
            return code;
        usleep(1000);
    }
}

// Waits until the target permits no further reader.
void await_all_readers(const rpma_mirror_cfg *cfg)
{
    int code = 0;
    for (int i = 0; i < enough_ms / 10 && code != RPMA_MIRROR_E_BUSY; ++i) {
        rpma_mirror_reader *further = nullptr;
        code = rpma_mirror_map_read_only(cfg, RPMA_MIRROR_F_ANY_TIME, enough_ms, &further);
        rpma_mirror_unmap_read_only(&further);
        usleep(10'000);
    }
    assert_int_equal(code, RPMA_MIRROR_E_BUSY);
}

TEST(stopped_readers_delay_no_other_process)
{
    const target a("--max-readers 2");
    const host h, other(5);
    const cfg_ptr here = h.create({&a}), there = other.cfg({&a});
    opened m(here.get());
    // At first, a reader of the loops below may have the slot.
    const auto start = [&] {
        return start_reader([&](const std::function<void()> &waits) {
            rpma_mirror_reader *r = nullptr;
            waits();
            (void)map_when_permitted(there.get(), 10 * enough_ms, &r);
        });
    };
    const pid_t stopped = start(), killed = start();
    await_all_readers(there.get());
    kill(stopped, SIGSTOP);
    kill(killed, SIGKILL);
    waitpid(killed, nullptr, 0);
    for (std::uint64_t number = 1; number < 20; ++number) {
        m.put(0, "written");
        assert_ok(rpma_mirror_set_consistency_point(m.get(), number));
    }
    // The slot of the killed reader is free when the target detects its end, that of the stopped one after 30 seconds.
    int places = 0;
    for (int i = 0; i < enough_ms / 100 && places < 2; ++i) {
        rpma_mirror_reader *r = nullptr;
        const pid_t held = start();
        usleep(50'000);
        if (rpma_mirror_map_read_only(there.get(), RPMA_MIRROR_F_ANY_TIME, enough_ms, &r) == 0)
            places = 2;
        assert_ok(rpma_mirror_unmap_read_only(&r));
        kill(held, SIGKILL);
        waitpid(held, nullptr, 0);
        m.put(0, "written");
        usleep(50'000);
    }
    assert_int_equal(places, 2);
    m.close();
    kill(stopped, SIGKILL);
    waitpid(stopped, nullptr, 0);
}

FIXTURE_TEST(two_hosts<one>, a_reader_follows_a_set_that_grows, "max-length 16M\n", "")
{
    put_and_close(here.get(), "last", 0, length - 4);
    const reader r(there.get());
    const rpma_mirror_image old = r.image();
    a.list_part("16M");
    {
        opened m(here.get());
        assert_ok(rpma_mirror_grow(m.get(), 2 * length));
        assert_memory_equal(static_cast<const char *>(old.address) + length - 4, "last", 4);
        m.put(2 * length - 6, "newest");
        m.close();
    }
    for (int times = 0; times < 3; ++times) {
        assert_int_equal(r.refresh_code(enough_ms), 0);
        const rpma_mirror_image now = r.image(2 * length);
        const auto *const bytes = static_cast<const char *>(now.address);
        assert_memory_equal(bytes + length - 4, "last\0\0\0\0", 8);
        assert_memory_equal(bytes + 2 * length - 8, "\0\0newest", 8);
        if (times == 0)
            assert_memory_equal(static_cast<const char *>(old.address) + length - 4, "last", 4);
    }
}

TEST(a_waiting_reader_follows_a_set_that_grows)
{
    const target a("--max-readers 1");
    const host h, other(5);
    const cfg_ptr here = h.create({&a}, "max-length 16M\n"), there = other.cfg({&a});
    a.list_part("16M");
    opened m(here.get());
    m.put(0, "before");
    const pid_t waiting = start_reader([&](const std::function<void()> &waits) {
        waits();
        rpma_mirror_reader *r = nullptr;
        auto now = sized<rpma_mirror_image>();
        const bool is_read = map_when_permitted(there.get(), 20'000, &r) == 0 && rpma_mirror_get_image(r, &now) == 0 &&
                             now.length == 2 * length &&
                             std::memcmp(static_cast<const char *>(now.address) + 2 * length - 6, "newest", 6) == 0;
        _exit(is_read ? 0 : 1);
    });
    await_all_readers(there.get());
    assert_ok(rpma_mirror_grow(m.get(), 2 * length));
    m.put(2 * length - 6, "newest");
    int status = -1;
    pid_t ended = 0;
    for (std::uint64_t number = 1; number < enough_ms / 10 && ended == 0; ++number) {
        assert_ok(rpma_mirror_set_consistency_point(m.get(), number));
        usleep(10'000);
        ended = waitpid(waiting, &status, WNOHANG);
    }
    assert_int_equal(ended, waiting);
    assert_int_equal(status, 0);
    m.close();
}

// A target that cannot copy the set rejects readers, and serves the writer.
TEST(an_image_above_the_limit_is_rejected)
{
    const target a("--max-reader-bytes 4194304");
    const host h, other(5);
    const cfg_ptr here = h.create({&a}), there = other.cfg({&a});
    opened m(here.get());
    rpma_mirror_reader *r = nullptr;
    assert_int_equal(rpma_mirror_map_read_only(there.get(), RPMA_MIRROR_F_ANY_TIME, enough_ms, &r), RPMA_MIRROR_E_BUSY);
    assert_null(r);
    assert_non_null(std::strstr(rpma_mirror_error_message(), "max-reader-bytes"));
    m.put(0, "written");
    m.close();
}

TEST(arguments_are_checked)
{
    const target a;
    const host h;
    const cfg_ptr cfg = h.cfg({&a});
    rpma_mirror_reader *r = nullptr;
    assert_int_equal(rpma_mirror_map_read_only(nullptr, 0, -1, &r), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_map_read_only(cfg.get(), 0, -1, nullptr), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_map_read_only(cfg.get(), RPMA_MIRROR_F_FORCE, -1, &r), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_map_read_only(cfg.get(), 0, -1, &r), RPMA_MIRROR_E_NOT_FOUND);
    assert_int_equal(rpma_mirror_refresh(nullptr, 0, -1), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_get_image(nullptr, nullptr), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_unmap_read_only(nullptr), RPMA_MIRROR_E_INVAL);
    assert_ok(rpma_mirror_unmap_read_only(&r));
}

} // namespace
