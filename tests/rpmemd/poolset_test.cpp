// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.hpp"

#include <cerrno>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/set_file.hpp"

using namespace rpmemd;

namespace
{

const std::string start = "PMEMPOOLSET\n";

DEFINE_TEST(a_set_is_read, nullptr, nullptr)
{
    const poolset set = parse_poolset(start + "# comment\n\n \t8M\t/a/b # at the end\nOPTION SINGLEHDR\n10MB  /c\n");
    assert_int_equal(set.parts.size(), 2);
    assert_string_equal(set.parts[0].path.c_str(), "/a/b");
    assert_int_equal(set.parts[0].size, 8 << 20);
    assert_string_equal(set.parts[1].path.c_str(), "/c");
    assert_int_equal(set.parts[1].size, 10'000'000);
    assert_true(set.single_header);
    assert_false(set.no_headers);
    assert_true(parse_poolset(start + "OPTION NOHDRS\n8M /a").no_headers);
    assert_int_equal(parse_poolset(start + "AUTO /dev/dax0.0\n").parts.at(0).size, 0);
}

DEFINE_TEST(sizes_have_units, nullptr, nullptr)
{
    const struct {
        const char *word;
        std::uint64_t size;
    } good[] = {{"4194304", 4ull << 20}, {"4194304B", 4ull << 20}, {"4096K", 4ull << 20}, {"4096KiB", 4ull << 20},
            {"3M", 3ull << 20}, {"3MiB", 3ull << 20}, {"3G", 3ull << 30}, {"3GiB", 3ull << 30}, {"3T", 3ull << 40},
            {"3TiB", 3ull << 40}, {"3P", 3ull << 50}, {"3PiB", 3ull << 50}, {"5000kB", 5'000'000}, {"5MB", 5'000'000},
            {"5GB", 5'000'000'000}, {"5TB", 5'000'000'000'000}, {"5PB", 5'000'000'000'000'000}};
    for (const auto &[word, size] : good)
        assert_true(parse_poolset(start + word + " /a\n").parts.at(0).size == size);
    for (const char *const word : {"0", "0M", "x", "M", "-8M", "+8M", "8m", "8Kib", "8KB", "8 M", "8.5M", "8MM",
                 "0x800000", "99999999999999999999", "99999999999P", "auto"})
        assert_int_equal(error_of([word] { parse_poolset(start + word + " /a\n"); }, "line 2"), EINVAL);
}

DEFINE_TEST(malformed_set_files_are_rejected_with_the_line, nullptr, nullptr)
{
    const struct {
        std::string text, part;
    } bad[] = {
            {"", "line 1"},
            {"PMEMPOOLSET", "line 1"},
            {"PMEMPOOLSET\r\n8M /a\n", "line 1: ends with a carriage return"},
            {start + "# comment\n8M /a\r\n", "line 3: ends with a carriage return"},
            {"\xef\xbb\xbf" + start + "8M /a\n", "line 1: starts with a byte order mark"},
            {std::string("\xff\xfeP\0M\0", 6), "line 1: is UTF-16"},
            {std::string("\xfe\xff\0P\0M", 6), "line 1: is UTF-16"},
            {" PMEMPOOLSET\n8M /a\n", "line 1"},
            {"PMEMPOOLSET 1\n8M /a\n", "line 1"},
            {"PMEMBLKPOOL\n8M /a\n", "line 1"},
            {start, "set without parts"},
            {start + "# nothing\n", "set without parts"},
            {start + "8M\n", "line 2"},
            {start + "8M /a b\n", "blanks"},
            {start + "8M a\n", "not absolute"},
            {start + "8M /a\n1M /b\n", "line 3: part smaller than 2 MiB"},
            {start + "2097151 /a\n", "smaller than 2 MiB"},
            {start + "8M /a\nOPTION\n", "line 3"},
            {start + "8M /a\nOPTION NOHDR\n", "unknown option 'NOHDR'"},
            {start + "8M /a\nOPTION SINGLEHDR NOHDRS\n", "exclude"},
            {start + "OPTION SINGLEHDR\n8M /a\nOPTION NOHDRS\n", "exclude"},
            {start + "8M /a\nREPLICA\n8M /b\n", "2 replicas"},
            {start + "8M /a\nREPLICA host set\n", "2 replicas"},
            {start + "8M /a\nREPLICA host\n", "line 3"},
            {start + "8M /a" + std::string(1, '\0') + "b\n", "NUL bytes"},
    };
    for (const auto &[text, part] : bad)
        assert_int_equal(error_of([&text = text] { parse_poolset(text); }, part), EINVAL);
}

// Applies to the rest of the process.
void forbid_openat2(int error)
{
    sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

void check_set_files(const scratch &place, int error)
{
    forbid_openat2(error);
    assert_string_equal(read_set_file(place.path, "one/two/a.set").c_str(), "text");
    assert_string_equal(read_set_file(place.path, "./one//two/a.set").c_str(), "text");
    assert_int_equal(error_of([&] { read_set_file(place.path, "one/b.set"); }, "cannot open"), ENOENT);
    assert_int_equal(error_of([&] { read_set_file(place.path, "one/"); }, "not a regular file"), EINVAL);
    assert_int_equal(error_of([&] { read_set_file(place.path, "out/a.set"); }, "cannot open"), ENOTDIR);
    assert_int_equal(error_of([&] { read_set_file(place.path, "link.set"); }, "cannot open"), ELOOP);
    remove_set_file(place.path, "one/two/a.set");
    assert_false(place.has("one/two/a.set"));
}

// Simulates Linux before 5.6, and container runtimes that do not know the call.
DEFINE_TEST(set_files_are_read_without_openat2, nullptr, nullptr)
{
    const scratch elsewhere;
    elsewhere.write("a.set", "text");
    for (const int error : {ENOSYS, EPERM}) {
        const scratch place;
        std::filesystem::create_directories(place.path + "/one/two");
        place.write("one/two/a.set", "text");
        std::filesystem::create_symlink(elsewhere.path, place.path + "/out");
        std::filesystem::create_symlink(elsewhere.path + "/a.set", place.path + "/link.set");
        const pid_t child = fork();
        if (child == 0) {
            check_set_files(place, error);
            _exit(0);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

} // namespace
