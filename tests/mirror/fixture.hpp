// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include <librpma_mirror.h>

#include "child_process.hpp"
#include "cmocka_headers.hpp"
#include "scratch.hpp"

// Fixtures of the tests of mirrored sets: targets, which are real daemons with their own directories, and the set file
// of a writer. Failures end the test.

inline constexpr std::uint64_t length = 8 << 20;
inline constexpr std::uint64_t megabyte = 1 << 20;

// Directory in memory, or where MIRROR_TEST_PLACE specifies.
struct scratch : scratch_directory {
    scratch();
};

// Machine of a daemon: an open network namespace, or the namespace of the test.
struct machine {
    std::string address = "127.0.0.1";
    int name_space = -1; // descriptor
};

// rpmemd --listen on its own port, which a restart does not change.
class target
{
public:
    // Environment of the first start only, as NAME=VALUE.
    explicit target(
            const std::string &options = "", const machine &on = {}, const std::vector<std::string> &environment = {});

    // Writes the set file, with one part.
    void list_part(const std::string &size) const;
    void start(const std::vector<std::string> &environment = {});
    void kill() { process_.kill(); }
    // Returns whether the daemon has exited without being killed.
    bool has_ended() { return process_.has_ended(); }
    void stop() const { process_.stop(); }
    void resume() const { process_.resume(); }
    std::string place() const { return machine_.address + ":" + std::to_string(port_); }
    std::string bytes(std::uint64_t offset, std::uint64_t count) const { return where_.read("part", offset, count); }
    const scratch &where() const { return where_; }
    pid_t pid() const { return process_.pid(); }

private:
    scratch where_;
    const std::string options_;
    const machine machine_;
    unsigned port_ = 0;
    child_process process_;
};

struct cfg_deleter {
    void operator()(rpma_mirror_cfg *cfg) const { rpma_mirror_cfg_delete(&cfg); }
};
using cfg_ptr = std::unique_ptr<rpma_mirror_cfg, cfg_deleter>;

// A machine with a writer: its local copy and its set file.
struct host {
    explicit host(unsigned copy_ = 0) : copy(copy_) {}

    // Configuration with these targets (the first is copy 1) and additional lines. A test that expects a timeout sets
    // the timeout; the default timeouts suit a busy machine.
    cfg_ptr cfg(const std::vector<const target *> &targets, const std::string &more = "") const;
    // Creates the set of this configuration.
    cfg_ptr create(const std::vector<const target *> &targets, const std::string &more = "") const;
    std::string bytes(std::uint64_t offset, std::uint64_t count) const { return where.read("home", offset, count); }

    unsigned copy;
    scratch where;
    bool anonymous = false;
};

// An open set.
class opened
{
public:
    explicit opened(const rpma_mirror_cfg *cfg, unsigned flags = 0);
    opened(rpma_mirror *mirror, char *address) : mirror_(mirror), address_(address) {}
    // Ends without marking the copies as equal, like a crash after which the system closes the connections. The process
    // continues, so unmap closes the lanes only after the promise to another writer.
    ~opened();
    opened(const opened &) = delete;
    opened &operator=(const opened &) = delete;

    rpma_mirror *get() const { return mirror_; }
    rpma_mirror *release() { return std::exchange(mirror_, nullptr); }
    char *address() const { return address_; }
    // Closes the set, which must return the code.
    void close(int code = 0);

    void store(std::uint64_t offset, const std::string &text) const;
    int flush(std::uint64_t offset, std::uint64_t bytes, unsigned flags = 0, unsigned lane = 0) const;
    // Stores and flushes. Fails if the flush fails.
    void put(std::uint64_t offset, const std::string &text) const;
    std::uint64_t length() const;
    rpma_mirror_state state() const;
    rpma_mirror_statistics statistics() const;
    rpma_mirror_recovery_report report() const;
    // Waits for an event of the type.
    rpma_mirror_event expect(rpma_mirror_event_type type) const;

private:
    rpma_mirror *mirror_ = nullptr;
    char *address_ = nullptr;
};

// Opens the set, stores and flushes the text, and closes the set.
void put_and_close(const rpma_mirror_cfg *cfg, const std::string &text, unsigned flags = 0, std::uint64_t offset = 0);

// Returns whether TCP carries all data. Otherwise, on one host, the writer accesses the memory of a stopped target.
bool uses_tcp();
// Skips the test unless TCP carries all data.
void needs_tcp();

// Stops the target. The thread that is returned resumes it after this time.
std::jthread stop_for(unsigned ms, const target &stopped);

// Fixtures for FIXTURE_TEST: the targets, the set of one host, and the open set.
struct one {
    target a;
    std::vector<const target *> all() const { return {&a}; }
};
struct two {
    target a, b;
    std::vector<const target *> all() const { return {&a, &b}; }
};
struct three {
    target a, b, c;
    std::vector<const target *> all() const { return {&a, &b, &c}; }
};
template<class Targets>
struct set_of : Targets {
    // An argument that allocates memory would be leaked if tcp_check skips the test.
    explicit set_of(std::string_view more = "") : cfg(h.create(this->all(), std::string(more))) {}
    const host h;
    const cfg_ptr cfg;
};
template<class Targets, template<class> class Set = set_of>
struct open_set : Set<Targets> {
    using Set<Targets>::Set;
    opened m{this->cfg.get()};
};
// The set of the first host, for which the second host has a configuration.
template<class Targets>
struct two_hosts : Targets {
    explicit two_hosts(const std::string &more = "") : two_hosts(more, more) {}
    two_hosts(const std::string &more_here, const std::string &more_there)
        : here(first.create(this->all(), more_here)), there(second.cfg(this->all(), more_there))
    {
    }
    const host first, second{5};
    const cfg_ptr here, there;
};
// Skips the test before it starts a target, unless TCP carries all data.
struct tcp_check {
    tcp_check() { needs_tcp(); }
};
template<class Fixture>
struct over_tcp : tcp_check, Fixture {
    using Fixture::Fixture;
};

// Returns a zeroed structure of the library with its size.
template<class T>
T sized()
{
    T made{};
    made.size = sizeof(made);
    return made;
}

// Opens the set and closes it. Returns the code of the opening.
int map_code(const rpma_mirror_cfg *cfg, unsigned flags = 0);

// Checks the code of a call and that its message contains the part.
void assert_rejected(int code, int expected, const std::string &part);

// Returns the state that the targets of the configuration report, of a set that might not be openable here.
std::unique_ptr<rpma_mirror_state> inspected(const rpma_mirror_cfg *cfg);

// Forks a process for a writer. It ends with the test, or when a check in it fails; it does not run the remaining
// tests.
pid_t fork_writer();

// Runs f in a forked writer, which is then killed.
void in_process_that_dies(const std::function<void()> &f);
// Runs f with the open set in a forked writer, which is killed while the set is open.
void use_and_die(const rpma_mirror_cfg *cfg, const std::function<void(const opened &)> &f);

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        const int code_ = (call);                                                                                      \
        if (code_ != 0)                                                                                                \
            fail_msg("%s: %s (%s)", #call, rpma_mirror_err_2str(code_), rpma_mirror_error_message());                  \
    } while (0)

// Returns options whose progress function calls f, which must outlive them.
template<class F>
rpma_mirror_resync_options with_progress(F &f)
{
    auto options = sized<rpma_mirror_resync_options>();
    options.progress = [](void *context, const rpma_mirror_progress *p) { return (*static_cast<F *>(context))(*p); };
    options.context = &f;
    return options;
}

// Sets functions that call f, which must outlive the sets of the configuration.
template<class F>
void on_eviction(rpma_mirror_cfg *cfg, F &f)
{
    const auto call = [](void *context, const rpma_mirror_error *e) { return (*static_cast<F *>(context))(*e); };
    assert_ok(rpma_mirror_cfg_set_eviction_function(cfg, call, &f));
}
template<class F>
void on_event(rpma_mirror_cfg *cfg, F &f)
{
    const auto call = [](void *context, const rpma_mirror_event *e) { (*static_cast<F *>(context))(*e); };
    assert_ok(rpma_mirror_cfg_set_event_function(cfg, call, &f));
}
