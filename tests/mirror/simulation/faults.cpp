// SPDX-License-Identifier: BSD-3-Clause
// Faults, and the actions of an operator after them.
#include "scenario.hpp"

#include <algorithm>
#include <iterator>

namespace simulation
{

// Kills a process, which is restarted after `back_after`.
void scenario::die(process &p, bool power, time_us back_after)
{
    const unsigned machine = p.machine;
    const process *const server = processes_[machine];
    world_.log("%s %s", p.name.c_str(), power ? "loses its power" : "is killed");
    world_.kill(p, power);
    if (power) {
        for (process *const other : daemons_)
            if (other->machine == machine)
                world_.kill(*other, true);
        world_.kill(*processes_[machine], true);
        network_.power(machine, false);
        storage_.lose_power(directory(machine));
    }
    world_.at(back_after, [this, machine, gone = server] {
        network_.power(machine, true);
        if (!faults_ || machine < writers || processes_[machine] != gone || gone->alive)
            return;
        // Reverts the data of only one target, because the set needs a source. Data that a writer is about to
        // acknowledge stays.
        if (restores_parts_ && !is_pool_ && machine == writers && !writer_lives() && world_.one_in(2)) {
            // A forced opening would find unused bytes in a part from the time before a growth.
            world_.log("the part of machine %u is replaced", machine);
            if (storage_.restore(directory(machine) + "/part", storage::restored::as_other_file, history_.set_length()))
                history_.replaced(copy_of(machine));
        }
        start_target(machine);
    });
}

process *scenario::pick_process(unsigned machine)
{
    std::vector<process *> of;
    std::ranges::copy_if(daemons_, std::back_inserter(of),
            [machine](const process *p) { return p->machine == machine && p->alive; });
    return of.empty() ? processes_[machine] : of[world_.below(of.size())];
}

void scenario::hit_process(unsigned machine)
{
    process *const p = pick_process(machine);
    if (p == nullptr || !p->alive)
        return;
    const time_us time = world_.one_in(2) ? world_.between(1 * ms, 100 * ms) : world_.between(100 * ms, 3 * second);
    switch (world_.below(3)) {
    case 0:
        return die(*p, false, time);
    case 1:
        return die(*p, true, time);
    default:
        world_.log("%s is stopped for %ld ms", p->name.c_str(), time / ms);
        world_.stop(*p);
        world_.at(time, [this, p] {
            if (p->alive && p->stopped)
                world_.go_on(*p);
        });
    }
}

void scenario::hit_link()
{
    const auto machines = static_cast<unsigned>(writers + targets_);
    const auto a = static_cast<unsigned>(world_.below(machines));
    const bool all = world_.one_in(3), both = !world_.one_in(4), slow = world_.one_in(4);
    const auto only = static_cast<unsigned>(world_.below(machines));
    const time_us time = world_.between(1 * ms, 6 * second);
    world_.log("link of %u to %s is %s for %ld ms", a, all ? "all" : std::to_string(only).c_str(),
            slow   ? "slow"
            : both ? "cut"
                   : "cut in one direction",
            time / ms);
    for (unsigned b = 0; b < machines; ++b) {
        if (b == a || (!all && b != only))
            continue;
        if (slow) {
            network_.slow(a, b, world_.between(1 * ms, 500 * ms));
        } else {
            network_.cut(a, b, true);
            if (both)
                network_.cut(b, a, true);
        }
        world_.at(time, [this, a, b] {
            network_.cut(a, b, false);
            network_.cut(b, a, false);
            network_.slow(a, b, 0);
        });
    }
}

void scenario::hit()
{
    if (!faults_)
        return;
    ++struck_;
    const auto machine_hit = static_cast<unsigned>(world_.below(writers + targets_));
    switch (world_.below(8)) {
    case 0:
    case 1:
    case 2:
        hit_process(machine_hit);
        break;
    case 3:
    case 4:
        hit_link();
        break;
    case 5:
        world_.log("an RDMA connection breaks");
        device_.break_one();
        break;
    case 6:
        world_.log("a control connection breaks");
        network_.reset_one();
        break;
    default:
        // All machines of a rack lose power.
        if (world_.one_in(3))
            for (unsigned m = writers; m < writers + targets_; ++m)
                if (processes_[m]->alive)
                    die(*processes_[m], true, world_.between(1 * ms, second));
        break;
    }
}

void scenario::strike()
{
    if (!faults_)
        return;
    hit();
    world_.at(world_.one_in(3) ? world_.between(0, 20 * ms) : world_.between(20 * ms, 800 * ms), [this] { strike(); });
}

// Restores the local file from a backup while no program has the set open. After a crash, only another inode is
// detected. With the policy availability this file may be the only copy; then the opening must be forced.
void scenario::replace_local_file(unsigned machine)
{
    if (is_pool_ || availability_ || restores_parts_ || !world_.one_in(4))
        return;
    using enum storage::restored;
    storage::restored how = as_other_file;
    // In a short set, the sample is the whole file.
    if (closed_[machine] && !world_.one_in(3))
        how = history_.length == short_length && world_.one_in(2) ? below_file_system : in_place;
    world_.log("the local file of machine %u is restored (%d)", machine, static_cast<int>(how));
    storage_.restore(directory(machine) + "/home", how);
}

// Acts as the operator: starts a writer if none is running, and sometimes starts a second one by mistake.
void scenario::operate()
{
    if (!faults_)
        return;
    const auto machine = static_cast<unsigned>(world_.below(writers));
    process *const p = processes_[machine];
    const bool free = (p == nullptr || !p->alive) && network_.has_power(machine);
    if (free && (!writer_lives() || world_.one_in(3))) {
        world_.log("machine %u takes the set", machine);
        replace_local_file(machine);
        const bool grows = grows_ && world_.one_in(4);
        start_writer(machine, [this, machine, grows] { grows ? (void)grow_closed(machine) : write(machine); });
    }
    world_.at(world_.between(20 * ms, 500 * ms), [this] { operate(); });
}

} // namespace simulation
