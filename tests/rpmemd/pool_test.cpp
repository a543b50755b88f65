// SPDX-License-Identifier: BSD-3-Clause
#include <csignal>
#include <sys/resource.h>
#include <sys/stat.h>

#include "fixture.hpp"

using namespace rpmemd;

namespace
{

constexpr std::uint64_t mib = 1 << 20;
constexpr std::uint64_t size_of_two = 16 * mib - 4096;
const std::string plain = "PMEMPOOLSET\n16M @p0\n";
const std::string two = "PMEMPOOLSET\n8M @p0\n8M @p1\n";

// Return the errno value of the failure, whose text must contain the part.
int create(const scratch &in, const std::string &set, std::uint64_t size,
        const pool_attributes &attributes = original_attributes(), const std::string &part_of_text = "")
{
    return error_of([&] { pool::create(in.settings, set, size, attributes); }, part_of_text);
}
int open(const scratch &in, const std::string &set, const std::string &part_of_text = "", std::uint64_t size = 8 * mib)
{
    return error_of([&] { pool::open(in.settings, set, size); }, part_of_text);
}

// A directory with a set of two parts.
struct with_set {
    with_set() { place.write("a.set", two); }
    scratch place;
};

// Copies the time and the generated uuids from the original's header; all other bytes must be equal.
void assert_same_but_times(const header_page &ours, const header_page &original)
{
    pool_header header = decode(ours);
    const pool_header old = decode(original);
    header.creation_time = old.creation_time;
    header.part_uuid = old.part_uuid;
    header.prev_part_uuid = old.prev_part_uuid;
    header.next_part_uuid = old.next_part_uuid;
    assert_true(encode(header, ours) == original);
}

const struct {
    std::string set;
    std::uint64_t size;
    std::vector<std::string> headers;
    bool single;
} originals[] = {{plain, 16 * mib, {"plain.part0"}, false}, {two, size_of_two, {"two.part0", "two.part1"}, false},
        {two + "OPTION SINGLEHDR\n", 16 * mib, {"singlehdr.part0"}, true}};

DEFINE_TEST(a_pool_is_created_as_the_original_does, nullptr, nullptr)
{
    for (const auto &c : originals) {
        const scratch place;
        place.write("a.set", c.set);
        pool::create(place.settings, "a.set", c.size, original_attributes(c.single));
        for (std::size_t i = 0; i < c.headers.size(); ++i)
            assert_same_but_times(place.first_page("p" + std::to_string(i)), original_header(c.headers[i]));
        if (c.single)
            assert_true(is_zero(place.first_page("p1")));
        const pool opened = pool::open(place.settings, "a.set", c.size);
        pool_attributes expected = original_attributes(c.single);
        expected.user_flags = native_arch_flags();
        assert_true(opened.attributes() == expected);
    }
}

DEFINE_TEST(pools_of_the_original_are_opened, nullptr, nullptr)
{
    for (const auto &c : originals) {
        const scratch place;
        place.write("a.set", c.set);
        const std::uint64_t part = c.set == plain ? 16 * mib : 8 * mib;
        for (const char *const name : {"p0", "p1"}) {
            place.resize(name, part);
            std::filesystem::permissions(place.path + "/" + name, std::filesystem::perms(0666));
        }
        for (std::size_t i = 0; i < c.headers.size(); ++i)
            place.write_at_start("p" + std::to_string(i), original_header(c.headers[i]));
        const pool opened = pool::open(place.settings, "a.set", size_of_two);
        assert_true(opened.attributes().next_uuid == original_attributes().next_uuid);
        assert_true(opened.has_header());
    }
}

FIXTURE_TEST(with_set, parts_are_one_range_without_their_headers)
{
    {
        pool p = pool::create(place.settings, "a.set", size_of_two, original_attributes());
        assert_int_equal(p.memory().size(), size_of_two);
        p.memory().populate();
        // The write crosses the border of the parts: the second one continues after its header.
        std::memcpy(p.memory().address() + 8 * mib - 4, "leftright", 9);
        assert_int_equal(p.memory().persist(8 * mib - 4, 9), 0);
        assert_int_equal(p.memory().deep_persist(8 * mib - 4, 9), 0);
        assert_int_equal(p.memory().persist(0, p.memory().size()), 0);
    }
    assert_string_equal(place.read("p0").substr(8 * mib - 4).c_str(), "left");
    assert_string_equal(place.read("p1").substr(4096, 5).c_str(), "right");
}

DEFINE_TEST(a_pool_without_headers_is_all_data, nullptr, nullptr)
{
    const scratch place;
    place.write("a.set", two + "OPTION NOHDRS\n");
    assert_int_equal(create(place, "a.set", 16 * mib, original_attributes(), "NOHDRS"), EINVAL);
    assert_false(place.has("p0"));
    {
        pool p = pool::create(place.settings, "a.set", 16 * mib, {});
        assert_false(p.has_header());
        *p.memory().address() = std::byte{'x'};
        assert_int_equal(p.memory().persist(0, 1), 0);
        assert_int_equal(error_of([&] { p.set_attributes(original_attributes()); }), EINVAL);
        p.set_attributes({});
    }
    // After a second creation, the content is unchanged.
    assert_int_equal(*pool::create(place.settings, "a.set", 16 * mib, {}).memory().address(), 'x');
    assert_true(pool::open(place.settings, "a.set", 16 * mib).attributes() == pool_attributes{});
}

FIXTURE_TEST(with_set, wrong_requests_leave_nothing_behind)
{
    place.write("single.set", two + "OPTION SINGLEHDR\n");
    place.write("half.set", "PMEMPOOLSET\n8M @p0\n8M /nonexistent/p1\n");
    place.write("same.set", "PMEMPOOLSET\n8M @p0\n8M @p0\n");
    place.write("text", "hello\n");
    assert_int_equal(create(place, "a.set", size_of_two + 4096, original_attributes()), EFBIG);
    assert_int_equal(create(place, "a.set", 4096, original_attributes()), EINVAL);
    assert_int_equal(create(place, "a.set", 8192 + 1, original_attributes()), EINVAL);
    assert_int_equal(create(place, "a.set", UINT64_MAX - 4095, original_attributes()), EFBIG);
    assert_int_equal(create(place, "a.set", 8 * mib, {}), EINVAL);
    assert_int_equal(create(place, "a.set", 8 * mib, original_attributes(true)), EINVAL);
    assert_int_equal(create(place, "single.set", 8 * mib, original_attributes()), EINVAL);
    assert_int_equal(create(place, "half.set", 8 * mib, original_attributes()), ENOENT);
    assert_int_equal(create(place, "same.set", 8 * mib, original_attributes()), EBUSY);
    assert_int_equal(create(place, "none.set", 8 * mib, original_attributes()), ENOENT);
    assert_int_equal(create(place, "text", 8 * mib, {}, "set 'text': line 1: "), EINVAL);
    scratch small;
    small.write("a.set", two);
    small.settings.limits.bytes = mib;
    assert_int_equal(create(small, "a.set", 2 * mib), EFBIG);
    for (const char *const name : {"p0", "p1"}) {
        assert_false(place.has(name));
        assert_false(small.has(name));
    }
}

FIXTURE_TEST(with_set, existing_files_are_not_overwritten)
{
    { // An existing part remains, with its content, if the other part cannot be used.
        place.resize("p0", 8 * mib);
        place.resize("p1", 3 * mib);
        assert_int_equal(create(place, "a.set", 8 * mib), EINVAL);
        assert_true(place.has("p0") && place.has("p1"));
        place.resize("p1", 8 * mib);
    }
    pool::create(place.settings, "a.set", 8 * mib, original_attributes());
    const header_page before = place.first_page("p0");
    assert_int_equal(create(place, "a.set", 8 * mib), EEXIST);
    assert_true(place.first_page("p0") == before);

    place.write_at_start("p0", header_page{});
    assert_int_equal(create(place, "a.set", 8 * mib), EEXIST);
}

FIXTURE_TEST(with_set, a_part_is_used_by_one_only)
{
    place.write("b.set", "PMEMPOOLSET\n8M @q0\n8M @p1\n");
    const pool first = pool::create(place.settings, "a.set", 8 * mib, original_attributes());
    assert_int_equal(open(place, "a.set"), EBUSY);
    assert_int_equal(create(place, "b.set", 8 * mib), EBUSY);
    assert_false(place.has("q0"));
    assert_int_equal(error_of([&] { remove_pool(place.settings, "b.set"); }), ENOENT);
    assert_int_equal(error_of([&] { remove_pool(place.settings, "a.set"); }), EBUSY);
    assert_true(place.has("p0") && place.has("p1"));
}

FIXTURE_TEST(with_set, damaged_and_mixed_headers_are_refused)
{
    place.write("swapped.set", "PMEMPOOLSET\n8M @p1\n8M @p0\n");
    place.write("single.set", two + "OPTION SINGLEHDR\n");
    place.write("three.set", two + "2M @p2\n");
    pool::create(place.settings, "a.set", 8 * mib, original_attributes());
    const header_page first = place.first_page("p0"), second = place.first_page("p1");
    assert_int_equal(open(place, "single.set", "SINGLEHDR"), EINVAL);
    assert_int_equal(open(place, "three.set"), ENOENT);
    assert_int_equal(open(place, "swapped.set"), 0); // each of the two parts is the neighbor of the other

    const auto check_change = [&](const std::string &text, const std::function<void(pool_header &)> &f) {
        pool_header header = decode(second);
        f(header);
        place.write_at_start("p1", encode(header));
        assert_int_equal(open(place, "a.set", text), EINVAL);
    };
    check_change("signature", [](pool_header &h) { h.signature[0] ^= 1; });
    check_change("major", [](pool_header &h) { h.major ^= 1; });
    check_change("feature", [](pool_header &h) { h.compat_features ^= 1; });
    check_change("set's uuid", [](pool_header &h) { h.poolset_uuid[0] ^= 1; });
    check_change("next replica", [](pool_header &h) { h.next_replica_uuid[0] ^= 1; });
    check_change("architecture", [](pool_header &h) { h.arch_flags[0] ^= 1; });
    check_change("UUID chain", [](pool_header &h) { h.part_uuid[0] ^= 1; });
    place.write_at_start("p1", header_page{});
    assert_int_equal(open(place, "a.set", "pool header missing"), EINVAL);
    place.write_at_start("p1", second);
    header_page damaged = first;
    damaged[100] ^= 1;
    place.write_at_start("p0", damaged);
    assert_int_equal(open(place, "a.set", "checksum"), EIO);
}

DEFINE_TEST(a_pool_that_lost_power_in_use_is_refused, nullptr, nullptr)
{
    const scratch place;
    place.write("a.set", plain);
    pool::create(place.settings, "a.set", 8 * mib, original_attributes());
    header_page page = place.first_page("p0");
    page[4024] = 3; // unsafe shutdowns of a device on which this file is not
    page[4040] = 1; // dirty flag
    // The two checksums, as in the header, over the 14 words before the checksum.
    const std::uint64_t low = 3 + 1, high = 3 * 16 + 1 * 12;
    for (std::size_t i = 0; i < 4; ++i) {
        page[4080 + i] = static_cast<unsigned char>(low >> (8 * i));
        page[4084 + i] = static_cast<unsigned char>(high >> (8 * i));
    }
    place.write_at_start("p0", page);
    assert_int_equal(open(place, "a.set", "lost power"), EINVAL);
    page[4040] = 0;
    place.write_at_start("p0", page);
    assert_int_equal(open(place, "a.set"), 0);
}

FIXTURE_TEST(with_set, attributes_are_replaced_in_every_header)
{
    pool_attributes now = original_attributes();
    now.signature = {'N', 'E', 'W'};
    now.first_uuid.fill(9);
    now.user_flags = {5};
    {
        pool p = pool::create(place.settings, "a.set", 8 * mib, original_attributes());
        assert_int_equal(error_of([&] { p.set_attributes({}); }), EINVAL);
        assert_int_equal(error_of([&] { p.set_attributes(original_attributes(true)); }), EINVAL);
        p.set_attributes(now);
        assert_true(p.attributes() == now);
    }
    assert_true(decode(place.first_page("p1")).signature == now.signature);
    assert_true(decode(place.first_page("p1")).next_part_uuid == now.first_uuid);
    assert_true(pool::open(place.settings, "a.set", 8 * mib).attributes() == now);
}

DEFINE_TEST(only_files_and_dax_devices_are_parts, nullptr, nullptr)
{
    const scratch place;
    const std::string fifo = place.path + "/fifo";
    assert_int_equal(mkfifo(fifo.c_str(), 0600), 0);
    for (const std::string &path : {std::string("/dev/null"), std::string("/dev/zero"), fifo}) {
        for (const char *const size : {"8M ", "AUTO "}) {
            place.write("a.set", "PMEMPOOLSET\nOPTION NOHDRS\n" + std::string(size) + path + "\n");
            const std::string text = "part " + path + ": neither a regular file nor a DAX device";
            assert_int_equal(create(place, "a.set", 8 * mib, {}, text), EINVAL);
            assert_int_equal(open(place, "a.set", text), EINVAL);
        }
    }
}

DEFINE_TEST(modes_links_and_places_are_checked, nullptr, nullptr)
{
    scratch place;
    place.write("sub/a.set", two);
    pool::create(place.settings, "sub/a.set", 8 * mib, original_attributes());
    struct stat facts {
    };
    assert_int_equal(stat((place.path + "/p0").c_str(), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(facts.st_blocks * 512, 8 * mib); // allocated, not a hole

    place.write("m.set", "PMEMPOOLSET\n8M @m0\n");
    place.settings.umask = 027;
    pool::create(place.settings, "m.set", 8 * mib, original_attributes());
    assert_int_equal(stat((place.path + "/m0").c_str(), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0640);

    place.write("everybody.set", two, 0666);
    assert_int_equal(open(place, "everybody.set", "writable by all users"), EACCES);
    assert_int_equal(open(place, place.path + "/sub/a.set", "absolute"), EBADF);
    assert_int_equal(open(place, "../" + place.path.substr(place.path.rfind('/') + 1) + "/sub/a.set", "'..'"), EBADF);
    assert_int_equal(open(place, "sub/..", "'..'"), EBADF);
    assert_int_equal(open(place, "", "empty"), EBADF);
    assert_int_equal(open(place, std::string(256, 'a'), "255"), EBADF);
    assert_int_equal(open(place, "sub\n/a.set", "control"), EBADF);
    assert_int_equal(open(place, "sub", "not a regular file"), EINVAL);
    const scratch elsewhere;
    elsewhere.write("out.set", two);
    std::filesystem::create_symlink(elsewhere.path + "/out.set", place.path + "/link.set");
    assert_int_equal(open(place, "link.set", "outside"), EACCES);

    std::filesystem::create_symlink(place.path + "/m0", place.path + "/l0");
    place.write("l.set", "PMEMPOOLSET\n8M @l0\n");
    assert_int_equal(open(place, "l.set", "symbolic link"), EACCES);
    place.settings.follow_symlinks = true;
    assert_int_equal(open(place, "l.set"), 0);
}

DEFINE_TEST(directories_are_opened_and_not_created, nullptr, nullptr)
{
    const scratch place;
    place.write("d.set", "PMEMPOOLSET\n1G @one\n1G @two\nOPTION SINGLEHDR\n");
    place.write("n.set", "PMEMPOOLSET\n1G @one\n1G @two\n");
    place.write("mixed.set", "PMEMPOOLSET\n1G @one\n8M @p\nOPTION SINGLEHDR\n");
    place.write("one/README", "");
    place.write("two/README", "");
    assert_int_equal(create(place, "d.set", 8 * mib, original_attributes(true)), ENOTSUP);
    assert_int_equal(open(place, "d.set", "", 16 * mib), ENOENT);
    assert_int_equal(open(place, "n.set", "", 16 * mib), EINVAL);
    assert_int_equal(open(place, "mixed.set", "", 16 * mib), EINVAL);
    place.resize("one/000000.pmem", 8 * mib);
    place.resize("two/000001.pmem", 8 * mib);
    place.resize("one/000002.pmem", 8 * mib);
    place.write_at_start("one/000000.pmem", original_header("singlehdr.part0"));
    assert_int_equal(open(place, "d.set", "", 16 * mib), 0);
    assert_int_equal(open(place, "d.set", "", 24 * mib), 0);
    assert_int_equal(open(place, "d.set", "", 25 * mib), EFBIG);
    std::filesystem::remove(place.path + "/two/000001.pmem");
    assert_int_equal(open(place, "d.set", "", 16 * mib), ENOENT);
}

DEFINE_TEST(the_medium_is_reported, nullptr, nullptr)
{
    scratch place;
    place.write("shm.set", "PMEMPOOLSET\n8M /dev/shm" + place.path.substr(place.path.rfind('/')) + "\n");
    {
        pool p = pool::create(place.settings, "shm.set", 8 * mib, original_attributes());
        const bool is_memory = p.memory().medium() == replica::medium::memory;
        setenv("PMEM2_FORCE_GRANULARITY", "CACHE_LINE", 1);
        place.write("forced.set", "PMEMPOOLSET\n8M @f0\n");
        pool forced = pool::create(place.settings, "forced.set", 8 * mib, original_attributes());
        unsetenv("PMEM2_FORCE_GRANULARITY");
        const bool is_persistent = forced.memory().medium() == replica::medium::persistent;
        assert_int_equal(forced.memory().persist(4096, 4096), 0);
        p.rollback_create();
        assert_true(is_memory);
        assert_true(is_persistent);
    }
}

FIXTURE_TEST(with_set, a_part_is_created_as_a_whole)
{
    // The second part cannot be allocated.
    rlimit before{}, small{2 * mib, RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &before);
    (void)std::signal(SIGXFSZ, SIG_IGN);
    small.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(create(place, "a.set", size_of_two), EFBIG);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_false(place.has("p0") || place.has("p1"));
    // Files that a killed creation left.
    place.write("p1", "");
    assert_int_equal(create(place, "a.set", size_of_two), 0);
    assert_int_equal(std::filesystem::file_size(place.path + "/p1"), 8 * mib);
    assert_int_equal(create(place, "a.set", size_of_two), EEXIST);
    std::filesystem::remove(place.path + "/p1");
    place.settings.follow_symlinks = true;
    std::filesystem::create_symlink("/nonexistent/p1", place.path + "/p1");
    const std::string text = "symbolic link to a file that does not exist";
    assert_int_equal(create(place, "a.set", size_of_two, original_attributes(), text), ENOENT);
}

} // namespace
