// SPDX-License-Identifier: BSD-3-Clause
// Seeded faults between machines: the writer, target A, target B, or both are killed, stopped and continued, or lose
// their power, or their link is cut or slow, with 1 to 3 targets. Then this machine or another one takes the set.
// Acknowledged data must not be lost, no stale copy may be chosen, no operation of a fenced writer may be accepted, and
// no call of the writer may last beyond its deadline. MIRROR_FAULTS is the number of seeds, MIRROR_FAULT_SEED the first
// one: its combination is seed % 60. MIRROR_FAULT_LATE_MS is the permitted delay of a call; the default suits a busy
// machine.
#include "clock.h"
#include "environment.h"
#include "network.hpp"
#include "shared_object.hpp"
#include "workload.hpp"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <numeric>
#include <random>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace
{

enum class fault {
    kill,
    stop,
    power,
    cut,
    delay
};
enum class victim {
    writer,
    a,
    b,
    both
};
constexpr unsigned faults = 5, victims = 4, max_targets = 3;
constexpr const char *fault_names[] = {"kill", "stop", "power cut", "link cut", "link delay"};
constexpr const char *victim_names[] = {"the writer", "target A", "target B", "both"};

constexpr unsigned operation_ms = 1500, open_ms = 12'000;
constexpr int limit_s = 300; // limit for an expected event
constexpr unsigned writers_machine = 0, other_machine = 1, first_target = 2;

struct round_facts : shared_facts {
    std::atomic<std::int64_t> max_call_ms; // longest duration of a call, in shares of its deadline
    std::atomic<int> taken;                // the new writer has the set open
    std::atomic<int> may_continue;         // the new writer may check again, and write
};

void await(const char *what, const std::function<bool()> &come)
{
    for (int tries = 0; !come(); ++tries) {
        if (tries == limit_s * 500)
            fail_msg("%s did not come", what);
        usleep(2000);
    }
}

// Resynchronizes stale copies repeatedly, as an operator's program would do.
void bring_back(rpma_mirror *m)
{
    auto s = sized<rpma_mirror_state>();
    while (rpma_mirror_get_state(m, &s) == 0 && s.is_open != 0) {
        for (unsigned copy = 0; copy < RPMA_MIRROR_MAX_COPIES; ++copy)
            if (s.copies[copy].state == RPMA_MIRROR_COPY_STALE)
                rpma_mirror_resync(m, copy, nullptr);
        usleep(50'000);
    }
}

[[noreturn]] void write_on(const rpma_mirror_cfg *cfg, round_facts &facts, bool brings_back)
{
    const opened m(cfg);
    if (brings_back)
        std::thread(bring_back, m.get()).detach(); // runs until this process ends
    int code = 0;
    for (std::uint64_t number = 1; code == 0; ++number) {
        const std::int64_t begin = now_ms();
        code = write_one(m, number, facts);
        // A number counts as two successive calls if it is followed by a published word, or has a last range.
        const std::int64_t calls = number % 4 == 0 || number % 3 == 1 ? 2 : 1;
        facts.max_call_ms =
                std::max<std::int64_t>(facts.max_call_ms, now_ms() - begin - (calls - 1) * 2 * operation_ms);
    }
    facts.ended_with = code;
    _exit(0); // ends this thread, too
}

// Opens the set as soon as possible and checks it. Checks it again later, and writes.
void take(const rpma_mirror_cfg *cfg, const std::vector<const target *> &targets, round_facts &facts)
{
    void *address = nullptr;
    rpma_mirror *probe = nullptr;
    int code = -1;
    for (const std::int64_t end = now_ms() + limit_s * 1000; code != 0 && now_ms() < end;) {
        code = rpma_mirror_map(cfg, nullptr, 0, &address, &probe);
        if (code == RPMA_MIRROR_E_INVAL || code == RPMA_MIRROR_E_NOMEM || code == RPMA_MIRROR_E_SYSTEM)
            break;
    }
    if (code != 0)
        fail_msg("the set cannot be opened: %s (%s)", rpma_mirror_err_2str(code), rpma_mirror_error_message());
    const opened m(probe, static_cast<char *>(address));
    check_all(m, facts);
    facts.taken = 1;
    await("the end of the old writer", [&] { return facts.may_continue != 0; });
    // All data that was acknowledged before the writer's end must be there, and no data that it sent later.
    check_all(m, facts);
    std::vector<const target *> whole;
    for (unsigned i = 0; i < targets.size(); ++i)
        if ((m.state().in_sync >> (i + 1) & 1) != 0)
            whole.push_back(targets[i]);
    check_copies(m, whole);
    m.put(2048, "the next writer");
    check_copies(m, whole);
}

class faulty_round
{
public:
    faulty_round(const network &net, std::uint64_t seed, round_facts &facts)
        : net_(net), random_(seed), facts_(facts), fault_(static_cast<fault>(seed % faults)),
          victim_(static_cast<victim>(seed / faults % victims)),
          count_(static_cast<unsigned>(1 + seed / faults / victims % max_targets))
    {
        print_message("seed %lu: %s of %s, %u targets\n", seed, fault_names[seed % faults],
                victim_names[seed / faults % victims], count_);
        new (&facts_) round_facts{};
        for (unsigned i = 0; i < first_target + max_targets; ++i)
            heal_link(i);
        const std::string device = first_.where.path + "/preload.so"; // LD_PRELOAD cannot contain a path with a blank
        std::filesystem::create_symlink(getenv("TEST_SOFTRDMA_DEVICE"), device);
        for (unsigned i = 0; i < count_; ++i) {
            std::vector<std::string> environment;
            // A target's device may be unable to flush; the writer then requests flushes by messages.
            if (choose(2) == 0)
                environment = {"SOFTRDMA_NATIVE_VERBS=off", "SOFTRDMA_READ_FLUSH=off"};
            if (fault_ == fault::power && is_hit(i)) {
                // Lets the device record which data the daemon itself has made durable.
                environment.push_back("LD_PRELOAD=" + device);
                environment.push_back("SOFTRDMA_POWERCUT=after:" + std::to_string(60 + choose(1500)) +
                                      ",seed:" + std::to_string(seed));
            }
            all_.push_back(std::make_unique<target>("", net.at(first_target + i), environment));
            targets_.push_back(all_.back().get());
        }
        // The returned targets are resynchronized by the library, by the program, or by both.
        const unsigned healers = choose(3);
        brings_back_ = healers != 0;
        const std::string more = "timeouts " + std::to_string(operation_ms) + " " + std::to_string(open_ms) +
                                 (healers == 1 ? "\n" : "\nbackground-resync on 0\n");
        here_ = first_.cfg(targets_, more);
        there_ = second_.cfg(targets_, more);
    }

    void run()
    {
        const pid_t creating = start(writers_machine, [&] { assert_ok(rpma_mirror_create(here_.get())); });
        finish(creating);
        writer_ = start(writers_machine, [&] { write_on(here_.get(), facts_, brings_back_); });
        await("the first flush", [&] { return facts_.acknowledged > 0 || writer_is_over(); });
        usleep(choose(100'000));
        const bool lasts = can_last();
        strike();
        const std::uint64_t before = facts_.acknowledged;
        if (lasts) {
            // One flush may have been in flight. The next one is acknowledged without the affected targets.
            await("a flush without them", [&] { return facts_.acknowledged > before + 1 || writer_is_over(); });
        } else {
            usleep(choose(2) == 0 ? choose(100'000) : choose(2 * operation_ms * 1000));
            if (choose(2) == 0) {
                heal();
                usleep(choose(1'000'000));
            }
        }
        // If the writer cannot be killed, another machine takes over. A lost machine does not return before that.
        const bool out_of_reach = hits_writer() && fault_ != fault::kill && fault_ != fault::power;
        if (!out_of_reach && choose(2) == 0)
            end_writer();
        const bool elsewhere = !writer_is_over() || choose(2) == 0;
        const auto take_it = [&] { take(elsewhere ? there_.get() : here_.get(), targets_, facts_); };
        pid_t taking = start(elsewhere ? other_machine : writers_machine, take_it);
        if (!lasts) {
            usleep(choose(500'000));
            heal();
        }
        await("the next writer", [&] { return facts_.taken != 0 || is_over(taking); });
        heal();
        if (!writer_is_over())
            kill(writer_, SIGCONT);
        await("the end of the writer", [&] { return writer_is_over(); });
        facts_.may_continue = 1;
        finish(taking);
        // The next writer must find the same content.
        const bool back = choose(2) == 0;
        facts_.taken = 0;
        finish(start(back ? writers_machine : other_machine,
                [&] { take(back ? here_.get() : there_.get(), targets_, facts_); }));
        judge_writer();
    }

private:
    unsigned choose(unsigned below) { return static_cast<unsigned>(random_() % below); }

    // A set with one target has no B. There, `both` means this target and the writer.
    bool hits_writer() const { return victim_ == victim::writer || (victim_ == victim::both && count_ == 1); }
    bool is_hit(unsigned target) const
    {
        if (victim_ == victim::writer)
            return false;
        if (victim_ == victim::both)
            return target < 2;
        return target == (victim_ == victim::b && count_ > 1 ? 1U : 0U);
    }

    // Returns whether the set can continue without the affected targets. Then the fault lasts until the next writer has
    // the set.
    bool can_last() const
    {
        unsigned hit = 0;
        for (unsigned i = 0; i < count_; ++i)
            hit += is_hit(i);
        return fault_ != fault::delay && !hits_writer() && hit < count_;
    }

    void heal_link(unsigned number) const
    {
        net_.cut(number, false);
        net_.delay(number, 0);
    }

    template<class F>
    pid_t start(unsigned number, F f) const
    {
        const pid_t pid = fork_writer();
        if (pid == 0) {
            net_.enter(number);
            f();
            std::fflush(nullptr);
            _exit(0);
        }
        return pid;
    }

    void check_exit_status(int status) const
    {
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("a writer failed: status 0x%x", static_cast<unsigned>(status));
    }

    bool is_over(pid_t &pid)
    {
        int status = 0;
        if (pid > 0 && waitpid(pid, &status, WNOHANG) == pid) {
            pid = -1;
            check_exit_status(status);
        }
        return pid < 0;
    }
    bool writer_is_over() { return is_over(writer_); }

    void finish(pid_t pid)
    {
        int status = 0;
        if (pid > 0 && waitpid(pid, &status, 0) == pid)
            check_exit_status(status);
    }

    void end_writer()
    {
        if (writer_is_over())
            return;
        kill(writer_, SIGKILL);
        waitpid(writer_, nullptr, 0);
        writer_ = -1;
        killed_ = true;
    }

    // Data that was not flushed to the local copy may survive or not. A local copy in memory is lost.
    void lose_power_at_home()
    {
        const std::filesystem::path home = first_.where.path + "/home";
        if (choose(2) == 0) {
            std::filesystem::remove(home);
            std::filesystem::remove(home.string() + ".mirror");
            return;
        }
        const std::uint64_t under_way = facts_.acknowledged + 1;
        FILE *const file = std::fopen(home.c_str(), "r+");
        for (const std::uint64_t part : words_of_slot) {
            const std::uint64_t before = under_way > slots ? word_of(under_way - slots) : 0;
            if (choose(2) == 0)
                continue;
            std::fseek(file, static_cast<long>(slot_at(under_way) + part), SEEK_SET);
            std::fwrite(&before, sizeof(before), 1, file);
        }
        std::fclose(file);
    }

    void strike()
    {
        if (hits_writer())
            strike_writer();
        for (unsigned i = 0; i < count_; ++i) {
            if (!is_hit(i))
                continue;
            usleep(choose(4) == 0 ? choose(300'000) : 0);
            strike_target(i);
        }
    }

    void strike_writer()
    {
        switch (fault_) {
        case fault::kill:
            return end_writer();
        case fault::stop:
            if (!writer_is_over())
                kill(writer_, SIGSTOP);
            return;
        case fault::power:
            net_.cut(writers_machine, true);
            end_writer();
            if (killed_)
                lose_power_at_home();
            return;
        case fault::cut:
            return net_.cut(writers_machine, true);
        case fault::delay:
            return net_.delay(writers_machine, 1 + choose(1000));
        }
    }

    void strike_target(unsigned i)
    {
        target &hit = *all_[i];
        switch (fault_) {
        case fault::kill:
            return hit.kill();
        case fault::stop:
            return hit.stop();
        case fault::power:
            for (int tries = 0; !hit.has_ended() && tries < 1000; ++tries)
                usleep(2000);
            power_cut_ = power_cut_ || hit.has_ended();
            return hit.kill();
        case fault::cut:
            return net_.cut(first_target + i, true);
        case fault::delay:
            return net_.delay(first_target + i, 1 + choose(1000));
        }
    }

    void heal()
    {
        if (healed_)
            return;
        healed_ = true;
        if (hits_writer() && fault_ != fault::stop)
            heal_link(writers_machine);
        for (unsigned i = 0; i < count_; ++i) {
            if (!is_hit(i))
                continue;
            heal_link(first_target + i);
            if (fault_ == fault::stop)
                all_[i]->resume();
            if (fault_ == fault::kill || fault_ == fault::power)
                all_[i]->start();
        }
    }

    void judge_writer() const
    {
        const int code = facts_.ended_with;
        if (!killed_ && code != RPMA_MIRROR_E_FENCED && code != RPMA_MIRROR_E_NO_TARGET)
            fail_msg("the writer ended with %s", rpma_mirror_err_2str(code));
        const std::int64_t limit = 2 * operation_ms + number_from("MIRROR_FAULT_LATE_MS", 60'000);
        // The clock of a sleeping process continues to run.
        const bool slept = hits_writer() && fault_ == fault::stop;
        print_message("  %lu acknowledged, the longest call %ld ms%s\n", facts_.acknowledged.load(),
                facts_.max_call_ms.load(), power_cut_ ? ", power cut" : "");
        if (!slept && facts_.max_call_ms > limit)
            fail_msg(
                    "a call lasted %ld ms, and its deadline was after %u", facts_.max_call_ms.load(), 2 * operation_ms);
    }

    const network &net_;
    std::mt19937_64 random_;
    round_facts &facts_;
    const fault fault_;
    const victim victim_;
    const unsigned count_;
    std::vector<std::unique_ptr<target>> all_;
    std::vector<const target *> targets_;
    const host first_, second_{5};
    cfg_ptr here_, there_;
    pid_t writer_ = -1;
    bool killed_ = false, healed_ = false, power_cut_ = false, brings_back_ = false;
};

TEST(no_fault_loses_anything)
{
    const network net(first_target + max_targets);
    const shared_object<round_facts> facts;
    // Without a seed as argument: one round for each fault, victim and number of targets. After that, one of two
    // targets is stopped, and two of three are cut off, until the next writer has the set.
    std::vector<std::uint64_t> seeds{0, 6, 32, 38, 64, 31, 58};
    const std::uint64_t count = number_from("MIRROR_FAULTS", 0), begin = number_from("MIRROR_FAULT_SEED", 0);
    if (count != 0) {
        seeds.resize(count);
        std::iota(seeds.begin(), seeds.end(), begin);
    }
    for (const std::uint64_t seed : seeds)
        faulty_round(net, seed, *new (&*facts) round_facts{}).run();
}

} // namespace
