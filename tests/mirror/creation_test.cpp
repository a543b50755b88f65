// SPDX-License-Identifier: BSD-3-Clause
// Creation and growth that are interrupted the first time: a port in front of one of the real targets drops a response.
#include "faulty_port.hpp"

#include <csignal>
#include <filesystem>
#include <sys/syscall.h>
#include <unistd.h>

namespace
{

unsigned syncs_left = 0; // calls of fsync until this process dies, or 0

} // namespace

extern "C" [[gnu::visibility("default")]] int fsync(int fd)
{
    if (syncs_left != 0 && --syncs_left == 0)
        kill(getpid(), SIGKILL);
    return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace
{

// Requests of a creation to each target, in this order, after TLS and the greeting. No creation is
// requested from a target that already has a copy.
enum class answer_to : unsigned {
    status = 2,
    create,
    prepare,
    commit
};

// Makes a creation fail by losing the response of one of two targets, the first or second in the order of requests. The
// target has executed the request, and the writer does not know this.
void fail_to_create(const host &h, const target &a, const target &b, unsigned lossy, answer_to lost)
{
    const faulty_port between(fault::cuts, static_cast<unsigned>(lost), lossy == 1 ? a : b);
    const cfg_ptr cfg = h.cfg({lossy == 1 ? nullptr : &a, lossy == 2 ? nullptr : &b},
            "target " + std::to_string(lossy) + " " + between.place() + " set\n");
    assert_int_equal(rpma_mirror_create(cfg.get()), RPMA_MIRROR_E_CONNECTION);
    assert_true(between.has_struck());
}

void check_set(const host &h, const cfg_ptr &cfg, const target &a, const target &b, const std::string &content)
{
    opened m(cfg.get());
    assert_true(std::string(m.address(), content.size()) == content);
    assert_int_equal(m.state().in_sync, 7);
    m.put(megabyte, "flushed");
    for (const std::string &copy : {h.bytes(megabyte, 7), a.bytes(megabyte, 7), b.bytes(megabyte, 7)})
        assert_string_equal(copy.c_str(), "flushed");
    assert_true(a.bytes(0, content.size()) == content && b.bytes(0, content.size()) == content);
}

constexpr answer_to each_answer[] = {answer_to::status, answer_to::create, answer_to::prepare, answer_to::commit};

TEST(a_creation_whose_answer_was_lost_is_repeated)
{
    for (const answer_to lost : each_answer)
        for (const unsigned lossy : {1U, 2U}) {
            target a, b;
            const host h;
            // The existing content of the file becomes the content of the set.
            h.where.write("home", "mine" + std::string(length - 4, '\0'));
            fail_to_create(h, a, b, lossy, lost);
            const cfg_ptr cfg = h.create({&a, &b});
            assert_int_equal(rpma_mirror_create(cfg.get()), RPMA_MIRROR_E_EXISTS);
            check_set(h, cfg, a, b, "mine");
        }
}

TEST(a_partial_creation_cannot_be_opened)
{
    target a, b;
    const host h;
    fail_to_create(h, a, b, 2, answer_to::create);
    const cfg_ptr cfg = h.cfg({&a, &b});
    assert_rejected(map_code(cfg.get()), RPMA_MIRROR_E_NOT_FOUND, "run create again");
    assert_ok(rpma_mirror_create(cfg.get()));
    check_set(h, cfg, a, b, "");
}

TEST(a_set_of_another_machine_is_left_alone)
{
    for (const answer_to lost : {answer_to::create, answer_to::prepare, answer_to::commit}) {
        target a, b;
        const host mine, other;
        other.where.write("home", "others" + std::string(length - 6, '\0'));
        fail_to_create(other, a, b, 2, lost);
        const std::string state_file = a.where().read("set.mirror", 0, 8192);
        const cfg_ptr cfg = mine.cfg({&a, &b});
        assert_rejected(rpma_mirror_create(cfg.get()), RPMA_MIRROR_E_EXISTS, "remove its state there");
        assert_true(a.where().read("set.mirror", 0, 8192) == state_file);
        const cfg_ptr others = other.create({&a, &b});
        check_set(other, others, a, b, "others");
        assert_int_equal(rpma_mirror_create(cfg.get()), RPMA_MIRROR_E_EXISTS);
        check_set(other, others, a, b, "others");
    }
}

// Requests of growth to each target: status, prepare, reserve, resize, attach, and the records at opening and closing.
TEST(a_growth_whose_answer_was_lost_is_complete_or_reverted)
{
    constexpr unsigned reserve = 4, resize = 5, attach = 6, last = 8;
    for (unsigned lost = static_cast<unsigned>(answer_to::status); lost <= last; ++lost) {
        target a, b;
        const host h;
        const cfg_ptr cfg = h.create({&a, &b});
        put_and_close(cfg.get(), "mine");
        for (const target *const t : {&a, &b})
            t->list_part("16M");
        const faulty_port between(fault::cuts, lost, b);
        const cfg_ptr lossy = h.cfg({&a, nullptr}, "target 2 " + between.place() + " set\n");
        const int code = rpma_mirror_grow_closed(lossy.get(), 2 * length);
        // Closing the set can evict a target. After the loss of the attachment, a second attempt can succeed.
        assert_true((lost == attach || (code != 0) == (lost < last)) && between.has_struck());
        assert_int_equal(std::filesystem::file_size(h.where.path + "/home"), lost <= reserve ? length : 2 * length);
        {
            opened m(cfg.get());
            assert_int_equal(m.state().length, lost < resize ? length : 2 * length);
            assert_int_equal(m.state().in_sync, 7);
            assert_memory_equal(m.address(), "mine", 4);
            if (lost >= resize) {
                m.put(2 * length - 3, "end");
                assert_true(a.bytes(2 * length - 4, 4) == b.bytes(2 * length - 4, 4));
            }
            m.close();
        }
        assert_ok(rpma_mirror_grow_closed(cfg.get(), 2 * length));
    }
}

// The creator, or a machine that opens the set for the first time, died before it had allocated its file.
TEST(an_empty_local_file_is_allocated)
{
    const two targets;
    const host first, second{5};
    for (const host *const each : {&first, &second})
        each->where.write("home", "");
    check_set(first, first.create(targets.all()), targets.a, targets.b, "");
    const cfg_ptr there = second.cfg(targets.all());
    const opened m(there.get());
    assert_int_equal(m.state().in_sync, 1U << second.copy | 6);
    assert_string_equal(m.address() + megabyte, "flushed");
}

// A machine dies while it opens the set for the first time, and the set grows before it does so again.
TEST(a_first_opening_is_repeated_after_the_set_has_grown)
{
    target a, b;
    const host first;
    const cfg_ptr here = first.create({&a, &b});
    for (const target *const t : {&a, &b})
        t->list_part("16M");
    for (unsigned sync = 1; sync <= 3; ++sync) {
        const host second{5};
        cfg_ptr there = second.cfg({&a, &b});
        in_process_that_dies([&] {
            syncs_left = sync;
            map_code(there.get());
            _exit(0);
        });
        assert_ok(rpma_mirror_grow_closed(here.get(), length + sync * megabyte));
        opened m(there.get());
        assert_int_equal(m.state().length, length + sync * megabyte);
        assert_int_equal(m.state().in_sync, 1U << second.copy | 6);
        m.close();
    }
}

TEST(a_creation_is_continued_with_the_same_length)
{
    target a, b;
    const host h;
    fail_to_create(h, a, b, 1, answer_to::create);
    const cfg_ptr cfg = h.cfg({&a, &b});
    assert_ok(rpma_mirror_cfg_set_local_copy(cfg.get(), 0, (h.where.path + "/home").c_str(), 4 * megabyte, nullptr));
    assert_int_equal(rpma_mirror_create(cfg.get()), RPMA_MIRROR_E_INVAL);
    h.create({&a, &b});
}

} // namespace
