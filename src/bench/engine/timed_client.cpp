// SPDX-License-Identifier: BSD-3-Clause
#include "timed_client.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "process.hpp"

namespace bench
{

namespace
{

constexpr double window_s = 0.05;
constexpr std::size_t steady_windows = 4;
constexpr double steady_spread = 0.1;

double seconds(std::uint64_t ns)
{
    return static_cast<double>(ns) / 1e9;
}

void sleep_for(double s)
{
    std::this_thread::sleep_for(std::chrono::duration<double>(s));
}

bool is_steady(const std::vector<double> &rates)
{
    if (rates.size() < steady_windows)
        return false;
    const auto [low, high] = std::minmax_element(rates.end() - steady_windows, rates.end());
    return *low > 0 && (*high - *low) / *high < steady_spread;
}

using blocks = std::vector<std::unique_ptr<control_block>>;

std::uint64_t operations_of(const blocks &controls)
{
    std::uint64_t sum = 0;
    for (const auto &one : controls)
        sum += one->operations.load(std::memory_order_relaxed);
    return sum;
}

bool any_stopped(const blocks &controls)
{
    return std::ranges::any_of(controls, [](const auto &one) { return one->stop.load(); });
}

bench::measure measure_of(const histogram &h, std::uint64_t operations, double duration, std::size_t block)
{
    bench::measure m;
    m.operations = operations;
    m.latency = h.summary();
    if (duration > 0) {
        m.ops_per_s = static_cast<double>(operations) / duration;
        m.bytes_per_s = *m.ops_per_s * static_cast<double>(block);
    }
    return m;
}

} // namespace

timed_client::timed_client(const setup &point_setup)
    : setup_(point_setup), shape_(point_setup), data_(shape_.data_size()),
      messages_(shape_.client_messages() * point_setup.parameters.connections)
{
    for (std::uint32_t c = 0; c < params().connections; ++c)
        lanes_.emplace_back(shape_, params(), c, data_.data(), messages_.data());
}

void timed_client::begin(std::uint64_t seed)
{
    for (lane &one : lanes_)
        one.begin(seed);
}

template<class Watch>
timed_client::tallies timed_client::run_threads(Watch watch)
{
    tallies results;
    blocks controls;
    std::vector<std::exception_ptr> errors(runners_.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < runners_.size(); ++i) {
        results.push_back(std::make_unique<run_counts>());
        controls.push_back(std::make_unique<control_block>());
    }
    for (std::size_t i = 0; i < runners_.size(); ++i) {
        threads.emplace_back([&, i] {
            try {
                runners_[i]->run(*controls[i], *results[i]);
            } catch (...) {
                errors[i] = std::current_exception();
                for (const auto &one : controls)
                    one->stop = true;
            }
        });
    }
    watch(controls);
    for (const auto &one : controls)
        one->stop = true;
    for (std::thread &one : threads)
        one.join();
    for (const std::exception_ptr &error : errors) {
        if (error)
            std::rethrow_exception(error);
    }
    return results;
}

double timed_client::warm_up(double limit_s)
{
    const std::uint64_t started = now_ns();
    run_threads([&](const blocks &controls) {
        std::vector<double> rates;
        std::uint64_t before = 0, last = started;
        while (!any_stopped(controls) && seconds(now_ns() - started) < limit_s && !is_steady(rates)) {
            sleep_for(window_s);
            const std::uint64_t now = now_ns(), operations = operations_of(controls);
            rates.push_back(static_cast<double>(operations - before) / seconds(now - last));
            before = operations;
            last = now;
        }
    });
    return seconds(now_ns() - started);
}

run_result timed_client::measure(double duration_s)
{
    const std::uint64_t cpu_before = process_cpu_ns();
    const tallies results = run_threads([&](const blocks &controls) {
        const std::uint64_t end = now_ns() + static_cast<std::uint64_t>(duration_s * 1e9);
        for (std::uint64_t now = now_ns(); now < end && !any_stopped(controls); now = now_ns())
            sleep_for(std::min(seconds(end - now), 0.1));
    });
    run_result result;
    bench::repeat &r = result.repeat;
    r.cpu_s.client = seconds(process_cpu_ns() - cpu_before);

    auto sum = std::make_unique<run_counts>();
    sum->begin_ns = UINT64_MAX;
    for (const auto &one : results) {
        sum->all.merge(one->all);
        sum->reads.merge(one->reads);
        sum->writes.merge(one->writes);
        sum->operations += one->operations;
        sum->read_operations += one->read_operations;
        sum->begin_ns = std::min(sum->begin_ns, one->begin_ns);
        sum->end_ns = std::max(sum->end_ns, one->end_ns);
    }
    const double duration = seconds(sum->end_ns - sum->begin_ns);
    r.duration_s = duration;
    const std::size_t block = shape_.kind() == workload::connect ? 0 : shape_.block();
    r.all = measure_of(sum->all, sum->operations, duration, block);
    if (shape_.kind() == workload::connect)
        r.all.bytes_per_s.reset();
    if (shape_.kind() == workload::mix) {
        r.reads = measure_of(sum->reads, sum->read_operations, duration, block);
        r.writes = measure_of(sum->writes, sum->operations - sum->read_operations, duration, block);
    }
    r.memory_per_connection_bytes.client = memory_per_connection_;
    r.verified = std::ranges::all_of(lanes_, &lane::verify_reads);

    const std::vector<std::byte> expected = expected_data();
    if (const std::optional<bool> equal = compare_target(expected))
        r.verified = *r.verified && *equal;
    else
        result.expected_target = hash_bytes(expected.data(), expected.size());
    return result;
}

std::vector<std::byte> timed_client::expected_data() const
{
    std::vector<std::byte> data(shape_.data_size());
    for (const lane &one : lanes_)
        one.expect(data.data() + one.base());
    return data;
}

} // namespace bench
