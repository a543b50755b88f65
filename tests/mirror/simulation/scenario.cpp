// SPDX-License-Identifier: BSD-3-Clause
#include "scenario.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

#include "channel/tls_stream.hpp"
#include "listen/mirror_session.hpp"
#include "system.hpp"

namespace simulation
{

namespace
{

history *observer = nullptr;

constexpr unsigned char unused = 0xa5;
constexpr const char *key_text = "writer:202122232425262728292a2b2c2d2e2f\n";

// State of a daemon.
struct daemon {
    explicit daemon(const std::string &directory, unsigned machine) : sets(settings, address_of(machine))
    {
        settings.poolset_dir = directory;
        settings.listen = address_of(machine) + ":7";
        settings.threads = 1;
    }

    rpmemd::config settings;
    const replica::tls_keys keys = replica::parse_keys(key_text);
    rpmemd::mirror_sets sets;
    std::uint64_t last = 0;
};

} // namespace

void message_sent(network::socket &by, const std::string &bytes)
{
    replica::response a;
    if ((!by.owner->accept && by.owner->standard < 0) || bytes.size() < replica::frame_header_size ||
            replica::decode(std::string_view(bytes).substr(replica::frame_header_size), a) != replica::decoded::good)
        return;
    observer->answered(by.owner->machine, a);
    if (const auto client = by.other.lock())
        observer->responded(*client->owner, a);
    // Faults are most effective when the target has state that the writer does not know.
    using replica::request;
    if ((a.kind() == request::kCommit || a.kind() == request::kCreateCopy || a.kind() == request::kResize) &&
            by.over->in.one_in(12)) {
        by.over->in.log("the answer to a change of state is lost");
        by.over->reset_at_once(by);
    }
}

std::uint64_t scenario::pick_length(world &in, bool is_pool)
{
    if (in.one_in(16))
        return batches_length;
    return !is_pool && in.one_in(4) ? full_length : short_length;
}

scenario::scenario(std::uint64_t seed, const std::string &place, bool is_pool, bool loud)
    : place_(place + "/" + std::to_string(seed)), world_(seed), network_(world_), storage_(world_), device_(network_),
      is_pool_(is_pool), targets_(static_cast<unsigned>(is_pool ? 2 + world_.below(2) : 1 + world_.below(3))),
      history_(world_, device_, places(), pick_length(world_, is_pool)), availability_(world_.one_in(4)),
      background_(world_.one_in(2)), program_resyncs_(!background_ || seed % 8 != 3),
      flushes_all_(!is_pool && seed % 8 == 5), slow_count_(seed % 8 == 7 ? 2 : 0), grows_(!is_pool && world_.one_in(2)),
      restores_parts_(world_.one_in(2)), operation_ms_(static_cast<unsigned>(world_.between(40, 400))),
      open_ms_(static_cast<unsigned>(world_.between(500, 3000)))
{
    world_.loud = loud;
    world_.test = is_pool ? "mirror.simulation_pools" : "mirror.simulation";
    observer = &history_;
    storage_.used = grows_ ? history_.max_length() : history_.length;
    storage_.persistent_memory = world_.one_in(2);
    device_.software = world_.one_in(2);
    device_.native_writers = world_.one_in(2);
    device_.native_targets = world_.one_in(2);
    keeper::instance = !is_pool && world_.one_in(4) ? &keeper_ : nullptr;
    make_directories();
}

unsigned scenario::copy_of(unsigned machine) const
{
    return is_pool_ ? machine - writers : machine == 0 ? 0 : machine == 1 ? other_copy : machine - 1;
}

std::vector<history::place> scenario::places() const
{
    std::vector<history::place> all(other_copy + 1, history::place{max_machines, "", ""});
    for (unsigned m = is_pool_ ? writers : 0; m < writers + targets_; ++m)
        all[copy_of(m)] = {m, directory(m) + (m < writers ? "/home" : "/part"),
                directory(m) + (is_pool_             ? "/set.record"
                                       : m < writers ? "/home.mirror"
                                                     : "/set.mirror")};
    return all;
}

void scenario::make_directories()
{
    for (unsigned m = 0; m < writers + targets_; ++m) {
        std::filesystem::create_directories(directory(m));
        std::ofstream(directory(m) + "/key") << key_text;
        chmod((directory(m) + "/key").c_str(), 0600);
        list_part(m, history_.length);
        // Unused bytes of a file that existed before the set can have any content.
        if (grows_ && m < writers && world_.one_in(2))
            storage_.make(directory(m) + "/home", history_.max_length());
    }
}

// Writes the set file of a target, whose part is made for the length.
void scenario::list_part(unsigned machine, std::uint64_t length) const
{
    const std::uint64_t size =
            grows_ && history_.length == full_length ? std::max(length, min_part) : storage::max_used;
    std::ofstream(directory(machine) + "/set") << "PMEMPOOLSET\nOPTION NOHDRS\n"
                                               << size << ' ' << directory(machine) << "/part\n";
}

void scenario::fill_unused()
{
    for (const history::place &p : history_.copies)
        if (file *const f = p.data.empty() ? nullptr : storage_.named(p.data); f != nullptr) {
            std::fill(f->live + history_.length, f->live + f->size(), std::byte{unused});
            std::fill(f->durable.begin() + static_cast<std::ptrdiff_t>(history_.length), f->durable.end(),
                    std::byte{unused});
        }
}

void scenario::start_target(unsigned machine)
{
    network_.power(machine, true);
    process *const p = world_.start("target " + std::to_string(machine - 1), machine);
    processes_[machine] = network_.servers[machine] = p;
    if (is_pool_) {
        p->accept = [this, machine](int fd) { start_daemon(machine, fd); };
        return;
    }
    auto *const d = new daemon(directory(machine), machine);
    p->accept = [this, p, d](int fd) {
        world_.spawn(*p, [d, fd] {
            auto caller = replica::tls_stream::accept(replica::fd_owner(fd), d->keys);
            if (caller->shake_hands(replica::deadline(10'000)) != replica::handshake::complete)
                return;
            rpmemd::mirror_session served(d->sets, std::move(caller), rpmemd::access(), ++d->last);
            served.run();
        });
    };
}

void scenario::start_writer(unsigned machine, std::function<void()> work)
{
    network_.power(machine, true);
    process *const p = world_.start("writer " + std::to_string(machine), machine);
    processes_[machine] = p;
    world_.spawn(*p, [this, p, work = std::move(work)] {
        work();
        world_.at(0, [this, p] { world_.kill(*p, false); });
        world_.sleep(second);
    });
}

bool scenario::writer_lives() const
{
    for (unsigned m = 0; m < writers; ++m)
        if (processes_[m] != nullptr && processes_[m]->alive)
            return true;
    return false;
}

// All machines except the writers return. The writers end.
void scenario::calm_down()
{
    faults_ = false;
    storage_.full.clear();
    keeper_.silent_until = 0;
    network_.heal();
    for (process *const d : daemons_)
        if (d->alive && d->stopped)
            world_.go_on(*d);
    for (unsigned m = 0; m < writers; ++m)
        if (processes_[m] != nullptr)
            world_.kill(*processes_[m], false);
    for (unsigned m = writers; m < writers + targets_; ++m) {
        list_part(m, history_.requested_length);
        if (!processes_[m]->alive)
            start_target(m);
        else if (processes_[m]->stopped)
            world_.go_on(*processes_[m]);
    }
}

void scenario::run()
{
    for (unsigned m = writers; m < writers + targets_; ++m)
        start_target(m);
    for (int tries = 0; !created_; ++tries) {
        start_writer(0, [this] { is_pool_ ? create_pool() : create(0); });
        process *const creator = processes_[0];
        if (tries < 10 && world_.one_in(3))
            world_.at(world_.between(0, 20 * ms), [this, creator] {
                if (creator->alive)
                    die(*creator, world_.one_in(2), 0);
            });
        if (!world_.run([&] { return !writer_lives(); }, 60 * second))
            world_.violated("the set was not created");
    }
    fill_unused();
    start_writer(0, [this] { write(0); });
    world_.at(world_.between(0, 300 * ms), [this] { strike(); });
    operate();
    world_.run([] { return false; }, world_.between(1, 8) * second);
    if (!is_pool_ && targets_ > 1 && world_.one_in(2))
        last();
    // No more faults occur.
    calm_down();
    const auto first = static_cast<unsigned>(world_.below(writers));
    for (unsigned turn = 0; finished_ < 2; ++turn) {
        if (turn == 40)
            world_.violated("the set can no longer be opened");
        const unsigned m = (first + turn) % writers;
        replace_local_file(m);
        start_writer(m, [this, m] { is_pool_ ? finish_pool(m) : finish(m); });
        if (!world_.run([&] { return !writer_lives(); }, 100 * second))
            world_.violated("the writer does not come to an end");
    }
    std::filesystem::remove_all(place_);
}

std::string scenario::summary() const
{
    return std::to_string(targets_) + " targets, " + (availability_ ? "availability" : "safety") + ", " +
           (keeper::instance != nullptr ? "arbiter, " : "") + std::to_string(struck_) + " faults, " +
           std::to_string(history_.openings) + " openings, " + std::to_string(history_.flushes) + " flushes, " +
           (grows_ ? std::to_string(history_.growths) + " growths, " : "") + std::to_string(world_.now() / ms) + " ms";
}

} // namespace simulation
