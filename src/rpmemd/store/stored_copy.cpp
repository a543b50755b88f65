// SPDX-License-Identifier: BSD-3-Clause
#include "store/stored_copy.hpp"

#include <chrono>

#include "config/failure.hpp"
#include "config/log.hpp"
#include "store/set_file.hpp"

namespace rpmemd
{

namespace
{

constexpr std::chrono::seconds max_extension_wait(10);

} // namespace

stored_copy::stored_copy(const config &settings, const std::string &name)
    : settings_(settings), name_(name), state_path_(settings.poolset_dir + "/" + name + ".mirror")
{
    check_set_name(name);
}

bool stored_copy::open()
{
    // Throws failure if the name leads out of the directory.
    (void)read_set_file(settings_.poolset_dir, name_);
    replica::mirror_file found;
    switch (const int error = found.open(state_path_.c_str())) {
    case 0:
        file_.emplace(std::move(found));
        return true;
    case ENOENT:
        return false;
    case EBUSY:
        throw failure(error, state_path_ + " is in use by another rpmemd");
    case EBADMSG:
        throw failure(EIO, state_path_ + " is damaged (remove it, and add this target to the set again)");
    default:
        throw system_failure("cannot open " + state_path_, error);
    }
}

void stored_copy::create(const replica::mirror_state &first)
{
    pool created = pool::create(settings_, name_, first.length, {});
    replica::mirror_file file;
    if (const int error = file.create(state_path_.c_str(), first); error != 0) {
        created.rollback_create();
        throw error == EBUSY ? failure(error, state_path_ + " is being created by another rpmemd")
                             : system_failure("cannot create " + state_path_, error);
    }
    file_.emplace(std::move(file));
    pool_.emplace(std::move(created));
    parts_known_ = true;
}

void stored_copy::store(const replica::mirror_state &next)
{
    store(next, next_stamp(next));
}

void stored_copy::store(const replica::mirror_state &next, const replica::copy_stamp &stamp)
{
    if (const int error = file_->store(next, stamp); error != 0)
        throw system_failure("cannot write " + state_path_ + " (correct this, and restart rpmemd)", error);
}

void stored_copy::open_parts(user by)
{
    if (!pool_)
        pool_.emplace(pool::open(settings_, name_, state().length));
    parts_known_ = parts_known_ || by == user::writer;
}

void stored_copy::release_parts()
{
    if (!parts_known_)
        pool_.reset();
}

std::span<const std::byte> stored_copy::content() const
{
    return {pool_->memory().address(), state().length};
}

// A clean record means that no writer uses the parts any longer.
replica::copy_stamp stored_copy::next_stamp(const replica::mirror_state &next)
{
    const bool ends_resync = next.resynced && !state().resynced;
    // A device that registers the memory of a writer changes the times, before the first record of the writer.
    if (next.committed == state().committed && !ends_resync)
        return next.promised == state().promised ? file_->stamp() : file_->stamp().without_content();
    if (extending_)
        return file_->stamp();
    if (!parts_known_)
        return {};
    return current_stamp(next, next.committed.closed && !ends_resync);
}

// Returns the stamp of the parts. `is_quiet`: no writer uses them.
replica::copy_stamp stored_copy::current_stamp(const replica::mirror_state &of, bool is_quiet)
{
    if (is_quiet)
        pool_->stop_populating();
    return replica::current_stamp(pool_->files(), {pool_->memory().address(), of.length}, of.committed.epoch, is_quiet);
}

bool stored_copy::has_changed(user by)
{
    const replica::mirror_record &record = state().committed;
    const replica::copy_stamp &stored = file_->stamp();
    if (stored.size == 0)
        return false;
    try {
        open_parts(by);
    } catch (const failure &error) {
        log(log_level::warn, "parts of '" + name_ + "': cannot compare with the record: " + error.what());
        return false;
    }
    if (record.closed && stored.has_content())
        return match(stored, replica::stamp_content(pool_->files(), content(), record.epoch)) ==
               replica::stamp_match::changed;
    return !replica::has_stamp(pool_->files(), state().length, stored);
}

void stored_copy::extend(std::uint64_t length, std::unique_lock<set_lock> &lock)
{
    const replica::mirror_state before = state();
    const replica::copy_stamp stamp = file_->stamp();
    // A writer of another epoch can store a record during the extension.
    const auto take_stamp = [&] {
        const replica::mirror_state &now = state();
        if (now.committed != before.committed || now.resynced != before.resynced)
            return current_stamp(now, now.committed.closed && !now.resynced);
        return stamp.size == 0 ? stamp : current_stamp(now, stamp.has_content());
    };
    const auto store_stamp = [&](const replica::copy_stamp &next) { store(state(), next); };
    const auto make_extension = [&] {
        struct unlocked {
            std::unique_lock<set_lock> &held;
            explicit unlocked(std::unique_lock<set_lock> &lock) : held(lock) { held.unlock(); }
            ~unlocked() { held.lock(); }
        } const while_extending(lock);
        return pool_->make_extension(settings_, name_, before.length, length);
    };
    struct extending {
        stored_copy &copy;
        explicit extending(stored_copy &of) : copy(of) { copy.extending_ = true; }
        ~extending()
        {
            copy.extending_ = false;
            copy.extended_.notify_all();
        }
    } const claim(*this);
    replica::extend_files(stamp.size == 0 ? stamp : replica::stamp_inodes(pool_->files()), true, store_stamp,
            take_stamp, [&] { pool_->add(make_extension()); });
}

bool stored_copy::wait_for_extension(std::unique_lock<set_lock> &lock)
{
    return extended_.wait_for(lock, max_extension_wait, [this] { return !extending_; });
}

void stored_copy::set_length(std::uint64_t length)
{
    replica::mirror_state next = state();
    next.length = length;
    next.cursor = 0;
    next.resynced = false;
    const replica::copy_stamp &stored = file_->stamp();
    store(next, stored.size == 0 ? stored : current_stamp(next, stored.has_content()));
}

} // namespace rpmemd
