// SPDX-License-Identifier: BSD-3-Clause
// Parser of targets, and the words of the command that starts a daemon there.
#include "channel/command.hpp"
#include "channel/process.hpp"
#include "channel/target.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_headers.hpp"

using namespace replica;

namespace
{

TEST(valid_targets_are_parsed)
{
    constexpr struct {
        const char *text, *user, *node, *service;
    } table[] = {
            {"host", "", "host", ""},
            {"user@host", "user", "host", ""},
            {"user@host:1234", "user", "host", "1234"},
            {"host:65535", "", "host", "65535"},
            {"::1", "", "::1", ""},
            {"user@::1", "user", "::1", ""},
            {"user@[::1]:1234", "user", "::1", "1234"},
            {"[fe80::1%eth0]", "", "fe80::1%eth0", ""},
            {"127.0.0.1:22", "", "127.0.0.1", "22"},
            {"user@domain.example@host", "user@domain.example", "host", ""},
            {"user@domain.example@[::1]:22", "user@domain.example", "::1", "22"},
    };
    for (const auto &row : table) {
        target t;
        assert_null(parse_target(row.text, t));
        assert_false(t.local);
        assert_string_equal(t.user.c_str(), row.user);
        assert_string_equal(t.node.c_str(), row.node);
        assert_string_equal(t.service.c_str(), row.service);
    }
    target t;
    assert_null(parse_target("local:", t));
    assert_true(t.local);
}

TEST(other_texts_are_no_targets)
{
    for (const char *const text : {"", "@host", "user@", ":22", "host:", "host:x", "host:0", "host:70000", "host:65536",
                 "user@@host:22", "@user@host", "us er@domain@host", "us er@host", "ho st", " host", "host:22 ",
                 "host::22:x", "host:22:22", "a:1:2", "ho|st", "user|@host", "[::1", "[::1]22", "[]:22",
                 "-oProxyCommand=x", "user@-host", "a;b", "host\n", "local:x", "$(reboot)", "host:4294967318"}) {
        target t;
        if (parse_target(text, t) == nullptr)
            fail_msg("'%s' was taken for a target", text);
    }
    char longest[300];
    std::memset(longest, 'a', sizeof(longest));
    target t;
    assert_null(parse_target({longest, 255}, t));
    assert_non_null(parse_target({longest, 256}, t));
    longest[255] = '@';
    assert_null(parse_target({longest, 260}, t));
    longest[255] = 'a';
    longest[256] = '@';
    assert_non_null(parse_target({longest, 260}, t));
}

TEST(ssh_gets_one_quoted_line)
{
    target t;
    assert_null(parse_target("user@host:222", t));
    command c(daemon_words(t, "ssh", "rpmemd", {"--remove", "a'b; rm c"}));
    const char *const expected[] = {
            "ssh", "-p", "222", "-T", "-oBatchMode=yes", "user@host", "rpmemd '--remove' 'a'\\''b; rm c'", nullptr};
    for (std::size_t i = 0; i < 7; ++i)
        assert_string_equal(c.words()[i], expected[i]);
    assert_null(c.words()[7]);
}

struct local_target {
    local_target() { assert_null(parse_target("local:", t)); }
    target t;
};

FIXTURE_TEST(local_target, quoted_words_survive_the_shell)
{
    const std::string argument = "a'b;c $x `y` \"z\"";
    command c(daemon_words(t, "ssh", "printf %s", {argument}));
    process p;
    assert_int_equal(p.start(c.words()), 0);
    char got[64] = "";
    std::size_t size = 0;
    for (ssize_t n; (n = read(p.channel(), got + size, sizeof(got) - 1 - size)) > 0;)
        size += static_cast<std::size_t>(n);
    assert_string_equal(got, argument.c_str());
    p.finish(deadline(10000));
}

volatile std::sig_atomic_t child_signals;

void count_child(int)
{
    child_signals = child_signals + 1;
}

// wait() and SIGCHLD of the application must not notice the program.
FIXTURE_TEST(local_target, programs_are_not_children)
{
    std::signal(SIGCHLD, count_child);
    command c(daemon_words(t, "ssh", "cat"));
    process p;
    assert_int_equal(p.start(c.words()), 0);
    assert_int_equal(waitpid(-1, nullptr, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    p.finish(deadline(10000));

    command failing(daemon_words(t, "ssh", "exit 7;"));
    assert_int_equal(process::run(failing.words(), 10000), 7);
    assert_int_equal(waitpid(-1, nullptr, WNOHANG), -1);
    assert_int_equal(child_signals, 0);
    std::signal(SIGCHLD, SIG_DFL);
}

FIXTURE_TEST(local_target, a_failure_is_reported_where_children_are_ignored)
{
    command failing(daemon_words(t, "ssh", "exit 7;"));
    std::signal(SIGCHLD, SIG_IGN);
    const int status = process::run(failing.words(), 10000);
    std::signal(SIGCHLD, SIG_DFL);
    assert_int_equal(status, 7);
}

FIXTURE_TEST(local_target, programs_that_do_not_exit_are_killed)
{
    command c(daemon_words(t, "ssh", "sleep 1000"));
    assert_int_equal(process::run(c.words(), 100), -1);
    assert_int_equal(errno, ETIMEDOUT);
    process p;
    assert_int_equal(p.start(c.words()), 0);
    p.finish(deadline(100));
    assert_int_equal(p.pidfd(), -1);
}

TEST(missing_programs_are_reported)
{
    char name[] = "/nowhere/rpmemd";
    char *const words[] = {name, nullptr};
    process p;
    assert_int_equal(p.start(words), ENOENT);
}

} // namespace
