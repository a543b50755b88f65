// SPDX-License-Identifier: BSD-3-Clause
// Simulated threads, locks, clocks and random numbers, with the interfaces of the C library.
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

#include "real.hpp"

using simulation::inside;
using simulation::world;

namespace
{

constexpr simulation::time_us boot = 1000 * simulation::second;

// The first word of a lock contains the process that has it; the first word of a condition counts its signals.
int &word_of(pthread_mutex_t *lock)
{
    return *reinterpret_cast<int *>(lock);
}
// A static lock belongs to all processes of the simulation, and its process may have been killed.
bool is_free(pthread_mutex_t *lock)
{
    return word_of(lock) == 0 || !world::instance->is_alive(word_of(lock));
}
std::uint64_t &count_of(pthread_cond_t *condition)
{
    return *reinterpret_cast<std::uint64_t *>(condition);
}

simulation::time_us left_until(const timespec *t)
{
    const simulation::time_us when = t->tv_sec * simulation::second + t->tv_nsec / 1000 - boot;
    return std::max<simulation::time_us>(when - world::instance->now(), 0);
}

int wait_for(pthread_cond_t *condition, pthread_mutex_t *lock, simulation::time_us timeout)
{
    const std::uint64_t before = count_of(condition);
    pthread_mutex_unlock(lock);
    const bool came = world::instance->wait([&] { return count_of(condition) != before; }, timeout);
    pthread_mutex_lock(lock);
    return came ? 0 : ETIMEDOUT;
}

} // namespace

extern "C" {

char *getenv(const char *name) noexcept
{
    if (!inside())
        return REAL(getenv)(name);
    auto &own = world::instance->here().environment;
    const auto value = own.find(name);
    return value == own.end() ? REAL(getenv)(name) : value->second.data();
}

void syslog(int priority, const char *format, ...) {}

int clock_gettime(clockid_t clock, timespec *to) noexcept
{
    if (!inside())
        return REAL(clock_gettime)(clock, to);
    const simulation::time_us now = boot + world::instance->now();
    *to = {now / simulation::second, now % simulation::second * 1000};
    return 0;
}

int nanosleep(const timespec *time, timespec *left)
{
    if (!inside())
        return REAL(nanosleep)(time, left);
    world::instance->sleep(time->tv_sec * simulation::second + time->tv_nsec / 1000);
    return 0;
}

int usleep(useconds_t time)
{
    if (!inside())
        return REAL(usleep)(time);
    world::instance->sleep(time);
    return 0;
}

ssize_t getrandom(void *to, size_t size, unsigned flags)
{
    if (!inside())
        return REAL(getrandom)(to, size, flags);
    for (size_t i = 0; i < size; ++i)
        static_cast<unsigned char *>(to)[i] = static_cast<unsigned char>(world::instance->below(256));
    return static_cast<ssize_t>(size);
}

int pthread_create(pthread_t *to, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) noexcept
{
    if (!inside())
        return REAL(pthread_create)(to, attributes, run, argument);
    world &in = *world::instance;
    *to = reinterpret_cast<pthread_t>(in.spawn(in.here(), [run, argument] { run(argument); }));
    in.perhaps_switch();
    return 0;
}

pthread_t pthread_self() noexcept
{
    return inside() ? reinterpret_cast<pthread_t>(world::instance->current()) : REAL(pthread_self)();
}

int pthread_join(pthread_t joined, void **result)
{
    if (!inside())
        return REAL(pthread_join)(joined, result);
    const auto *const f = reinterpret_cast<simulation::fiber *>(joined);
    world::instance->wait([f] { return f->done; }, -1);
    return 0;
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *before) noexcept
{
    return inside() ? 0 : REAL(pthread_sigmask)(how, set, before);
}

int pthread_mutex_lock(pthread_mutex_t *lock) noexcept
{
    if (!inside())
        return REAL(pthread_mutex_lock)(lock);
    world::instance->perhaps_switch();
    world::instance->wait([lock] { return is_free(lock); }, -1);
    word_of(lock) = world::instance->here().number;
    return 0;
}

int pthread_mutex_trylock(pthread_mutex_t *lock) noexcept
{
    if (!inside())
        return REAL(pthread_mutex_trylock)(lock);
    if (!is_free(lock))
        return EBUSY;
    word_of(lock) = world::instance->here().number;
    return 0;
}

int pthread_mutex_unlock(pthread_mutex_t *lock) noexcept
{
    if (!inside())
        return REAL(pthread_mutex_unlock)(lock);
    word_of(lock) = 0;
    world::instance->touch(world::instance->here());
    world::instance->perhaps_switch();
    return 0;
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock)
{
    return inside() ? wait_for(condition, lock, -1) : REAL(pthread_cond_wait)(condition, lock);
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *lock, clockid_t clock, const timespec *until)
{
    return inside() ? wait_for(condition, lock, left_until(until))
                    : REAL(pthread_cond_clockwait)(condition, lock, clock, until);
}

int pthread_cond_broadcast(pthread_cond_t *condition) noexcept
{
    if (!inside())
        return REAL(pthread_cond_broadcast)(condition);
    ++count_of(condition);
    world::instance->touch(world::instance->here());
    return 0;
}

int pthread_cond_signal(pthread_cond_t *condition) noexcept
{
    return inside() ? pthread_cond_broadcast(condition) : REAL(pthread_cond_signal)(condition);
}

} // extern "C"
