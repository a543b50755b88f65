// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <iterator>
#include <poll.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

constexpr int limit_ms = 120'000;

// Removes a directory after this process has ended. The remover is not a child of it, so that killing a test with all
// its children does not kill the remover.
void remove_when_over(const std::string &path)
{
    int alive[2] = {-1, -1};
    if (pipe2(alive, O_CLOEXEC) != 0)
        abort();
    const pid_t between = fork();
    if (between < 0)
        abort();
    if (between > 0) {
        close(alive[0]); // alive[1] remains open while the process lives
        waitpid(between, nullptr, 0);
        return;
    }
    if (setsid() < 0 || fork() != 0)
        _exit(0);
    // A reader of the test's output must not wait for this process.
    const int null_device = open("/dev/null", O_RDWR);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        dup2(null_device, fd);
    close(alive[1]);
    for (char nothing = 0; read(alive[0], &nothing, 1) < 0;)
        if (errno != EINTR)
            break;
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
    _exit(0);
}

// Parent of all directories of this process. A test that fails or is skipped runs no destructors, and a test that hangs
// is killed.
const std::string &place_of_all()
{
    static const std::string directory = [] {
        const char *const place = getenv("MIRROR_TEST_PLACE");
        std::string path = std::string(place == nullptr ? "/dev/shm" : place) + "/mirror-test-XXXXXX";
        if (mkdtemp(path.data()) == nullptr)
            fail_msg("cannot make a directory in %s", path.c_str());
        remove_when_over(path);
        return path;
    }();
    return directory;
}

} // namespace

scratch::scratch() : scratch_directory(place_of_all()) {}

target::target(const std::string &options, const machine &on, const std::vector<std::string> &environment)
    : options_(options), machine_(on)
{
    list_part("8M");
    where_.write("key", rpmemd_key);
    start(environment);
}

void target::list_part(const std::string &size) const
{
    where_.write("set", "PMEMPOOLSET\nOPTION NOHDRS\n" + size + " " + where_.path + "/part\n");
}

void target::start(const std::vector<std::string> &environment)
{
    std::istringstream options(options_);
    const std::vector<std::string> words(std::istream_iterator<std::string>(options), {});
    process_ = start_rpmemd(
            place(), where_.path, words, {.network = machine_.name_space, .environment = environment}, port_);
}

cfg_ptr host::cfg(const std::vector<const target *> &targets, const std::string &more) const
{
    where.write("key", rpmemd_key);
    std::string text = "RPMAMIRROR\nlocal " + std::to_string(copy) +
                       (anonymous ? " anonymous" : " " + where.path + "/home") + " 8M\nkey-file " + where.path +
                       "/key\n";
    unsigned number = 0;
    for (const target *const t : targets)
        if (++number, t != nullptr)
            text += "target " + std::to_string(number) + " " + t->place() + " set\n";
    // Tests determine when a target returns. A line of the test replaces that with the same key.
    for (const std::string usual : {"device softrdma", "timeouts 20000 60000", "background-resync off"})
        if (more.find(usual.substr(0, usual.find(' '))) == std::string::npos)
            text += usual + "\n";
    where.write("set", text + more);
    rpma_mirror_cfg *cfg = nullptr;
    assert_ok(rpma_mirror_cfg_from_file((where.path + "/set").c_str(), &cfg));
    return cfg_ptr(cfg);
}

cfg_ptr host::create(const std::vector<const target *> &targets, const std::string &more) const
{
    cfg_ptr created = cfg(targets, more);
    assert_ok(rpma_mirror_create(created.get()));
    return created;
}

bool uses_tcp()
{
    return getenv("SOFTRDMA_TRANSPORT") != nullptr;
}

void needs_tcp()
{
    if (!uses_tcp())
        skip();
}

std::jthread stop_for(unsigned ms, const target &stopped)
{
    stopped.stop();
    return std::jthread([ms, &stopped] {
        std::this_thread::sleep_for(std::chrono::milliseconds(ms));
        stopped.resume();
    });
}

int map_code(const rpma_mirror_cfg *cfg, unsigned flags)
{
    void *address = nullptr;
    rpma_mirror *m = nullptr;
    const int code = rpma_mirror_map(cfg, nullptr, flags, &address, &m);
    if (code == 0)
        assert_ok(rpma_mirror_unmap(&m));
    assert_null(m);
    return code;
}

void assert_rejected(int code, int expected, const std::string &part)
{
    assert_int_equal(code, expected);
    if (std::strstr(rpma_mirror_error_message(), part.c_str()) == nullptr)
        fail_msg("'%s' is not in: %s", part.c_str(), rpma_mirror_error_message());
}

opened::opened(const rpma_mirror_cfg *cfg, unsigned flags)
{
    void *address = nullptr;
    assert_ok(rpma_mirror_map(cfg, nullptr, flags, &address, &mirror_));
    address_ = static_cast<char *>(address);
}

opened::~opened()
{
    rpma_mirror_unmap(&mirror_);
}

void opened::close(int code)
{
    if (const int found = rpma_mirror_unmap(&mirror_); found != code)
        fail_msg("%s (%s)", rpma_mirror_err_2str(found), rpma_mirror_error_message());
    assert_null(mirror_);
}

void opened::store(std::uint64_t offset, const std::string &text) const
{
    std::memcpy(address_ + offset, text.data(), text.size());
}

int opened::flush(std::uint64_t offset, std::uint64_t bytes, unsigned flags, unsigned lane) const
{
    const rpma_mirror_range r{offset, bytes};
    return rpma_mirror_optimized_flush(mirror_, lane, &r, 1, flags);
}

void opened::put(std::uint64_t offset, const std::string &text) const
{
    store(offset, text);
    assert_ok(flush(offset, text.size()));
}

std::uint64_t opened::length() const
{
    std::size_t bytes = 0;
    assert_ok(rpma_mirror_get_length(mirror_, &bytes));
    assert_int_equal(state().length, bytes);
    return bytes;
}

rpma_mirror_state opened::state() const
{
    auto s = sized<rpma_mirror_state>();
    assert_ok(rpma_mirror_get_state(mirror_, &s));
    return s;
}

rpma_mirror_statistics opened::statistics() const
{
    auto s = sized<rpma_mirror_statistics>();
    assert_ok(rpma_mirror_get_statistics(mirror_, &s));
    return s;
}

rpma_mirror_recovery_report opened::report() const
{
    auto r = sized<rpma_mirror_recovery_report>();
    assert_ok(rpma_mirror_get_recovery_report(mirror_, &r));
    return r;
}

void put_and_close(const rpma_mirror_cfg *cfg, const std::string &text, unsigned flags, std::uint64_t offset)
{
    opened m(cfg, flags);
    m.put(offset, text);
    m.close();
}

rpma_mirror_event opened::expect(rpma_mirror_event_type type) const
{
    int fd = -1;
    assert_ok(rpma_mirror_get_event_fd(mirror_, &fd));
    for (;;) {
        pollfd waited{fd, POLLIN, 0};
        if (poll(&waited, 1, limit_ms) != 1)
            fail_msg("event %d did not come", type);
        auto e = sized<rpma_mirror_event>();
        assert_ok(rpma_mirror_next_event(mirror_, &e));
        if (e.type == type)
            return e;
    }
}

std::unique_ptr<rpma_mirror_state> inspected(const rpma_mirror_cfg *cfg)
{
    auto s = std::make_unique<rpma_mirror_state>(sized<rpma_mirror_state>());
    assert_ok(rpma_mirror_inspect(cfg, s.get()));
    return s;
}

pid_t fork_writer()
{
    const pid_t pid = fork_child();
    if (pid == 0)
        setenv("CMOCKA_TEST_ABORT", "1", 1);
    return pid;
}

void in_process_that_dies(const std::function<void()> &f)
{
    const pid_t pid = fork_writer();
    if (pid == 0) {
        f();
        ::kill(getpid(), SIGKILL);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

void use_and_die(const rpma_mirror_cfg *cfg, const std::function<void(const opened &)> &f)
{
    in_process_that_dies([&] {
        const opened m(cfg);
        f(m);
        ::kill(getpid(), SIGKILL);
    });
}
