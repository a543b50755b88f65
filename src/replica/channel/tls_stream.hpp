// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gnutls/gnutls.h>
#include <memory>
#include <string>

#include "base/fd_owner.hpp"
#include "channel/key_file.hpp"
#include "channel/stream.hpp"

namespace replica
{

enum class handshake {
    complete,
    pending, // the peer must send more data
    failed,
    ended,
    timed_out,
};

// TLS 1.3 over a socket. Both sides prove with a pre-shared key that they know each other; an ephemeral Diffie-Hellman
// exchange protects earlier traffic. Never blocks. After the handshake one thread may read while another one writes.
class tls_stream final : public byte_stream
{
public:
    // Creates a client with its only key. Throws std::bad_alloc.
    tls_stream(fd_owner socket, const tls_keys &client_key);
    // Creates a server, which uses `keys` during the handshake.
    static std::unique_ptr<tls_stream> accept(fd_owner socket, const tls_keys &keys);

    handshake shake_hands();
    handshake shake_hands(const deadline &until);
    // Returns the reason and the remedy of a failed handshake.
    std::string failure() const;
    // Name of the client's key.
    const std::string &identity() const { return identity_; }

    int fd() const override { return socket_.get(); }
    bool has_pending() const override;
    ssize_t read(std::span<std::byte> to) override;
    ssize_t write(std::string_view from) override;

private:
    template<auto release>
    struct releaser {
        template<class T>
        void operator()(T *stream) const
        {
            release(stream);
        }
    };
    template<class Handle, auto release>
    using owner = std::unique_ptr<std::remove_pointer_t<Handle>, releaser<release>>;

    tls_stream(fd_owner socket, unsigned role);
    static ssize_t push(gnutls_transport_ptr_t to, const void *from, std::size_t size);
    static ssize_t pull(gnutls_transport_ptr_t from, void *to, std::size_t size);
    static int find_key(gnutls_session_t session, const char *name, gnutls_datum_t *key);

    fd_owner socket_;
    owner<gnutls_psk_client_credentials_t, gnutls_psk_free_client_credentials> client_;
    owner<gnutls_psk_server_credentials_t, gnutls_psk_free_server_credentials> server_;
    owner<gnutls_session_t, gnutls_deinit> session_;
    const tls_keys *keys_ = nullptr;
    std::string identity_;
    std::size_t handshake_size_ = 0; // received bytes of the handshake
    std::string flight_;             // messages of the handshake, which are sent together
    bool is_open_ = false;
    bool is_unknown_ = false; // the server does not have the client's key
    int error_ = 0;
};

} // namespace replica
