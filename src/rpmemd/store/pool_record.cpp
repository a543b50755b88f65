// SPDX-License-Identifier: BSD-3-Clause
#include "store/pool_record.hpp"

#include <unistd.h>

#include "config/failure.hpp"
#include "record/mirror_file.hpp"
#include "store/set_file.hpp"

namespace rpmemd
{

pool_record::pool_record(const config &settings, const std::string &set_name)
    : path_(settings.poolset_dir + "/" + set_name + ".record")
{
    // Throws failure if the name leads out of the directory.
    (void)read_set_file(settings.poolset_dir, set_name);
}

// A lock is held only while a record is checked and stored. The client treats a target with a held lock as unreachable.
failure pool_record::write_failure(int error) const
{
    return error == EBUSY
                   ? failure(error, "record " + path_ + ": locked by another rpmemd, which is slow or stopped (end it)")
                   : system_failure("cannot write the record " + path_, error);
}

replica::mirror_state pool_record::read() const
{
    replica::mirror_state state;
    const int error = replica::mirror_file::read(path_.c_str(), state);
    if (error != 0 && error != ENOENT)
        throw system_failure("cannot read the record " + path_, error);
    return state;
}

replica::mirror_state pool_record::prepare(const replica::mirror_promise &promise) const
{
    replica::mirror_file file;
    int error = file.open(path_.c_str());
    if (error == ENOENT)
        return {};
    replica::mirror_state next = file.state();
    if (error == 0 && !may_promise(next, promise))
        throw failure(ESTALE, "promise rejected: another client has opened the pool");
    next.promised = promise;
    if (error == 0 && next != file.state())
        error = file.store(next);
    if (error != 0)
        throw write_failure(error);
    return next;
}

replica::mirror_state pool_record::commit(
        const replica::set_uuid &set, const replica::wire::commit_request &request) const
{
    replica::mirror_state next;
    next.set = set;
    next.copy = request.copy();
    next.length = request.length();
    next.committed = replica::from_wire(request.record());
    next.promised = {next.committed.epoch, next.committed.writer};
    replica::mirror_file file;
    int error = file.open(path_.c_str());
    if (error == ENOENT) {
        error = file.create(path_.c_str(), next);
    } else if (error == 0) {
        const replica::mirror_state &stored = file.state();
        if (stored.set != next.set)
            throw failure(EINVAL, "record " + path_ + ": belongs to another set of targets");
        if (stored.promised != next.promised && !may_promise(stored, next.promised))
            throw failure(ESTALE, "record rejected: another client has opened the pool");
        if (stored.committed != next.committed && !is_newer(next.committed, stored.committed))
            throw failure(ESTALE, "record rejected: " + path_ + " contains a newer one");
        if (stored != next)
            error = file.store(next);
    }
    if (error != 0)
        throw write_failure(error);
    return next;
}

void pool_record::remove() const
{
    if (unlink(path_.c_str()) != 0 && errno != ENOENT)
        throw system_failure("cannot remove the record " + path_);
}

} // namespace rpmemd
