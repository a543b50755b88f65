// SPDX-License-Identifier: BSD-3-Clause
// Pools of librpmem: a program on one machine, whose copies are all on targets. Every session has a daemon of its own.
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "config/config.hpp"
#include "session.hpp"

// From src/rpmemd/serve/session.hpp; here another header has this name.
namespace rpmemd
{
exit_status serve_client(const config &settings);
}

namespace simulation
{

namespace
{

// A daemon ends a session whose client is silent for this time.
constexpr unsigned session_timeout_s = 2;

} // namespace

// Starts the daemon of a session, as sshd does.
void scenario::start_daemon(unsigned machine, int fd)
{
    process *const d = world_.start("daemon " + std::to_string(machine - writers), machine);
    std::erase_if(daemons_, [](const process *p) { return !p->alive; });
    daemons_.push_back(d);
    network_.hand_over(fd, *d);
    d->environment["SSH_CONNECTION"] = address_of(0) + " 1 " + address_of(machine) + " 22";
    world_.spawn(*d, [this, d, machine] {
        rpmemd::config settings;
        settings.poolset_dir = directory(machine);
        settings.threads = 1;
        settings.limits.sessions = UINT32_MAX;
        settings.session_timeout_s = session_timeout_s;
        rpmemd::serve_client(settings);
        world_.at(0, [this, d] { world_.kill(*d, false); });
        world_.sleep(second);
    });
}

std::string scenario::target_list() const
{
    std::string list;
    for (unsigned m = writers; m < writers + targets_; ++m)
        list += (list.empty() ? "" : ",") + address_of(m);
    return list;
}

RPMEMpool *scenario::new_handle(session &s, bool create)
{
    // The memory of the program, until its process ends.
    const auto memory = std::shared_ptr<void>(std::aligned_alloc(4096, history_.length), std::free);
    world_.here().at_end.push_back([memory](bool) {});
    s.address = static_cast<char *>(memory.get());
    // A session has three times as long. When there are no faults, there are no delays either.
    world_.here().environment["RPMEM_OP_TIMEOUT_MS"] = std::to_string(faults_ ? operation_ms_ : 1000);
    world_.here().environment["RPMEM_STATE_FILE"] = directory(s.machine) + "/lost";
    unsigned n = lanes;
    return create ? rpmem_create(target_list().c_str(), "set", s.address, history_.length, &n, nullptr)
                  : rpmem_open(target_list().c_str(), "set", s.address, history_.length, &n, nullptr);
}

void scenario::create_pool()
{
    for (int tries = 0; !created_; ++tries) {
        session s;
        RPMEMpool *const pool = new_handle(s, true);
        created_ = pool != nullptr && rpmem_close(pool) == 0;
        if (!created_ && tries == 100)
            world_.violated("cannot create: %s", rpmem_errormsg());
        world_.sleep(100 * ms);
    }
}

bool scenario::open_pool(session &s, unsigned tries)
{
    for (; tries > 0; --tries) {
        s.pool = new_handle(s, false);
        s.code = s.pool != nullptr ? 0 : errno;
        if (s.code == 0) {
            const replica::mirror_record record = history_.committed_by(world_.here());
            s.epoch = record.epoch;
            const std::uint32_t in_sync = history_.in_sync(record);
            history_.opened(
                    static_cast<unsigned>(std::countr_zero(in_sync)), record.epoch, in_sync, 0, history_.length);
            if (rpmem_read(s.pool, s.address, 0, history_.length, 0) == 0) {
                history_.found(s.epoch, s.address);
                return true;
            }
            rpmem_close(s.pool);
        }
        world_.log("cannot open: %s", rpmem_errormsg());
        if (s.code == EINVAL || s.code == ENOMEM)
            world_.violated("cannot open: %s", rpmem_errormsg());
        world_.sleep(world_.between(10 * ms, 300 * ms));
    }
    return false;
}

int scenario::flush_pool(session &s, unsigned lane, const history::call &c)
{
    const std::uint64_t at = history_.at(c.slot);
    const auto each = [&](auto f) {
        const bool failed = f(at, 8) != 0 || f(at + 1000, 8) != 0 || f(at + 4096, 16) != 0;
        return failed ? -1 : 0;
    };
    int result = 0;
    switch (world_.below(4)) {
    case 0:
        result = each([&](std::uint64_t from, std::size_t n) { return rpmem_persist(s.pool, from, n, lane, 0); });
        break;
    case 1:
        result = each([&](std::uint64_t from, std::size_t n) { return rpmem_deep_persist(s.pool, from, n, lane); });
        break;
    case 2:
        result = rpmem_persist(s.pool, at, 4112, lane, 0);
        break;
    default:
        result = each([&](std::uint64_t from, std::size_t n) { return rpmem_flush(s.pool, from, n, lane, 0); });
        if (result == 0)
            result = rpmem_drain(s.pool, lane, 0);
    }
    return result == 0 ? 0 : errno;
}

// All machines return. All copies must have the same content.
void scenario::finish_pool(unsigned machine)
{
    session s;
    s.machine = machine;
    if (!open_pool(s, 5))
        return;
    const std::uint32_t all = all_targets();
    // If a client lost its power, its daemon locks the parts until it detects the loss.
    if (history_.in_sync(history_.newest_record()) != all) {
        rpmem_close(s.pool);
        world_.sleep(second);
        return;
    }
    const history::call c = store(s, 0);
    if (rpmem_persist(s.pool, 4096, history_.length - 4096, 0, 0) != 0)
        return end_unless_overtaken(s, "a flush fails");
    history_.acknowledged(c);
    if (rpmem_close(s.pool) != 0)
        return end_unless_overtaken(s, "the pool cannot be closed");
    history_.equal(0, all);
    if (const replica::mirror_record r = history_.newest_record(); !r.closed || history_.in_sync(r) != all)
        return end_unless_overtaken(s, "its record is not clean");
    ++finished_;
}

} // namespace simulation
