// SPDX-License-Identifier: BSD-3-Clause
// Arbiter etcd, with Debian's etcd: killed, paused and unreachable servers, expired leases, and TLS.
#include "arbiter.hpp"
#include "base/loss.hpp"
#include "clocks.hpp"
#include "fixture.hpp"
#include "loopback.hpp"
#include "shared_object.hpp"

#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace
{

constexpr int etcd_limit_s = 120;

// A cluster with one member, on a fixed port.
class etcd
{
public:
    explicit etcd(bool tls = false) : tls_(tls)
    {
        if (tls) {
            const int status =
                    run({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=rpma",
                                "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", file("key"), "-out", file("cert")})
                            .wait();
            assert_int_equal(status, 0);
        }
        for (int tries = 0; tries < 3; ++tries) { // another test can take a port that is free now
            port_ = free_port();
            peer_port_ = free_port();
            if (has_started())
                return;
        }
        fail_msg("etcd did not start");
    }

    void start()
    {
        if (!has_started())
            fail_msg("etcd did not start again");
    }
    void kill() { process_.kill(); }
    void stop() const { process_.stop(); }
    void resume() const { process_.resume(); }

    std::string url() const { return (tls_ ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port_); }
    std::string file(const char *name) const { return where_.path + "/" + name; }
    // Calls the JSON gateway without a user.
    void post(const std::string &path, const std::string &body) const
    {
        const int fd = connect_to_port(port_);
        assert_true(fd >= 0);
        const std::string text =
                "POST /v3/" + path +
                " HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
                "\r\n\r\n" + body;
        assert_int_equal(write(fd, text.data(), text.size()), text.size());
        char answer[16] = "";
        assert_true(read(fd, answer, sizeof(answer) - 1) > 12);
        close(fd);
        if (std::strncmp(answer, "HTTP/1.1 200", 12) != 0)
            fail_msg("etcd refused %s: %s", path.c_str(), answer);
    }
    // Returns the line for a set file.
    std::string line(const std::string &more) const { return "arbiter etcd " + url() + " " + more + "\n"; }

private:
    // Returns false if it exited, for example because another process has its port.
    bool has_started()
    {
        const std::string peers = "http://127.0.0.1:" + std::to_string(peer_port_);
        std::vector<std::string> words = {"etcd", "--data-dir", file("data"), "--listen-client-urls", url(),
                "--advertise-client-urls", url(), "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
                "--initial-cluster", "default=" + peers};
        if (tls_)
            words.insert(words.end(), {"--cert-file", file("cert"), "--key-file", file("key"), "--client-cert-auth",
                                              "--trusted-ca-file", file("cert")});
        process_ = run(words);
        for (int tries = 0; tries < etcd_limit_s * 50 && !process_.has_ended(); ++tries) {
            const int fd = connect_to_port(port_);
            if (fd >= 0) {
                close(fd);
                return true;
            }
            usleep(20'000);
        }
        return false;
    }
    child_process run(const std::vector<std::string> &words) const
    {
        const int log = open(file("log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        child_process started(words, {.output = log, .errors = log});
        close(log);
        return started;
    }

    const scratch where_;
    const bool tls_;
    unsigned port_ = 0, peer_port_ = 0;
    child_process process_;
};

struct etcd_fixture {
    etcd e;
};
template<class Set>
struct with_etcd : etcd_fixture, Set {
    explicit with_etcd(const std::string &line, const std::string &more = "") : Set(e.line(line) + more) {}
};

// Acts as a standby machine: retries until the lease of the writer has expired, and returns the code.
int code_after_lease(const rpma_mirror_cfg *cfg)
{
    int code = 0;
    for (int tries = 0; (code = map_code(cfg)) == RPMA_MIRROR_E_BUSY; ++tries) {
        assert_true(tries < etcd_limit_s * 10);
        usleep(100'000);
    }
    return code;
}

// The copies have what the writer before this one has acknowledged.
void take_over(const rpma_mirror_cfg *cfg, const auto &...copies)
{
    assert_ok(code_after_lease(cfg));
    assert_true(((copies.bytes(0, 12) == "acknowledged") && ...));
}

// Returns the milliseconds that the metrics of the set report.
long lease_left_of(const opened &m)
{
    char *text = nullptr;
    assert_ok(rpma_mirror_get_metrics(m.get(), &text));
    const char *const sample = strstr(text, "\nrpma_mirror_lease_left_milliseconds{");
    assert_non_null(sample);
    const long left = std::strtol(strchr(sample, '}') + 1, nullptr, 10);
    free(text);
    return left;
}

FIXTURE_TEST(with_etcd<two_hosts<two>>, only_the_holder_of_the_lease_writes, "ttl 60")
{
    {
        opened m(here.get());
        m.put(0, "acknowledged");
        assert_true(lease_left_of(m) > 30'000 && lease_left_of(m) <= 54'000); // a tenth is a margin
        assert_int_equal(map_code(there.get()), RPMA_MIRROR_E_BUSY);
        m.put(0, "undisturbed.");
        b.kill();
        m.put(0, "without b...");
        b.start();
        m.close();
    }
    // Closing releases the lease.
    opened now(there.get());
    assert_true(std::string(now.address(), 12) == "without b...");
    assert_int_equal(now.state().in_sync, 38);
    assert_int_equal(map_code(here.get()), RPMA_MIRROR_E_BUSY);
    now.close();
}

void put_and_die(const rpma_mirror_cfg *cfg)
{
    use_and_die(cfg, [](const opened &m) { m.put(0, "acknowledged"); });
}

FIXTURE_TEST(with_etcd<two_hosts<one>>, the_lease_of_a_dead_writer_runs_out, "ttl 5")
{
    put_and_die(here.get());
    take_over(there.get(), second);
}

FIXTURE_TEST(with_etcd<two_hosts<one>>, a_fence_takes_the_right_of_a_living_writer, "ttl 60")
{
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

// Runs for longer than the lease. In between, etcd pauses for less than the lease.
FIXTURE_TEST(with_etcd<open_set<one>>, a_writer_keeps_its_lease, "ttl 12")
{
    for (int i = 0; i < 150; ++i) {
        m.put(0, "again");
        if (i == 40)
            e.stop();
        if (i == 70)
            e.resume();
        usleep(100'000);
    }
    m.close();
}

// Longer than the lease of 2 s.
constexpr unsigned long_time_s = 4;

FIXTURE_TEST(with_etcd<set_of<one>>, a_long_resync_of_an_opening_keeps_the_lease, "ttl 2")
{
    put_and_die(cfg.get());
    bool slept = false;
    auto sleep_once = [&](const rpma_mirror_progress &) {
        if (!std::exchange(slept, true))
            sleep(long_time_s);
        return 0;
    };
    const rpma_mirror_resync_options options = with_progress(sleep_once);
    assert_ok(rpma_mirror_cfg_set_resync_options(cfg.get(), &options));
    take_over(cfg.get());
    assert_true(slept);
}

FIXTURE_TEST(with_etcd<set_of<two>>, a_long_change_of_the_membership_keeps_the_lease, "ttl 2")
{
    auto evict = [](const rpma_mirror_error &) {
        sleep(long_time_s);
        return 0;
    };
    on_eviction(cfg.get(), evict);
    opened m(cfg.get());
    b.kill();
    m.put(0, "without b");
    m.close();
}

FIXTURE_TEST(with_etcd<set_of<one>>, without_etcd_the_right_runs_out, "ttl 5")
{
    {
        const opened m(cfg.get());
        m.put(0, "acknowledged");
        e.kill();
        m.expect(RPMA_MIRROR_EVENT_LEASE_EXPIRED);
        m.store(0, "too late....");
        assert_int_equal(m.flush(0, 12), RPMA_MIRROR_E_ARBITER);
        assert_true(a.bytes(0, 12) == "acknowledged");
    }
    assert_int_equal(map_code(cfg.get()), RPMA_MIRROR_E_ARBITER);
    e.start();
    take_over(cfg.get());
}

// Neither a standby machine nor a machine that fences the writer needs a target that has left the set.
FIXTURE_TEST(with_etcd<two_hosts<two>>, a_silent_target_that_left_prevents_nothing, "ttl 5", "timeouts 3000 12000\n")
{
    use_and_die(here.get(), [&](const opened &m) {
        kill(b.pid(), SIGKILL);
        m.put(0, "acknowledged");
    });
    b.kill();
    b.start();
    b.stop();
    take_over(there.get(), second);
    assert_ok(rpma_mirror_fence(here.get(), 0, nullptr));
    take_over(here.get());
}

// Number of the write to the local state before which this process is killed, or 0.
int ends_before_write = 0;

// Kills a target first: the eviction writes a record.
void end_before_record(const rpma_mirror_cfg *cfg, const target &lost)
{
    use_and_die(cfg, [&](const opened &m) {
        m.put(0, "acknowledged");
        kill(lost.pid(), SIGKILL);
        ends_before_write = 1;
        (void)m.flush(0, 12);
    });
}

// The writer dies when etcd has the record in which it is alone, and no copy has this record yet.
FIXTURE_TEST(
        with_etcd<two_hosts<one>>, a_writer_that_continued_alone_at_etcd_opens_again, "ttl 5", "policy availability\n")
{
    end_before_record(here.get(), a);
    a.kill();
    a.start();
    // The lease must expire first. The other machine lacks the data that this one may have acknowledged alone.
    assert_int_equal(code_after_lease(there.get()), RPMA_MIRROR_E_UNFOUND);
    assert_int_equal(map_code(here.get()), 0);
    assert_true(first.bytes(0, 12) == "acknowledged" && a.bytes(0, 12) == "acknowledged");
}

// The record at etcd shows that the writer had a target in sync, so force is not needed.
FIXTURE_TEST(with_etcd<two_hosts<two>>, etcd_records_that_no_writer_was_alone, "ttl 5", "policy availability\n")
{
    put_and_die(here.get());
    take_over(there.get(), second);
    // The writer dies when etcd has the record without b, and no copy has this record yet.
    end_before_record(there.get(), b);
    b.kill();
    take_over(here.get(), first);
}

// The part becomes another file with its current content, as if it was restored from a backup.
void replace_part(target &of)
{
    const std::string part = of.where().path + "/part";
    of.kill();
    std::filesystem::copy_file(part, part + ".backup");
    std::filesystem::rename(part + ".backup", part);
    of.start();
}

// Only etcd has the record of the eviction of b. The record of a, the last target, has an older version.
FIXTURE_TEST(with_etcd<two_hosts<two>>, a_replaced_part_is_no_source_for_the_record_of_etcd, "ttl 5")
{
    end_before_record(here.get(), b);
    b.kill();
    replace_part(a);
    assert_rejected(code_after_lease(there.get()), RPMA_MIRROR_E_CHANGED, a.place());
    take_over(here.get(), a);
}

// Only etcd has the record in which a is in sync again.
FIXTURE_TEST(with_etcd<two_hosts<two>>, a_resynchronized_copy_is_a_source_for_the_record_of_etcd, "ttl 5")
{
    assert_int_equal(map_code(here.get()), 0); // a clean record
    a.kill();
    put_and_close(here.get(), "acknowledged", RPMA_MIRROR_F_FORCE);
    a.start();
    in_process_that_dies([&] {
        ends_before_write = 2; // the first write stores the promise, the second one the first record
        const opened m(here.get());
    });
    replace_part(b);
    take_over(there.get(), second, b);
}

// A lost target can be evicted only with the arbiter: without it, the writer does not continue alone.
FIXTURE_TEST(with_etcd<open_set<two>>, no_eviction_without_etcd, "ttl 60", "timeouts 4000 60000\n")
{
    m.put(0, "acknowledged");
    e.stop();
    b.kill();
    m.store(0, "not known...");
    assert_int_equal(m.flush(0, 12), RPMA_MIRROR_E_ARBITER);
    m.expect(RPMA_MIRROR_EVENT_LEASE_EXPIRED);
    e.resume();
    auto s = sized<rpma_mirror_state>();
    assert_ok(rpma_mirror_inspect(cfg.get(), &s));
    assert_int_equal(s.in_sync, 7);
}

// The writer does not need the copy that returns, and etcd can respond again before the lease expires.
FIXTURE_TEST(with_etcd<open_set<two>>, a_copy_that_returns_without_etcd_ends_no_writer, "ttl 60",
        "timeouts 4000 60000\nbackground-resync off\n")
{
    b.kill();
    m.put(0, "without b...");
    b.start();
    e.stop();
    assert_int_equal(rpma_mirror_resync(m.get(), 2, nullptr), RPMA_MIRROR_E_ARBITER);
    m.put(0, "no etcd....");
    e.resume();
    assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
    m.put(0, "complete....");
    assert_true(b.bytes(0, 12) == "complete....");
    m.close();
}

// Called once, with the connection to etcd: before the next transaction is sent, and after that.
std::function<void(int fd)> before_transaction, after_transaction;

// curl repeats the transaction, which was executed.
FIXTURE_TEST(with_etcd<set_of<one>>, a_writer_whose_response_was_lost_is_no_other_writer, "ttl 60")
{
    after_transaction = [](int fd) {
        char response[4096];
        recv(fd, response, sizeof(response), 0);
        shutdown(fd, SHUT_RDWR);
    };
    assert_ok(map_code(cfg.get()));
    assert_true(after_transaction == nullptr);
}

// The failed opening does not wait for the release of its lease.
FIXTURE_TEST(with_etcd<set_of<one>>, an_opening_ends_although_etcd_is_silent, "ttl 5", "timeouts 3600000 24000\n")
{
    before_transaction = [&](int) { e.stop(); };
    assert_int_equal(map_code(cfg.get()), RPMA_MIRROR_E_ARBITER);
    assert_true(before_transaction == nullptr);
    e.resume();
    take_over(cfg.get());
}

// Closing a set cancels the renewal of its lease, whose requests can wait for a third of the lease time.
TEST(a_request_to_a_silent_etcd_is_canceled)
{
    const etcd e;
    e.stop();
    Dl_info library{};
    assert_true(dladdr(dlsym(RTLD_DEFAULT, "rpma_mirror_map"), &library) != 0);
    const auto directory = std::filesystem::path(library.dli_fname).parent_path();
    void *const module = dlopen((directory / "librpma_mirror/etcd.so").c_str(), RTLD_NOW);
    assert_non_null(module);
    using make_function = mirror::arbiter *(const std::string *);
    const auto make = reinterpret_cast<make_function *>(dlsym(module, "rpma_mirror_etcd_arbiter"));
    const std::string words = e.url();
    const std::unique_ptr<mirror::arbiter> arbiter(make(&words));
    replica::loss canceled;
    assert_int_equal(canceled.open(), 0);
    canceled.declare(ECANCELED);
    bool has_failed = false;
    try {
        arbiter->newest({}, true, replica::deadline(replica::deadline(0), canceled.fd()));
    } catch (const std::runtime_error &) {
        has_failed = true;
    }
    assert_true(has_failed);
}

// The lease started before the transaction that acquired the set. The machine is suspended for half of the lease before
// this transaction, and again later.
FIXTURE_TEST(with_etcd<set_of<one>>, a_suspended_writer_has_no_lease, "ttl 600", "policy availability\n")
{
    before_transaction = [](int) { suspended_s += 300; };
    const opened m(cfg.get());
    assert_true(before_transaction == nullptr);
    assert_true(lease_left_of(m) <= 240'000);
    a.kill();
    m.put(0, "alone");
    suspended_s += 300;
    assert_int_equal(m.flush(0, 5), RPMA_MIRROR_E_ARBITER);
}

TEST(tls_is_checked_on_both_sides)
{
    const etcd e(true);
    target a;
    const host h;
    const std::string own = "certificate " + e.file("cert") + " key " + e.file("key");
    const std::string whole = "ca " + e.file("cert") + " " + own;
    h.create({&a}, e.line(whole));
    assert_int_equal(map_code(h.cfg({&a}, e.line(own)).get()), RPMA_MIRROR_E_ARBITER);
    assert_int_equal(map_code(h.cfg({&a}, e.line("ca " + e.file("cert"))).get()), RPMA_MIRROR_E_ARBITER);
    assert_int_equal(map_code(h.cfg({&a}, e.line(whole)).get()), 0);
}

// With users enabled, etcd accepts only requests with a password; a login is repeated after etcd has forgotten all
// tokens.
TEST(a_user_has_a_password)
{
    etcd e;
    for (const char *const user : {"root", "writer"}) {
        e.post("auth/user/add", std::string(R"({"name":")") + user + R"(","password":"secret"})");
        e.post("auth/role/add", std::string(R"({"name":")") + user + R"("})");
        e.post("auth/user/grant", std::string(R"({"user":")") + user + R"(","role":")" + user + R"("})");
    }
    // The range from /rpma/mirror/ to /rpma/mirror0.
    e.post("auth/role/grant", R"({"name":"writer","perm":{"permType":"READWRITE","key":"L3JwbWEvbWlycm9yLw==",)"
                              R"("range_end":"L3JwbWEvbWlycm9yMA=="}})");
    e.post("auth/enable", "{}");
    target a;
    const host h;
    h.where.write("password", "secret\n");
    h.where.write("wrong", "word\n");
    const std::string user = "user writer password-file " + h.where.path;
    h.create({&a}, e.line(""));
    assert_int_equal(map_code(h.cfg({&a}, e.line("")).get()), RPMA_MIRROR_E_ARBITER);
    assert_int_equal(map_code(h.cfg({&a}, e.line(user + "/wrong")).get()), RPMA_MIRROR_E_ARBITER);
    assert_null(std::strstr(rpma_mirror_error_message(), "word\n"));
    assert_int_equal(map_code(h.cfg({&a}, e.line(user + "/none")).get()), RPMA_MIRROR_E_SYSTEM);
    const cfg_ptr cfg = h.cfg({&a}, e.line(user + "/password ttl 60"));
    opened m(cfg.get());
    e.kill();
    e.start();
    target b;
    assert_ok(rpma_mirror_add_target(m.get(), 2, b.place().c_str(), "set", nullptr));
    m.close();
    chmod((h.where.path + "/password").c_str(), 0644);
    assert_int_equal(map_code(cfg.get()), RPMA_MIRROR_E_SYSTEM);
}

TEST(lines_that_are_wrong)
{
    rpma_mirror_cfg *cfg = nullptr;
    assert_ok(rpma_mirror_cfg_new(&cfg));
    for (const char *const wrong :
            {"etcd", "etcd ", "etcd 127.0.0.1:2379", "etcd http://a ttl", "etcd http://a ttl 1", "etcd http://a ttl x",
                    "etcd http://a certificate f", "etcd http://a wrong x", "etcd http://a user x", "etcd http://a,b"})
        assert_int_equal(rpma_mirror_cfg_set_arbiter(cfg, wrong), RPMA_MIRROR_E_INVAL);
    assert_ok(rpma_mirror_cfg_set_arbiter(cfg, "etcd http://a:2379,https://b/ ttl 30 prefix /x/ ca /f"));
    rpma_mirror_cfg_delete(&cfg);
}

} // namespace

// Replaces the function of the C library.
extern "C" ssize_t pwrite(int fd, const void *from, size_t size, off_t at)
{
    if (ends_before_write > 0 && --ends_before_write == 0)
        kill(getpid(), SIGKILL);
    return syscall(SYS_pwrite64, fd, from, size, at);
}

static void call_once(std::function<void(int)> &f, int fd)
{
    if (f)
        std::exchange(f, nullptr)(fd);
}

// Replaces the function of the C library, for curl.
extern "C" ssize_t send(int fd, const void *from, size_t size, int flags)
{
    const std::string_view text(static_cast<const char *>(from), size);
    const bool is_transaction = text.find("/v3/kv/txn") != std::string_view::npos;
    if (is_transaction)
        call_once(before_transaction, fd);
    const ssize_t sent = syscall(SYS_sendto, fd, from, size, flags, nullptr, 0);
    if (is_transaction)
        call_once(after_transaction, fd);
    return sent;
}

int main()
{
    for (const char *const program : {"etcd", "openssl"})
        if (std::system((std::string("command -v ") + program + " >/dev/null").c_str()) != 0) {
            print_message("skipped: no %s: apt-get install etcd-server openssl\n", program);
            return 77;
        }
    return run_registered_tests();
}
