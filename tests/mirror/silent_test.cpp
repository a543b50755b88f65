// SPDX-License-Identifier: BSD-3-Clause
// Calls that use several targets while one of them is stopped, unreachable, rejecting or slow: from before the call, or
// from one of its steps. Copy 1 is on a working target, copy 2 on the faulty one. Each row of a table runs in a process
// of its own, all rows at the same time.
#include "faulty_port.hpp"

#include <sys/wait.h>
#include <unistd.h>

namespace
{

struct row {
    const char *name;
    fault kind; // none: the daemon is stopped instead
    unsigned answers = 0;
    bool crashed = false; // copies are compared at the opening
    unsigned way = 0;     // index in ways: how the set continues without the target
};

constexpr row whole_faults[] = {{"stopped", fault::none}, {"drops", fault::drops}, {"refuses", fault::refuses},
        {"mute", fault::mute}, {"slow", fault::slow}, {"cuts", fault::cuts}};

// Responses on a connection: TLS, greeting, status, promise, session; where copies are compared, hashes (several at
// once); then the record.
constexpr unsigned answers_before_hashes = 5;

constexpr const char *times = "timeouts 3000 12000\n";

void in_processes(const std::vector<row> &rows, void (*f)(const row &))
{
    std::vector<pid_t> running;
    for (const row &r : rows) {
        running.push_back(fork_writer());
        if (running.back() == 0) {
            f(r);
            std::fflush(nullptr);
            _exit(0);
        }
    }
    unsigned failed = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        int status = 0;
        assert_int_equal(waitpid(running[i], &status, 0), running[i]);
        if (status == 0)
            continue;
        print_message("%s after %u answers: status 0x%x\n", rows[i].name, rows[i].answers, unsigned(status));
        ++failed;
    }
    assert_int_equal(failed, 0);
}

std::vector<row> steps()
{
    std::vector<row> rows;
    for (unsigned answers = 1; answers <= answers_before_hashes; ++answers) {
        rows.push_back({"mute", fault::mute, answers});
        rows.push_back(answers % 2 == 0 ? row{"slow", fault::slow, answers} : row{"cuts", fault::cuts, answers});
    }
    for (const unsigned answers : {answers_before_hashes, answers_before_hashes + 1}) {
        rows.push_back({"mute", fault::mute, answers, true});
        rows.push_back({"cuts", fault::cuts, answers, true});
    }
    return rows;
}

// A target that has a fault after begin().
class faulty_target
{
public:
    void begin(const row &r)
    {
        if (r.kind == fault::none)
            daemon.stop();
        else
            port_ = std::make_unique<faulty_port>(r.kind, r.answers, daemon);
    }
    std::string place() const { return port_ ? port_->place() : daemon.place(); }
    target daemon;

private:
    std::unique_ptr<faulty_port> port_;
};

cfg_ptr cfg_of(const host &on, const target &good, const faulty_target &bad)
{
    return on.cfg({&good}, times + ("target 2 " + bad.place() + " set\n"));
}

// The message must name the faulty target, and not the working one.
void check_message(const target &good, const faulty_target &bad)
{
    const std::string text = rpma_mirror_error_message();
    if (text.find(bad.place()) == std::string::npos || text.find(good.place()) != std::string::npos)
        fail_msg("the message does not name the target: %s", text.c_str());
}

// A set of both targets.
class faulty_set
{
public:
    faulty_set() { put_and_close(here_.create({&good, &bad.daemon}, times).get(), "before"); }

    // Evicts the second target from the set.
    void evict()
    {
        opened m(here_.cfg({&good, &bad.daemon}, times).get());
        bad.daemon.kill();
        m.put(0, "after!");
        m.close();
        bad.daemon.start();
    }
    // Ends the writer like a crash, so copies are compared at the next opening.
    void crash()
    {
        const cfg_ptr cfg = here_.cfg({&good, &bad.daemon}, times);
        use_and_die(cfg.get(), [](const opened &m) { m.put(0, "crash!"); });
    }
    cfg_ptr here() const { return cfg_of(here_, good, bad); }
    cfg_ptr there() const { return cfg_of(there_, good, bad); }
    target good;
    faulty_target bad;

private:
    const host here_, there_{5};
};

void it_is_not_in_sync(const row &r)
{
    faulty_set s;
    s.evict();
    s.bad.begin(r);
    const cfg_ptr here = s.here(), there = s.there();
    assert_int_equal(inspected(here.get())->in_sync, 3);
    put_and_close(here.get(), "opened");
    put_and_close(here.get(), "opened", RPMA_MIRROR_F_FORCE);
    assert_ok(rpma_mirror_recover(here.get(), 0, nullptr));
    assert_ok(rpma_mirror_fence(here.get(), 0, nullptr));
    assert_ok(rpma_mirror_fence(there.get(), RPMA_MIRROR_F_FORCE, nullptr));
    put_and_close(there.get(), "opened");
    assert_ok(rpma_mirror_recover(here.get(), RPMA_MIRROR_F_FORCE, nullptr));
    opened m(here.get());
    assert_true(rpma_mirror_resync(m.get(), 2, nullptr) != 0);
    assert_ok(rpma_mirror_remove_target(m.get(), 2));
    m.put(0, "opened");
    m.close();
}

TEST(a_target_that_left_delays_nothing)
{
    in_processes({std::begin(whole_faults), std::end(whole_faults)}, it_is_not_in_sync);
}

// Methods to continue without the target; each uses force.
constexpr void (*ways[])(const faulty_set &) = {
        [](const faulty_set &s) { put_and_close(s.here().get(), "opened", RPMA_MIRROR_F_FORCE); },
        [](const faulty_set &s) { put_and_close(s.there().get(), "opened", RPMA_MIRROR_F_FORCE); },
        [](const faulty_set &s) { assert_ok(rpma_mirror_fence(s.there().get(), RPMA_MIRROR_F_FORCE, nullptr)); },
        [](const faulty_set &s) {
            opened m(s.here().get(), RPMA_MIRROR_F_FORCE);
            assert_ok(rpma_mirror_remove_target(m.get(), 2));
            m.close();
        }};

// Without force, the error names the target. With force, each method to continue without it succeeds.
void it_is_in_sync(const row &r)
{
    faulty_set s;
    s.bad.begin(r);
    const cfg_ptr here = s.here(), there = s.there();
    assert_int_equal(map_code((r.way % 2 == 0 ? here : there).get()), RPMA_MIRROR_E_INCOMPLETE);
    check_message(s.good, s.bad);
    assert_int_equal(rpma_mirror_fence(there.get(), 0, nullptr), RPMA_MIRROR_E_UNFENCED);
    check_message(s.good, s.bad);
    ways[r.way](s);
}

TEST(a_target_in_sync_is_overridden_by_force)
{
    std::vector<row> rows;
    for (row r : whole_faults)
        for (r.way = 0; r.way < std::size(ways); ++r.way)
            rows.push_back(r);
    in_processes(rows, it_is_in_sync);
}

void it_gets_stuck_and_is_in_sync(const row &r)
{
    faulty_set s;
    if (r.crashed)
        s.crash();
    s.bad.begin(r);
    const cfg_ptr here = s.here(), there = s.there();
    const int code = map_code(here.get());
    assert_true(code == RPMA_MIRROR_E_INCOMPLETE || code == RPMA_MIRROR_E_INTERRUPTED);
    check_message(s.good, s.bad);
    put_and_close(r.answers % 2 == 0 ? here.get() : there.get(), "opened", RPMA_MIRROR_F_FORCE);
}

TEST(a_target_in_sync_gets_stuck_at_each_step)
{
    in_processes(steps(), it_gets_stuck_and_is_in_sync);
}

void a_creation_names_the_target_that_is_silent(const row &r)
{
    const target good;
    faulty_target bad;
    const host h;
    bad.begin(r);
    const int code = rpma_mirror_create(cfg_of(h, good, bad).get());
    assert_true(code == RPMA_MIRROR_E_TIMEOUT || code == RPMA_MIRROR_E_CONNECTION || code == RPMA_MIRROR_E_REJECTED);
    check_message(good, bad);
}

TEST(creations_name_the_silent_target)
{
    std::vector<row> rows(std::begin(whole_faults), std::end(whole_faults));
    // TLS, greeting, status, creation, promise.
    for (unsigned answers = 1; answers < 5; ++answers)
        rows.push_back({"mute", fault::mute, answers});
    in_processes(rows, a_creation_names_the_target_that_is_silent);
}

FIXTURE_TEST(set_of<two>, an_end_loses_a_silent_target, times)
{
    {
        opened m(cfg.get());
        m.put(0, "before");
        m.store(megabyte, "stored");
        b.stop();
        m.close();
    }
    assert_true(a.bytes(megabyte, 6) == "stored");
    const auto seen = inspected(h.cfg({&a}).get());
    assert_true(seen->in_sync == 3 && seen->clean == 1);
    put_and_close(cfg.get(), "opened");
}

// A watchdog promotes another machine repeatedly. The failed promotions do not affect the writer.
FIXTURE_TEST(two_hosts<two>, refused_promotions_disturb_no_writer, std::string(times) + "policy availability\n")
{
    opened m(here.get());
    for (int i = 0; i < 3; ++i) {
        // The writer may have continued alone.
        assert_int_equal(map_code(there.get()), RPMA_MIRROR_E_UNFOUND);
        assert_int_equal(rpma_mirror_recover(there.get(), 0, nullptr), RPMA_MIRROR_E_UNFOUND);
        m.put(0, "undisturbed");
    }
    const std::uint64_t epoch = m.state().epoch;
    assert_int_equal(inspected(there.get())->copies[1].promised_epoch, epoch);
    // A fence without the required targets fails, too.
    b.stop();
    assert_int_equal(rpma_mirror_fence(there.get(), 0, nullptr), RPMA_MIRROR_E_UNFENCED);
    m.put(0, "undisturbed");
    assert_int_equal(inspected(there.get())->copies[1].promised_epoch, epoch);
    m.close();
}

} // namespace
