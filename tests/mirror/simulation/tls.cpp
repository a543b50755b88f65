// SPDX-License-Identifier: BSD-3-Clause
// GnuTLS for connections between simulated machines. Messages are not encrypted, so that the world can observe them.
#include <cerrno>
#include <cstring>
#include <gnutls/gnutls.h>
#include <string>

#include "stubs.hpp"

struct gnutls_psk_client_credentials_st {
    std::string line; // name and key
};

struct gnutls_psk_server_credentials_st {
    gnutls_psk_server_credentials_function *find;
};

struct gnutls_session_int {
    void *owner = nullptr;
    gnutls_transport_ptr_t transport = nullptr;
    gnutls_push_func push = nullptr;
    gnutls_pull_func pull = nullptr;
    bool is_client = false;
    void *credentials = nullptr;
    bool has_sent = false;
    std::string line; // received by the handshake
};

namespace
{

int result_of_error()
{
    return errno == EAGAIN ? GNUTLS_E_AGAIN : GNUTLS_E_PULL_ERROR;
}

// Receives the line of the peer.
int receive_line(gnutls_session_t of)
{
    while (of->line.empty() || of->line.back() != '\n') {
        char next = 0;
        const ssize_t got = of->pull(of->transport, &next, 1);
        if (got <= 0)
            return got == 0 ? GNUTLS_E_PREMATURE_TERMINATION : result_of_error();
        of->line += next;
    }
    return 0;
}

int serve_handshake(gnutls_session_t of)
{
    const std::size_t colon = of->line.find(':');
    gnutls_datum_t key{};
    const auto *const credentials = static_cast<gnutls_psk_server_credentials_st *>(of->credentials);
    if (credentials->find(of, of->line.substr(0, colon).c_str(), &key) != 0)
        return GNUTLS_E_INSUFFICIENT_CREDENTIALS;
    const std::string expected(reinterpret_cast<const char *>(key.data), key.size);
    gnutls_free(key.data);
    if (of->line.substr(colon + 1) != expected + '\n')
        return GNUTLS_E_RECEIVED_ILLEGAL_PARAMETER;
    of->push(of->transport, "\n", 1);
    return 0;
}

} // namespace

extern "C" {

int gnutls_init(gnutls_session_t *to, unsigned flags)
{
    *to = new gnutls_session_int;
    (*to)->is_client = (flags & GNUTLS_CLIENT) != 0;
    return 0;
}

SIMULATED_CALL(gnutls_deinit, (gnutls_session_t of), delete of)
SIMULATED(int, gnutls_priority_set_direct, (gnutls_session_t of, const char *priorities, const char **at), 0)
SIMULATED_CALL(gnutls_session_set_ptr, (gnutls_session_t of, void *owner), of->owner = owner)
SIMULATED(void *, gnutls_session_get_ptr, (gnutls_session_t of), of->owner)
SIMULATED_CALL(
        gnutls_transport_set_ptr, (gnutls_session_t of, gnutls_transport_ptr_t transport), of->transport = transport)
SIMULATED_CALL(gnutls_transport_set_push_function, (gnutls_session_t of, gnutls_push_func push), of->push = push)
SIMULATED_CALL(gnutls_transport_set_pull_function, (gnutls_session_t of, gnutls_pull_func pull), of->pull = pull)
SIMULATED(int, gnutls_psk_allocate_client_credentials, (gnutls_psk_client_credentials_t * to),
        stored(to, new gnutls_psk_client_credentials_st))
SIMULATED_CALL(gnutls_psk_free_client_credentials, (gnutls_psk_client_credentials_t of), delete of)

int gnutls_psk_set_client_credentials(
        gnutls_psk_client_credentials_t to, const char *name, const gnutls_datum_t *key, gnutls_psk_key_flags flags)
{
    to->line = std::string(name) + ':' + std::string(reinterpret_cast<const char *>(key->data), key->size) + '\n';
    return 0;
}

SIMULATED(int, gnutls_psk_allocate_server_credentials, (gnutls_psk_server_credentials_t * to),
        stored(to, new gnutls_psk_server_credentials_st))
SIMULATED_CALL(gnutls_psk_free_server_credentials, (gnutls_psk_server_credentials_t of), delete of)
SIMULATED_CALL(gnutls_psk_set_server_credentials_function,
        (gnutls_psk_server_credentials_t to, gnutls_psk_server_credentials_function *find), to->find = find)

SIMULATED(int, gnutls_credentials_set, (gnutls_session_t of, gnutls_credentials_type_t type, void *credentials),
        stored(&of->credentials, credentials))

int gnutls_handshake(gnutls_session_t of)
{
    if (of->is_client && !of->has_sent) {
        const std::string &line = static_cast<gnutls_psk_client_credentials_st *>(of->credentials)->line;
        of->push(of->transport, line.data(), line.size());
        of->has_sent = true;
    }
    const int received = receive_line(of);
    return received != 0 || of->is_client ? received : serve_handshake(of);
}

SIMULATED(
        int, gnutls_alert_send, (gnutls_session_t of, gnutls_alert_level_t level, gnutls_alert_description_t alert), 0)
SIMULATED(int, gnutls_alert_send_appropriate, (gnutls_session_t of, int error), 0)
SIMULATED(size_t, gnutls_record_check_pending, (gnutls_session_t of), 0)

ssize_t gnutls_record_recv(gnutls_session_t of, void *to, size_t size)
{
    const ssize_t got = of->pull(of->transport, to, size);
    return got < 0 ? result_of_error() : got;
}

ssize_t gnutls_record_send(gnutls_session_t of, const void *from, size_t size)
{
    const ssize_t sent = of->push(of->transport, from, size);
    return sent < 0 ? result_of_error() : sent;
}

} // extern "C"
