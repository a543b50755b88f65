// SPDX-License-Identifier: BSD-3-Clause
// The arbiter etcd, against Debian's etcd: killed, paused, out of reach, leases that run out, and TLS.
#include "fixture.hpp"

#include <arpa/inet.h>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

constexpr int limit_s = 120;

sockaddr_in on_loopback(unsigned port)
{
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

unsigned free_port()
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at = on_loopback(0);
    socklen_t size = sizeof(at);
    assert_int_equal(bind(fd, reinterpret_cast<sockaddr *>(&at), size), 0);
    assert_int_equal(getsockname(fd, reinterpret_cast<sockaddr *>(&at), &size), 0);
    close(fd);
    return ntohs(at.sin_port);
}

// A program whose output goes to a file.
pid_t run(const std::vector<std::string> &words, const std::string &log)
{
    std::vector<char *> arguments;
    for (const std::string &word : words)
        arguments.push_back(const_cast<char *>(word.c_str()));
    arguments.push_back(nullptr);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        execvp(arguments[0], arguments.data());
        _exit(127);
    }
    return pid;
}

// A cluster of one member, on a port that it keeps.
class etcd
{
public:
    explicit etcd(bool tls = false) : tls_(tls), port_(free_port()), peer_port_(free_port())
    {
        if (tls) {
            const pid_t made =
                    run({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=rpma",
                                "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", file("key"), "-out", file("cert")},
                            file("log"));
            int status = -1;
            waitpid(made, &status, 0);
            assert_int_equal(status, 0);
        }
        start();
    }
    ~etcd() { kill(); }
    etcd(const etcd &) = delete;
    etcd &operator=(const etcd &) = delete;

    void start()
    {
        const std::string peers = "http://127.0.0.1:" + std::to_string(peer_port_);
        std::vector<std::string> words = {"etcd", "--data-dir", file("data"), "--listen-client-urls", url(),
                "--advertise-client-urls", url(), "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
                "--initial-cluster", "default=" + peers};
        if (tls_)
            words.insert(words.end(), {"--cert-file", file("cert"), "--key-file", file("key"), "--client-cert-auth",
                                              "--trusted-ca-file", file("cert")});
        pid_ = run(words, file("log"));
        const sockaddr_in at = on_loopback(port_);
        for (int tries = 0;; ++tries) {
            const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            const bool there = connect(fd, reinterpret_cast<const sockaddr *>(&at), sizeof(at)) == 0;
            close(fd);
            if (there)
                return;
            if (tries == limit_s * 50 || waitpid(pid_, nullptr, WNOHANG) != 0)
                fail_msg("etcd did not start");
            usleep(20'000);
        }
    }
    void kill()
    {
        if (pid_ <= 0)
            return;
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
    void stop() const { ::kill(pid_, SIGSTOP); }
    void go_on() const { ::kill(pid_, SIGCONT); }

    std::string url() const { return (tls_ ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port_); }
    std::string file(const char *name) const { return where_.path + "/" + name; }
    // The line of a set file.
    std::string line(const std::string &more) const { return "arbiter etcd " + url() + " " + more + "\n"; }

private:
    const scratch where_;
    const bool tls_;
    const unsigned port_, peer_port_;
    pid_t pid_ = -1;
};

int map_code(const rpma_mirror_cfg *cfg)
{
    void *address = nullptr;
    rpma_mirror *m = nullptr;
    const int code = rpma_mirror_map(cfg, nullptr, 0, &address, &m);
    if (code == 0)
        assert_ok(rpma_mirror_unmap(&m));
    return code;
}

// A standby machine: it asks until the lease of the writer has run out.
void take_over(const rpma_mirror_cfg *cfg)
{
    int code = 0;
    for (int tries = 0; (code = map_code(cfg)) == RPMA_MIRROR_E_BUSY; ++tries) {
        assert_true(tries < limit_s * 10);
        usleep(100'000);
    }
    if (code != 0)
        fail_msg("%s (%s)", rpma_mirror_err_2str(code), rpma_mirror_error_message());
}

void who_has_the_lease_may_write(void **)
{
    const etcd e;
    target a, b;
    const host first, second(5);
    const cfg_ptr here = first.cfg({&a, &b}, e.line("ttl 60")), there = second.cfg({&a, &b}, e.line("ttl 60"));
    assert_ok(rpma_mirror_create(here.get()));
    {
        opened m(here.get());
        m.put(0, "acknowledged");
        assert_int_equal(map_code(there.get()), RPMA_MIRROR_E_BUSY);
        m.put(0, "undisturbed.");
        b.kill();
        m.put(0, "without b...");
        b.start();
        m.close();
    }
    // Whoever ends gives the right back.
    opened now(there.get());
    assert_true(std::string(now.address(), 12) == "without b...");
    assert_int_equal(now.state().in_sync, 38);
    assert_int_equal(map_code(here.get()), RPMA_MIRROR_E_BUSY);
    now.close();
}

void put_and_die(void *argument)
{
    const opened m(static_cast<const rpma_mirror_cfg *>(argument));
    m.put(0, "acknowledged");
    kill(getpid(), SIGKILL);
}

void the_lease_of_a_dead_writer_runs_out(void **)
{
    const etcd e;
    target a;
    const host first, second(5);
    const cfg_ptr here = first.cfg({&a}, e.line("ttl 5")), there = second.cfg({&a}, e.line("ttl 5"));
    assert_ok(rpma_mirror_create(here.get()));
    in_process_that_dies(put_and_die, here.get());
    take_over(there.get());
    assert_true(second.bytes(0, 12) == "acknowledged");
}

void a_fence_takes_the_right_of_a_living_writer(void **)
{
    const etcd e;
    target a;
    const host first, second(5);
    const cfg_ptr here = first.cfg({&a}, e.line("ttl 60")), there = second.cfg({&a}, e.line("ttl 60"));
    assert_ok(rpma_mirror_create(here.get()));
    const opened m(here.get());
    m.put(0, "acknowledged");
    std::uint64_t epoch = 0;
    assert_ok(rpma_mirror_fence(there.get(), 0, &epoch));
    assert_true(epoch > m.state().epoch);
    m.store(0, "too late....");
    assert_int_equal(m.flush(0, 12), RPMA_MIRROR_E_FENCED);
    assert_int_equal(map_code(there.get()), 0);
    assert_true(second.bytes(0, 12) == "acknowledged");
}

// Longer than the lease, with a pause of etcd in between that is shorter.
void a_writer_keeps_its_lease(void **)
{
    const etcd e;
    target a;
    const host h;
    const cfg_ptr cfg = h.cfg({&a}, e.line("ttl 12"));
    assert_ok(rpma_mirror_create(cfg.get()));
    opened m(cfg.get());
    for (int i = 0; i < 150; ++i) {
        m.put(0, "again");
        if (i == 40)
            e.stop();
        if (i == 70)
            e.go_on();
        usleep(100'000);
    }
    m.close();
}

void without_etcd_the_right_runs_out(void **)
{
    etcd e;
    target a;
    const host h;
    const cfg_ptr cfg = h.cfg({&a}, e.line("ttl 5"));
    assert_ok(rpma_mirror_create(cfg.get()));
    {
        const opened m(cfg.get());
        m.put(0, "acknowledged");
        e.kill();
        m.expect(RPMA_MIRROR_EVENT_NO_ARBITER);
        m.store(0, "too late....");
        assert_int_equal(m.flush(0, 12), RPMA_MIRROR_E_NO_ARBITER);
        assert_true(a.bytes(0, 12) == "acknowledged");
    }
    assert_int_equal(map_code(cfg.get()), RPMA_MIRROR_E_NO_ARBITER);
    e.start();
    take_over(cfg.get());
}

// A target that is lost can be dropped only with the arbiter: nothing is claimed without it.
void no_eviction_without_etcd(void **)
{
    const etcd e;
    target a, b;
    const host h;
    const cfg_ptr cfg = h.cfg({&a, &b}, e.line("ttl 60") + "timeouts 4000 60000\n");
    assert_ok(rpma_mirror_create(cfg.get()));
    const opened m(cfg.get());
    m.put(0, "acknowledged");
    e.stop();
    b.kill();
    m.store(0, "not known...");
    assert_int_equal(m.flush(0, 12), RPMA_MIRROR_E_NO_ARBITER);
    m.expect(RPMA_MIRROR_EVENT_NO_ARBITER);
    e.go_on();
    rpma_mirror_state s{};
    s.size = sizeof(s);
    assert_ok(rpma_mirror_inspect(cfg.get(), &s));
    assert_int_equal(s.in_sync, 7);
}

struct facts {
    std::atomic<std::uint64_t> acknowledged;
    std::atomic<int> ended_with;
};

// It sleeps longer than its lease, and another machine takes the set.
void a_writer_that_slept_is_fenced(void **)
{
    void *const memory = mmap(nullptr, sizeof(facts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    auto *const seen = new (memory) facts{};
    const etcd e;
    target a;
    const host first, second(5);
    const cfg_ptr here = first.cfg({&a}, e.line("ttl 5")), there = second.cfg({&a}, e.line("ttl 5"));
    assert_ok(rpma_mirror_create(here.get()));
    const pid_t writer = fork_writer();
    if (writer == 0) {
        const opened m(here.get());
        for (std::uint64_t number = 1; seen->ended_with == 0; ++number) {
            std::memcpy(m.address(), &number, sizeof(number));
            seen->ended_with = m.flush(0, sizeof(number));
            if (seen->ended_with == 0)
                seen->acknowledged = number;
        }
        _exit(0);
    }
    while (seen->acknowledged < 10) {
        usleep(10'000);
        assert_int_equal(waitpid(writer, nullptr, WNOHANG), 0);
    }
    kill(writer, SIGSTOP);
    take_over(there.get());
    const std::uint64_t acknowledged = seen->acknowledged;
    kill(writer, SIGCONT);
    waitpid(writer, nullptr, 0);
    assert_true(seen->ended_with == RPMA_MIRROR_E_FENCED || seen->ended_with == RPMA_MIRROR_E_NO_ARBITER);
    assert_int_equal(seen->acknowledged, acknowledged);
    std::uint64_t found = 0;
    std::memcpy(&found, second.bytes(0, sizeof(found)).data(), sizeof(found));
    assert_true(found >= acknowledged);
    munmap(memory, sizeof(facts));
}

void tls_is_checked_on_both_sides(void **)
{
    const etcd e(true);
    target a;
    const host h;
    const std::string own = "certificate " + e.file("cert") + " key " + e.file("key");
    const std::string whole = "ca " + e.file("cert") + " " + own;
    assert_ok(rpma_mirror_create(h.cfg({&a}, e.line(whole)).get()));
    assert_int_equal(map_code(h.cfg({&a}, e.line(own)).get()), RPMA_MIRROR_E_NO_ARBITER);
    assert_int_equal(map_code(h.cfg({&a}, e.line("ca " + e.file("cert"))).get()), RPMA_MIRROR_E_NO_ARBITER);
    assert_int_equal(map_code(h.cfg({&a}, e.line(whole)).get()), 0);
}

void lines_that_are_wrong(void **)
{
    rpma_mirror_cfg *cfg = nullptr;
    assert_ok(rpma_mirror_cfg_new(&cfg));
    for (const char *const wrong : {"etcd", "etcd ", "etcd 127.0.0.1:2379", "etcd http://a ttl", "etcd http://a ttl 1",
                 "etcd http://a ttl x", "etcd http://a certificate f", "etcd http://a wrong x", "etcd http://a,b"})
        assert_int_equal(rpma_mirror_cfg_set_arbiter(cfg, wrong), RPMA_MIRROR_E_INVAL);
    assert_ok(rpma_mirror_cfg_set_arbiter(cfg, "etcd http://a:2379,https://b/ ttl 30 prefix /x/ ca /f"));
    rpma_mirror_cfg_delete(&cfg);
}

} // namespace

int main()
{
    for (const char *const program : {"etcd", "openssl"})
        if (std::system((std::string("command -v ") + program + " >/dev/null").c_str()) != 0) {
            print_message("skipped: no %s: apt-get install etcd-server openssl\n", program);
            return 77;
        }
    const CMUnitTest tests[] = {
            cmocka_unit_test(who_has_the_lease_may_write),
            cmocka_unit_test(the_lease_of_a_dead_writer_runs_out),
            cmocka_unit_test(a_fence_takes_the_right_of_a_living_writer),
            cmocka_unit_test(a_writer_keeps_its_lease),
            cmocka_unit_test(without_etcd_the_right_runs_out),
            cmocka_unit_test(no_eviction_without_etcd),
            cmocka_unit_test(a_writer_that_slept_is_fenced),
            cmocka_unit_test(tls_is_checked_on_both_sides),
            cmocka_unit_test(lines_that_are_wrong),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
