// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "heap.hpp"
#include "region.hpp"
#include "session.hpp"
#include "targets.hpp"

namespace rpmem
{

// The copy of a pool on one of its targets, from the start of the daemon to its end. Functions that return int return
// 0, or -1 with the failure reported. start(), open(), learn() and connect() follow one another; a pool that could not
// be opened may be created after learn().
class leg : public heap_object
{
public:
    leg(const call_settings &settings, std::string_view target, const char *set_name);

    struct terms {
        void *address;
        std::size_t size;
        std::uint64_t pool_size; // at the target; not less
        unsigned lanes;
        bool create;
        replica::pool_attributes attributes; // create
    };
    // The daemon.
    int start(const replica::target &to, const daemon_command &chosen, const replica::deadline &until);
    // The pool at the target.
    int open(const terms &wanted, const replica::deadline &until);
    // What the target remembers of a pool that several have.
    int learn(const replica::deadline &until);
    // The data path.
    int connect(const terms &wanted, const replica::deadline &until);
    // Has the target keep who of several has everything.
    int commit(const replica::set_uuid &set, std::uint64_t pool_size, const replica::mirror_record &record);
    int set_attributes(const replica::pool_attributes &attributes);
    int close();
    // After an opening that failed with the error: what was created goes again.
    void undo(int error);

    const char *name() const { return name_.c_str(); }
    replica::region &region() { return region_; }
    const replica::pool_attributes &attributes() const { return session_answer_.attributes; }
    bool has_header() const { return session_answer_.has_header; }
    const replica::mirror_state &known() const { return known_; }
    bool keeps_record() const { return session_.keeps_record(); }
    bool is_open() const { return open_; }
    bool is_connected() const { return connected_; }
    bool was_created() const { return created_; }
    // Why the copy is lost, or 0.
    int lost() const { return region_.lost().error(); }
    // How the daemon of a lost copy ended; empty if it runs.
    replica::error_text end_of_lost() { return session_.end_of_lost(); }

    // As pools number them in their records.
    std::uint32_t number = 0;
    // What opening found, and what became of it: an errno and its text.
    bool learned = false;
    bool recorded_lost = false;
    int error = 0;
    replica::error_text why;
    // Keeps what was just reported, and ends the daemon of a target that does not respond.
    void keep_failure();

private:
    int check_level() const;
    int tell_close(bool remove);
    void give_up_silent_target(int error);

    const call_settings settings_;
    const replica_name_text name_;
    const replica::short_text<replica::longest_set_name> set_name_;
    replica::region region_;
    session session_;
    replica::session_answer session_answer_;
    replica::mirror_state known_;
    bool open_ = false;
    bool connected_ = false;
    bool created_ = false;
};

} // namespace rpmem
