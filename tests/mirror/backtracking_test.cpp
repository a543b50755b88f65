// SPDX-License-Identifier: BSD-3-Clause
// Backtracking recovery with libpmemobj: the local copy is a pool, whose memory fails in the middle of a transaction.
// The program detects an error, but not its place. It aborts the transaction, rewrites all of the local copy as it was
// at its last consistency point, and continues.
#include "fixture.hpp"

#include <libpmemobj.h>

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

constexpr const char *layout = "ledger";
constexpr std::uint64_t page = 4096;
constexpr std::size_t values = 4096; // values of 8 bytes, in 8 pages

// State after each transaction: all values equal its number, and the log has one more entry.
struct ledger {
    std::uint64_t number;
    PMEMoid newest;
    std::uint64_t value[values];
};
struct entry {
    std::uint64_t number;
    PMEMoid older;
};

sigjmp_buf before_store;

void memory_failed(int)
{
    siglongjmp(before_store, 1);
}

// The pool is a mapping of the local copy. The mirror uses this mapping.
class program
{
public:
    program(const cfg_ptr &cfg, const std::string &path)
    {
        pool_ = pmemobj_open(path.c_str(), layout);
        assert_non_null(pool_);
        root_ = pmemobj_root(pool_, sizeof(ledger));
        assert_ok(rpma_mirror_map_memory(cfg.get(), pool_, length, 0, &mirror_));
        flush();
    }
    ~program()
    {
        assert_ok(rpma_mirror_unmap(&mirror_));
        pmemobj_close(pool_);
    }
    program(const program &) = delete;
    program &operator=(const program &) = delete;

    rpma_mirror *mirror() const { return mirror_; }
    std::byte *memory() const { return reinterpret_cast<std::byte *>(pool_); }
    ledger &data() const { return *static_cast<ledger *>(pmemobj_direct(root_)); }

    // Sets a consistency point: all copies have the content of the pool.
    void flush() const
    {
        assert_ok(rpma_mirror_sync(mirror_, 0, 0, length, 0));
        assert_ok(rpma_mirror_set_consistency_point(mirror_, data().number));
    }

    // Damages the given pages while the transaction stores. Returns false if it was aborted.
    bool transact(const std::vector<std::uint64_t> &pages_that_fail)
    {
        // If the jump buffer of libpmemobj is missing, its functions return errors.
        assert_int_equal(pmemobj_tx_begin(pool_, nullptr, TX_PARAM_NONE), 0);
        ledger &all = data();
        assert_int_equal(pmemobj_tx_add_range_direct(&all, sizeof(all)), 0);
        const PMEMoid added = pmemobj_tx_alloc(sizeof(entry), 1);
        assert_false(OID_IS_NULL(added));
        *static_cast<entry *>(pmemobj_direct(added)) = {all.number + 1, all.newest};
        all.newest = added;
        const std::uint64_t number = ++all.number;
        if (sigsetjmp(before_store, 1) == 0) {
            for (std::size_t i = 0; i < values; ++i) {
                if (i == values / 4)
                    for (const std::uint64_t p : pages_that_fail)
                        assert_int_equal(mprotect(memory() + p * page, page, PROT_NONE), 0);
                std::atomic_signal_fence(std::memory_order_seq_cst);
                const_cast<volatile std::uint64_t &>(all.value[i]) = number;
            }
            pmemobj_tx_commit();
            assert_int_equal(pmemobj_tx_end(), 0);
            return true;
        }
        // The system unmaps bad pages, and their content is lost.
        for (const std::uint64_t p : pages_that_fail) {
            assert_int_equal(mprotect(memory() + p * page, page, PROT_READ | PROT_WRITE), 0);
            std::memset(memory() + p * page, 0, page);
        }
        pmemobj_tx_abort(EIO);
        assert_int_equal(pmemobj_tx_end(), EIO);
        return false;
    }

    void check(std::uint64_t number) const
    {
        const ledger &all = data();
        assert_int_equal(all.number, number);
        for (const std::uint64_t value : all.value)
            assert_int_equal(value, number);
        PMEMoid at = all.newest;
        for (; number > 0; --number) {
            const auto *const e = static_cast<const entry *>(pmemobj_direct(at));
            assert_int_equal(e->number, number);
            at = e->older;
        }
        assert_true(OID_IS_NULL(at));
    }

private:
    PMEMobjpool *pool_ = nullptr;
    PMEMoid root_{};
    rpma_mirror *mirror_ = nullptr;
};

void expect_pool(const std::string &path, std::uint64_t number)
{
    assert_int_equal(pmemobj_check(path.c_str(), layout), 1);
    PMEMobjpool *const pool = pmemobj_open(path.c_str(), layout);
    assert_non_null(pool);
    const auto *const all = static_cast<const ledger *>(pmemobj_direct(pmemobj_root(pool, sizeof(ledger))));
    assert_int_equal(all->number, number);
    pmemobj_close(pool);
}

TEST(the_program_goes_back_and_continues)
{
    const target a, b;
    const host h;
    const std::string path = h.where.path + "/home";
    PMEMobjpool *const created = pmemobj_create(path.c_str(), layout, length, 0600);
    if (created == nullptr)
        fail_msg("pmemobj_create: %s", pmemobj_errormsg());
    pmemobj_close(created);
    const cfg_ptr cfg = h.create({&a, &b});
    struct sigaction handler {
    };
    handler.sa_handler = memory_failed;
    sigaction(SIGSEGV, &handler, nullptr);
    std::uint64_t number = 0;
    {
        program p(cfg, path);
        std::mt19937 random(1);
        const auto first =
                static_cast<std::uint64_t>(reinterpret_cast<std::byte *>(p.data().value) - p.memory()) / page;
        for (int round = 0; round < 20; ++round) {
            assert_true(p.transact({}));
            p.flush();
            p.check(++number);
            // One page that the program accesses, and others that it does not access.
            std::vector<std::uint64_t> bad = {first + values * sizeof(std::uint64_t) / page / 2};
            for (int i = 0; i < round; ++i)
                bad.push_back(first + random() % (values * sizeof(std::uint64_t) / page));
            assert_false(p.transact(bad));
            assert_ok(rpma_mirror_repair_range(p.mirror(), 0, length, RPMA_MIRROR_ALL_COPIES));
            p.check(number);
            const std::string home = h.bytes(0, length);
            assert_true(home == a.bytes(0, length) && home == b.bytes(0, length));
            auto s = sized<rpma_mirror_state>();
            assert_ok(rpma_mirror_get_state(p.mirror(), &s));
            assert_true(s.in_sync == 7 && s.consistency_point == number);
        }
        assert_true(p.transact({}));
        p.flush();
        p.check(++number);
    }
    // The pool is consistent, locally and in the copy of each target.
    expect_pool(path, number);
    for (const target *t : {&a, &b}) {
        const std::string copy = t->where().path + "/copy";
        t->where().write("copy", t->bytes(0, length));
        expect_pool(copy, number);
    }
}

} // namespace
