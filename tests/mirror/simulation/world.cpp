// SPDX-License-Identifier: BSD-3-Clause
#include "world.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "system.hpp"

namespace simulation
{

namespace
{

constexpr std::size_t stack_size = 256 * 1024;
// Stacks of ended threads, for reuse.
std::vector<void *> free_stacks;

void *new_stack()
{
    if (free_stacks.empty())
        return mmap(nullptr, stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *const taken = free_stacks.back();
    free_stacks.pop_back();
    return taken;
}

} // namespace

world *world::instance = nullptr;
int world::last_process_ = 0;

world::world(std::uint64_t seed_) : seed(seed_), random_(seed_)
{
    instance = this;
}

world::~world()
{
    instance = nullptr;
}

void world::end()
{
    for (const auto &p : processes_)
        kill(*p, true);
}

process *world::start(const std::string &name, unsigned machine)
{
    return processes_.emplace_back(std::make_unique<process>(name, machine, ++last_process_)).get();
}

bool world::is_alive(int number) const
{
    return number >= first_process_ && processes_[static_cast<std::size_t>(number - first_process_)]->alive;
}

void world::free_stack(fiber &f)
{
    if (f.stack_ != nullptr)
        free_stacks.push_back(f.stack_);
    f.stack_ = nullptr;
}

// The contents of its threads' stacks and heap are never read again.
void world::kill(process &p, bool power)
{
    if (!std::exchange(p.alive, false))
        return;
    std::erase_if(ready_, [&](const fiber *f) { return f->of == &p; });
    for (fiber *f : p.fibers) {
        f->done = true;
        free_stack(*f);
    }
    p.fibers.clear();
    p.parked.clear();
    const auto ends = std::move(p.at_end);
    for (const auto &end : ends)
        end(power);
    while (!p.descriptors.empty())
        close(p.descriptors.begin()->first);
    for (const int fd : p.files)
        close_file(fd);
    p.files.clear();
}

void world::stop(process &p)
{
    p.stopped = true;
    std::erase_if(ready_, [&](fiber *f) {
        if (f->of == &p)
            p.parked.push_back(f);
        return f->of == &p;
    });
}

void world::go_on(process &p)
{
    p.stopped = false;
    p.touched = true;
    ready_.insert(ready_.end(), p.parked.begin(), p.parked.end());
    p.parked.clear();
}

void world::enter()
{
    world &in = *instance;
    fiber &f = *in.current_;
    f.body_();
    f.done = true;
    std::erase(f.of->fibers, &f);
    in.touch(*f.of);
    setcontext(&in.scheduler_);
}

fiber *world::spawn(process &in, std::function<void()> body)
{
    fiber &created = *fibers_.emplace_back(std::make_unique<fiber>());
    created.of = &in;
    created.number = fibers_.size();
    created.body_ = std::move(body);
    created.stack_ = new_stack();
    getcontext(&created.context_);
    created.context_.uc_stack.ss_sp = created.stack_;
    created.context_.uc_stack.ss_size = stack_size;
    created.context_.uc_link = nullptr;
    makecontext(&created.context_, &world::enter, 0);
    in.fibers.push_back(&created);
    (in.stopped ? in.parked : ready_).push_back(&created);
    return &created;
}

void world::suspend(bool (*wanted)(void *), void *argument, time_us wake)
{
    fiber &f = *current_;
    f.ready_ = false;
    f.wanted_ = wanted;
    f.argument_ = argument;
    f.wake_ = wake;
    if (wake != never) {
        process *const of = f.of;
        at(std::max<time_us>(wake - now_, 0), [of] { of->touched = true; });
    }
    f.errno_ = errno;
    swapcontext(&f.context_, &scheduler_);
    errno = f.errno_;
}

// Each fiber has its own exception state, so the state is saved and restored.
void world::switch_to(fiber &f)
{
    auto *const globals = reinterpret_cast<decltype(f.exceptions_) *>(abi::__cxa_get_globals());
    const auto outside = *globals;
    *globals = f.exceptions_;
    current_ = &f;
    history_ = (history_ ^ f.number ^ static_cast<std::uint64_t>(now_)) * 0x100000001b3;
    swapcontext(&scheduler_, &f.context_);
    current_ = nullptr;
    f.exceptions_ = *globals;
    *globals = outside;
    if (f.done)
        free_stack(f);
}

void world::look_again()
{
    for (const auto &p : processes_) {
        if (!p->touched || !p->alive || p->stopped)
            continue;
        p->touched = false;
        for (fiber *f : p->fibers)
            if (!f->ready_ && (now_ >= f->wake_ || f->wanted_(f->argument_))) {
                f->ready_ = true;
                ready_.push_back(f);
            }
    }
}

void world::at(time_us delay, std::function<void()> action)
{
    events_.push({now_ + delay, ++order_, std::move(action)});
}

bool world::run(const std::function<bool()> &over, time_us limit)
{
    const time_us end = now_ + limit;
    while (!over()) {
        look_again();
        if (ready_.empty()) {
            if (events_.empty())
                return false;
            now_ = std::max(now_, events_.top().when);
        } else {
            std::swap(ready_[below(ready_.size())], ready_.back());
            fiber &next = *ready_.back();
            ready_.pop_back();
            switch_to(next);
            ++now_;
        }
        while (!events_.empty() && events_.top().when <= now_) {
            const auto action = std::move(const_cast<event &>(events_.top()).action);
            events_.pop();
            action();
        }
        if (now_ > end)
            return false;
    }
    return true;
}

int world::add(process &to, std::shared_ptr<descriptor> d)
{
    const int fd = next_descriptor_++;
    to.descriptors.emplace(fd, std::move(d));
    owners_.emplace(fd, &to);
    return fd;
}

descriptor *world::find(int fd) const
{
    const auto owner = owners_.find(fd);
    return owner == owners_.end() ? nullptr : owner->second->descriptors.at(fd).get();
}

void world::move(int fd, process &to)
{
    process *&owner = owners_.at(fd);
    to.descriptors.insert(owner->descriptors.extract(fd));
    owner = &to;
}

void world::close(int fd)
{
    const auto owner = owners_.find(fd);
    if (owner == owners_.end())
        return;
    const auto found = owner->second->descriptors.find(fd);
    const std::shared_ptr<descriptor> closed = found->second;
    owner->second->descriptors.erase(found);
    owners_.erase(owner);
    closed->closed();
}

void world::log(const char *format, ...) const
{
    if (!loud)
        return;
    std::fprintf(stderr, "%10.3f ms  %-12s ", static_cast<double>(now_) / 1000,
            current_ == nullptr ? "" : current_->of->name.c_str());
    std::va_list arguments;
    va_start(arguments, format);
    std::vfprintf(stderr, format, arguments);
    va_end(arguments);
    std::fputc('\n', stderr);
}

void world::violated(const char *format, ...) const
{
    std::fprintf(stdout, "seed %lu after %.3f ms: ", seed, static_cast<double>(now_) / 1000);
    std::va_list arguments;
    va_start(arguments, format);
    std::vfprintf(stdout, format, arguments);
    va_end(arguments);
    std::fprintf(stdout, "\n  again, with what happened: RPMA_MIRROR_SEED=%lu ctest --preset dev -V -R '%s$'\n", seed,
            test.c_str());
    std::fflush(nullptr);
    _exit(1);
}

} // namespace simulation
