// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "cmocka_headers.hpp"

#include "engine/histogram.hpp"
#include "engine/lane.hpp"
#include "engine/layout.hpp"

using namespace bench;

namespace
{

double rank_of(const latency &l, double rank)
{
    const auto found = std::ranges::find(l.percentiles, rank, &percentile::rank);
    assert_true(found != l.percentiles.end());
    return found->ns;
}

TEST(histogram_knows_values_to_a_hundredth)
{
    constexpr std::array<std::uint64_t, 8> values = {1, 127, 128, 255, 256, 1000, 123456789, std::uint64_t{1} << 40};
    for (const std::uint64_t value : values) {
        const auto h = std::make_unique<histogram>();
        for (int i = 0; i < 10; ++i)
            h->record(value);
        h->record(UINT64_MAX); // otherwise the highest bucket would contain the recorded value
        const double seen = h->summary().histogram.front().ns;
        assert_true(seen >= static_cast<double>(value));
        assert_true(seen <= static_cast<double>(value) * 1.01);
    }
}

TEST(histogram_finds_percentiles)
{
    const auto h = std::make_unique<histogram>();
    for (std::uint64_t ns = 1; ns <= 100'000; ++ns)
        h->record(ns);
    const latency l = h->summary();
    assert_true(rank_of(l, 50) >= 50'000 && rank_of(l, 50) <= 50'500);
    assert_true(rank_of(l, 99.9) >= 99'900 && rank_of(l, 99.9) <= 100'000);
    assert_true(*l.min_ns == 1 && *l.max_ns == 100'000 && *l.mean_ns == 50'000.5);
    // With 100,000 values, the 99.999th percentile is the second largest, and is reported. With 1000 values it would be
    // invented.
    assert_true(rank_of(l, 99.999) > 99'000);
    const auto few = std::make_unique<histogram>();
    for (std::uint64_t ns = 1; ns <= 1000; ++ns)
        few->record(ns);
    assert_true(few->summary().percentiles.back().rank == 99.9);
}

TEST(histograms_merge)
{
    const auto a = std::make_unique<histogram>(), b = std::make_unique<histogram>();
    a->record(10);
    b->record(1000);
    a->merge(*b);
    const latency l = a->summary();
    assert_int_equal(a->count(), 2);
    assert_true(*l.min_ns == 10 && *l.max_ns == 1000);
    assert_int_equal(l.histogram.size(), 2);
}

setup setup_of(const char *workload, std::uint64_t block)
{
    setup what;
    what.workload = workload;
    what.parameters.block_size = block;
    what.parameters.connections = 2;
    return what;
}

// Client of one point with its memory, and the expected content of the target.
struct bench_of {
    explicit bench_of(const setup &what)
        : shape(what), data(shape.data_size()), messages(shape.client_messages() * 2), target(shape.data_size())
    {
        fill_target(target.data(), shape, what.parameters, 7);
        for (std::uint32_t c = 0; c < 2; ++c) {
            lanes.push_back(std::make_unique<lane>(shape, what.parameters, c, data.data(), messages.data()));
            lanes.back()->begin(7);
        }
    }
    bool target_is_as_expected() const
    {
        std::vector<std::byte> expected(shape.data_size());
        for (const auto &one : lanes)
            one->expect(expected.data() + one->base());
        return expected == target;
    }
    layout shape;
    std::vector<std::byte> data, messages, target;
    std::vector<std::unique_ptr<lane>> lanes;
};

TEST(written_block_is_expected_where_it_was_written)
{
    bench_of b(setup_of("write_flush", 264));
    assert_true(b.target_is_as_expected());
    const std::size_t at = b.lanes[1]->next_write();
    assert_false(b.target_is_as_expected()); // announced, but not written
    std::memcpy(b.target.data() + at, b.data.data() + at, 264);
    assert_true(b.target_is_as_expected());
    b.target[at + 263] ^= std::byte{1};
    assert_false(b.target_is_as_expected());
}

TEST(data_of_another_run_is_noticed)
{
    bench_of b(setup_of("write_flush", 64));
    const std::size_t at = b.lanes[0]->next_write();
    std::vector<std::byte> stale(64);
    fill_pattern(stale.data(), 6, at, 64);
    std::memcpy(b.target.data() + at, stale.data(), 64);
    assert_false(b.target_is_as_expected());
}

TEST(read_that_brought_something_else_is_noticed)
{
    bench_of b(setup_of("read", 64));
    assert_true(b.lanes[0]->verify_reads());
    const std::size_t at = b.lanes[0]->next_read();
    assert_false(b.lanes[0]->verify_reads());
    std::memcpy(b.data.data() + at, b.target.data() + at, 64);
    assert_true(b.lanes[0]->verify_reads());
    b.data[at] ^= std::byte{1};
    assert_false(b.lanes[0]->verify_reads());
}

TEST(head_of_a_log_is_expected)
{
    for (const char *const workload : {"log_append", "aof"}) {
        bench_of b(setup_of(workload, 64));
        b.lanes[0]->set_head(64);
        assert_false(b.target_is_as_expected());
        b.target[0] = std::byte{64};
        assert_true(b.target_is_as_expected());
    }
}

TEST(slices_do_not_overlap)
{
    for (const char *workload : {"read", "write_flush", "mix", "log_append", "atomic_write", "gpspm", "aof"}) {
        for (const std::uint64_t block : {8U, 4096U, 1U << 20}) {
            const layout shape(setup_of(workload, block));
            assert_true(shape.block_offset(shape.blocks() - 1) + shape.block() <= shape.slice());
            assert_int_equal(shape.slice_base(1), shape.slice());
            assert_int_equal(shape.data_size(), 2 * shape.slice());
        }
    }
}

} // namespace
