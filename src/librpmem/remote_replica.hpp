// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "region/region.hpp"
#include "session.hpp"
#include "targets.hpp"

namespace rpmem
{

// Remote replica: the copy of a pool on one of its targets, and its daemon. Functions can throw std::bad_alloc before
// connect(). Call order: start(), open(), fetch_record(), open() again to create a pool that failed, connect().
class remote_replica
{
public:
    remote_replica(const call_settings &settings, std::string_view target, const char *set_name);

    struct session_params {
        void *address;
        std::size_t size;
        std::uint64_t pool_size; // size at the target, at least `size`
        unsigned lanes;
        bool create;
        replica::pool_attributes attributes; // create
    };
    // Starts the daemon. With several targets, also reads the membership record.
    int start(const replica::target &to, const std::string &daemon, bool several, const replica::deadline &until);
    int open(const session_params &params, const replica::deadline &until);
    int fetch_record(const replica::deadline &until);
    // Requests the promise of the target, and reads its record.
    int prepare(const replica::mirror_promise &promise, const replica::deadline &until);
    int connect(const session_params &params, const replica::deadline &until);
    int commit(const replica::set_uuid &set, std::uint64_t pool_size, const replica::mirror_record &record);
    int set_attributes(const replica::pool_attributes &attributes);
    int hash(replica::range of, std::string *hashes);
    int close();
    // Closes the pool after opening failed with `error`, and removes what was created.
    void rollback(int error);

    const char *name() const { return name_.c_str(); }
    replica::region &region() { return region_; }
    const replica::pool_attributes &attributes() const { return attributes_; }
    bool has_header() const { return target_.has_header(); }
    const replica::mirror_state &last_state() const { return last_state_; }
    bool is_open() const { return open_; }
    bool is_connected() const { return connected_; }
    bool was_created() const { return created_; }
    int lost() const { return region_.lost().error(); }
    replica::error_text end_of_lost() { return session_.end_of_lost(); }

    std::uint32_t number = 0; // copy number in membership records
    // Progress of opening this replica, and the errno value and message of a failure.
    bool record_fetched = false;
    bool recorded_lost = false;
    int error = 0;
    replica::error_text reason;
    // Stores the failure that was just reported, and kills the daemon of an unresponsive target.
    void save_error();

private:
    int request_state(const replica::request &r, const replica::deadline &until);
    int send_close(bool remove);
    void kill_unresponsive_daemon(int error);

    const call_settings settings_;
    const std::string name_;
    const std::string set_name_;
    replica::region region_;
    session session_;
    replica::wire::region target_; // description in the response to open()
    replica::pool_attributes attributes_;
    replica::mirror_state last_state_;
    bool open_ = false;
    bool connected_ = false;
    bool created_ = false;
};

} // namespace rpmem
