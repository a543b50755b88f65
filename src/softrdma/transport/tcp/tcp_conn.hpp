// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "progress/event_loop.hpp"
#include "progress/path_timer.hpp"
#include "progress/pending_peers.hpp"
#include "transport/packet_path.hpp"
#include "wire/frame.hpp"
#include "base/process.hpp"

#include <sys/epoll.h>
#include <vector>

namespace softrdma
{

class tcp_conn;

// Creator of a connection. An interface, because cm/ is above. Called with only the read lock of the connection held.
class tcp_conn_user
{
public:
    virtual ~tcp_conn_user() = default;
    virtual void connected(const std::shared_ptr<tcp_conn> &path) = 0;
    // `receiver` is the receiver of its packets, or NULL. The callee calls its path_lost().
    virtual void lost(
            const std::shared_ptr<tcp_conn> &path, const std::shared_ptr<packet_receiver> &receiver, int error) = 0;
    // Called for a packet that does not belong to the queue pair. Returns false if the peer broke the protocol.
    virtual bool received(const std::shared_ptr<tcp_conn> &path, const packet &p) = 0;
};

// One TCP connection: the path of one queue pair and the channel of its connection management.
class tcp_conn : public packet_path,
                 public event_handler,
                 public pending_peer,
                 public std::enable_shared_from_this<tcp_conn>
{
public:
    enum class role {
        connecting, // connect() is in progress
        accepted,
    };

    // Takes ownership of the descriptor. Returns NULL and sets errno if it cannot be watched.
    static std::shared_ptr<tcp_conn> open(int fd, role r, tcp_conn_user &user);
    tcp_conn(unique_fd fd, role r, tcp_conn_user &user)
        : fd_(std::move(fd)), user_(user), connecting_(r == role::connecting), blocked_(connecting_),
          reads_(!connecting_)
    {
    }
    void transmit(const packet &header, std::span<const iovec> payload, bool more) override;
    void push() override;
    bool congested() override
    {
        const lock_guard lock(mutex_);
        return blocked_;
    }
    std::size_t send_space() override;
    void start_timer(std::chrono::microseconds delay) override;
    void start_response_timer(std::chrono::microseconds delay) override;
    void cut() noexcept override;
    const char *name() const noexcept override { return "tcp"; }
    void ends(sockaddr_storage &local, sockaddr_storage &remote) const override;
    bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
    poll_result ready(std::uint32_t events) override;
    poll_result poll() override { return ready(EPOLLIN); }
    void out_of_memory() noexcept override { cut(); }

    // Returns true if connect() has completed already, as within a host: connected() is not called in that case.
    bool connects_at_once();

    int fd() const noexcept { return fd_.get(); }
    // Sets the receiver of packets for that queue pair number; NULL for none.
    void bind(std::shared_ptr<packet_receiver> receiver, std::uint32_t local_qpn);
    std::shared_ptr<packet_receiver> bound()
    {
        const lock_guard lock(mutex_);
        return receiver_;
    }
    void hold(); // while held, no input is read, because the queue pair is not ready for it
    void unhold();
    void send_control(opcode op, std::span<const std::byte> payload); // a packet that does not belong to the queue pair
    void finish();                                                    // closes the connection once all output was sent
    void drop() override { finish(); }

    // For the user, guarded by its lock.
    void *owner = nullptr;
    std::uint64_t tag = 0;

private:
    bool serve(std::uint32_t events) REQUIRES(read_mutex_); // whether input was found
    void update_watch() REQUIRES(mutex_);
    // Both return true when the output buffer is empty.
    bool push_output() REQUIRES(mutex_)
    {
        iovec waiting{};
        return output_.empty() || send({&waiting, 1});
    }
    bool send(std::span<iovec> segments) REQUIRES(mutex_);
    void wait_for_send_space() REQUIRES(mutex_)
    {
        blocked_ = true;
        update_watch();
    }
    void keep(std::span<const iovec> segments, std::size_t already_sent) noexcept REQUIRES(mutex_);
    void flush_output();
    void finish_connecting();
    bool becomes_connected(bool blocked);
    bool read_input() REQUIRES(read_mutex_);
    std::size_t read_in_place(bool &more, bool &valid) REQUIRES(read_mutex_);
    bool parse(std::span<const std::byte> data) REQUIRES(read_mutex_);
    bool handle(const packet &p);
    void drop(int error);
    template<typename Call>
    void or_cut(Call call) noexcept;
    [[nodiscard]] std::shared_ptr<packet_receiver> disconnect() REQUIRES(mutex_);

    const process::watched_fd fd_;
    tcp_conn_user &user_;

    ordered_mutex read_mutex_{lock_level::reading};
    std::vector<std::byte> input_ GUARDED_BY(read_mutex_); // empty until a packet arrives in parts
    std::size_t filled_ GUARDED_BY(read_mutex_) = 0;
    frame_reader frames_ GUARDED_BY(read_mutex_);

    ordered_mutex mutex_{lock_level::sending};
    event_loop::watch_id watch_ GUARDED_BY(mutex_) = 0;
    bool connecting_ GUARDED_BY(mutex_);
    bool held_ GUARDED_BY(mutex_) = false;
    bool finishing_ GUARDED_BY(mutex_) = false;
    bool closed_ GUARDED_BY(mutex_) = false;
    std::vector<std::byte> output_ GUARDED_BY(mutex_); // output that is not sent yet
    std::size_t sent_ GUARDED_BY(mutex_) = 0;          // bytes at its beginning that were sent
    // True while output must wait for the socket to become writable, as during connecting.
    bool blocked_ GUARDED_BY(mutex_);
    std::shared_ptr<packet_receiver> receiver_ GUARDED_BY(mutex_); // keeps its queue pair alive
    std::uint32_t local_qpn_ GUARDED_BY(mutex_) = 0;
    path_timer timer_;
    std::atomic<bool> lost_{false};
    std::atomic<bool> reads_; // accepts input
};

} // namespace softrdma
