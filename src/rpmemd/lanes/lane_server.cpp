// SPDX-License-Identifier: BSD-3-Clause
#include "lanes/lane_server.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <poll.h>
#include <sstream>
#include <sys/eventfd.h>
#include <sys/random.h>

#include "config/log.hpp"
#include "message/lane_proof.hpp"

namespace rpmemd
{

namespace
{

constexpr std::chrono::seconds token_life(30);
constexpr std::uint32_t no_lane = UINT32_MAX;

replica::fd_owner new_event()
{
    replica::fd_owner event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event.valid())
        throw system_failure("cannot create an event");
    return event;
}

replica::token new_token()
{
    replica::token token{};
    if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size()))
        throw system_failure("cannot get random bytes for the session");
    return token;
}

std::string descriptor_of(const region_ptr &region)
{
    std::array<char, replica::max_descriptor_size> bytes{};
    std::size_t size = 0;
    check_rpma(rpma_mr_get_descriptor_size(region.get(), &size), "cannot create the descriptor of the pool");
    if (size > bytes.size())
        throw failure(EOVERFLOW, "descriptor of the pool: too long");
    check_rpma(rpma_mr_get_descriptor(region.get(), bytes.data()), "cannot create the descriptor of the pool");
    return {bytes.data(), size};
}

std::string peer_descriptor(bool direct_write)
{
    rpma_peer_cfg *created = nullptr;
    check_rpma(rpma_peer_cfg_new(&created), "cannot create the peer descriptor");
    const peer_cfg_ptr owned(created);
    check_rpma(rpma_peer_cfg_set_direct_write_to_pmem(created, direct_write), "cannot create the peer descriptor");
    std::array<char, replica::max_descriptor_size> bytes{};
    std::size_t size = 0;
    check_rpma(rpma_peer_cfg_get_descriptor_size(created, &size), "cannot create the peer descriptor");
    if (size > bytes.size())
        throw failure(EOVERFLOW, "peer descriptor: too long");
    check_rpma(rpma_peer_cfg_get_descriptor(created, bytes.data()), "cannot create the peer descriptor");
    return {bytes.data(), size};
}

} // namespace

class lane_server::worker
{
public:
    explicit worker(const replica::fd_owner &stop) : ready_(epoll_create1(EPOLL_CLOEXEC))
    {
        if (!ready_.valid())
            throw system_failure("cannot wait for lanes");
        watch(stop.get(), nullptr);
        thread_ = std::thread([this] { run(); });
    }
    ~worker() { thread_.join(); }

    void add(lane &served)
    {
        watch(served.completion_fd(), &served);
        watch(served.event_fd(), &served);
    }

private:
    void watch(int fd, lane *served)
    {
        epoll_event interest{};
        interest.events = EPOLLIN;
        interest.data.ptr = served;
        if (epoll_ctl(ready_.get(), EPOLL_CTL_ADD, fd, &interest) != 0)
            throw system_failure("cannot wait for a lane");
    }

    void close(lane &served)
    {
        epoll_ctl(ready_.get(), EPOLL_CTL_DEL, served.completion_fd(), nullptr);
        epoll_ctl(ready_.get(), EPOLL_CTL_DEL, served.event_fd(), nullptr);
        served.close();
        closed_.push_back(&served);
    }

    // Does not throw: an error of one client must not end a thread that serves other lanes.
    void serve(lane &served)
    {
        if (std::ranges::find(closed_, &served) != closed_.end())
            return;
        if (!served.serve())
            close(served);
    }

    void run()
    {
        std::array<epoll_event, 64> events{};
        for (;;) {
            const int count = epoll_wait(ready_.get(), events.data(), static_cast<int>(events.size()), -1);
            for (int i = 0; i < count; ++i) {
                auto *const served = static_cast<lane *>(events[static_cast<std::size_t>(i)].data.ptr);
                if (served == nullptr)
                    return;
                serve(*served);
            }
        }
    }

    replica::fd_owner ready_;
    std::vector<const lane *> closed_; // closed lanes, whose events can still be in the fetched array
    std::thread thread_;
};

lane_server::lane_server(
        const config &settings, pool &served_pool, const lane_request &request, const lane_params &params)
    : settings_(settings), address_(params.address), epoch_(params.epoch),
      device_(open_device(address_, request.devices)),
      policy_(choose_policy(served_pool.memory().medium(), settings.persist_apm, device_.is_software)),
      lanes_count_(std::min({request.lanes, settings.limits.lanes, replica::max_lanes})), token_(new_token()),
      messages_(lanes_count_ * lane_memory_size), lanes_(lanes_count_), stop_(new_event())
{
    context_.memory = &served_pool.memory();
    context_.counted = params.counted;
    if (params.read_only.empty())
        register_regions(served_pool, request.pool_size);
    else
        register_read_only(params.read_only);
    messages_region_ = register_memory(
            device_, messages_.data(), messages_.size(), RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, "buffers");
    context_.messages = messages_.data();
    context_.region = messages_region_.get();
    endpoint_ = listen_anywhere(device_, address_);
    const unsigned requested = settings.threads == 0 ? lanes_count_ : settings.threads;
    const unsigned threads = std::min({requested, lanes_count_, settings.limits.threads});
    try {
        for (unsigned i = 0; i < threads; ++i)
            workers_.push_back(std::make_unique<worker>(stop_));
        acceptor_ = std::thread([this] { accept_lanes(); });
    } catch (...) {
        eventfd_write(stop_.get(), 1);
        throw;
    }
}

lane_server::~lane_server()
{
    close();
}

void lane_server::close()
{
    if (!acceptor_.joinable())
        return;
    eventfd_write(stop_.get(), 1);
    acceptor_.join();
    workers_.clear();
    lanes_.clear();
}

void lane_server::revoke()
{
    close();
    rpma_mr_local *data = data_.release();
    check_rpma(rpma_mr_dereg(&data), "cannot deregister the pool memory");
}

void lane_server::register_regions(const pool &served, std::uint64_t size)
{
    const std::size_t begin = served.has_header() ? header_size : 0;
    std::byte *const memory = served.memory().address();
    const bool persistent =
            policy_.method == replica::method::persistent_flush || policy_.level >= replica::level::cpu_flushed;
    const int flushes = RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | (persistent ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT : 0);
    data_ = register_memory(device_, memory + begin, size - begin,
            RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | flushes, "the pool");
    int native_flushes = 0;
    check_rpma(
            rpma_mr_get_native_flush_type(data_.get(), &native_flushes), "cannot query the native flush of the pool");
    flushes_natively_ = native_flushes == flushes;
    if (begin != 0)
        header_ = register_memory(device_, memory, begin,
                RPMA_MR_USAGE_READ_SRC | (settings_.read_only_header ? 0 : RPMA_MR_USAGE_WRITE_DST), "the pool header");
    context_.begin = begin;
    context_.end = size;
}

// The context has no range, so a flush request ends the lane.
void lane_server::register_read_only(std::span<std::byte> memory)
{
    data_ = register_memory(device_, memory.data(), memory.size(), RPMA_MR_USAGE_READ_SRC, "an image for a reader");
}

void lane_server::describe(replica::wire::region &to) const
{
    to.set_features(flushes_natively_ ? std::uint64_t{replica::feature_native_flush} : 0);
    to.set_method(static_cast<std::uint32_t>(policy_.method));
    to.set_level(static_cast<std::uint32_t>(policy_.level));
    to.set_lanes(lanes_count_);
    to.set_window(lane_window);
    to.set_port(endpoint_.port);
    to.set_address(address_);
    to.set_device(device_.is_software ? replica::device_software : replica::device_hardware);
    to.set_token(replica::bytes_of(token_));
    to.set_peer_descriptor(peer_descriptor(policy_.direct_write));
    to.set_data_descriptor(descriptor_of(data_));
    if (header_)
        to.set_header_descriptor(descriptor_of(header_));
}

void lane_server::accept_lanes()
{
    const auto end = std::chrono::steady_clock::now() + token_life;
    int listener = -1;
    if (rpma_ep_get_fd(endpoint_.listener.get(), &listener) != 0)
        return;
    while (std::ranges::any_of(lanes_, [](const auto &lane) { return lane == nullptr; })) {
        const auto left =
                std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
        if (left <= 0)
            break;
        std::array<pollfd, 2> waited = {{{listener, POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
        if (poll(waited.data(), waited.size(), static_cast<int>(left)) < 0 && errno != EINTR)
            break;
        if (waited[1].revents != 0)
            return;
        if (waited[0].revents == 0)
            continue;
        try {
            accept_one();
        } catch (const failure &error) {
            log(log_level::warn, error.what());
        }
    }
    endpoint_.listener.reset();
}

void lane_server::accept_one()
{
    const connection_cfg_ptr configuration = lane_configuration();
    rpma_conn_req *arrived = nullptr;
    check_rpma(rpma_ep_next_conn_req(endpoint_.listener.get(), configuration.get(), &arrived), "cannot accept a lane");
    request_ptr request(arrived);
    const std::uint32_t number = prove(arrived);
    if (number == no_lane || lanes_[number] != nullptr) {
        log(log_level::warn, "connection rejected: not a lane of this session");
        return;
    }
    // Set before the lane is accepted, because the client can write immediately afterwards.
    used_ = true;
    lanes_[number] = std::make_unique<lane>(context_, number, std::move(request));
    workers_[number % workers_.size()]->add(*lanes_[number]);
}

std::uint32_t lane_server::prove(const rpma_conn_req *request) const
{
    rpma_conn_private_data sent{};
    std::uint32_t number = no_lane;
    if (rpma_conn_req_get_private_data(request, &sent) != 0 || sent.ptr == nullptr)
        return no_lane;
    const std::span<const std::byte> bytes(static_cast<const std::byte *>(sent.ptr), sent.len);
    const bool proven = epoch_ == 0 ? replica::check_lane_proof(token_, bytes, &number)
                                    : replica::check_epoch_proof(token_, epoch_, bytes, &number);
    return proven && number < lanes_count_ ? number : no_lane;
}

std::string data_address()
{
    const char *const connection = getenv("SSH_CONNECTION");
    if (connection == nullptr)
        return "127.0.0.1";
    std::istringstream words(connection);
    std::string client, client_port, address;
    if (!(words >> client >> client_port >> address))
        throw failure(EIO, "SSH_CONNECTION at the target: address missing");
    return address;
}

} // namespace rpmemd
