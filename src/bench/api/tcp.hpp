// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <deque>
#include <infiniband/verbs.h>
#include <memory>
#include <sys/epoll.h>
#include <vector>

#include "engine/target_memory.hpp"
#include "failure.hpp"
#include "sides.hpp"

// Baseline without RDMA, with the interface of the RDMA APIs: the server's program executes requests from a TCP socket.
namespace bench::tcp
{

class device
{
public:
    device(const std::string &, end) {}
};

class region
{
public:
    region(const device &, void *data, std::size_t size, region_use)
        : data_(static_cast<std::byte *>(data)), size_(size)
    {
    }
    void persist_with(const target_memory &target) { target_ = &target; }

    std::byte *at(std::size_t offset, std::size_t len) const
    {
        if (offset > size_ || len > size_ - offset) [[unlikely]]
            throw failure("operation of the peer out of bounds");
        return data_ + offset;
    }
    void persist(std::size_t offset, std::size_t len) const
    {
        if (target_ != nullptr)
            target_->persist(offset, len);
    }

private:
    std::byte *data_;
    std::size_t size_;
    const target_memory *target_ = nullptr;
};

enum class frame_kind : std::uint8_t {
    read,
    write,
    flush,
    persistent_flush,
    message,
    write_with_imm,
    acknowledgement,
    read_response
};

// Header of a message, in the byte order of the host. The greeting is rejected if the other host has another order.
struct frame {
    std::uint64_t context;
    std::uint64_t remote; // offset in the target's data
    std::uint64_t local;  // offset in the initiator's data, returned in the response to a read
    std::uint32_t len;    // length of the range; the content follows in writes, messages and read responses
    std::uint32_t imm;
    frame_kind kind;
    bool signalled;
    std::uint8_t unused[6];
};
static_assert(sizeof(frame) == 40);

class connection
{
public:
    static std::unique_ptr<connection> connect(const device &, const address &to, const queue_sizes &sizes,
            const region *data, const region *messages, const greeting &handshake);
    ~connection();
    connection(const connection &) = delete;
    connection &operator=(const connection &) = delete;

    void read(std::size_t local, std::size_t remote, std::size_t len, std::uint64_t context)
    {
        post({context, remote, local, static_cast<std::uint32_t>(len), 0, frame_kind::read, true, {}}, nullptr);
    }
    void write(std::size_t local, std::size_t remote, std::size_t len, signal when, std::uint64_t context)
    {
        post({context, remote, 0, static_cast<std::uint32_t>(len), 0, frame_kind::write, when == signal::always, {}},
                data_->at(local, len));
    }
    void write_with_imm(
            std::size_t local, std::size_t remote, std::size_t len, std::uint32_t imm, std::uint64_t context)
    {
        post({context, remote, 0, static_cast<std::uint32_t>(len), imm, frame_kind::write_with_imm, true, {}},
                data_->at(local, len));
    }
    void atomic_write(std::size_t remote, const char (&value)[8], signal when, std::uint64_t context);
    void flush(std::size_t remote, std::size_t len, bool persistent, signal when, std::uint64_t context)
    {
        post({context, remote, 0, static_cast<std::uint32_t>(len), 0,
                     persistent ? frame_kind::persistent_flush : frame_kind::flush, when == signal::always, {}},
                nullptr);
    }
    void send(std::size_t offset, std::size_t len, std::uint64_t context)
    {
        post({context, 0, 0, static_cast<std::uint32_t>(len), 0, frame_kind::message, false, {}},
                messages_->at(offset, len));
        complete(context, 0);
    }
    void send_imm(std::uint32_t imm, std::uint64_t context)
    {
        post({context, 0, 0, 0, imm, frame_kind::message, false, {}}, nullptr);
        complete(context, 0);
    }
    void receive(std::size_t offset, std::size_t len, std::uint64_t context)
    {
        receives_.push_back({offset, len, context});
    }

    int poll(ibv_wc *wc, int max_count);
    int completion_fd() const { return fd_; }
    void acknowledge_event() {}
    static constexpr std::uint32_t epoll_events = EPOLLIN | EPOLLOUT | EPOLLET;

    int event_fd() const { return fd_; }
    bool has_ended();
    void disconnect();

private:
    friend class listener;
    connection(int fd, const region *data, const region *messages);

    struct chunk {
        frame header;
        const std::byte *content; // may be NULL
    };
    struct posted_receive {
        std::size_t offset, len;
        std::uint64_t context;
    };
    struct word {
        char value[8];
    };

    void post(const frame &header, const std::byte *content);
    void transmit();
    std::size_t fill();
    bool take_frame();
    void start(const frame &header);
    void finish();
    void complete(std::uint64_t context, std::uint32_t imm);
    void response(frame_kind kind, const frame &to, const std::byte *content);

    int fd_;
    const region *data_;
    const region *messages_;
    std::deque<chunk> outgoing_;
    std::size_t sent_ = 0;   // sent bytes of the first entry of outgoing_
    std::deque<word> words_; // content of atomic writes that wait in outgoing_
    std::deque<posted_receive> receives_;
    std::deque<ibv_wc> completions_;

    std::array<std::byte, 65536> buffer_;
    std::size_t begin_ = 0, end_ = 0;
    bool in_frame_ = false;
    frame current_{};
    std::byte *destination_ = nullptr; // destination of the current frame's content
    std::size_t missing_ = 0;
};

class listener
{
public:
    listener(const device &, const address &at);
    ~listener();
    listener(const listener &) = delete;
    listener &operator=(const listener &) = delete;
    int fd() const { return fd_; }
    accepted<connection> accept(const acceptance<region> &how);

private:
    int fd_;
};

} // namespace bench::tcp
