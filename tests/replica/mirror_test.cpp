// SPDX-License-Identifier: BSD-3-Clause
// The state of a copy of a mirrored set: its permitted transitions, its file, its messages, and the proofs that contain
// an epoch.
#include "message/control.hpp"
#include "message/lane_proof.hpp"
#include "record/mirror_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "scratch.hpp"
#include "cmocka_headers.hpp"

using namespace replica;

static off_t unreadable = -1;

// A medium that cannot be read at one offset.
extern "C" ssize_t pread(int fd, void *to, size_t size, off_t offset)
{
    errno = EIO;
    return offset == unreadable ? -1 : syscall(SYS_pread64, fd, to, size, offset);
}

// Called once, before this process creates or removes a name.
static std::function<void()> before_link, before_unlink;

static void call_once(std::function<void()> &f)
{
    if (f)
        std::exchange(f, nullptr)();
}

extern "C" int link(const char *from, const char *to) noexcept
{
    call_once(before_link);
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

extern "C" int unlink(const char *path) noexcept
{
    call_once(before_unlink);
    return unlinkat(AT_FDCWD, path, 0);
}

namespace
{

mirror_state some_state()
{
    mirror_state s;
    s.set.fill(std::byte{0x5e});
    s.copy = 3;
    s.length = 1 << 20;
    s.promised = {7, 0x1122334455667788};
    s.committed = {7, 2, 0x1122334455667788, 0b1011, 0b1001, mirror_policy::availability, true};
    s.cursor = 4096;
    return s;
}

TEST(an_epoch_is_promised_once)
{
    const mirror_state s = some_state();
    assert_true(may_promise(s, {8, 1}));
    assert_true(may_promise(s, s.promised));
    assert_false(may_promise(s, {7, 1}));
    assert_false(may_promise(s, {6, s.promised.writer}));
    assert_false(may_promise(mirror_state{}, {}));
}

TEST(only_the_promised_writer_commits)
{
    const mirror_state s = some_state();
    mirror_record next = s.committed;
    assert_true(may_commit(s, next));
    next.in_sync = 1;
    assert_false(may_commit(s, next)); // another one of the same version
    next.version = 3;
    assert_true(may_commit(s, next));
    next.version = 1;
    assert_false(may_commit(s, next));
    next.version = 3;
    next.writer = 1;
    assert_false(may_commit(s, next));
    next = s.committed;
    next.epoch = 8;
    assert_false(may_commit(s, next));
    assert_false(may_commit(mirror_state{}, mirror_record{}));
}

TEST(epochs_come_before_versions)
{
    const mirror_record old{3, 9, 0, 0, 0, mirror_policy::safety, false};
    const mirror_record now{4, 1, 0, 0, 0, mirror_policy::safety, false};
    assert_true(is_newer(now, old));
    assert_false(is_newer(old, now));
    assert_false(is_newer(now, now));
}

// A directory with the state file of a copy.
struct place {
    const scratch_directory directory{"/tmp"};
    const std::string path = directory.path + "/set.mirror";

    void damage(std::uint64_t slot) const
    {
        const fd_owner file(open(path.c_str(), O_WRONLY));
        assert_int_equal(pwrite(file.get(), "damage", 6, static_cast<off_t>(slot * 4096 + 40)), 6);
    }
};

struct opened_file : mirror_file {
    explicit opened_file(const std::string &path) { assert_int_equal(open(path.c_str()), 0); }
};

FIXTURE_TEST(place, a_state_survives_its_process)
{
    mirror_state s = some_state();
    {
        mirror_file file;
        assert_int_equal(file.open(path.c_str()), ENOENT);
        assert_int_equal(file.create(path.c_str(), s), 0);
        assert_int_equal(mirror_file().create(path.c_str(), s), EEXIST);
        assert_int_equal(mirror_file().open(path.c_str()), EBUSY);
    }
    for (std::uint64_t epoch = 8; epoch < 13; ++epoch) {
        opened_file file(path);
        assert_true(file.state() == s);
        s.promised = {epoch, epoch};
        assert_int_equal(file.store(s), 0);
        assert_true(file.state() == s);
    }
}

// Runs f in another process and returns its result.
int in_other_process(const std::function<int()> &f)
{
    const pid_t pid = fork();
    if (pid == 0)
        _exit(f());
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct creations : place {
    const mirror_state first = some_state();

    int create_other() const
    {
        return in_other_process([this] {
            mirror_state other = first;
            other.set.fill(std::byte{0x17});
            return mirror_file().create(path.c_str(), other);
        });
    }
    // Dies in create(), before it makes or removes a name.
    void die(std::function<void()> &at) const
    {
        const auto end = [&] {
            at = [] { _exit(0); };
            return mirror_file().create(path.c_str(), first);
        };
        assert_int_equal(in_other_process(end), 0);
    }
    void check() const
    {
        assert_true(opened_file(path).state() == first);
        assert_int_equal(access((path + ".new").c_str(), F_OK), -1);
    }
};

FIXTURE_TEST(creations, two_processes_create_one_state)
{
    int other = 0, later = 0;
    before_link = [&] { other = create_other(); };
    before_unlink = [&] { later = create_other(); };
    assert_int_equal(mirror_file().create(path.c_str(), first), 0);
    assert_int_equal(other, EBUSY);
    assert_int_equal(later, EBUSY);
    check();
}

FIXTURE_TEST(creations, a_process_that_died_before_the_name_leaves_nothing)
{
    die(before_link);
    assert_int_equal(access((path + ".new").c_str(), F_OK), 0);
    assert_int_equal(mirror_file().create(path.c_str(), first), 0);
    check();
}

FIXTURE_TEST(creations, a_process_that_died_with_both_names_leaves_the_state)
{
    die(before_unlink);
    assert_int_equal(create_other(), EEXIST);
    check();
}

// Otherwise a disk that is full later fails the first record in the second slot.
FIXTURE_TEST(place, both_slots_are_allocated_at_creation)
{
    assert_int_equal(mirror_file().create(path.c_str(), some_state()), 0);
    struct stat file {
    };
    assert_int_equal(stat(path.c_str(), &file), 0);
    assert_int_equal(file.st_size, 2 * 4096);
    assert_true(file.st_blocks * 512 >= file.st_size);
}

FIXTURE_TEST(place, a_torn_slot_leaves_the_state_before)
{
    const mirror_state first = some_state();
    mirror_state second = first;
    second.promised.epoch = 8;
    {
        mirror_file file;
        assert_int_equal(file.create(path.c_str(), first), 0);
        assert_int_equal(file.store(second), 0);
    }
    damage(0); // the slot of the second state: the first one was stored in slot 1
    {
        opened_file file(path);
        assert_true(file.state() == first);
        // The next state must be written to the damaged slot.
        assert_int_equal(file.store(second), 0);
    }
    opened_file file(path);
    assert_true(file.state() == second);
}

// The state of the other slot might be older than what the process has reported.
FIXTURE_TEST(place, a_slot_that_cannot_be_read_is_an_error)
{
    {
        mirror_file file;
        assert_int_equal(file.create(path.c_str(), some_state()), 0);
        assert_int_equal(file.store(some_state()), 0);
    }
    mirror_state read;
    unreadable = 0;
    const int opened = mirror_file().open(path.c_str()), got = mirror_file::read(path.c_str(), read);
    unreadable = -1;
    assert_int_equal(opened, EIO);
    assert_int_equal(got, EIO);
}

FIXTURE_TEST(place, a_file_without_a_whole_slot_is_refused)
{
    assert_int_equal(mirror_file().create(path.c_str(), some_state()), 0);
    damage(1);
    assert_int_equal(mirror_file().open(path.c_str()), EBADMSG);
}

// A file in format 1, which the previous version writes: the checksum follows the state.
FIXTURE_TEST(place, a_file_without_stamps_is_read)
{
    const mirror_state s = some_state();
    std::byte slot[4096]{};
    byte_writer to(slot);
    to.put_raw("RPMAMIRR", 8).put(std::uint32_t{1}).put(std::uint64_t{7});
    put(to, s);
    const siphash_result sum = siphash_128(siphash_key{}, {slot, to.size()});
    to.put_raw(sum.data(), sum.size());
    {
        const fd_owner old(open(path.c_str(), O_WRONLY | O_CREAT, 0600));
        assert_int_equal(pwrite(old.get(), slot, sizeof(slot), sizeof(slot)), sizeof(slot));
    }
    copy_stamp stamp;
    stamp.size = 4096;
    stamp.sample.fill(std::byte{1});
    {
        opened_file file(path);
        assert_true(file.state() == s && file.stamp() == copy_stamp());
        assert_int_equal(file.store(s, stamp), 0);
    }
    opened_file file(path);
    assert_true(file.state() == s && file.stamp() == stamp);
}

// Another format describes a copy that a resync completed, until its next record.
FIXTURE_TEST(place, a_completed_resync_survives)
{
    mirror_state s = some_state();
    assert_int_equal(mirror_file().create(path.c_str(), s), 0);
    for (const bool resynced : {true, false}) {
        s.resynced = resynced;
        copy_stamp stamp;
        stamp.size = 4096;
        assert_int_equal(opened_file(path).store(s, stamp), 0);
        const opened_file file(path);
        assert_true(file.state() == s && file.stamp() == stamp);
    }
}

TEST(changed_parts_need_a_resync)
{
    mirror_state s = some_state();
    assert_false(has_changed_parts(s));
    s.committed.in_sync = 1;
    assert_true(has_changed_parts(s));
    s.resynced = true;
    assert_false(has_changed_parts(s));
    assert_false(has_changed_parts(mirror_state{})); // a new copy
}

// The stamp changes with each property of the files, and with each page of the sample.
FIXTURE_TEST(place, a_stamp_detects_changes)
{
    constexpr std::uint64_t pages = 1000, step = pages / 64, number = 7;
    std::vector<std::byte> content(pages * 4096);
    const fd_owner file(open(path.c_str(), O_RDWR | O_CREAT, 0600));
    assert_int_equal(ftruncate(file.get(), static_cast<off_t>(content.size())), 0);
    const int files[] = {file.get()};
    const copy_stamp stored = settle(files, content, number);
    assert_true(match(stored, stamp_content(files, content, number)) == stamp_match::same);
    assert_true(match({}, stored) == stamp_match::unknown);
    for (const std::uint64_t page : {std::uint64_t{0}, step + number, 5 * step + number}) {
        content[page * 4096 + 100] = std::byte{1};
        assert_true(match(stored, stamp_content(files, content, number)) == stamp_match::changed);
        content[page * 4096 + 100] = std::byte{0};
    }
    const copy_stamp writing = stamp_files(files, content.size());
    assert_int_equal(fchmod(file.get(), 0640), 0);
    assert_true(match(stored, stamp_content(files, content, number)) == stamp_match::changed);
    assert_true(writing == stamp_files(files, content.size()));
    assert_int_equal(ftruncate(file.get(), 4096), 0);
    assert_false(writing == stamp_files(files, content.size()));
    // A device has no times.
    const fd_owner device(open("/dev/null", O_RDWR));
    const int devices[] = {device.get()};
    const copy_stamp of_device = settle(devices, content, number);
    assert_true(of_device.size == content.size());
    assert_true(match(of_device, stamp_content(devices, content, number)) == stamp_match::unknown);
    content[0] = std::byte{1};
    assert_true(match(of_device, stamp_content(devices, content, number)) == stamp_match::changed);
}

TEST(states_survive_encoding)
{
    mirror_state s = some_state();
    for (const bool resynced : {false, true}) {
        s.resynced = resynced;
        s.committed.policy = resynced ? mirror_policy::availability : mirror_policy::safety;
        wire::state sent;
        to_wire(s, sent);
        assert_true(from_wire(sent) == s);
    }
    assert_true(from_wire(wire::state()) == mirror_state());
}

TEST(a_proof_contains_its_epoch)
{
    token t{};
    t.fill(std::byte{1});
    const epoch_proof proof = make_epoch_proof(t, 5, 9);
    std::uint32_t lane = 0;
    assert_true(check_epoch_proof(t, 9, proof, &lane));
    assert_int_equal(lane, 5);
    assert_false(check_epoch_proof(t, 8, proof, &lane));
    assert_false(check_epoch_proof(t, 10, proof, &lane));
    // A proof of one kind must not be accepted as the other kind.
    assert_false(check_lane_proof(t, proof, &lane));
    std::vector<std::byte> plain(epoch_proof_size);
    const lane_proof without = make_lane_proof(t, 5);
    std::copy(without.begin(), without.end(), plain.begin());
    assert_false(check_epoch_proof(t, 0, plain, &lane));
    for (std::size_t i = 0; i < proof.size(); ++i) {
        epoch_proof other = proof;
        other[i] ^= std::byte{1};
        assert_false(check_epoch_proof(t, 9, other, &lane));
    }
    assert_false(check_epoch_proof(t, 9, std::span(proof).first<epoch_proof_size - 1>(), &lane));
}

} // namespace
