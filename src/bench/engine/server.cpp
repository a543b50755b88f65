// SPDX-License-Identifier: BSD-3-Clause
#include "server.hpp"

#include <condition_variable>
#include <list>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <thread>

#include "api/apis.hpp"
#include "background_load.hpp"
#include "lane.hpp"
#include "process.hpp"
#include "responder.hpp"

namespace bench
{

namespace
{

std::unique_ptr<target_memory> make_target(std::size_t size, const std::string &path)
{
    return path.empty() ? std::make_unique<target_memory>(size) : std::make_unique<target_memory>(size, path);
}

template<class Api>
class serving_server final : public server
{
public:
    serving_server(const setup &point_setup, const server_options &options)
        : setup_(point_setup), shape_(point_setup), direct_write_(options.direct_write),
          target_(make_target(shape_.data_size(), options.target_path)),
          messages_(shape_.server_messages() * params().connections), device_(options.at.host, end::server),
          data_region_(device_, target_->data(), shape_.data_size(),
                  params().flush == flush_kind::persistent ? region_use::target_pmem : region_use::target_data),
          message_region_(device_, messages_.data(), messages_.size(), region_use::messages),
          listener_(device_, options.at), wake_(eventfd(0, EFD_CLOEXEC)), connections_(params().connections)
    {
        if (wake_ < 0)
            throw system_failure("eventfd() failed");
        if constexpr (requires { data_region_.persist_with(*target_); })
            data_region_.persist_with(*target_);
        acceptor_ = std::thread([this] { accept_all(); });
    }

    ~serving_server() override
    {
        stop_responders();
        (void)eventfd_write(wake_, 1);
        acceptor_.join();
        close(wake_);
        for (const auto &one : connections_) {
            if (one)
                one->disconnect();
        }
    }

    double wait_for_connections() override
    {
        std::unique_lock lock(mutex_);
        const auto limit = std::chrono::milliseconds(handshake_timeout_ms);
        if (!arrived_.wait_for(lock, limit, [&] { return accepted_ == params().connections || !error_.empty(); }))
            throw failure("only " + std::to_string(accepted_) + " of " + std::to_string(params().connections) +
                          " connections arrived");
        if (!error_.empty())
            throw failure(error_);
        return static_cast<double>(resident_bytes() - resident_before_) / params().connections;
    }

    void begin(std::uint64_t seed) override
    {
        fill_target(target_->data(), shape_, params(), seed);
        stop_ = false;
        if (std::is_same_v<Api, tcp_api> || needs_responder(shape_.kind()))
            start_responders();
        background_load_ = std::make_unique<background_load>(params().cpu_load);
        cpu_before_ = process_cpu_ns();
    }

    server_sample end() override
    {
        std::uint64_t cpu = process_cpu_ns() - cpu_before_;
        stop_responders();
        cpu -= std::min(cpu, background_load_->stop());
        const std::scoped_lock lock(mutex_);
        if (!error_.empty())
            throw failure(error_);
        return {static_cast<double>(cpu) / 1e9, hash_bytes(target_->data(), shape_.data_size())};
    }

private:
    using connection = typename Api::connection;
    using worker = responder<connection>;

    const parameters &params() const { return setup_.parameters; }
    bool is_connecting() const { return shape_.kind() == workload::connect; }

    void record_error(const std::string &message)
    {
        const std::scoped_lock lock(mutex_);
        if (error_.empty())
            error_ = message;
        arrived_.notify_all();
    }

    acceptance<typename Api::region> how_to_accept() const
    {
        return {{shape_.server_sends(), static_cast<std::uint32_t>(shape_.server_receives()) + 1}, &data_region_,
                &message_region_, shape_.server_receives(), shape_.slot(), shape_.server_messages(), direct_write_,
                is_connecting() ? params().threads : params().connections};
    }

    // Accepts connections until the destructor runs. Deletes closed connections in the workload connect.
    void accept_all()
    {
        resident_before_ = resident_bytes();
        std::list<std::unique_ptr<connection>> open_connections;
        bool running = true;
        while (running) {
            std::vector<pollfd> fds = {{wake_, POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
            for (const auto &one : open_connections)
                fds.push_back({one->event_fd(), POLLIN, 0});
            poll(fds.data(), fds.size(), -1);
            running = fds[0].revents == 0;
            std::size_t i = 2;
            for (auto one = open_connections.begin(); one != open_connections.end(); ++i)
                one = fds[i].revents != 0 && (*one)->has_ended() ? open_connections.erase(one) : std::next(one);
            if (running && fds[1].revents != 0)
                accept_one(open_connections);
        }
    }

    void accept_one(std::list<std::unique_ptr<connection>> &open_connections)
    try {
        accepted<connection> next = listener_.accept(how_to_accept());
        if (!next.connection)
            return;
        if (is_connecting()) {
            open_connections.push_back(std::move(next.connection));
            return;
        }
        const std::scoped_lock lock(mutex_);
        if (connections_[next.number])
            return;
        connections_[next.number] = std::move(next.connection);
        ++accepted_;
        arrived_.notify_all();
    } catch (const failure &error) {
        record_error(error.what());
    }

    void start_responders()
    {
        if (workers_.empty() && !is_connecting()) {
            for (std::uint32_t t = 0; t < params().threads; ++t) {
                workers_.push_back(std::make_unique<worker>(shape_, params(), *target_, messages_.data()));
                for (std::uint32_t c = t; c < params().connections; c += params().threads)
                    workers_.back()->add(*connections_[c], c);
            }
        }
        for (const auto &one : workers_) {
            threads_.emplace_back([this, &one] {
                try {
                    one->run(stop_);
                } catch (const failure &error) {
                    record_error(error.what());
                }
            });
        }
    }

    void stop_responders()
    {
        stop_ = true;
        for (std::thread &one : threads_)
            one.join();
        threads_.clear();
    }

    setup setup_;
    layout shape_;
    bool direct_write_;
    std::unique_ptr<target_memory> target_;
    target_memory messages_;
    typename Api::device device_;
    typename Api::region data_region_, message_region_;
    typename Api::listener listener_;
    int wake_;
    std::vector<std::unique_ptr<connection>> connections_;

    std::mutex mutex_;
    std::condition_variable arrived_;
    std::uint32_t accepted_ = 0;
    std::string error_;
    std::size_t resident_before_ = 0;

    std::vector<std::unique_ptr<worker>> workers_;
    std::atomic<bool> stop_{false};
    std::vector<std::thread> threads_;
    std::unique_ptr<background_load> background_load_;
    std::uint64_t cpu_before_ = 0;
    std::thread acceptor_;
};

} // namespace

std::unique_ptr<server> open_server(const setup &point_setup, const server_options &options)
{
    switch (point_setup.api) {
    case api::librpma:
        return std::make_unique<serving_server<rpma_api>>(point_setup, options);
    case api::verbs:
        return std::make_unique<serving_server<verbs_api>>(point_setup, options);
    case api::tcp:
        return std::make_unique<serving_server<tcp_api>>(point_setup, options);
    case api::memcpy:
        break;
    }
    throw failure("memcpy runs without a server");
}

} // namespace bench
