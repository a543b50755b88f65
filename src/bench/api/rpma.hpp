// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <librpma.h>
#include <memory>
#include <sys/epoll.h>

#include "failure.hpp"
#include "sides.hpp"

namespace bench::rpma
{

[[noreturn, gnu::cold]] void fail(int error, const char *call);
inline void check(int returned, const char *call)
{
    if (returned != 0) [[unlikely]]
        fail(returned, call);
}

template<class T, int (*Delete)(T **)>
struct deleter {
    void operator()(T *object) const { (void)Delete(&object); }
};
template<class T, int (*Delete)(T **)>
using owner = std::unique_ptr<T, deleter<T, Delete>>;

class device
{
public:
    device(const std::string &host, end which);
    rpma_peer *peer() const { return peer_.get(); }
    std::string name() const { return ibv_get_device_name(context_->device); }

private:
    ibv_context *context_ = nullptr;
    owner<rpma_peer, rpma_peer_delete> peer_;
};

class region
{
public:
    region(const device &on, void *data, std::size_t size, region_use use);
    rpma_mr_local *get() const { return mr_.get(); }
    region_descriptor descriptor() const;

private:
    owner<rpma_mr_local, rpma_mr_dereg> mr_;
};

class connection
{
public:
    // data and messages must outlive the connection; messages may be NULL.
    static std::unique_ptr<connection> connect(const device &on, const address &to, const queue_sizes &sizes,
            const region *data, const region *messages, const greeting &handshake);

    void read(std::size_t local, std::size_t remote, std::size_t len, std::uint64_t context)
    {
        check(rpma_read(conn_.get(), data_, local, remote_.get(), remote, len, RPMA_F_COMPLETION_ALWAYS,
                      as_context(context)),
                "rpma_read");
    }
    void write(std::size_t local, std::size_t remote, std::size_t len, signal when, std::uint64_t context)
    {
        check(rpma_write(conn_.get(), remote_.get(), remote, data_, local, len, flags(when), as_context(context)),
                "rpma_write");
    }
    void write_with_imm(
            std::size_t local, std::size_t remote, std::size_t len, std::uint32_t imm, std::uint64_t context)
    {
        check(rpma_write_with_imm(conn_.get(), remote_.get(), remote, data_, local, len, RPMA_F_COMPLETION_ALWAYS, imm,
                      as_context(context)),
                "rpma_write_with_imm");
    }
    void atomic_write(std::size_t remote, const char (&value)[8], signal when, std::uint64_t context)
    {
        check(rpma_atomic_write(conn_.get(), remote_.get(), remote, value, flags(when), as_context(context)),
                "rpma_atomic_write");
    }
    void flush(std::size_t remote, std::size_t len, bool persistent, signal when, std::uint64_t context)
    {
        check(rpma_flush(conn_.get(), remote_.get(), remote, len,
                      persistent ? RPMA_FLUSH_TYPE_PERSISTENT : RPMA_FLUSH_TYPE_VISIBILITY, flags(when),
                      as_context(context)),
                "rpma_flush");
    }
    void send(std::size_t offset, std::size_t len, std::uint64_t context)
    {
        check(rpma_send(conn_.get(), messages_, offset, len, RPMA_F_COMPLETION_ALWAYS, as_context(context)),
                "rpma_send");
    }
    void send_imm(std::uint32_t imm, std::uint64_t context)
    {
        check(rpma_send_with_imm(conn_.get(), nullptr, 0, 0, RPMA_F_COMPLETION_ALWAYS, imm, as_context(context)),
                "rpma_send_with_imm");
    }
    void receive(std::size_t offset, std::size_t len, std::uint64_t context)
    {
        check(rpma_recv(conn_.get(), messages_, offset, len, as_context(context)), "rpma_recv");
    }

    int poll(ibv_wc *wc, int max_count)
    {
        int got = 0;
        const int returned = rpma_cq_get_wc(cq_, max_count, wc, &got);
        if (returned == 0)
            return got;
        if (returned != RPMA_E_NO_COMPLETION) [[unlikely]]
            fail(returned, "rpma_cq_get_wc");
        return 0;
    }
    // Descriptor that is readable when acknowledge_event() has an event. After an event, poll until the CQ is empty.
    int completion_fd() const;
    void acknowledge_event();
    static constexpr std::uint32_t epoll_events = EPOLLIN;

    int event_fd() const;
    // Takes a connection event. Returns true if the connection has ended.
    bool has_ended();
    void disconnect() { (void)rpma_conn_disconnect(conn_.get()); }

private:
    friend class listener;
    connection(rpma_conn *conn, const region *data, const region *messages);
    void wait_until_established();
    void use_response(const connect_response &got);

    static int flags(signal when)
    {
        return when == signal::always ? RPMA_F_COMPLETION_ALWAYS : RPMA_F_COMPLETION_ON_ERROR;
    }
    static const void *as_context(std::uint64_t value) { return reinterpret_cast<const void *>(value); }

    owner<rpma_conn, rpma_conn_delete> conn_;
    rpma_cq *cq_ = nullptr;
    rpma_mr_local *data_ = nullptr;
    rpma_mr_local *messages_ = nullptr;
    owner<rpma_mr_remote, rpma_mr_remote_delete> remote_;
};

class listener
{
public:
    listener(const device &on, const address &at);
    int fd() const;
    // Takes the pending request, posts its receives, accepts it and waits until the connection is established. Returns
    // no connection if the request is not from rpma-bench.
    accepted<connection> accept(const acceptance<region> &how);

private:
    owner<rpma_ep, rpma_ep_shutdown> ep_;
};

} // namespace bench::rpma
