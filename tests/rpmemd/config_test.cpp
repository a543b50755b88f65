// SPDX-License-Identifier: BSD-3-Clause
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.hpp"

using namespace rpmemd;

namespace
{

config read(std::vector<const char *> words)
{
    words.insert(words.begin(), "rpmemd");
    const std::optional<config> found = read_config(static_cast<int>(words.size()), words.data());
    assert_true(found.has_value());
    return *found;
}

// A home directory.
struct with_home {
    with_home() { setenv("HOME", home.path.c_str(), 1); }
    const scratch home;
};

struct ending {
    int status = -1;
    std::string text;
};

ending ending_of(const std::vector<const char *> &words)
{
    try {
        (void)read(words);
    } catch (const config_error &error) {
        return {error.status(), error.what()};
    }
    return {};
}

FIXTURE_TEST(with_home, there_are_defaults)
{
    const config c = read({});
    assert_string_equal(c.log_file.c_str(), "/var/log/rpmemd.log");
    assert_string_equal(c.poolset_dir.c_str(), home.path.c_str());
    assert_true(c.use_syslog && !c.persist_apm && !c.remove && !c.force && !c.pool_set && c.threads == 0);
    assert_true(c.level == log_level::err);
    assert_true(c.read_only_header && !c.follow_symlinks && !c.umask);
}

FIXTURE_TEST(with_home, a_file_sets_everything)
{
    home.write("c",
            "\n  # all of it\nlog-file = /tmp/a log # with a blank\nlog-level=debug\n\tpersist-apm =yes\n"
            "persist-general= no\nuse-syslog = yes\npoolset-dir = $HOME\numask = 027\nsession-timeout = 9\n"
            "read-only-header = no\nfollow-symlinks = yes\nmax-lanes = 5\nmax-threads = 6\nmax-bytes = 7\n"
            "max-sessions = 8\nmax-unauthenticated = 9\nmax-unauthenticated-per-address = 3\n"
            "max-readers = 2\nmax-reader-bytes = 4294967296\nidentity = a read,write x*\nidentity = b administer *");
    const config c = read({"--config", (home.path + "/c").c_str()});
    assert_string_equal(c.log_file.c_str(), "/tmp/a log");
    assert_true(c.use_syslog && c.persist_apm && !c.read_only_header && c.follow_symlinks);
    assert_true(c.level == log_level::debug && c.umask == 027u && c.session_timeout_s == 9);
    assert_string_equal(c.poolset_dir.c_str(), home.path.c_str());
    assert_true(c.limits.lanes == 5 && c.limits.threads == 6 && c.limits.bytes == 7 && c.limits.sessions == 8);
    assert_true(c.limits.unauthenticated == 9 && c.limits.unauthenticated_per_address == 3);
    assert_true(c.grants.size() == 2 && c.grants[0].identity == "a" && c.grants[0].pattern == "x*");
    assert_true(c.grants[0].roles == (role_read | role_write) && c.grants[1].roles == role_administer);
    assert_true(c.limits.readers == 2 && c.limits.reader_bytes == std::uint64_t{1} << 32);
}

FIXTURE_TEST(with_home, bad_lines_name_file_and_line)
{
    const std::string path = home.path + "/c";
    const struct {
        const char *line, *reason;
    } bad[] = {{"nthreads = 3", "unknown key 'nthreads'"}, {"remove = a", "unknown key 'remove'"},
            {"config = a", "unknown key 'config'"}, {"Log-Level = err", "unknown key 'Log-Level'"},
            {"log-level = error", "invalid value 'error'"}, {"log-level", "expected key = value"},
            {"log-level =", "invalid value ''"}, {"use-syslog = maybe", "invalid value 'maybe'"},
            {"use-syslog = Yes", "invalid value 'Yes'"}, {"use-syslog = \"yes\"", "invalid value '\"yes\"'"},
            {"persist-apm = 1", "invalid value '1'"}, {"persist-general = x", "invalid value 'x'"},
            {"poolset-dir = sets", "must be an absolute path"}, {"log-file =", "invalid value ''"},
            {"umask = 0888", "octal"}, {"umask = 1000", "octal"}, {"session-timeout = -1", "invalid value '-1'"},
            {"max-bytes = 12x", "invalid value '12x'"}, {"max-lanes = 0", "invalid value '0'"},
            {"max-bytes = 99999999999999999999", "invalid value"}, {"= x", "unknown key ''"},
            {"identity = a", "NAME ROLE[,ROLE ...] PATTERN"}, {"identity = a read x y", "NAME ROLE[,ROLE ...] PATTERN"},
            {"identity = a all *", "invalid role 'all'"}, {"identity = a read,,write *", "invalid role ''"}};
    for (const auto &[line, reason] : bad) {
        home.write("c", std::string("log-level = info\n\n") + line + "\nlog-level = err\n");
        const ending e = ending_of({"-c", path.c_str()});
        assert_int_equal(e.status, exit_failed);
        if (e.text.find(path + ":3: ") != 0 || e.text.find(reason) == std::string::npos)
            fail_msg("%s: %s", line, e.text.c_str());
    }
    const ending missing = ending_of({"--config", "/nonexistent/c"});
    assert_int_equal(missing.status, exit_failed);
    assert_string_equal(missing.text.c_str(), "/nonexistent/c: cannot be read: No such file or directory");
    assert_int_equal(ending_of({"--config", ""}).status, exit_failed);
    // Reading a named pipe that no process writes to would never end.
    const std::string pipe = home.path + "/pipe";
    assert_int_equal(mkfifo(pipe.c_str(), 0600), 0);
    alarm(60);
    assert_string_equal(
            ending_of({"-c", pipe.c_str()}).text.c_str(), (pipe + ": cannot be read: not a regular file").c_str());
    alarm(0);
}

FIXTURE_TEST(with_home, later_wins)
{
    const std::string other = home.path + "/other";
    home.write(".rpmemd.conf", "log-level = info\nlog-level = notice\npersist-apm = yes\nlog-file = /tmp/home\n");
    home.write("other", "log-level = debug\n");

    const config from_home = read({});
    assert_true(from_home.level == log_level::notice && from_home.persist_apm && !from_home.use_syslog);
    assert_string_equal(from_home.log_file.c_str(), "/tmp/home");

    const config replaced = read({"-c", other.c_str()});
    assert_true(replaced.level == log_level::debug && !replaced.persist_apm && replaced.use_syslog);

    const config over = read({"--log-level=warn", "--use-syslog", "--log-file", "/tmp/line", "-t", "4"});
    assert_true(over.level == log_level::warn && over.threads == 4);
    assert_string_equal(over.log_file.c_str(), "/tmp/line");
    assert_true(over.use_syslog); // on the command line it overrides a file
    assert_false(read({"--log-file", "/tmp/line"}).use_syslog);
}

FIXTURE_TEST(with_home, home_is_expanded_in_the_directory_only)
{
    home.write("sets/x", "");
    home.write(".rpmemd.conf", "poolset-dir = $HOME/sets\nlog-file = $HOME/log\n");
    const config c = read({});
    assert_string_equal(c.poolset_dir.c_str(), (home.path + "/sets").c_str());
    assert_string_equal(c.log_file.c_str(), "$HOME/log");
}

FIXTURE_TEST(with_home, a_wrong_command_line_is_refused)
{
    const std::vector<std::vector<const char *>> bad = {{"--bogus"}, {"-x"}, {"stray"}, {"--remove"}, {"--nthreads=x"},
            {"--nthreads=-1"}, {"--log-level=x"}, {"--umask=9"}, {"--force"}, {"--pool-set"}, {"--transport=tcp"},
            {"--persist-apm=no"}, {"--remove=a", "--remove=b"}};
    for (const auto &words : bad)
        if (const ending e = ending_of(words); e.status != exit_rejected || e.text.empty())
            fail_msg("%s: %d", words[0], e.status);
    assert_string_equal(ending_of({"stray"}).text.c_str(), "unexpected argument 'stray' (see rpmemd --help)");
    assert_int_equal(ending_of({"--poolset-dir", "relative"}).status, exit_failed);
    assert_int_equal(ending_of({"--poolset-dir", "/nonexistent/dir"}).status, exit_failed);
    unsetenv("HOME");
    assert_int_equal(ending_of({}).status, exit_failed);
    assert_int_equal(ending_of({"--poolset-dir", "$HOME/x"}).status, exit_failed);
    assert_string_equal(read({"--poolset-dir", "/tmp"}).poolset_dir.c_str(), "/tmp");
}

FIXTURE_TEST(with_home, a_forced_command_takes_a_removal_only)
{
    unsetenv("SSH_ORIGINAL_COMMAND");
    assert_false(read({"--forced"}).remove.has_value());

    setenv("SSH_ORIGINAL_COMMAND", "rpmemd", 1);
    assert_false(read({"--forced"}).remove.has_value());
    setenv("SSH_ORIGINAL_COMMAND", "/usr/bin/rpmemd --remove sets/a.set --force", 1);
    const config c = read({"--forced"});
    assert_true(c.remove == "sets/a.set" && c.force && !c.pool_set);
    assert_true(read({}).remove == std::nullopt);
    setenv("SSH_ORIGINAL_COMMAND", "'rpmemd' '--remove' 'a.set' '--pool-set'", 1);
    assert_true(read({"--forced"}).remove == "a.set");
    assert_true(read({"--forced"}).pool_set);

    setenv("SSH_ORIGINAL_COMMAND", "rpmemd --check 'a.set'", 1);
    assert_true(read({"--forced"}).check == "a.set");

    for (const char *const command : {"rpmemd --poolset-dir /", "rpmemd --remove a --config b",
                 "rpmemd --remove --force", "sh -c id", "rpmemd --remove a b", "rpmemd --forced"}) {
        setenv("SSH_ORIGINAL_COMMAND", command, 1);
        assert_int_equal(ending_of({"--forced"}).status, exit_rejected);
    }
    unsetenv("SSH_ORIGINAL_COMMAND");
}

// Quoted words of the client are unchanged; librpmem quotes each word, and so does rpmem-doctor.
FIXTURE_TEST(with_home, a_forced_command_is_read_as_a_shell_does)
{
    const std::pair<const char *, const char *> good[] = {
            {"rpmemd '--remove' 'my pools/a b.set'", "my pools/a b.set"},
            {"rpmemd '--remove' 'a'\\''b; rm c'", "a'b; rm c"},
            {"rpmemd --remove 'a'\"'\"'b'", "a'b"},
            {"rpmemd --remove \"a \\\"b\\\" \\c\"", "a \"b\" \\c"},
            {" 'rpm emd'  --remove a\\ b\\$ ", "a b$"},
            {"rpmemd --remove ''", ""},
    };
    for (const auto &[command, set] : good) {
        setenv("SSH_ORIGINAL_COMMAND", command, 1);
        const std::optional<std::string> got = read({"--forced"}).remove;
        assert_true(got.has_value());
        assert_string_equal(got->c_str(), set);
    }
    for (const char *const command : {"rpmemd --remove 'a", "rpmemd --remove \"a", "rpmemd --remove a\\",
                 "rpmemd --remove a; id", "rpmemd --remove $HOME", "rpmemd --remove \"$(id)\"", "rpmemd --remove a*",
                 "rpmemd --remove 'a' | sh", "rpmemd --remove 'a' 'b c'", "rpmemd '--remove a'"}) {
        setenv("SSH_ORIGINAL_COMMAND", command, 1);
        assert_int_equal(ending_of({"--forced"}).status, exit_rejected);
    }
    unsetenv("SSH_ORIGINAL_COMMAND");
}

} // namespace
