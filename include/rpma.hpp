// SPDX-License-Identifier: BSD-3-Clause
// librpma for C++20, header only: handles that can be moved but not copied, results instead of error codes, typed
// flags, batches, and completions for coroutines. Only value() of a failed result throws an exception, if exceptions
// are enabled. The header does not contain an event loop.
//
// Each member function is one call of librpma.h, which documents arguments, units, errors, blocking and thread safety.
// Functions without an error return -1, 0, NULL or an empty value if the call fails. get() returns the C handle for
// functions that are not wrapped.
#ifndef LIBRPMA_HPP
#define LIBRPMA_HPP 1

#if __cplusplus < 202002L
#error "rpma.hpp needs C++20 (compile with -std=c++20 or a newer standard)"
#else

#include <array>
#include <cerrno>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include <librpma.h>

namespace rpma
{

// Result of a call: 0 or a negative RPMA_E_* code. After RPMA_E_PROVIDER, errno is the value of the provider.
class [[nodiscard]] status
{
public:
    constexpr status(int code = 0) noexcept : code_(code) {}
    constexpr bool ok() const noexcept { return code_ == 0; }
    constexpr explicit operator bool() const noexcept { return ok(); }
    constexpr int code() const noexcept { return code_; }
    const char *message() const noexcept { return rpma_err_2str(code_); }
    // Throws std::system_error on an error; aborts if exceptions are disabled.
    void value() const
    {
        if (!ok())
            fail();
    }

private:
    [[noreturn]] void fail() const
    {
#ifdef __cpp_exceptions
        throw std::system_error(code_ == RPMA_E_PROVIDER ? errno : 0, std::generic_category(), message());
#else
        std::abort();
#endif
    }
    int code_;
};

// Value or error, like std::expected. error() of a value is 0. On an error, * and -> refer to an empty value.
template<class T>
class [[nodiscard]] result
{
public:
    result(status error) noexcept : error_(error) {}
    result(T value) noexcept : value_(std::move(value)) {}
    bool ok() const noexcept { return error_.ok(); }
    bool has_value() const noexcept { return ok(); }
    explicit operator bool() const noexcept { return ok(); }
    status error() const noexcept { return error_; }
    T &operator*() noexcept { return value_; }
    T *operator->() noexcept { return &value_; }
    T &&value() &&
    {
        error_.value();
        return std::move(value_);
    }
    T value_or(T other) &&noexcept { return ok() ? std::move(value_) : std::move(other); }

private:
    status error_;
    T value_{};
};

// Owns an object of librpma.h and releases it with Delete. It must outlive the objects that are created from it.
template<class T, int (*Delete)(T **)>
class unique_handle
{
public:
    unique_handle() noexcept = default;
    explicit unique_handle(T *object) noexcept : object_(object) {}
    unique_handle(unique_handle &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    unique_handle &operator=(unique_handle &&other) noexcept
    {
        if (this != &other) {
            (void)reset();
            object_ = std::exchange(other.object_, nullptr);
        }
        return *this;
    }
    ~unique_handle() { (void)reset(); }
    T *get() const noexcept { return object_; }
    T *release() noexcept { return std::exchange(object_, nullptr); }
    explicit operator bool() const noexcept { return object_ != nullptr; }
    // Releases the object. Returns the error, which the destructor drops.
    status reset() noexcept { return Delete(&object_); }

    // Returns the object that function(arguments..., &object) creates.
    template<class Handle, class... Parameters, class... Arguments>
    static result<Handle> create_with(int (*function)(Parameters...), Arguments... arguments) noexcept
    {
        T *created = nullptr;
        const int ret = function(arguments..., &created);
        if (ret != 0)
            return status(ret);
        return Handle(created);
    }

private:
    T *object_ = nullptr;
};

namespace detail
{

// Returns the value that function stores, or fallback if it fails.
template<class Object, class T>
T get_or(int (*function)(const Object *, T *), const Object *object, std::type_identity_t<T> fallback = {}) noexcept
{
    T value{};
    return function(object, &value) == 0 ? value : fallback;
}

} // namespace detail

enum class completion_flags : int {
    on_error = RPMA_F_COMPLETION_ON_ERROR,
    always = RPMA_F_COMPLETION_ALWAYS,
    on_error_more = RPMA_F_COMPLETION_ON_ERROR | RPMA_F_MORE, // queued until one without "more", or submit()
    always_more = RPMA_F_COMPLETION_ALWAYS | RPMA_F_MORE
};

enum class usage : int {
    read_src = RPMA_MR_USAGE_READ_SRC,
    read_dst = RPMA_MR_USAGE_READ_DST,
    write_src = RPMA_MR_USAGE_WRITE_SRC,
    write_dst = RPMA_MR_USAGE_WRITE_DST,
    flush_visibility = RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
    flush_persistent = RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT,
    send = RPMA_MR_USAGE_SEND,
    recv = RPMA_MR_USAGE_RECV
};
constexpr usage operator|(usage one, usage other) noexcept
{
    return static_cast<usage>(static_cast<int>(one) | static_cast<int>(other));
}

// Range of a region: offset and length in bytes.
template<class Region>
struct slice {
    Region *region;
    std::size_t offset;
    std::size_t length;
};
using local_slice = slice<rpma_mr_local>;
using remote_slice = slice<rpma_mr_remote>;

class local_region : public unique_handle<rpma_mr_local, rpma_mr_dereg>
{
public:
    using unique_handle::unique_handle;
    local_slice slice(std::size_t offset, std::size_t length) const noexcept { return {get(), offset, length}; }
    std::span<std::byte> bytes() const noexcept
    {
        void *begin = nullptr;
        std::size_t size = 0;
        if (rpma_mr_get_ptr(get(), &begin) != 0 || rpma_mr_get_size(get(), &size) != 0)
            return {};
        return {static_cast<std::byte *>(begin), size};
    }
    // Returns the levels that a native flush by the peer reaches: usage::flush_visibility, usage::flush_persistent.
    usage native_flush_types() const noexcept
    {
        return static_cast<usage>(detail::get_or(rpma_mr_get_native_flush_type, get()));
    }
    status advise(std::size_t offset, std::size_t length, int advice, std::uint32_t flags) const noexcept
    {
        return rpma_mr_advise(get(), offset, length, advice, flags);
    }
    // Writes the bytes for the other side to desc, which must have at least descriptor_size() bytes.
    status get_descriptor(std::span<std::byte> desc) const noexcept
    {
        return rpma_mr_get_descriptor(get(), desc.data());
    }
    std::size_t descriptor_size() const noexcept { return detail::get_or(rpma_mr_get_descriptor_size, get()); }
};

class remote_region : public unique_handle<rpma_mr_remote, rpma_mr_remote_delete>
{
public:
    using unique_handle::unique_handle;
    static result<remote_region> from_descriptor(std::span<const std::byte> desc) noexcept
    {
        return create_with<remote_region>(
                rpma_mr_remote_from_descriptor, static_cast<const void *>(desc.data()), desc.size());
    }
    remote_slice slice(std::size_t offset, std::size_t length) const noexcept { return {get(), offset, length}; }
    std::size_t size() const noexcept { return detail::get_or(rpma_mr_remote_get_size, get()); }
    // Returns the levels that the peer allows: usage::flush_visibility, usage::flush_persistent.
    usage flush_types() const noexcept
    {
        return static_cast<usage>(detail::get_or(rpma_mr_remote_get_flush_type, get()));
    }
};

// Capabilities that a peer sends to the other side.
class peer_cfg : public unique_handle<rpma_peer_cfg, rpma_peer_cfg_delete>
{
public:
    using unique_handle::unique_handle;
    static result<peer_cfg> create() noexcept { return create_with<peer_cfg>(rpma_peer_cfg_new); }
    static result<peer_cfg> from_descriptor(std::span<const std::byte> desc) noexcept
    {
        return create_with<peer_cfg>(
                rpma_peer_cfg_from_descriptor, static_cast<const void *>(desc.data()), desc.size());
    }
    status set_direct_write_to_pmem(bool supported) const noexcept
    {
        return rpma_peer_cfg_set_direct_write_to_pmem(get(), supported);
    }
    bool direct_write_to_pmem() const noexcept { return detail::get_or(rpma_peer_cfg_get_direct_write_to_pmem, get()); }
    // Writes the bytes for the other side to desc, which must have at least descriptor_size() bytes.
    status get_descriptor(std::span<std::byte> desc) const noexcept
    {
        return rpma_peer_cfg_get_descriptor(get(), desc.data());
    }
    std::size_t descriptor_size() const noexcept { return detail::get_or(rpma_peer_cfg_get_descriptor_size, get()); }
};

// Operation that a coroutine waits for. Its address is the context of the operation. dispatch_completions() of the CQ
// resumes the coroutine. The context of each other operation that completes in this CQ must be NULL.
class awaited_operation
{
public:
    explicit awaited_operation(status posted) noexcept : posted_(posted) {}
    awaited_operation(const awaited_operation &) = delete;
    awaited_operation &operator=(const awaited_operation &) = delete;
    void complete(const ibv_wc &wc) noexcept
    {
        wc_ = wc;
        if (waiting_)
            std::exchange(waiting_, nullptr).resume();
    }

protected:
    status posted_;
    ibv_wc wc_{};
    std::coroutine_handle<> waiting_;
};

// Awaitable operation. co_await returns the work completion, or the error of posting. Post is called when the coroutine
// starts to wait, so the operation cannot complete earlier.
template<class Post>
class operation : public awaited_operation
{
public:
    explicit operation(Post post) noexcept : awaited_operation(status()), post_(std::move(post)) {}
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> waiting) noexcept
    {
        waiting_ = waiting;
        posted_ = post_(static_cast<const void *>(static_cast<awaited_operation *>(this)));
        if (!posted_.ok())
            waiting_ = nullptr;
        return posted_.ok();
    }
    result<ibv_wc> await_resume() noexcept
    {
        if (!posted_.ok())
            return posted_;
        return wc_;
    }

private:
    Post post_;
};

// Completion queue, owned by a connection or a shared receive queue. An event loop waits until fd() is readable, calls
// wait(), and then poll() or dispatch_completions() until the queue is empty.
class completion_queue
{
public:
    completion_queue() noexcept = default;
    explicit completion_queue(rpma_cq *cq) noexcept : cq_(cq) {}
    rpma_cq *get() const noexcept { return cq_; }
    int fd() const noexcept { return detail::get_or(rpma_cq_get_fd, cq_, -1); }
    status wait() const noexcept { return rpma_cq_wait(cq_); }
    status poll(ibv_wc &wc) const noexcept { return rpma_cq_get_wc(cq_, 1, &wc, nullptr); }
    // Resumes the coroutine of each available completion. Returns their number, 0 for an empty queue, or an error.
    result<int> dispatch_completions() const
    {
        ibv_wc wc;
        int resumed = 0;
        int ret;
        while ((ret = rpma_cq_get_wc(cq_, 1, &wc, nullptr)) == 0) {
            ++resumed;
            if (wc.wr_id != 0)
                reinterpret_cast<awaited_operation *>(static_cast<std::uintptr_t>(wc.wr_id))->complete(wc);
        }
        if (ret != RPMA_E_NO_COMPLETION)
            return status(ret);
        return resumed;
    }

private:
    rpma_cq *cq_ = nullptr;
};

class srq_cfg : public unique_handle<rpma_srq_cfg, rpma_srq_cfg_delete>
{
public:
    using unique_handle::unique_handle;
    static result<srq_cfg> create() noexcept { return create_with<srq_cfg>(rpma_srq_cfg_new); }
    status set_rq_size(std::uint32_t size) const noexcept { return rpma_srq_cfg_set_rq_size(get(), size); }
    status set_rcq_size(std::uint32_t size) const noexcept { return rpma_srq_cfg_set_rcq_size(get(), size); }
};

class shared_receive_queue : public unique_handle<rpma_srq, rpma_srq_delete>
{
public:
    using unique_handle::unique_handle;
    status recv(local_slice dst, const void *context = nullptr) const noexcept
    {
        return rpma_srq_recv(get(), dst.region, dst.offset, dst.length, context);
    }
    // Returns the own receive CQ. Its get() is NULL if receives complete on the connections.
    completion_queue rcq() const noexcept { return completion_queue(detail::get_or(rpma_srq_get_rcq, get())); }
};

class conn_cfg : public unique_handle<rpma_conn_cfg, rpma_conn_cfg_delete>
{
public:
    using unique_handle::unique_handle;
    static result<conn_cfg> create() noexcept { return create_with<conn_cfg>(rpma_conn_cfg_new); }
    status set_timeout_ms(int timeout_ms) const noexcept { return rpma_conn_cfg_set_timeout(get(), timeout_ms); }
    status set_cq_size(std::uint32_t size) const noexcept { return rpma_conn_cfg_set_cq_size(get(), size); }
    status set_rcq_size(std::uint32_t size) const noexcept { return rpma_conn_cfg_set_rcq_size(get(), size); }
    status set_sq_size(std::uint32_t size) const noexcept { return rpma_conn_cfg_set_sq_size(get(), size); }
    status set_rq_size(std::uint32_t size) const noexcept { return rpma_conn_cfg_set_rq_size(get(), size); }
    status set_compl_channel(bool shared) const noexcept { return rpma_conn_cfg_set_compl_channel(get(), shared); }
    // srq must outlive the connections that are created with this configuration.
    status set_srq(const shared_receive_queue &srq) const noexcept { return rpma_conn_cfg_set_srq(get(), srq.get()); }
};

class connection : public unique_handle<rpma_conn, rpma_conn_delete>
{
public:
    using unique_handle::unique_handle;

    result<rpma_conn_event> next_event() const noexcept
    {
        rpma_conn_event event = RPMA_CONN_UNDEFINED;
        if (const status taken = rpma_conn_next_event(get(), &event); !taken.ok())
            return taken;
        return event;
    }
    int event_fd() const noexcept { return detail::get_or(rpma_conn_get_event_fd, get(), -1); }
    status disconnect() const noexcept { return rpma_conn_disconnect(get()); }
    // Sets the capabilities of the remote peer, which flush() checks.
    status apply_remote_peer_cfg(const peer_cfg &of_peer) const noexcept
    {
        return rpma_conn_apply_remote_peer_cfg(get(), of_peer.get());
    }
    // Returns the local queue pair number, which is ibv_wc::qp_num.
    std::uint32_t qp_num() const noexcept { return detail::get_or(rpma_conn_get_qp_num, get()); }
    // Returns whether flushes are native. The device of the peer must then support them, too.
    bool has_native_flush() const noexcept { return detail::get_or(rpma_conn_get_native_flush, get()); }
    status submit() const noexcept { return rpma_conn_submit(get()); }
    // Returns the number of operations posted on this connection.
    rpma_conn_counters counters() const noexcept
    {
        rpma_conn_counters counted{};
        (void)rpma_conn_get_counters(get(), &counted, sizeof(counted));
        return counted;
    }
    completion_queue cq() const noexcept { return completion_queue(detail::get_or(rpma_conn_get_cq, get())); }
    // Returns the receive CQ. Its get() is NULL if receives complete on cq().
    completion_queue rcq() const noexcept { return completion_queue(detail::get_or(rpma_conn_get_rcq, get())); }
    // Require conn_cfg::set_compl_channel(true): descriptor of both queues, and wait for the queue with completions.
    int completion_channel_fd() const noexcept { return detail::get_or(rpma_conn_get_compl_fd, get(), -1); }
    result<completion_queue> wait() const noexcept
    {
        rpma_cq *cq = nullptr;
        if (const status waited = rpma_conn_wait(get(), 0, &cq, nullptr); !waited.ok())
            return waited;
        return completion_queue(cq);
    }
    std::span<const std::byte> private_data() const noexcept
    {
        const auto data = detail::get_or(rpma_conn_get_private_data, get());
        return {static_cast<const std::byte *>(data.ptr), data.len};
    }

    // The length of a transfer is that of the local range.
    status read(local_slice dst, remote_slice src, completion_flags flags, const void *context = nullptr) const noexcept
    {
        return rpma_read(
                get(), dst.region, dst.offset, src.region, src.offset, dst.length, static_cast<int>(flags), context);
    }
    status write(
            remote_slice dst, local_slice src, completion_flags flags, const void *context = nullptr) const noexcept
    {
        return rpma_write(
                get(), dst.region, dst.offset, src.region, src.offset, src.length, static_cast<int>(flags), context);
    }
    status write_with_imm(remote_slice dst, local_slice src, std::uint32_t imm, completion_flags flags,
            const void *context = nullptr) const noexcept
    {
        return rpma_write_with_imm(get(), dst.region, dst.offset, src.region, src.offset, src.length,
                static_cast<int>(flags), imm, context);
    }
    status atomic_write(rpma_mr_remote *dst, std::size_t offset, std::span<const char, 8> word, completion_flags flags,
            const void *context = nullptr) const noexcept
    {
        return rpma_atomic_write(get(), dst, offset, word.data(), static_cast<int>(flags), context);
    }
    status flush(remote_slice dst, rpma_flush_type type, completion_flags flags,
            const void *context = nullptr) const noexcept
    {
        return rpma_flush(get(), dst.region, dst.offset, dst.length, type, static_cast<int>(flags), context);
    }
    status send(local_slice src, completion_flags flags, const void *context = nullptr) const noexcept
    {
        return rpma_send(get(), src.region, src.offset, src.length, static_cast<int>(flags), context);
    }
    status send_with_imm(
            local_slice src, std::uint32_t imm, completion_flags flags, const void *context = nullptr) const noexcept
    {
        return rpma_send_with_imm(get(), src.region, src.offset, src.length, static_cast<int>(flags), imm, context);
    }
    status recv(local_slice dst, const void *context = nullptr) const noexcept
    {
        return rpma_recv(get(), dst.region, dst.offset, dst.length, context);
    }

    // Awaitable operations. Each posts also the queued ones. A coroutine must not be destroyed while it waits, because
    // its completion writes to it. async_atomic_write() copies the word during the call.
    auto async_read(local_slice dst, remote_slice src) const noexcept
    {
        return await([=, this](const void *context) { return read(dst, src, completion_flags::always, context); });
    }
    auto async_write(remote_slice dst, local_slice src) const noexcept
    {
        return await([=, this](const void *context) { return write(dst, src, completion_flags::always, context); });
    }
    auto async_flush(remote_slice dst, rpma_flush_type type) const noexcept
    {
        return await([=, this](const void *context) { return flush(dst, type, completion_flags::always, context); });
    }
    auto async_send(local_slice src) const noexcept
    {
        return await([=, this](const void *context) { return send(src, completion_flags::always, context); });
    }
    auto async_write_with_imm(remote_slice dst, local_slice src, std::uint32_t imm) const noexcept
    {
        return await([=, this](const void *context) {
            return write_with_imm(dst, src, imm, completion_flags::always, context);
        });
    }
    auto async_send_with_imm(local_slice src, std::uint32_t imm) const noexcept
    {
        return await(
                [=, this](const void *context) { return send_with_imm(src, imm, completion_flags::always, context); });
    }
    auto async_atomic_write(rpma_mr_remote *dst, std::size_t offset, std::span<const char, 8> word) const noexcept
    {
        std::array<char, 8> copy;
        std::memcpy(copy.data(), word.data(), copy.size());
        return await([=, this](const void *context) {
            return atomic_write(dst, offset, copy, completion_flags::always, context);
        });
    }
    // Posts a receive and waits for its message.
    auto async_recv(local_slice dst) const noexcept
    {
        return await([=, this](const void *context) { return recv(dst, context); });
    }

private:
    template<class Post>
    static operation<Post> await(Post post) noexcept
    {
        return operation<Post>(std::move(post));
    }
};

class conn_request : public unique_handle<rpma_conn_req, rpma_conn_req_delete>
{
public:
    using unique_handle::unique_handle;
    status recv(local_slice dst, const void *context = nullptr) const noexcept
    {
        return rpma_conn_req_recv(get(), dst.region, dst.offset, dst.length, context);
    }
    std::span<const std::byte> private_data() const noexcept
    {
        const auto data = detail::get_or(rpma_conn_req_get_private_data, get());
        return {static_cast<const std::byte *>(data.ptr), data.len};
    }
    // Consumes the request, except if private_data is longer than 255 bytes (RPMA_E_INVAL).
    result<connection> connect(std::span<const std::byte> private_data = {}) &&noexcept
    {
        if (private_data.size() > UINT8_MAX)
            return status(RPMA_E_INVAL);
        const rpma_conn_private_data data{
                const_cast<std::byte *>(private_data.data()), static_cast<std::uint8_t>(private_data.size())};
        rpma_conn_req *taken = release();
        return connection::create_with<connection>(
                rpma_conn_req_connect, &taken, private_data.empty() ? nullptr : &data);
    }
};

class endpoint : public unique_handle<rpma_ep, rpma_ep_shutdown>
{
public:
    using unique_handle::unique_handle;
    int fd() const noexcept { return detail::get_or(rpma_ep_get_fd, get(), -1); }
    result<conn_request> next_conn_request(const rpma_conn_cfg *cfg = nullptr) const noexcept
    {
        return conn_request::create_with<conn_request>(rpma_ep_next_conn_req, get(), cfg);
    }
};

class peer : public unique_handle<rpma_peer, rpma_peer_delete>
{
public:
    using unique_handle::unique_handle;
    // device must stay open as long as the peer.
    static result<peer> create(ibv_context *device) noexcept { return create_with<peer>(rpma_peer_new, device); }
    // Creates a peer on the device that owns the local address, or that reaches the remote address.
    static result<peer> create_for_address(const char *address, rpma_util_ibv_context_type type) noexcept
    {
        ibv_context *device = nullptr;
        if (const status found = rpma_utils_get_ibv_context(address, type, &device); !found.ok())
            return found;
        return create(device);
    }
    static result<peer> create_for_address(
            const char *address, rpma_util_ibv_context_type type, rpma_device_kind kind) noexcept
    {
        ibv_context *device = nullptr;
        if (const status found = rpma_utils_get_ibv_context_by_kind(address, type, kind, &device); !found.ok())
            return found;
        return create(device);
    }
    template<class Byte, std::size_t Extent>
    result<local_region> register_memory(std::span<Byte, Extent> memory, usage uses) const noexcept
    {
        return local_region::create_with<local_region>(
                rpma_mr_reg, get(), static_cast<void *>(memory.data()), memory.size_bytes(), static_cast<int>(uses));
    }
    result<shared_receive_queue> create_srq(const srq_cfg &cfg = {}) const noexcept
    {
        return shared_receive_queue::create_with<shared_receive_queue>(rpma_srq_new, get(), cfg.get());
    }
    result<endpoint> listen(const char *address, const char *port) const noexcept
    {
        return endpoint::create_with<endpoint>(rpma_ep_listen, get(), address, port);
    }
    result<conn_request> create_request(
            const char *address, const char *port, const rpma_conn_cfg *cfg = nullptr) const noexcept
    {
        return conn_request::create_with<conn_request>(rpma_conn_req_new, get(), address, port, cfg);
    }
};

// Queues operations and posts them together, in submit() or in the destructor. connection must outlive it.
class batch
{
public:
    explicit batch(const connection &on) noexcept : on_(on) {}
    batch(const batch &) = delete;
    batch &operator=(const batch &) = delete;
    ~batch() { (void)submit(); }
    status read(local_slice dst, remote_slice src, const void *context = nullptr) const noexcept
    {
        return on_.read(dst, src, flags_for(context), context);
    }
    status write(remote_slice dst, local_slice src, const void *context = nullptr) const noexcept
    {
        return on_.write(dst, src, flags_for(context), context);
    }
    status flush(remote_slice dst, rpma_flush_type type, const void *context = nullptr) const noexcept
    {
        return on_.flush(dst, type, flags_for(context), context);
    }
    status atomic_write(rpma_mr_remote *dst, std::size_t offset, std::span<const char, 8> word,
            const void *context = nullptr) const noexcept
    {
        return on_.atomic_write(dst, offset, word, flags_for(context), context);
    }
    status send(local_slice src, const void *context = nullptr) const noexcept
    {
        return on_.send(src, flags_for(context), context);
    }
    status submit() const noexcept { return on_.submit(); }

private:
    // An operation with a context always generates a completion.
    static completion_flags flags_for(const void *context) noexcept
    {
        return context != nullptr ? completion_flags::always_more : completion_flags::on_error_more;
    }
    const connection &on_;
};

} // namespace rpma

#endif
#endif // LIBRPMA_HPP
