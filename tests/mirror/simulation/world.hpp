// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <ucontext.h>
#include <vector>

// Machines, processes and their threads in one thread of one process. A seed determines which thread continues at each
// of its calls to the system, how long each operation takes, and what fails: the same seed produces the same history.
namespace simulation
{

using time_us = std::int64_t;
inline constexpr time_us ms = 1000, second = 1000 * ms;

class fiber;

// Object that poll() can wait for.
struct descriptor {
    virtual ~descriptor() = default;
    virtual short ready() const = 0; // events as in pollfd
    virtual void closed() {}
};

struct process {
    process(std::string its_name, unsigned on, int its_number)
        : name(std::move(its_name)), machine(on), number(its_number)
    {
    }

    const std::string name;
    const unsigned machine;
    const int number; // not 0, and unique in this program
    bool alive = true;
    bool stopped = false;
    bool touched = false; // an event that its threads wait for may have occurred
    std::vector<fiber *> fibers;
    std::vector<fiber *> parked; // threads that became ready while the process was stopped
    std::map<int, std::shared_ptr<descriptor>> descriptors;
    std::set<int> files;             // descriptors of the real system
    std::function<void(int)> accept; // takes a control connection
    std::map<std::string, std::string> environment;
    int standard = -1;                                   // descriptor that is its standard input and output
    std::vector<std::function<void(bool power)>> at_end; // actions of the kernel when the process has ended
};

class fiber
{
public:
    process *of = nullptr;
    unsigned long number = 0;
    bool done = false;

private:
    friend class world;
    std::function<void()> body_;
    ucontext_t context_{};
    void *stack_ = nullptr;
    bool ready_ = true;
    bool (*wanted_)(void *) = nullptr;
    void *argument_ = nullptr;
    time_us wake_ = 0;
    int errno_ = 0;
    struct {
        void *caught = nullptr;
        unsigned uncaught = 0;
    } exceptions_;
};

class world
{
public:
    explicit world(std::uint64_t seed);
    ~world();
    world(const world &) = delete;
    world &operator=(const world &) = delete;

    static world *instance;
    const std::uint64_t seed;
    bool loud = false;
    std::string test; // name for the user

    time_us now() const { return now_; }
    std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
    bool one_in(std::uint64_t n) { return below(n) == 0; }
    time_us between(time_us low, time_us high)
    {
        return low + static_cast<time_us>(below(static_cast<std::uint64_t>(high - low + 1)));
    }

    process *start(const std::string &name, unsigned machine);
    bool is_alive(int number) const;
    // Kills the process, unless it is dead. If power is true, the machine fails too, and its peers are not notified.
    void kill(process &p, bool power);
    // Kills all processes.
    void end();
    void stop(process &p);
    void go_on(process &p);

    fiber *spawn(process &in, std::function<void()> body);
    fiber *current() const { return current_; }
    process &here() const { return *current_->of; }
    void touch(process &p) { p.touched = true; }

    // For threads of the simulation: waits until the condition holds. Returns false at the time limit, in microseconds;
    // -1 means no limit.
    template<class F>
    bool wait(F &&condition, time_us timeout)
    {
        const time_us end = timeout < 0 ? never : now_ + timeout;
        while (!condition()) {
            if (now_ >= end)
                return false;
            suspend([](void *f) { return (*static_cast<std::remove_reference_t<F> *>(f))(); },
                    const_cast<void *>(static_cast<const void *>(&condition)), end);
        }
        return true;
    }
    void sleep(time_us time)
    {
        wait([] { return false; }, time);
    }
    // Sometimes lets another thread run first.
    void perhaps_switch()
    {
        if (one_in(8))
            sleep(one_in(20) ? between(0, 5 * ms) : between(0, 50));
    }

    // Schedules an action, which runs outside of simulated threads.
    void at(time_us delay, std::function<void()> action);
    // Runs until the condition holds. Returns false if no thread can continue, or if the time limit expires.
    bool run(const std::function<bool()> &over, time_us limit);
    std::uint64_t history() const { return history_; }

    int add(process &to, std::shared_ptr<descriptor> d);
    descriptor *find(int fd) const;
    // Gives a descriptor to another process.
    void move(int fd, process &to);
    static bool is_ours(int fd) { return fd >= first_descriptor; }
    void close(int fd);

    [[gnu::format(printf, 2, 3)]] void log(const char *format, ...) const;
    // Prints the seed, and ends this process.
    [[noreturn, gnu::format(printf, 2, 3)]] void violated(const char *format, ...) const;

private:
    static constexpr time_us never = INT64_MAX;
    static constexpr int first_descriptor = 1 << 20;
    struct event {
        time_us when;
        std::uint64_t order;
        std::function<void()> action;
        bool operator<(const event &b) const { return when != b.when ? when > b.when : order > b.order; }
    };

    static void enter();
    void suspend(bool (*wanted)(void *), void *argument, time_us wake);
    void look_again();
    void switch_to(fiber &f);
    void free_stack(fiber &f);

    std::mt19937_64 random_;
    time_us now_ = 0;
    std::uint64_t order_ = 0;
    std::uint64_t history_ = 0;
    std::priority_queue<event> events_;
    static int last_process_;
    const int first_process_ = last_process_ + 1;
    std::vector<std::unique_ptr<process>> processes_;
    std::vector<std::unique_ptr<fiber>> fibers_;
    std::vector<fiber *> ready_;
    fiber *current_ = nullptr;
    ucontext_t scheduler_{};
    std::map<int, process *> owners_;
    int next_descriptor_ = first_descriptor;
};

} // namespace simulation
