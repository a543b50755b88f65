// SPDX-License-Identifier: BSD-3-Clause
#include "channel/tls_stream.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

namespace replica
{

namespace
{

constexpr const char *priorities = "NORMAL:-VERS-ALL:+VERS-TLS1.3:-KX-ALL:+ECDHE-PSK:+DHE-PSK";
// Maximum number of bytes that are read from an unauthenticated peer.
constexpr std::size_t max_handshake_size = 32 * 1024;
constexpr std::size_t max_printed_name = 64;

void check(int result)
{
    if (result < 0)
        throw std::bad_alloc();
}

bool send_whole(int fd, const std::string &bytes)
{
    return send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size());
}

// Makes the name of an unauthenticated client suitable for a message.
std::string printable(std::string_view name)
{
    std::string printed(name.substr(0, max_printed_name));
    std::ranges::replace_if(
            printed, [](char c) { return c <= ' ' || c > '~'; }, '?');
    return printed;
}

ssize_t to_result(ssize_t result)
{
    if (result >= 0)
        return result;
    // The messages on the stream have a length, so the end of the socket can be treated as the end of the stream.
    if (result == GNUTLS_E_PREMATURE_TERMINATION)
        return 0;
    errno = result == GNUTLS_E_AGAIN || result == GNUTLS_E_INTERRUPTED ? EAGAIN : EPROTO;
    return -1;
}

} // namespace

tls_stream::tls_stream(fd_owner socket, unsigned role) : socket_(std::move(socket))
{
    gnutls_session_t created = nullptr;
    // Without session tickets, each connection needs the key: a removed key then is useless.
    check(gnutls_init(&created, role | GNUTLS_NONBLOCK | GNUTLS_NO_TICKETS));
    session_.reset(created);
    check(gnutls_priority_set_direct(created, priorities, nullptr));
    gnutls_session_set_ptr(created, this);
    gnutls_transport_set_ptr(created, this);
    gnutls_transport_set_push_function(created, push);
    gnutls_transport_set_pull_function(created, pull);
}

tls_stream::tls_stream(fd_owner socket, const tls_keys &client_key) : tls_stream(std::move(socket), GNUTLS_CLIENT)
{
    const auto &[name, key] = *client_key.begin();
    identity_ = name;
    gnutls_psk_client_credentials_t created = nullptr;
    check(gnutls_psk_allocate_client_credentials(&created));
    client_.reset(created);
    const gnutls_datum_t bytes{
            reinterpret_cast<unsigned char *>(const_cast<char *>(key.data())), static_cast<unsigned>(key.size())};
    check(gnutls_psk_set_client_credentials(created, name.c_str(), &bytes, GNUTLS_PSK_KEY_RAW));
    check(gnutls_credentials_set(session_.get(), GNUTLS_CRD_PSK, created));
}

std::unique_ptr<tls_stream> tls_stream::accept(fd_owner socket, const tls_keys &keys)
{
    std::unique_ptr<tls_stream> accepted(new tls_stream(std::move(socket), GNUTLS_SERVER));
    accepted->keys_ = &keys;
    gnutls_psk_server_credentials_t created = nullptr;
    check(gnutls_psk_allocate_server_credentials(&created));
    accepted->server_.reset(created);
    gnutls_psk_set_server_credentials_function(created, find_key);
    check(gnutls_credentials_set(accepted->session_.get(), GNUTLS_CRD_PSK, created));
    return accepted;
}

ssize_t tls_stream::push(gnutls_transport_ptr_t to, const void *from, std::size_t size)
{
    auto &stream = *static_cast<tls_stream *>(to);
    if (stream.is_open_)
        return send(stream.fd(), from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    stream.flight_.append(static_cast<const char *>(from), size);
    return static_cast<ssize_t>(size);
}

ssize_t tls_stream::pull(gnutls_transport_ptr_t from, void *to, std::size_t size)
{
    auto &stream = *static_cast<tls_stream *>(from);
    if (!stream.is_open_ && stream.handshake_size_ >= max_handshake_size) {
        errno = EMSGSIZE;
        return -1;
    }
    const ssize_t got = recv(stream.fd(), to, size, MSG_DONTWAIT);
    if (got > 0 && !stream.is_open_)
        stream.handshake_size_ += static_cast<std::size_t>(got);
    return got;
}

int tls_stream::find_key(gnutls_session_t session, const char *name, gnutls_datum_t *key)
{
    auto &stream = *static_cast<tls_stream *>(gnutls_session_get_ptr(session));
    const auto found = stream.keys_->find(name);
    stream.identity_ = found != stream.keys_->end() ? name : printable(name);
    stream.is_unknown_ = found == stream.keys_->end();
    if (stream.is_unknown_)
        return -1;
    key->data = static_cast<unsigned char *>(gnutls_malloc(found->second.size()));
    if (key->data == nullptr)
        return -1;
    std::memcpy(key->data, found->second.data(), found->second.size());
    key->size = static_cast<unsigned>(found->second.size());
    return 0;
}

handshake tls_stream::shake_hands()
{
    int result = gnutls_handshake(session_.get());
    const bool has_failed = result != 0 && result != GNUTLS_E_AGAIN;
    if (has_failed && is_unknown_)
        gnutls_alert_send(session_.get(), GNUTLS_AL_FATAL, GNUTLS_A_UNKNOWN_PSK_IDENTITY);
    else if (has_failed && result != GNUTLS_E_FATAL_ALERT_RECEIVED)
        gnutls_alert_send_appropriate(session_.get(), result);
    // The buffer of a new socket has space for all messages of a handshake.
    if (!flight_.empty() && !send_whole(fd(), std::exchange(flight_, {})) && !has_failed)
        result = GNUTLS_E_PUSH_ERROR;
    is_open_ = result == 0;
    error_ = result;
    switch (result) {
    case 0:
        return handshake::complete;
    case GNUTLS_E_AGAIN:
        return handshake::pending;
    case GNUTLS_E_PREMATURE_TERMINATION:
    case GNUTLS_E_PULL_ERROR:
    case GNUTLS_E_PUSH_ERROR:
        return handshake::ended;
    default:
        return handshake::failed;
    }
}

handshake tls_stream::shake_hands(const deadline &until)
{
    handshake result = shake_hands();
    while (result == handshake::pending)
        result = wait_for(fd(), POLLIN, until) ? shake_hands() : handshake::timed_out;
    return result;
}

std::string tls_stream::failure() const
{
    const std::string name = "'" + identity_ + "'";
    if (is_unknown_)
        return "unknown identity " + name;
    switch (error_) {
    case GNUTLS_E_FATAL_ALERT_RECEIVED:
        switch (gnutls_alert_get(session_.get())) {
        case GNUTLS_A_UNKNOWN_PSK_IDENTITY:
            return "refused: unknown identity " + name + " (add its line to the key file there)";
        case GNUTLS_A_DECRYPT_ERROR:
        case GNUTLS_A_ILLEGAL_PARAMETER:
        case GNUTLS_A_BAD_RECORD_MAC:
            return "refused: wrong key of identity " + name + " (use the line of the key file there)";
        default:
            return std::string("refused: TLS alert: ") + gnutls_alert_get_name(gnutls_alert_get(session_.get()));
        }
    case GNUTLS_E_UNEXPECTED_PACKET:
    case GNUTLS_E_UNEXPECTED_PACKET_LENGTH:
    case GNUTLS_E_UNSUPPORTED_VERSION_PACKET:
        return "does not use TLS (is rpmemd --listen of this version running there?)";
    case GNUTLS_E_RECEIVED_ILLEGAL_PARAMETER:
        return identity_.empty() ? gnutls_strerror(error_) : "wrong key of identity " + name;
    default:
        return std::string("TLS handshake failed: ") + gnutls_strerror(error_);
    }
}

bool tls_stream::has_pending() const
{
    return gnutls_record_check_pending(session_.get()) != 0;
}

ssize_t tls_stream::read(std::span<std::byte> to)
{
    return to_result(gnutls_record_recv(session_.get(), to.data(), to.size()));
}

// GnuTLS splits the data into records. After EAGAIN it expects the same data again.
ssize_t tls_stream::write(std::string_view from)
{
    return to_result(gnutls_record_send(session_.get(), from.data(), from.size()));
}

} // namespace replica
